"""Training and forward passes as mixle's own session does them.

Golden files: golden/README.md. The key third of attn.qkv.bias is left out of the
comparison of weights: its true gradient is zero, so optimizers that divide by
its size amplify rounding.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from mixle_testing import (
    compile_program, load_weights, run_tool, save_npy, train, write_json,
)

GOLDEN = Path(__file__).parent / "golden"
LOSS_RTOL = {"f32": 1e-5, "f64": 1e-9}
WEIGHT_ATOL = {"f32": 1e-5, "f64": 1e-9}
# As mixle's session sets its named optimizers.
OPTIMIZERS = {
    "sgd": "sgd,momentum=0.9",
    "adam": "adam",
    "adamw": "adamw,weight_decay=0.01,decay=all",
}


def load_case(name):
    return json.loads((GOLDEN / f"{name}.json").read_text())


def compile_case(folder, name, case, *options):
    config = write_json(folder / f"{name}.config.json",
                        {"model_type": "mixle_causal_lm", **case["config"]})
    return compile_program(
        folder / f"{name}.fbs", "--model", config,
        "--precision", "fp64" if case["dtype"] == "f64" else "fp32", *options)


def optimizer_options(case):
    options = ["--optimizer", f"{OPTIMIZERS[case['optimizer']]},lr={case['lr']}"]
    if case["max_grad_norm"] is not None:
        options += ["--max-grad-norm", case["max_grad_norm"]]
    return options


def compare_weights(found, expected, case):
    width = case["config"]["d_model"]
    expected = {k: v for k, v in expected.items() if k != "head.weight"}  # tied
    assert set(found) - {"head.weight"} == set(expected)
    for name, value in expected.items():
        ours, theirs = found[name], value
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype, name
        if name.endswith("attn.qkv.bias"):
            keep = np.r_[0:width, 2 * width : 3 * width]
            ours, theirs = ours[keep], theirs[keep]
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=WEIGHT_ATOL[case["dtype"]],
                                   err_msg=name)


def moved(expected, initial):
    """How far training moved the weights: tolerances must be far below."""
    return max(np.abs(expected[name] - initial[name]).max() for name in initial
               if name != "mup_output_multiplier")


@pytest.mark.parametrize("plan", ["dp_replicate=1", "dp_shard=2,tp=2"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
def test_train10(folder, optimizer, dtype, plan):
    name = f"train10_{optimizer}_{dtype}"
    case = load_case(name)
    batches = np.array(case["batches_rows_of_block_plus_1"])
    program = compile_case(folder, name, case, "--batch", batches.shape[1],
                           "--plan", plan, *optimizer_options(case))
    initial = GOLDEN / f"train10_{dtype}.initial.safetensors"
    saved = folder / f"{name}.safetensors"
    run = train(program, "--batches", save_npy(folder / f"{name}.npy", batches),
                "--weights", initial, "--save", saved)
    np.testing.assert_allclose(run.losses, [r["loss"] for r in case["receipts"]],
                               rtol=LOSS_RTOL[dtype])
    for ours, theirs in zip(run.receipts, case["receipts"]):
        for key in ("step", "global_examples", "global_tokens", "optimizer", "skipped",
                    "microbatches", "accumulation_steps"):
            assert ours[key] == theirs[key], key
    expected = load_weights(GOLDEN / f"{name}.final.safetensors")
    assert moved(expected, load_weights(initial)) > 0.01
    compare_weights(load_weights(saved), expected, case)


@pytest.mark.parametrize(
    "plan", ["microbatches=3,gradient_accumulation_steps=3", "dp_replicate=2"])
def test_accumulate_adamw_f64(folder, plan):
    """Windows of three calls of five rows; the last window has one call, which
    finish_accumulation committed. Here it is a window whose other rows count
    nothing: the mean is over the labels that count."""
    name = "accumulate_adamw_f64"
    case = load_case(name)
    calls = np.array(case["batches_rows_of_block_plus_1"])
    assert calls.shape == (7, 5, 17)
    padded = np.concatenate([calls, np.zeros((2, 5, 17), calls.dtype)])
    batches = padded.reshape(3, 15, 17)
    labels = batches[:, :, 1:].copy()
    labels[2, 5:] = -100
    program = compile_case(folder, name, case, "--batch", 15, "--plan", plan,
                           *optimizer_options(case))
    initial = GOLDEN / f"{name}.initial.safetensors"
    saved = folder / f"{name}.safetensors"
    run = train(program, "--batches", save_npy(folder / "accumulate.npy", batches),
                "--labels", save_npy(folder / "accumulate_labels.npy", labels),
                "--weights", initial, "--save", saved)
    committed = [r for r in case["receipts"] if not r["skipped"]]
    committed.append(case["finish_accumulation"])
    np.testing.assert_allclose(run.losses, [r["loss"] for r in committed],
                               rtol=LOSS_RTOL["f64"])
    assert [r["global_tokens"] for r in run.receipts] == [240, 240, 80]
    expected = load_weights(GOLDEN / f"{name}.final.safetensors")
    compare_weights(load_weights(saved), expected, case)


@pytest.mark.parametrize("plan", ["dp_replicate=1", "dp_shard=3", "dp_replicate=2,tp=2"])
def test_clip_sgd_f64(folder, plan):
    name = "clip_sgd_f64"
    case = load_case(name)
    batches = np.array(case["batches_rows_of_block_plus_1"])
    program = compile_case(folder, name, case, "--batch", batches.shape[1],
                           "--plan", plan, *optimizer_options(case))
    saved = folder / f"{name}.safetensors"
    run = train(program, "--batches", save_npy(folder / f"{name}.npy", batches),
                "--weights", GOLDEN / f"{name}.initial.safetensors", "--save", saved)
    np.testing.assert_allclose(run.losses, [r["loss"] for r in case["receipts"]],
                               rtol=LOSS_RTOL["f64"])
    assert all(r["extra"]["gradient_norm"] > case["max_grad_norm"] for r in run.receipts)
    compare_weights(load_weights(saved), load_weights(GOLDEN / f"{name}.final.safetensors"),
                    case)


def evaluate(program, folder, name, inputs, labels, weights):
    """The summed loss, by --evaluate; tokens beyond `inputs` do not matter."""
    rows = np.concatenate([inputs, inputs[:, :1]], axis=1)[None]
    result = run_tool(
        "mixle-run", program, "--batches", save_npy(folder / f"{name}.npy", rows),
        "--labels", save_npy(folder / f"{name}.labels.npy", labels[None]),
        "--weights", weights, "--evaluate")
    counted = int((labels != -100).sum())
    assert int(result.value("evaluation_tokens")) == counted
    return float(result.value("evaluation_loss")) * counted


def log_softmax(logits):
    logits = logits.astype(np.float64)
    top = logits.max(axis=-1, keepdims=True)
    return logits - top - np.log(np.exp(logits - top).sum(axis=-1, keepdims=True))


@pytest.mark.parametrize("plan", ["dp_replicate=1", "dp_replicate=2,tp=2"])
@pytest.mark.parametrize("name", ["forward_f64", "forward_f32_short"])
def test_forward(folder, name, plan):
    case = load_case(name)
    rtol = LOSS_RTOL[case["dtype"]]
    inputs, targets = np.array(case["inputs"]), np.array(case["targets"])
    weights = GOLDEN / f"{name}.weights.safetensors"
    expected = load_weights(GOLDEN / f"{name}.expected.safetensors")
    # A short row: 9 tokens of a block of 16.
    program = compile_case(folder, name, case, "--batch", len(inputs), "--sequence",
                           inputs.shape[1], "--plan", plan,
                           "--optimizer", "sgd,lr=1,momentum=0")
    loss = evaluate(program, folder, name, inputs, targets, weights)
    assert loss == pytest.approx(case["loss_sum"], rel=rtol)

    # Other labels see other logits; ignored ones nothing.
    terms = -log_softmax(expected["logits"])
    vocabulary = case["config"]["vocab"]
    for shift in (3, 17):
        labels = (np.arange(inputs.size).reshape(inputs.shape) * 7 + shift) % vocabulary
        labels[0, 1::3] = -100
        counted = labels != -100
        want = np.take_along_axis(terms, np.where(counted, labels, 0)[..., None], -1)[..., 0]
        found = evaluate(program, folder, f"{name}-{shift}", inputs, labels, weights)
        assert found == pytest.approx(want[counted].sum(), rel=rtol)
    last = np.full_like(targets, -100)
    last[:, -1] = 5
    want = -log_softmax(expected["last_logits"])[:, 5].sum()
    assert evaluate(program, folder, f"{name}-last", inputs, last, weights) == pytest.approx(
        want, rel=rtol)


@pytest.mark.parametrize("plan", ["dp_replicate=1", "dp_shard=2,tp=2"])
@pytest.mark.parametrize("name", ["forward_f64", "forward_f32_short"])
def test_gradients(folder, name, plan):
    """A step of SGD with rate 1 moves weights by the mean gradient."""
    case = load_case(name)
    inputs, targets = np.array(case["inputs"]), np.array(case["targets"])
    weights = GOLDEN / f"{name}.weights.safetensors"
    expected = load_weights(GOLDEN / f"{name}.expected.safetensors")
    gradients = {k[5:]: v for k, v in expected.items() if k.startswith("grad.")}
    assert len(gradients) == 28
    program = compile_case(folder, name, case, "--batch", len(inputs), "--sequence",
                           inputs.shape[1], "--plan", plan,
                           "--optimizer", "sgd,lr=1,momentum=0,weight_decay=0")
    rows = np.concatenate([inputs, targets[:, -1:]], axis=1)[None]
    saved = folder / f"{name}.stepped.safetensors"
    train(program, "--batches", save_npy(folder / f"{name}.step.npy", rows),
          "--labels", save_npy(folder / f"{name}.step.labels.npy", targets[None]),
          "--weights", weights, "--save", saved)
    before, after = load_weights(weights), load_weights(saved)
    for key, gradient in gradients.items():
        found = (before[key].astype(np.float64) - after[key]) * targets.size
        # The difference of the weights has their rounding.
        rounding = np.finfo(before[key].dtype).eps * np.abs(before[key]).max() * targets.size
        scale = np.abs(gradient).max()
        tolerance = (1e-10 if case["dtype"] == "f64" else 2e-5) * scale + rounding
        np.testing.assert_allclose(found, gradient, rtol=0, atol=tolerance, err_msg=key)
