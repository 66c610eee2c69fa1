"""What goes wrong ends in one clear line, with exit status 1 or 2, within
seconds, and leaves nothing half-written; a lost rank ends the whole job.

test/tools/mixle-run tests mixle-run's messages one by one on programs made by
hand; here are mixle-compile's, and real programs on all their ranks.
"""

import json
import os
import random
import re
import signal
import subprocess
import time

import numpy as np
import pytest

from mixle_testing import (
    MPIRUN, ROOT, compile_program, gpt2_config, load_weights, needs_mpirun, pseudo_text, run_tool,
    save_npy, save_weights, tool, train, write_json,
)

# A job ends within 15 s of losing a rank, or of the timeout of one that hangs.
LIMIT = 15
HANG_TIMEOUT = 5

mpi = pytest.mark.skipif(bool(needs_mpirun()), reason=str(needs_mpirun()))


@pytest.fixture(scope="module")
def model(folder):
    return gpt2_config(folder / "model.json", n_layer=1, n_head=6, n_embd=24, vocab_size=128,
                       n_positions=16)


@pytest.fixture(scope="module")
def text(folder):
    return pseudo_text(folder / "text.txt", 4000)


@pytest.fixture(scope="module")
def program(folder, model):
    return compile_program(folder / "good.fbs", "--model", model, "--batch", 8,
                           "--plan", "dp_replicate=2,tp=2")


def refused(name, *arguments, status=(1,), ranks=None, says="", lines=1, timeout=60):
    """Runs a tool that must refuse; its only line."""
    result = run_tool(name, *arguments, status=None, ranks=ranks, timeout=timeout)
    assert result.status in status, f"{result.command}: {result.status}\n{result.err}"
    ours = [line for line in result.errors() if line.startswith(f"{name}: ")]
    if ranks is None:
        assert ours == result.errors(), f"other output:\n{result.err}"
    assert len(ours) == lines, f"expected {lines} line(s):\n{result.err}"
    assert ours[0].startswith(f"{name}: error: ")
    assert re.search(says, ours[0]), f"'{says}' is not in\n{ours[0]}"
    assert result.out == ""
    return ours[0]


@pytest.mark.parametrize("plan, says", [
    ("shards=2", r"unknown field 'shards'; a plan has the fields dp_replicate, dp_shard, tp, pp"),
    ("tp=2,tp=2", r"'tp' is given twice"),
    ("tp", r"'tp' is neither fields like"),
    ("tp=", r"'tp' has no value"),
    ("tp=0", r"tp=0: tp must be an exact positive integer"),
    ("dp_replicate=-1", r"dp_replicate=-1: dp_replicate must be an exact positive integer"),
    ("tp=1.5", r"tp=1.5: tp must be an exact positive integer"),
    ("microbatches=0", r"microbatches=0"),
    ("gradient_accumulation_steps=0", r"gradient_accumulation_steps=0"),
    ("dp_shard=99999999999999999999", r"dp_shard=99999999999999999999 is too large"),
    ("dp_replicate=4294967296", r"world size, 4294967296, .* at most 2147483647"),
    ("dp_replicate=4294967296,dp_shard=4294967296", r"world size does not fit"),
    ("tp=2,", r"an empty element"),
    ("ep=2", r"expert parallelism must divide the data-parallel domain"),
    # Axes of other backends, with what would work here.
    ("pp=2,cp=2", r"cpu does not execute requested parallel axes: cp; .* use --plan pp=2$"),
    ("cp=2,tp=2", r"cpu does not execute requested parallel axes: cp; .* use --plan tp=2$"),
    ("dp_replicate=2,ep=2", r"axes: ep; .* use --plan dp_replicate=2$"),
    ("etp=2", r"cpu does not execute requested parallel axes: etp"),
    # B101: sizes that do not divide.
    ("tp=4", r"backend cpu: tp=4 does not divide the 6 query heads; use tp = 1, 2, 3, 6"),
    ("tp=12", r"tp=12 cuts inside a granule of 'vocabulary'"),
])
def test_plans_that_are_refused_b101(folder, model, plan, says):
    output = folder / "refused.fbs"
    refused("mixle-compile", "--model", model, "--batch", 8, "--plan", plan, "-o", output,
            says=says)
    assert not list(folder.glob("refused*"))


