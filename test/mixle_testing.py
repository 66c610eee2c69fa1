"""Runs mixle-compile and mixle-run, and makes their inputs."""

import json
import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(os.environ.get("MIXLE_BIN", ROOT / "build" / "tools"))
MPIRUN = shutil.which("mpirun")


def tool(name):
    return BIN / name / name


@dataclass
class Result:
    command: str
    status: int
    out: str
    err: str
    seconds: float

    def value(self, key):
        """The text after "key: " in what was printed."""
        for line in self.out.splitlines():
            if line.startswith(key + ": "):
                return line[len(key) + 2 :]
        raise AssertionError(f"no '{key}' in the output of {self.command}:\n{self.out}")

    def errors(self):
        return [line for line in self.err.splitlines() if line.strip()]


def run_tool(name, *arguments, status=0, ranks=None, timeout=600, stdout=None):
    """Runs a tool, under mpirun when `ranks` is given. `status` is the expected
    exit status; None: any."""
    command = [str(tool(name)), *map(str, arguments)]
    if ranks is not None:
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        command = [MPIRUN, *root, "--oversubscribe", "-n", str(ranks), *command]
    begin = time.monotonic()
    done = subprocess.run(
        command,
        stdout=stdout or subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
        timeout=timeout,
    )
    result = Result(
        " ".join(command), done.returncode, done.stdout or "", done.stderr,
        time.monotonic() - begin,
    )
    if status is not None:
        assert result.status == status, (
            f"{result.command}\nended with {result.status}, expected {status}\n"
            f"{result.out}{result.err}"
        )
    return result


def compile_program(output, *arguments, status=0):
    """mixle-compile ... -o output; the output's path."""
    run_tool("mixle-compile", *arguments, "-o", output, status=status)
    return output


@dataclass
class Training:
    receipts: list
    result: Result

    @property
    def losses(self):
        return [receipt["loss"] for receipt in self.receipts]

    @property
    def digests(self):
        return [receipt["extra"]["state_digest"] for receipt in self.receipts]

    def what_plans_share(self):
        """What must be equal under every plan, step by step."""
        return [
            (r["step"], r["loss"], r["global_tokens"], r["global_examples"],
             r["extra"]["gradient_norm"], r["extra"]["reruns"],
             r["extra"]["rate"], r["extra"]["state_digest"])
            for r in self.receipts
        ]


def train(program, *arguments, ranks=None, timeout=600):
    """A run with receipts next to the program."""
    receipts = Path(f"{program}.receipts.jsonl")
    result = run_tool(
        "mixle-run", program, "-q", "--receipts", receipts, *arguments,
        ranks=ranks, timeout=timeout,
    )
    lines = receipts.read_text().splitlines()
    return Training([json.loads(line) for line in lines], result)


class Group:
    """One model and its rows; the first plan that runs is what others are
    compared with."""

    def __init__(self, folder, name, compile_options, run_options):
        self.folder = folder
        self.name = name
        self.compile_options = compile_options
        self.run_options = run_options
        self.programs = {}
        self.reference = None

    def program(self, plan, options=()):
        key = (plan, *options)
        if key not in self.programs:
            output = self.folder / f"{self.name}-{len(self.programs)}.fbs"
            compile_program(output, *self.compile_options, "--plan", plan, *options)
            self.programs[key] = output
        return self.programs[key]

    def run(self, plan, ranks=None, options=()):
        return train(self.program(plan, options), *self.run_options, ranks=ranks)

    def expected(self):
        if self.reference is None:
            self.reference = self.run("dp_replicate=1")
        return self.reference

    def check(self, plan, ranks=None, options=()):
        expected = self.expected().what_plans_share()
        found = self.run(plan, ranks, options).what_plans_share()
        assert len(found) == len(expected)
        for ours, theirs in zip(found, expected):
            assert ours == theirs, f"plan {plan} differs at step {theirs[0]}"


def world_size(plan):
    """Of a plan "dp_replicate=2,tp=2,...": the axes' product."""
    size = 1
    for item in plan.split(","):
        name, value = item.split("=")
        if name not in ("microbatches", "gradient_accumulation_steps"):
            size *= int(value)
    return size


def write_json(path, value):
    path.write_text(json.dumps(value))
    return path


def gpt2_config(path, **changes):
    """A Hugging Face GPT-2 configuration file."""
    config = {
        "model_type": "gpt2", "n_layer": 4, "n_head": 6, "n_embd": 96,
        "vocab_size": 257, "n_positions": 64,
        "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
    }
    config.update(changes)
    return write_json(path, config)


def llama_config(path, **changes):
    """A Hugging Face Llama configuration: 8 query heads, 4 key/value heads."""
    config = {
        "model_type": "llama", "num_hidden_layers": 4, "num_attention_heads": 8,
        "num_key_value_heads": 4, "hidden_size": 64, "intermediate_size": 176,
        "vocab_size": 259, "max_position_embeddings": 64, "rope_theta": 10000.0,
    }
    config.update(changes)
    return write_json(path, config)


def causal_lm_config(path, **changes):
    """A configuration with mixle's argument names."""
    config = {
        "model_type": "mixle_causal_lm", "vocab": 31, "d_model": 32,
        "n_layer": 2, "n_head": 4, "block": 16,
    }
    config.update(changes)
    return write_json(path, config)


def pseudo_text(path, size=80000, seed=1):
    """A text of made-up words, the same everywhere: a linear congruential
    generator picks them from a list with a strong preference for its head."""
    state = seed

    def below(n):
        nonlocal state
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (state >> 33) % n

    letters = "etaoinshrdlucmfwypvbgkjqxz"
    words = [
        "".join(letters[min(below(26), below(26))] for _ in range(1 + below(8)))
        for _ in range(400)
    ]
    parts, length = [], 0
    while length < size:
        word = words[min(below(400), below(400), below(400))]
        end = ".\n" if below(12) == 0 else " "
        parts.append(word + end)
        length += len(word) + len(end)
    path.write_text("".join(parts)[:size])
    return path


def save_npy(path, values, dtype=np.int32):
    np.save(path, np.asarray(values, dtype=dtype))
    return path


def save_weights(path, tensors):
    save_file({name: np.ascontiguousarray(t) for name, t in tensors.items()}, path)
    return path


def load_weights(path):
    return load_file(path)


def needs_mpirun():
    """The reason not to run under MPI here, or None."""
    return None if MPIRUN else "mpirun was not found"
