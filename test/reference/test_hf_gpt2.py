"""Hugging Face's GPT-2, trained by PyTorch and by compiled programs: the same
losses over 20 steps and the same weights after them.

CI compares with goldens that make_hf_goldens.py recorded; tests marked `peers`
run PyTorch. Differences allowed: losses 1e-5 (fp32) and 1e-10 (fp64) relative,
weights 1e-5 and 1e-9 absolute, keys' biases left out (their true gradient is
zero).
"""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

import hf_gpt2
from mixle_testing import (
    compile_program, load_weights, run_tool, save_npy, save_weights, train, write_json,
)

GOLDEN = Path(__file__).parent / "golden"
LOSS_RTOL = {"f32": 1e-5, "f64": 1e-10}
WEIGHT_ATOL = {"f32": 1e-5, "f64": 1e-9}

missing = [name for name in ("torch", "transformers") if not importlib.util.find_spec(name)]
peers = pytest.mark.skipif(
    bool(missing), reason=f"not installed: {', '.join(missing)} (tools/test --peers)")


def compare(folder, config, precision, plan, initial, losses, final):
    program = compile_program(
        folder / f"{plan}-{precision}.fbs",
        "--model", write_json(folder / "config.json", config), "--plan", plan,
        "--precision", "fp64" if precision == "f64" else "fp32", *hf_gpt2.OPTIONS)
    batches, labels = hf_gpt2.make_data(config)
    saved = folder / "saved.safetensors"
    run = train(program, "--batches", save_npy(folder / "batches.npy", batches),
                "--labels", save_npy(folder / "labels.npy", labels),
                "--weights", save_weights(folder / "initial.safetensors", initial),
                "--save", saved)
    np.testing.assert_allclose(run.losses, losses, rtol=LOSS_RTOL[precision])
    norms = [receipt["extra"]["gradient_norm"] for receipt in run.receipts]
    assert max(norms) > hf_gpt2.MAX_NORM, "clipping was never active"
    found = load_weights(saved)
    assert set(found) == set(final)
    for name, expected in final.items():
        ours, theirs = found[name].copy(), expected.copy()
        assert ours.dtype == theirs.dtype
        for tensor in (ours, theirs):
            tensor[hf_gpt2.is_untested(name, config["n_embd"])] = 0
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=WEIGHT_ATOL[precision],
                                   err_msg=name)
        # The run moved every tensor by far more than the tolerance.
        assert np.abs(expected - initial[name]).max() > 1e-3, name


@pytest.mark.parametrize("plan", ["dp_replicate=1", "dp_shard=2,tp=2"])
@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize("name", sorted(hf_gpt2.CONFIGS))
def test_golden(folder, name, precision, plan):
    record = json.loads((GOLDEN / f"hf_gpt2_{name}.json").read_text())
    assert record["config"] == hf_gpt2.CONFIGS[name]
    compare(folder, record["config"], precision, plan,
            load_weights(GOLDEN / f"hf_gpt2_{name}.initial.safetensors"),
            record["losses"][precision],
            load_weights(GOLDEN / f"hf_gpt2_{name}_{precision}.final.safetensors"))


def test_rates_are_the_schedules(folder):
    """The formula that the goldens were made with is the program's."""
    config = hf_gpt2.BASE
    program = compile_program(folder / "rates.fbs", "--model",
                              write_json(folder / "rates.json", config), *hf_gpt2.OPTIONS)
    batches, _ = hf_gpt2.make_data(config)
    run = train(program, "--batches", save_npy(folder / "rates.npy", batches))
    expected = [hf_gpt2.RATE * hf_gpt2.rate_factor(s + 1) for s in range(hf_gpt2.STEPS)]
    np.testing.assert_allclose([r["extra"]["rate"] for r in run.receipts], expected, rtol=1e-14)


@peers
@pytest.mark.peers
@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize("name", sorted(hf_gpt2.CONFIGS))
def test_live(folder, name, precision):
    config = hf_gpt2.CONFIGS[name]
    compare(folder, config, precision, "dp_replicate=2,tp=2", *hf_gpt2.run(config, precision))


@peers
@pytest.mark.peers
@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize("name", sorted(hf_gpt2.CONFIGS))
def test_transformers_loads_saved_weights(folder, name, precision):
    """What mixle-run saves is a checkpoint that from_pretrained reads: no tensor
    missing or unexpected, the same loss, the same logits."""
    import torch
    from transformers import GPT2LMHeadModel

    config = hf_gpt2.CONFIGS[name]
    checkpoint = folder / f"checkpoint-{name}-{precision}"
    checkpoint.mkdir()
    program = compile_program(
        folder / f"saved-{name}-{precision}.fbs",
        "--model", write_json(checkpoint / "config.json", config), "--plan", "dp_shard=2,tp=2",
        "--precision", "fp64" if precision == "f64" else "fp32", *hf_gpt2.OPTIONS)
    batches, labels = hf_gpt2.make_data(config)
    batches, labels = batches[:5], labels[:5]
    batches_file = save_npy(folder / "checkpoint-batches.npy", batches)
    saved = checkpoint / "model.safetensors"
    train(program, "--batches", batches_file, "--save", saved, "--seed", 2)

    model, report = GPT2LMHeadModel.from_pretrained(
        checkpoint, output_loading_info=True, attn_implementation="eager",
        dtype=torch.float64 if precision == "f64" else torch.float32)
    assert not any(report.values()), report
    tokens = torch.from_numpy(batches[:, :, :-1].reshape(-1, config["n_positions"])).long()
    with torch.no_grad():
        log_probabilities = model.eval()(input_ids=tokens).logits.log_softmax(-1).numpy()

    def check(labels):
        """--evaluate of these labels against transformers' logits."""
        chosen = labels.reshape(-1, config["n_positions"])
        row, position = np.nonzero(chosen != -100)
        expected = -log_probabilities[row, position, chosen[row, position]].mean(dtype=np.float64)
        result = run_tool(
            "mixle-run", program, "-q", "--evaluate", "--weights", saved,
            "--batches", batches_file, "--labels", save_npy(folder / "checkpoint.npy", labels))
        assert float(result.value("evaluation_loss")) == pytest.approx(
            expected, rel=LOSS_RTOL[precision], abs=0)

    check(labels)
    # One logit at a time, with its row's normaliser.
    generator = np.random.default_rng(3)
    for _ in range(6):
        one = np.full_like(labels, -100)
        place = tuple(generator.integers(0, one.shape))
        one[place] = generator.integers(0, config["vocab_size"])
        check(one)