@pytest.mark.parametrize("options, says", [
    (["--plan", "pp=2", "--pipeline-schedule", "2f2b"],
     r"--pipeline-schedule: unknown schedule '2f2b'; known are gpipe, 1f1b, interleaved and zb-h1$"),
    (["--plan", "pp=2", "--pipeline-schedule", "interleaved", "--pipeline-chunks", "1"],
     r"interleaved works on several chunks a rank: give --pipeline-chunks 2"),
    (["--plan", "pp=2", "--pipeline-chunks", "65"], r"--pipeline-chunks 65 must be from 1 to 64$"),
    (["--pipeline-schedule", "gpipe"], r"--pipeline-schedule has no effect .* pp = 1"),
    (["--plan", "tp=2", "--pipeline-chunks", "2"], r"--pipeline-chunks has no effect .* pp = 1"),
    (["--pipeline-split", "h.1"], r"--pipeline-split has no effect .* pp = 1"),
    (["--plan", "pp=2", "--pipeline-split", "nowhere"],
     r"pipeline_split 'nowhere': no stage can begin at 'nowhere'; name scopes of the model in order"),
    (["--plan", "pp=2", "--pipeline-split", "h.0,h.1"],
     r"pipeline_split 'h.0,h.1' names 2 stages after the first; 2 stages need 1$"),
    (["--plan", "pp=40"], r"pp = 40 .* needs 40 stages, but the model can be cut into \d+ at most"),
])
def test_pipelines_that_are_refused(folder, model, options, says):
    output = folder / "refused.fbs"
    refused("mixle-compile", "--model", model, "--batch", 8, *options, "-o", output, says=says)
    assert not list(folder.glob("refused*"))


def test_an_estimator_has_no_stages(folder):
    spec = write_json(folder / "stages.json", ESTIMATOR)
    refused("mixle-compile", "--estimator", spec, "--plan", "pp=2", "-o", folder / "refused.fbs",
            says=r"an estimator has no stages, but the plan has pp = 2; use pp=1")


@pytest.mark.parametrize("content, says", [
    ('{"tp": 2, "tp": 2}', "tp"),
    ('{"tp": "2"}', "tp"),
    ('{"tp": true}', "tp"),
    ('{"tp": 2, "world_size": 4}', "world_size"),
    ('{"tq": 2}', "unknown field 'tq'"),
    ("[2]", "a plan is a JSON object"),
    ("{", "line 1"),
])
def test_plan_files_that_are_refused(folder, model, content, says):
    plan = folder / "plan.json"
    plan.write_text(content)
    refused("mixle-compile", "--model", model, "--batch", 8, "--plan", plan, "-o",
            folder / "refused.fbs", says=says)


def test_a_plan_file_is_a_plan(folder, model):
    plan = write_json(folder / "good-plan.json", {"tp": 2, "world_size": 2})
    by_file = compile_program(folder / "by-file.fbs", "--model", model, "--batch", 8,
                              "--plan", plan)
    by_text = compile_program(folder / "by-text.fbs", "--model", model, "--batch", 8,
                              "--plan", "tp=2")
    assert by_file.read_bytes() == by_text.read_bytes()


