"""Hugging Face's Llama and its relatives, trained by PyTorch and by compiled
programs: the same losses over 20 steps and the same weights after them.

CI compares with goldens that make_hf_llama_goldens.py recorded; tests marked
`peers` run PyTorch. Differences allowed: losses 1e-5 (fp32) and 1e-10 (fp64)
relative; weights 1e-7 absolute in fp64, as goldens are rounded to single
precision. In fp32 a tensor may differ by 1e-6 in the mean square: an element whose
gradient is no larger than its rounding may take Adam's first steps, each of the
whole rate, in another direction, and few do.
"""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import hf_gpt2
import hf_llama
from mixle_testing import (
    compile_program, load_weights, run_tool, save_npy, save_weights, train, write_json,
)

GOLDEN = Path(__file__).parent / "golden"
LOSS_RTOL = {"f32": 1e-5, "f64": 1e-10}
WEIGHT_ATOL, WEIGHT_RMS = 1e-7, 1e-6

missing = [name for name in ("torch", "transformers") if not importlib.util.find_spec(name)]
peers = pytest.mark.skipif(
    bool(missing), reason=f"not installed: {', '.join(missing)} (tools/test --peers)")


def options(folder, config, precision, plan="dp_replicate=1"):
    model = folder / "model"
    model.mkdir(exist_ok=True)
    write_json(model / "config.json", config)
    return ["--model", model, "--plan", plan,
            "--precision", "fp64" if precision == "f64" else "fp32", *hf_gpt2.OPTIONS]


def compare(folder, config, precision, plan, initial, losses, final):
    program = compile_program(folder / f"{plan}-{precision}.fbs",
                              *options(folder, config, precision, plan))
    batches, labels = hf_llama.data_of(config)
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
        if precision == "f64":
            np.testing.assert_allclose(found[name], expected, rtol=0, atol=WEIGHT_ATOL,
                                       err_msg=name)
        assert np.sqrt(np.mean((found[name] - expected) ** 2)) < WEIGHT_RMS, name
        # The run moved every tensor by far more than the tolerance.
        assert np.abs(expected - initial[name]).max() > 1e-3, name


@pytest.mark.parametrize("plan", ["dp_replicate=1", "dp_shard=2,tp=2"])
@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize("name", sorted(hf_llama.CONFIGS))
def test_golden(folder, name, precision, plan):
    record = json.loads((GOLDEN / f"hf_llama_{name}.json").read_text())
    assert record["config"] == hf_llama.CONFIGS[name]
    groups = record["config"]["num_key_value_heads"]
    compare(folder, record["config"], precision, plan.replace("tp=2", f"tp={min(groups, 2)}"),
            load_weights(GOLDEN / f"hf_llama_{name}.initial.safetensors"),
            record["losses"][precision],
            load_weights(GOLDEN / f"hf_llama_{name}.final.safetensors"))


def shards_of(folder, weights, parts=3):
    """The weights in several files with an index, as large models come."""
    folder.mkdir(exist_ok=True)
    names = sorted(weights)
    index = {}
    for part in range(parts):
        file = f"model-{part + 1:05}-of-{parts:05}.safetensors"
        mine = names[part::parts]
        save_file({n: weights[n] for n in mine}, folder / file)
        index.update({n: file for n in mine})
    write_json(folder / "model.safetensors.index.json",
               {"metadata": {"total_size": 1}, "weight_map": index})
    return folder


def test_weights_in_several_files(folder):
    """A folder, its index and one file with everything give the same state."""
    config = hf_llama.CONFIGS["llama"]
    initial = load_weights(GOLDEN / "hf_llama_llama.initial.safetensors")
    program = compile_program(folder / "shards.fbs", *options(folder, config, "f32", "tp=2"))
    one = save_weights(folder / "one.safetensors", initial)
    shards = shards_of(folder / "shards", initial)

    def load(path, status=0):
        return run_tool("mixle-run", program, "--weights", path, "--save",
                        folder / "loaded.safetensors", status=status)

    digests = {load(path).value("state_digest")
               for path in (one, shards, shards / "model.safetensors.index.json")}
    assert len(digests) == 1
    loaded = load_weights(folder / "loaded.safetensors")
    assert all((loaded[name] == value).all() for name, value in initial.items())
    index = json.loads((shards / "model.safetensors.index.json").read_text())
    for change, message in [
            ({"model.norm.weight": "../one.safetensors"}, "the name of a file beside the index"),
            ({"model.norm.weight": "model-00009-of-00003.safetensors"}, "No such file"),
            ({"absent": "model-00001-of-00003.safetensors"}, "'absent' is not in")]:
        write_json(shards / "bad.index.json",
                   {"weight_map": {**index["weight_map"], **change}})
        assert message in load(shards / "bad.index.json", status=1).err
    smaller = {n: f for n, f in index["weight_map"].items() if n != "model.norm.weight"}
    write_json(shards / "bad.index.json", {"weight_map": smaller})
    assert "is not in the index" in load(shards / "bad.index.json", status=1).err


@peers
@pytest.mark.peers
@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize("name", sorted(hf_llama.LIVE))
def test_live(folder, name, precision):
    config = hf_llama.LIVE[name]
    groups = config["num_key_value_heads"]
    compare(folder, config, precision, f"dp_replicate=2,tp={min(groups, 2)}",
            *hf_llama.run(config, precision))


@peers
@pytest.mark.peers
@pytest.mark.parametrize("name", sorted(hf_llama.CONFIGS))
def test_what_is_saved_loads_into_transformers(folder, name):
    """save_pretrained's folder, in bf16 and in shards, is a model here; what is
    saved here is one there, with the same loss and the same logits."""
    import torch
    from transformers import AutoModelForCausalLM

    config = hf_llama.CONFIGS[name]
    model, _ = hf_llama.model_of(config, "f32")
    folder = folder / f"saved-{name}"
    source = folder / "source"
    model.to(torch.bfloat16).save_pretrained(source, max_shard_size="20KB")
    assert (source / "model.safetensors.index.json").exists()
    program = compile_program(folder / "saved.fbs", "--model", source, *hf_gpt2.OPTIONS)
    batches, labels = hf_llama.data_of(config)
    saved = folder / "target" / "model.safetensors"
    saved.parent.mkdir(parents=True)
    run = train(program, "--batches", save_npy(folder / "b.npy", batches[:1]),
                "--labels", save_npy(folder / "l.npy", labels[:1]),
                "--weights", source, "--save", saved, "--evaluate", "--steps", 1)
    written = json.loads((source / "config.json").read_text())
    write_json(saved.parent / "config.json", {**written, "dtype": "float32"})
    back = AutoModelForCausalLM.from_pretrained(saved.parent, attn_implementation="eager")
    with torch.no_grad():
        logits = back(input_ids=torch.from_numpy(batches[0, :, :-1].astype(np.int64))).logits
        loss = torch.nn.functional.cross_entropy(
            logits.reshape(-1, logits.shape[-1]),
            torch.from_numpy(labels[0].astype(np.int64)).reshape(-1), ignore_index=-100)
    assert abs(loss.item() / float(run.result.value("evaluation_loss")) - 1) < 1e-6
    for key, value in load_weights(saved).items():
        assert (back.state_dict()[key].numpy() == value).all(), key
