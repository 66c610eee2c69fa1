#!/usr/bin/env python3
"""Step times of a small decoder next to PyTorch, in one run and interleaved.

    .venv/bin/python bench/config_a.py                  our step and PyTorch eager's
    .venv/bin/python bench/config_a.py --granules       what the tree of sums costs

Config A: mixle's CausalLM with 4 layers, width 128, 4 heads, vocabulary 256; 16
sequences of 128 tokens; AdamW 3e-4, betas 0.9 and 0.95, decay 0.1 of every
parameter; fp32. Ours: plan dp_replicate=2, one thread a rank, reproducible
numerics. PyTorch: eager, scaled_dot_product_attention, fused AdamW, two threads.
Both start from the same weights and see the same 8 batches in turn; the script
compares the losses.

Step times are wall times between the ends of steps, as receipts come through a
pipe; the first steps of each process are dropped. Machines are noisy: rounds
alternate between the two, a table shows minimum and median over all rounds, and
what part of the machine others used meanwhile. Linux only; needs the packages of
test/requirements-peers.txt (tools/test --peers).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

ROOT = Path(__file__).resolve().parent.parent
LAYERS, WIDTH, HEADS, VOCABULARY, SEQUENCE, BATCH = 4, 128, 4, 256, 128, 16
RATE, BETAS, EPSILON, DECAY = 3e-4, (0.9, 0.95), 1e-8, 0.1
BATCHES = 8
WARM = 4  # steps dropped at the start of a process; the first runs twice
PLAN = "dp_replicate=2"
THREADS = 2

CONFIG = {
    "model_type": "mixle_causal_lm", "vocab": VOCABULARY, "d_model": WIDTH,
    "n_layer": LAYERS, "n_head": HEADS, "block": SEQUENCE,
}
OPTIMIZER = (f"adamw,lr={RATE},beta1={BETAS[0]},beta2={BETAS[1]},eps={EPSILON},"
             f"weight_decay={DECAY},decay=all")


def make_weights():
    """By mixle's names, as PyTorch's modules below have them too."""
    generator = np.random.default_rng(0)

    def normal(*shape, deviation=0.02):
        return generator.normal(0, deviation, shape).astype(np.float32)

    weights = {"tok.weight": normal(VOCABULARY, WIDTH), "pos.weight": normal(SEQUENCE, WIDTH)}
    norms = ["ln"]
    for layer in range(LAYERS):
        block = f"blocks.{layer}"
        norms += [f"{block}.ln1", f"{block}.ln2"]
        for name, out, into in (("attn.qkv", 3 * WIDTH, WIDTH), ("attn.proj", WIDTH, WIDTH),
                                ("mlp.0", 4 * WIDTH, WIDTH), ("mlp.2", WIDTH, 4 * WIDTH)):
            weights[f"{block}.{name}.weight"] = normal(out, into)
            weights[f"{block}.{name}.bias"] = np.zeros(out, np.float32)
    for norm in norms:
        weights[f"{norm}.weight"] = np.ones(WIDTH, np.float32)
        weights[f"{norm}.bias"] = np.zeros(WIDTH, np.float32)
    return weights


def make_batches():
    """Tokens of a chain in which each has four successors, so that there is
    something to learn."""
    generator = np.random.default_rng(1)
    successors = generator.integers(0, VOCABULARY, (VOCABULARY, 4))
    batches = np.empty((BATCHES, BATCH, SEQUENCE + 1), np.int32)
    batches[:, :, 0] = generator.integers(0, VOCABULARY, (BATCHES, BATCH))
    for t in range(SEQUENCE):
        choice = generator.integers(0, 4, (BATCHES, BATCH))
        batches[:, :, t + 1] = successors[batches[:, :, t], choice]
    return batches


# ------------------------------------------------------------------- PyTorch


def serve_torch(folder):
    """The peer's process: for each number on stdin so many steps from the start,
    then a line with their losses and times."""
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
    from safetensors.torch import load_file

    torch.set_num_threads(THREADS)

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
            self.proj = nn.Linear(WIDTH, WIDTH)

        def forward(self, x):
            rows, tokens, _ = x.shape
            parts = self.qkv(x).view(rows, tokens, 3, HEADS, WIDTH // HEADS)
            q, k, v = parts.permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.proj(y.transpose(1, 2).reshape(rows, tokens, WIDTH))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln1, self.attn = nn.LayerNorm(WIDTH), Attention()
            self.ln2 = nn.LayerNorm(WIDTH)
            self.mlp = nn.Sequential(
                nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

        def forward(self, x):
            x = x + self.attn(self.ln1(x))
            return x + self.mlp(self.ln2(x))

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.tok = nn.Embedding(VOCABULARY, WIDTH)
            self.pos = nn.Embedding(SEQUENCE, WIDTH)
            self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
            self.ln = nn.LayerNorm(WIDTH)

        def forward(self, tokens, targets):
            x = self.tok(tokens) + self.pos.weight
            for block in self.blocks:
                x = block(x)
            logits = F.linear(self.ln(x), self.tok.weight)
            return F.cross_entropy(logits.view(-1, VOCABULARY), targets.reshape(-1))

    weights = load_file(folder / "weights.safetensors")
    batches = torch.from_numpy(make_batches().astype(np.int64))
    for line in sys.stdin:
        model = Decoder()
        model.load_state_dict(weights)
        optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=BETAS, eps=EPSILON,
                                      weight_decay=DECAY, fused=True)
        losses, times = [], []
        begin = time.perf_counter()
        for step in range(int(line)):
            batch = batches[step % BATCHES]
            loss = model(batch[:, :-1], batch[:, 1:])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            end = time.perf_counter()
            times.append(end - begin)
            begin = end
        print(json.dumps({"losses": losses, "times": times, "torch": torch.__version__}),
              flush=True)


class Torch:
    def __init__(self, folder):
        environment = dict(os.environ)
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            environment[name] = str(THREADS)
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve-torch", str(folder)], env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.version = self.run(1)["torch"]

    def run(self, steps):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


# ---------------------------------------------------------------------- Ours


class Ours:
    def __init__(self, tools, folder, name, *options):
        self.tools, self.folder = tools, folder
        self.program = folder / f"{name}.fbs"
        (folder / "config.json").write_text(json.dumps(CONFIG))
        begin = time.perf_counter()
        subprocess.run(
            [tools / "mixle-compile" / "mixle-compile", "--model", folder / "config.json",
             "--plan", PLAN, "--batch", str(BATCH), "--sequence", str(SEQUENCE),
             "--optimizer", OPTIMIZER, *options, "-o", self.program], check=True)
        self.compile_seconds = time.perf_counter() - begin

    def run(self, steps, digest_every=0):
        """Losses and times by step."""
        batches = self.folder / f"batches-{steps}.npy"
        if not batches.exists():
            np.save(batches, make_batches()[np.arange(steps) % BATCHES])
        begin = time.perf_counter()
        process = subprocess.Popen(
            [self.tools / "mixle-run" / "mixle-run", self.program, "-q", "--batches", batches,
             "--weights", self.folder / "weights.safetensors",
             "--digest-every", str(digest_every or steps), "--receipts", "/dev/stdout"],
            stdout=subprocess.PIPE, text=True)
        losses, times = [], []
        for line in process.stdout:
            end = time.perf_counter()
            if not line.startswith("{"):
                continue
            losses.append(json.loads(line)["loss"])
            times.append(end - begin)
            begin = end
        if process.wait() != 0 or len(losses) != steps:
            sys.exit("mixle-run failed")
        return {"losses": losses, "times": times}


# -------------------------------------------------------------------- Tables


class Others:
    """The part of the machine's time that other processes used since the last
    call."""

    def __init__(self, *processes):
        self.processes = processes
        self.share()

    def share(self):
        with open("/proc/stat") as file:
            user, nice, system, _, _, irq, softirq = map(int, file.readline().split()[1:8])
        tick = os.sysconf("SC_CLK_TCK")
        own = sum(os.times()[:4])
        for process in self.processes:
            fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            own += (int(fields[11]) + int(fields[12])) / tick
        now = (time.perf_counter(), (user + nice + system + irq + softirq) / tick - own)
        before, self.last = getattr(self, "last", now), now
        seconds = (now[0] - before[0]) * os.cpu_count()
        return max(0.0, now[1] - before[1]) / seconds if seconds else 0.0


class Times:
    """Warm step times of several runs, in milliseconds."""

    def __init__(self):
        self.all, self.rounds = [], []

    def add(self, run):
        warm = [1e3 * t for t in run["times"][WARM:]]
        self.all += warm
        self.rounds.append((min(warm), statistics.median(warm)))

    @property
    def least(self):
        return min(self.all)

    @property
    def median(self):
        return statistics.median(self.all)


def compare_with_torch(options, folder):
    ours = Ours(options.tools, folder, "a")
    compile_seconds = min(
        [ours.compile_seconds] + [Ours(options.tools, folder, "a").compile_seconds
                                  for _ in range(2)])
    torch = Torch(folder)
    our_times, digest_times, torch_times = Times(), Times(), Times()
    print(f"PyTorch {torch.version}, {THREADS} threads; ours {PLAN}, 1 thread a rank\n")
    print("| round | ours min | median | PyTorch min | median | ratio min | median | others |")
    print("|---|---|---|---|---|---|---|---|")
    others = Others(torch.process)
    for round_ in range(options.rounds):
        mine = ours.run(options.steps)
        theirs = torch.run(options.steps)
        digests = ours.run(options.steps, digest_every=1)
        our_times.add(mine)
        torch_times.add(theirs)
        digest_times.add(digests)
        (a, b), (c, d) = our_times.rounds[-1], torch_times.rounds[-1]
        print(f"| {round_ + 1} | {a:.1f} | {b:.1f} | {c:.1f} | {d:.1f} | {a / c:.2f} | "
              f"{b / d:.2f} | {others.share():.0%} |", flush=True)
    torch.close()
    print(f"| all | {our_times.least:.1f} | {our_times.median:.1f} | {torch_times.least:.1f} | "
          f"{torch_times.median:.1f} | {our_times.least / torch_times.least:.2f} | "
          f"{our_times.median / torch_times.median:.2f} | |")
    difference = max(abs(x - y) / y for x, y in zip(mine["losses"], theirs["losses"]))
    print(f"\nmilliseconds a step; with a digest in every receipt {digest_times.least:.1f} min, "
          f"{digest_times.median:.1f} median")
    print(f"losses: {mine['losses'][0]:.4f} to {mine['losses'][-1]:.4f} over {options.steps} "
          f"steps, largest relative difference {difference:.1e}")
    print(f"compile: {compile_seconds:.2f} s (best of 3)")


def cost_of_granules(options, folder):
    """Variants against one granule a rank everywhere, interleaved."""
    single = "tensor=1,vocabulary=1,tokens=128"
    variants = [("1 granule", ["--granules", single])]
    for count in (2, 4, 8):
        variants.append((f"tensor={count}",
                         ["--granules", f"tensor={count},vocabulary=1,tokens=128"]))
    for count in (2, 4, 8):
        variants.append((f"vocabulary={count}",
                         ["--granules", f"tensor=1,vocabulary={count},tokens=128"]))
    for length in (64, 32, 16):
        variants.append((f"tokens={length}",
                         ["--granules", f"tensor=1,vocabulary=1,tokens={length}"]))
    variants += [("default", []), ("fast", ["--numerics", "fast"])]
    programs = [(name, Ours(options.tools, folder, f"granules-{i}", *arguments), Times())
                for i, (name, arguments) in enumerate(variants)]
    others = Others()
    for _ in range(options.rounds):
        for _, program, times in programs:
            times.add(program.run(options.steps))
    share = others.share()
    base = programs[0][2]
    print(f"{PLAN}, 1 thread a rank; others used {share:.0%} of the machine\n")
    print("tensor (heads and ffn) and vocabulary are granules of the trees, all on each rank;")
    print("tokens is the length of an accumulation's block, of which a sequence of "
          f"{SEQUENCE} has {SEQUENCE} / tokens\n")
    print("| granules | min | median | ratio of minima | of medians |")
    print("|---|---|---|---|---|")
    for name, _, times in programs:
        # Rounds are pairs: both saw much the same machine.
        least, median = (
            statistics.median(mine[i] / theirs[i] for mine, theirs in zip(times.rounds, base.rounds))
            for i in (0, 1))
        print(f"| {name} | {times.least:.1f} | {times.median:.1f} | {least:.3f} | {median:.3f} |")
    print("\nmilliseconds a step; ratios to 1 granule, the median over rounds")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tools", type=Path, default=ROOT / "build" / "tools",
                        help="folder with mixle-compile/ and mixle-run/ (default: build/tools)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=30, help="of a run, warm ones included")
    parser.add_argument("--granules", action="store_true", help="the tree's costs instead")
    parser.add_argument("--serve-torch", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve_torch:
        serve_torch(options.serve_torch)
        return
    if options.steps <= WARM:
        parser.error(f"--steps: expected more than the {WARM} that are dropped")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_file(make_weights(), folder / "weights.safetensors")
        (cost_of_granules if options.granules else compare_with_torch)(options, folder)


main()