@pytest.mark.parametrize("options, says", [
    (["--granules", "tensor=2", "--plan", "tp=3"],
     r"tp=3 cuts inside a granule of 'heads' \(6 in 2 granules of 3\).*--granules tensor=N with N "
     r"= 3, 6, or use tp = 1, 2$"),
    (["--granules", "tensor=3", "--plan", "tp=2"], r"tensor=N with N = 2, 6, or use tp = 1, 3$"),
    (["--granules", "tensor=2", "--plan", "tp=4"], r"tp=4 does not divide the 6 query heads; use "
                                                   r"tp = 1, 2$"),
    (["--granules", "tensor=4"], r"cpu: 4 granules of 2 heads do not make up the 6 heads; set "
                                 r"--granules tensor=N with N = 1, 2, 3, 6$"),
    (["--granules", "tensor=4", "--plan", "tp=2"], r"set --granules tensor=N with N = 2, 6$"),
    (["--granules", "tensor=4", "--plan", "tp=4"],
     r"set --granules tensor=6, and as tp=4 does not divide the heads, use tp = 1, 2, 3, 6$"),
    (["--granules", "tokens=9223372036854775807"],
     r"--granules: tokens=9223372036854775807 must be at most 2147483647$"),
    (["--granules", "vocabulary=2", "--plan", "tp=3"],
     r"tp=3 cuts inside a granule of 'vocabulary'.*--granules vocabulary=N"),
    (["--granules", "tensor=0"], r"tensor=0 must be a positive integer"),
    (["--granules", "tensor=1,tensor=2"], r"'tensor' is given twice"),
    (["--granules", "colour=2"], r"unknown factor 'colour'; known are"),
    (["--batch", "0"], r"--batch 0: expected at least 1 \(see mixle-compile --help\)$"),
    (["--batch", "-4"], r"--batch -4: expected at least 1"),
    (["--batch", "x"], r"--batch: 'x' is not an integer \(see mixle-compile --help\)$"),
    (["--batch", "99999999999"], r"--batch 99999999999: expected at most 2147483647"),
    (["--batch", ""], r"--batch: its value is empty"),
    (["--plan", ""], r"--plan: its value is empty; give one .*\(see mixle-compile --help\)$"),
    (["--target="], r"--target: its value is empty"),
    (["--frobnicate"], r"--frobnicate.*\(see mixle-compile --help\)$"),
    (["--sequence", "0"], r"--sequence 0: expected at least 1"),
    (["--sequence", "17"], r"sequence 17 must be from 1 to the model's n_positions, 16"),
    (["--precision", "bf16"], r"'bf16' is not executed by the cpu backend; use fp32 or fp64"),
    (["--numerics", "exact"], r"'exact' is neither 'reproducible' nor 'fast'"),
    (["--optimizer", "lion"], r"unknown optimizer 'lion'; known are sgd, adam and adamw"),
    (["--optimizer", "sgd,beta1=0.9"], r"sgd has no option 'beta1'; it takes"),
    (["--optimizer", "adamw,lr=0"], r"lr=0 must be a positive number"),
    (["--optimizer", "adamw,lr=nan"], r"lr: 'nan' is not a finite number"),
    (["--optimizer", "adamw,eps=0"], r"eps=0 must be a positive number"),
    (["--optimizer", "adamw,beta1=1"], r"beta1=1 must be in \[0, 1\)"),
    (["--optimizer", "adamw,decay=some"], r"decay='some' is neither"),
    (["--max-grad-norm", "0"], r"--max-grad-norm must be a positive number"),
    (["--lr-schedule", "cosine,warmup=9,total=5"], r"warmup=9 is longer than total=5"),
    (["--lr-schedule", "sawtooth"], r"sawtooth"),
    (["--target", "pentium"], r"unknown cpu 'pentium'"),
    (["--stop-after", "lunch"], r"unknown phase 'lunch'; phases are graph, plan, dist and exec"),
    (["--estimator", "spec.json"], r"give one of --model"),
    (["--granules", "components=2"],
     r"--granules components=2 has no effect on a model \(--model .*\): it has granules of "
     r"tokens, vocabulary, tensor and sequence only"),
    (["--stop-after", "graph"], r"-o has no effect with --stop-after"),
])
def test_options_that_are_refused(folder, model, options, says):
    arguments = ["--model", model, *options, "-o", folder / "refused.fbs"]
    if "--batch" not in options:
        arguments += ["--batch", 8]
    # What the model and the plan decide is no matter of the command line alone.
    refused("mixle-compile", *arguments, says=says, status=(1, 2))
    assert not list(folder.glob("refused*"))


ESTIMATOR = {"family": "gaussian_mixture", "dim": 2, "components": 3}
TRAINING_OPTION = r"has no effect on {} \({}.*\): it is an option of training; leave it out$"


@pytest.mark.parametrize("options, says", [
    (["--optimizer", "adamw"], "--optimizer " + TRAINING_OPTION),
    (["--max-grad-norm", "1"], "--max-grad-norm " + TRAINING_OPTION),
    # The default too, when it is given.
    (["--lr-schedule", "constant"], "--lr-schedule " + TRAINING_OPTION),
    (["--granules", "tokens=64"], r"--granules tokens=64 has no effect on {} \({}.*\): it has "
                                  r"granules of components only"),
    (["--granules", "tensor=2"], r"--granules tensor=2 has no effect on {}"),
    (["--granules", "components=3,vocabulary=2"], r"--granules vocabulary=2 has no effect on {}"),
    (["--precision", "fp32"],
     r"--precision fp32 has no effect on {} \({}.*\): it computes in fp64"),
    (["--sequence", "8"], r"--sequence has no effect on {} \({}"),
])
def test_options_that_do_nothing_for_an_estimator(folder, options, says):
    spec = write_json(folder / "spec.json", ESTIMATOR)
    output = folder / "refused.fbs"
    refused("mixle-compile", "--estimator", spec, *options, "-o", output,
            says=says.format("an estimator", "--estimator "), status=(2,))
    source = folder / "estimator.mlir"
    source.write_text(
        run_tool("mixle-compile", "--estimator", spec, "--stop-after", "graph").out)
    refused("mixle-compile", source, *options, "-o", output,
            says=says.format("an estimation program", ""), status=(2,))
    assert not output.exists()


def test_options_that_do_something_for_an_estimator(folder):
    spec = write_json(folder / "spec.json", ESTIMATOR)

    def compiled(*options):
        return compile_program(folder / "any.fbs", "--estimator", spec, *options).read_bytes()

    # What it computes in anyway may be said.
    assert compiled("--precision", "fp64") == compiled()
    two = ["--plan", "tp=2"]
    for options, others in ((["--batch", 256], []), (["--granules", "components=2"], []),
                            (two, []), ([*two, "--numerics", "fast"], two),
                            (["--target", "x86-64-v3"], ["--target", "x86-64-v4"])):
        assert compiled(*options) != compiled(*others), options


MINI = ROOT / "test" / "compiler" / "Inputs" / "mini.mlir"


@pytest.mark.parametrize("options, says", [
    (["--sequence", "8"], r"--sequence has no effect on a training program \(.*\): the length of "
                          r"a sequence stands in the file"),
    (["--precision", "fp64"], r"--precision fp64 has no effect on .*: it computes in fp32"),
    (["--granules", "components=2"], r"it has granules of tokens, vocabulary and tensor only"),
    (["--granules", "sequence=2"], r"--granules sequence=2 has no effect"),
])
def test_options_that_do_nothing_for_a_program(folder, options, says):
    output = folder / "refused.fbs"
    refused("mixle-compile", MINI, *options, "-o", output, says=says, status=(2,))
    assert not output.exists()


def test_what_a_program_says_of_itself_stands(folder):
    """Options that were not given change nothing in a .mlir file."""
    text = MINI.read_text()
    assert "max_grad_norm = 1.0 : f64}" in text
    text = text.replace("max_grad_norm = 1.0 : f64}", 'max_grad_norm = 1.0 : f64, optimizer = "sgd", '
                        'lr = 0.5 : f64, momentum = 0.25 : f64, lr_schedule = "linear,warmup=2,total=9"}')
    source = folder / "own.mlir"
    source.write_text(text)
    graph = run_tool("mixle-compile", source, "--stop-after", "graph").out
    assert "mixle.sgd_step" in graph and "mixle.adam_step" not in graph
    assert "linear,warmup=2,total=9" in graph and "2.500000e-01" in graph
    # An optimizer that is given replaces all of the file's.
    graph = run_tool("mixle-compile", source, "--optimizer", "sgd", "--stop-after", "graph").out
    assert "mixle.sgd_step" in graph and "lr = 5.0" not in graph and "momentum = 2.5" not in graph
    fast = text.replace('kind = "training"', 'kind = "training", numerics = "fast"')
    source.write_text(fast)
    graph = run_tool("mixle-compile", source, "--stop-after", "graph").out
    assert 'numerics = "fast"' in graph


@pytest.mark.parametrize("changes, says", [
    ({"n_head": 5}, r"n_embd"),
    ({"n_layer": 0}, r"n_layer"),
    ({"n_embd": -24}, r"n_embd"),
    ({"vocab_size": "many"}, r"vocab_size"),
    ({"resid_pdrop": 0.1}, r"resid_pdrop"),
    ({"activation_function": "relu"}, r"activation_function"),
    ({"surprise": 1}, r"surprise"),
    ({"model_type": "bloom"}, r"bloom"),
])
def test_models_that_are_refused(folder, changes, says):
    config = gpt2_config(folder / "bad.json", **changes)
    refused("mixle-compile", "--model", config, "--batch", 8, "-o", folder / "refused.fbs",
            says=says)


@pytest.mark.parametrize("options", [["--batch", "x"], ["--batch", ""], ["--optimizer", "lion"],
                                     ["--frobnicate"], ["--granules", "tensor=0"]])
def test_a_bad_command_line_is_status_2(folder, model, options):
    refused("mixle-compile", "--model", model, *options, "-o", folder / "refused.fbs", status=(2,))


def test_outputs_that_cannot_be_written(folder, model):
    base = ["--model", model, "--batch", 8]
    refused("mixle-compile", *base, "-o", "/dev/full", says="/dev/full.*No space left")
    refused("mixle-compile", *base, "-o", folder / "no" / "p.fbs", says="No such file")
    with open("/dev/full", "w") as full:
        result = run_tool("mixle-compile", *base, "--stop-after", "graph", stdout=full, status=1)
    assert result.errors() == ["mixle-compile: error: cannot write to the standard output"]


def test_phases_that_cannot_be_written(folder, model):
    phases = folder / "phases"
    phases.mkdir()
    (phases / "plan.mlir").symlink_to("/dev/full")
    refused("mixle-compile", "--model", model, "--batch", 8, "--dump-to", phases, "-o",
            folder / "refused.fbs", says=r"cannot write '.*/plan.mlir': No space left")
    assert not list(folder.glob("refused*"))


def test_outputs_of_a_compile_that_would_replace_inputs(folder, model, monkeypatch):
    plan = write_json(folder / "kept-plan.json", {"tp": 2})
    spec = write_json(folder / "kept-spec.json", ESTIMATOR)
    source = folder / "graph.mlir"
    source.write_text(MINI.read_text())
    monkeypatch.chdir(folder)
    (folder / "kept-link").symlink_to(spec)
    kept = {path: path.read_bytes() for path in (model, plan, spec, source)}
    for options, says in [
            (["--model", model, "-o", f"../{folder.name}/{model.name}"], "-o and --model both name"),
            (["--model", model, "--plan", plan.name, "-o", plan], "-o and --plan both name"),
            (["--estimator", spec, "-o", "kept-link"], "-o and --estimator both name"),
            ([source, "-o", "graph.mlir"], "-o and the input both name"),
            ([source, "--dump-to", ".", "-o", "new.fbs"], "--dump-to and the input both name"),
            (["--estimator", spec, "--dump-to", "new", "-o", "new/exec.mlir"],
             "-o and --dump-to both name")]:
        refused("mixle-compile", *options, says=says, status=(2,))
    assert kept == {path: path.read_bytes() for path in kept}
    assert not list(folder.glob("new*"))


def test_damaged_programs_are_refused(folder, program, text):
    whole = program.read_bytes()
    damaged = folder / "damaged.fbs"
    run = ["--text", text, "--steps", 1]
    for length in (0, 4, 100, len(whole) // 2, len(whole) - 1):
        damaged.write_bytes(whole[:length])
        refused("mixle-run", damaged, *run, says="damaged.fbs")
    generator = random.Random(1)
    for _ in range(40):
        position, bit = generator.randrange(len(whole)), generator.randrange(8)
        flipped = bytearray(whole)
        flipped[position] ^= 1 << bit
        damaged.write_bytes(flipped)
        refused("mixle-run", damaged, "--verify", says="damaged.fbs")
    damaged.write_bytes(whole + b"\0")
    refused("mixle-run", damaged, "--verify", says="damaged.fbs")
    refused("mixle-run", folder / "missing.fbs", *run, says="missing.fbs.*No such file")


def bad_weights(good):
    """(name, tensors, what the message says)"""
    name = "transformer.h.0.mlp.c_fc.weight"
    yield "missing", {k: v for k, v in good.items() if k != name}, name
    yield "extra", {**good, "transformer.h.9.x": good[name]}, r"transformer\.h\.9\.x"
    yield "misshapen", {**good, name: good[name].T}, name + r".*\[96, 24\].*\[24, 96\]"
    yield "integer", {**good, name: np.ones((24, 96), np.int32)}, name
    for value in (np.nan, np.inf, -np.inf):
        values = good[name].copy()
        values[3, 5] = value
        yield f"{value}", {**good, name: values}, name
    big = good[name].astype(np.float64)
    big[0, 0] = 1e300  # infinite in single precision
    yield "overflow", {**good, name: big}, name


def test_bad_weights_are_refused(folder, program, text):
    start, saved = folder / "weights.safetensors", folder / "saved.safetensors"
    run_tool("mixle-run", program, "--save", start)
    good = load_weights(start)
    for kind, tensors, says in bad_weights(good):
        bad = save_weights(folder / f"bad-{kind}.safetensors", tensors)
        refused("mixle-run", program, "-q", "--weights", bad, "--text", text, "--steps", 1,
                "--save", saved, says=says)
    content = start.read_bytes()
    bad = folder / "bad-file.safetensors"
    # B105, B106: header bombs, cuts, offsets beyond the file.
    for data in (b"", content[:7], content[:200], content[:-1],
                 (2**63).to_bytes(8, "little") + content[8:],
                 content.replace(b"data_offsets", b"data_0ffsets", 1)):
        bad.write_bytes(data)
        refused("mixle-run", program, "--weights", bad, "--save", saved, says="bad-file")
    assert not list(folder.glob("saved*"))


def test_bad_data_is_refused(folder, program, text):
    def data(*options, says):
        refused("mixle-run", program, "-q", *options, "--steps", 1, says=says)

    path = folder / "data.txt"
    path.write_text("short")
    data("--text", path, says="data.txt")
    path.write_text("")
    data("--text", path, says="data.txt")
    path.write_bytes(b"caf\xc3\xa9" * 100)
    data("--text", path, says="(?i)vocabulary")
    data("--text", folder / "none.txt", says="none.txt.*No such file")
    data("--text", folder, says=str(folder))
    tokens = folder / "tokens.bin"
    np.arange(200, dtype=np.uint16).tofile(tokens)
    data("--tokens", tokens, says="(?i)vocabulary")
    tokens.write_bytes(b"")
    data("--tokens", tokens, says="tokens.bin")
    tokens.write_bytes(b"123")
    data("--tokens", tokens, says="tokens.bin")
    batches = np.ones((1, 8, 17), np.int32)
    batches[0, 7, 3] = 128
    data("--batches", save_npy(folder / "b.npy", batches), says="(?i)vocabulary")
    data("--batches", save_npy(folder / "b.npy", batches[:, :4]), says="--batch")
    data("--batches", save_npy(folder / "b.npy", np.ones((1, 8, 17)), np.float32), says="b.npy")


def test_outputs_of_runs_that_cannot_be_written(folder, program, text):
    run = [program, "-q", "--text", text, "--steps", 1]
    refused("mixle-run", *run, "--save", "/dev/full", says="/dev/full")
    refused("mixle-run", *run, "--receipts", "/dev/full", says="/dev/full")
    refused("mixle-run", *run, "--save", folder / "no" / "w", says="No such file")


def test_a_second_run_with_the_same_receipts_is_refused(folder, program, text):
    receipts = folder / "shared.jsonl"
    run = [program, "-q", "--text", text, "--receipts", receipts]
    first = subprocess.Popen([tool("mixle-run"), *map(str, run), "--steps", str(10**7)],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    partial = receipts.with_name(receipts.name + ".partial")
    try:
        deadline = time.monotonic() + 60
        while not partial.exists() or not partial.stat().st_size:
            assert first.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        refused("mixle-run", *run, "--steps", 1,
                says=r"another run is writing '.*shared.jsonl.partial'")
    finally:
        first.kill()
        first.wait()
    # What it left is no obstacle.
    assert partial.stat().st_size
    run_tool("mixle-run", *run, "--steps", 2)
    assert len(receipts.read_text().splitlines()) == 2 and not partial.exists()


@mpi
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_mpirun_with_another_world_size_b101(program, text, ranks):
    refused("mixle-run", program, "--text", text, "--steps", 1, ranks=ranks,
            says=rf"parallel plan requires world_size=4, but the process group has "
                 rf"world_size={ranks}\. Start it with mpirun -n 4")


@mpi
def test_a_bad_program_under_mpirun_is_one_line(folder, text):
    damaged = folder / "mpi-damaged.fbs"
    damaged.write_bytes(b"nothing")
    refused("mixle-run", damaged, "--text", text, "--steps", 1, ranks=2, says="mpi-damaged.fbs")


def lost(arguments, ranks=None, limit=LIMIT):
    """A job that loses a rank: its output, within the limit."""
    begin = time.monotonic()
    result = run_tool("mixle-run", *arguments, ranks=ranks, status=None, timeout=120)
    seconds = time.monotonic() - begin
    assert result.status != 0
    assert seconds < limit, f"took {seconds:.0f} s:\n{result.err}"
    return result


def missing(result, rank):
    """Whether a line says that the rank did not come; those that wait for it may
    be missing elsewhere in turn, and whoever waits longest speaks first."""
    return re.search(rf"ranks? ([0-9], )*{rank}(, [0-9])* (has|have) not arrived", result.err)


def survivors(result, ranks):
    """The lines of surviving ranks that name a command and its update."""
    return [line for line in result.errors()
            if re.search(rf"rank [{''.join(map(str, ranks))}]\b.*entry '\w+', command \d+, update '[^']+'", line)]


@pytest.mark.parametrize("entry", ["accumulate", "step"])
def test_a_thread_rank_that_fails_ends_the_job_b061(folder, program, text, entry):
    saved = folder / "lost.safetensors"
    result = lost([program, "-q", "--text", text, "--steps", 50, "--save", saved,
                   "--inject-failure", f"rank=2,step=3,kind=error,entry={entry}"])
    assert result.status == 1
    assert re.search(r"rank 2\b.*injected failure", result.err), result.err
    # Survivors say what they waited in.
    assert survivors(result, [0, 1, 3]), result.err
    assert not saved.exists()


def test_a_thread_rank_that_hangs_ends_the_job_b061(program, text):
    result = lost([program, "-q", "--text", text, "--steps", 50,
                   "--collective-timeout", HANG_TIMEOUT,
                   "--inject-failure", "rank=1,step=3,kind=hang"], limit=LIMIT + HANG_TIMEOUT)
    assert result.status == 1
    assert missing(result, 1), result.err
    assert survivors(result, [0, 2, 3]), result.err


@mpi
def test_an_mpi_rank_that_fails_ends_the_job_b061(program, text):
    result = lost([program, "-q", "--text", text, "--steps", 200,
                   "--inject-failure", "rank=3,step=3,kind=error"], ranks=4)
    assert re.search(r"rank 3\b.*injected failure", result.err), result.err
    assert survivors(result, [0, 1, 2]), result.err


@mpi
def test_an_mpi_rank_that_is_killed_ends_the_job_b061(folder, program, text):
    receipts, saved = folder / "killed.jsonl", folder / "killed.safetensors"
    result = lost([program, "-q", "--text", text, "--steps", 200, "--receipts", receipts,
                   "--save", saved,
                   "--inject-failure", "rank=1,step=3,kind=kill"], ranks=4)
    # mpirun names the lost rank, survivors what they waited in.
    assert re.search(r"rank 1\b.*(signal 9|Killed)", result.err), result.err
    assert survivors(result, [0, 2, 3]), result.err
    assert not saved.exists()
    for line in receipts.read_text().splitlines() if receipts.exists() else []:
        json.loads(line)


@mpi
def test_an_mpi_rank_that_hangs_ends_the_job_b061(program, text):
    result = lost([program, "-q", "--text", text, "--steps", 200,
                   "--collective-timeout", HANG_TIMEOUT,
                   "--inject-failure", "rank=2,step=3,kind=hang"],
                  ranks=4, limit=LIMIT + HANG_TIMEOUT)
    assert missing(result, 2), result.err
    assert survivors(result, [0, 1, 3]), result.err


def heed_interrupts():
    """In a new process: a shell's background jobs ignore SIGINT, and theirs too."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def interrupt(arguments, receipts, signals, mpirun=False, twice=False):
    """Starts a run that would take for ever, signals it once there are receipts;
    status, output, and the receipts that it leaves under their name."""
    partial = receipts.with_name(receipts.name + ".partial")
    launch = [MPIRUN, *(["--allow-run-as-root"] if os.geteuid() == 0 else []), "--oversubscribe",
              "-n", "4"] if mpirun else []
    process = subprocess.Popen(
        [*launch, tool("mixle-run"), *map(str, arguments), "-q", "--receipts", str(receipts)],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts)
    try:
        deadline = time.monotonic() + 60
        while not partial.exists() or partial.stat().st_size < 200:
            assert process.poll() is None and time.monotonic() < deadline, process.stderr.read()
            time.sleep(0.05)
        assert not receipts.exists()
        process.send_signal(signals)
        if twice:
            process.send_signal(signals)
        _, err = process.communicate(timeout=LIMIT)
    finally:
        process.kill()
    # A step that takes longer than mpirun is patient leaves the lines where they were.
    kept = partial if mpirun and partial.exists() else receipts
    assert kept == receipts or not receipts.exists()
    assert kept == partial or not partial.exists()
    return process.returncode, err, [json.loads(line) for line in kept.read_text().splitlines()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_run_keeps_the_receipts_of_its_steps(folder, program, text, number):
    receipts, saved = folder / "interrupted.jsonl", folder / "interrupted.safetensors"
    receipts.unlink(missing_ok=True)
    status, err, lines = interrupt(
        [program, "--text", text, "--steps", 10**7, "--save", saved], receipts, number,
        twice=True)  # as timeout(1) does
    assert status == 128 + number
    assert [line["step"] for line in lines] == list(range(1, len(lines) + 1))
    assert re.fullmatch(
        rf"mixle-run: error: interrupted by signal {int(number)} \(\w+\) after {len(lines)} of "
        rf"10000000 steps; their receipts are in '.*interrupted.jsonl'; '.*' is not written\n",
        err), err
    assert not saved.exists()


@mpi
def test_an_interrupted_mpi_run_keeps_its_receipts(folder, program, text):
    receipts, saved = folder / "interrupted-mpi.jsonl", folder / "interrupted-mpi.safetensors"
    status, err, lines = interrupt(
        [program, "--text", text, "--steps", 10**7, "--save", saved], receipts, signal.SIGTERM,
        mpirun=True)
    assert status != 0
    assert [line["step"] for line in lines] == list(range(1, len(lines) + 1))
    if receipts.exists():
        assert f"interrupted by signal 15 (Terminated) after {len(lines)} of" in err
    assert not saved.exists()


def test_an_interrupted_fit_keeps_its_receipts(folder):
    spec = write_json(folder / "spec.json", ESTIMATOR)
    program = compile_program(folder / "fit.fbs", "--estimator", spec, "--plan",
                              "dp_replicate=2,tp=3")
    rows = save_npy(folder / "rows.npy", np.random.default_rng(1).normal(size=(400, 2)), np.float64)
    receipts, saved = folder / "fit.jsonl", folder / "fit.safetensors"
    status, err, lines = interrupt(
        [program, "--data", rows, "--iterations", 10**7, "--save", saved], receipts,
        signal.SIGTERM)
    assert status == 128 + signal.SIGTERM
    assert [line["iteration"] for line in lines] == list(range(1, len(lines) + 1))
    assert f"after {len(lines)} of at most 10000000 iterations" in err
    assert not saved.exists()


def test_an_impatient_second_interrupt_ends_a_run_that_hangs(folder, program, text):
    receipts = folder / "impatient.jsonl"
    partial = receipts.with_name(receipts.name + ".partial")
    process = subprocess.Popen(
        [tool("mixle-run"), program, "-q", "--text", text, "--steps", "10", "--receipts", receipts,
         "--inject-failure", "rank=1,step=2,kind=hang"], stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, preexec_fn=heed_interrupts)
    deadline = time.monotonic() + 60
    while not partial.exists() or not partial.stat().st_size:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    time.sleep(1.5)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT) == -signal.SIGINT


def test_tools_run_after_all_that(folder, program, text):
    run = train(program, "--text", text, "--steps", 2)
    assert [receipt["step"] for receipt in run.receipts] == [1, 2]
