"""Llama and its relatives under many plans: the same bits.

Grouped-query attention is cut between groups of heads, the packed products of
q, k, v and of gate, up between groups and between slices of the hidden layer;
the gains of Qwen3's head norms are summed over the heads that a plan splits.
"""

import pytest

from mixle_testing import (
    Group, llama_config, load_weights, needs_mpirun, pseudo_text, run_tool, train, world_size,
)

# Batch 16, 4 groups of heads.
PLANS = [
    "dp_replicate=1,microbatches=3",
    "dp_replicate=2",
    "dp_replicate=3,microbatches=2",
    "dp_replicate=4,gradient_accumulation_steps=2",
    "dp_replicate=5",
    "dp_replicate=6",
    "dp_replicate=7,gradient_accumulation_steps=3",
    "dp_shard=2",
    "dp_shard=3,gradient_accumulation_steps=2",
    "dp_shard=5,microbatches=4",
    "dp_shard=8",
    "tp=2",
    "tp=4",
    "tp=4,microbatches=5,gradient_accumulation_steps=2",
    "dp_replicate=2,dp_shard=2",
    "dp_replicate=2,tp=2",
    "dp_replicate=3,tp=4",
    "dp_shard=2,tp=2,microbatches=2",
    "dp_shard=3,tp=4",
    "dp_replicate=2,dp_shard=2,tp=2",
    "dp_replicate=2,dp_shard=2,tp=4,microbatches=2,gradient_accumulation_steps=2",
]
MPI_PLANS = ["dp_replicate=2", "dp_shard=3", "tp=4,microbatches=2", "dp_shard=2,tp=2"]
SMALL_PLANS = ["dp_replicate=3,microbatches=2", "dp_shard=2,tp=2", "tp=2,microbatches=3",
               "dp_replicate=2,dp_shard=2,tp=2,gradient_accumulation_steps=2"]

LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 16}
# Every relative, and every option that has parameters or sums of its own.
SMALL = {
    "qwen3": {"model_type": "qwen3", "head_dim": 16, "tie_word_embeddings": True},
    "qwen2": {"model_type": "qwen2"},
    "mistral": {"model_type": "mistral", "sliding_window": 32},
    "biases": {"attention_bias": True, "mlp_bias": True, "rope_scaling": LLAMA3},
    "one_group": {"num_key_value_heads": 4, "num_attention_heads": 4, "pad_token_id": 32},
    "uneven": {"intermediate_size": 50, "vocab_size": 131},
}


@pytest.fixture(scope="module")
def text(folder):
    return pseudo_text(folder / "text.txt")


@pytest.fixture(scope="module")
def llama(folder, text):
    return Group(
        folder, "llama",
        ["--model", llama_config(folder / "llama.json"), "--batch", 16,
         "--optimizer", "adamw,lr=3e-3,weight_decay=0.1",
         "--max-grad-norm", 1.0, "--lr-schedule", "cosine,warmup=5,total=20"],
        ["--text", text, "--steps", 20, "--seed", 1],
    )


def test_training_learns(llama):
    run = llama.expected()
    assert len(run.receipts) == 20
    assert 5.3 < run.losses[0] < 5.8  # log 259 = 5.56
    assert run.losses[-1] < run.losses[0] - 1.5
    norms = [receipt["extra"]["gradient_norm"] for receipt in run.receipts]
    assert max(norms) > 1.0, "clipping was never active"


@pytest.mark.parametrize("plan", PLANS)
def test_llama_same_bits(llama, plan):
    llama.check(plan)


@pytest.mark.skipif(bool(needs_mpirun()), reason=str(needs_mpirun()))
@pytest.mark.parametrize("plan", MPI_PLANS)
def test_llama_same_bits_mpi(llama, plan):
    llama.check(plan, ranks=world_size(plan))


@pytest.mark.parametrize("plan, options", [
    ("pp=2,microbatches=3", []),
    ("tp=4,pp=3,microbatches=4", ["--pipeline-schedule", "zb-h1"]),
    ("dp_shard=2,tp=2,pp=2,microbatches=4",
     ["--pipeline-schedule", "interleaved", "--pipeline-chunks", 3]),
    ("dp_replicate=3,pp=2,microbatches=2", ["--pipeline-split", "layers.1"]),
])
def test_llama_pipelines_same_bits(llama, plan, options):
    llama.check(plan, options=options)


_small = {}


def small(folder, text, name, *options):
    key = (name, *options)
    if key not in _small:
        config = llama_config(
            folder / f"{name}.json",
            **{"num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 48,
               "vocab_size": 128, "max_position_embeddings": 32, "num_key_value_heads": 2,
               "num_attention_heads": 4, **SMALL[name]})
        _small[key] = Group(
            folder, f"small{len(_small)}",
            ["--model", config, "--batch", 7, "--optimizer", "adamw,lr=3e-3",
             "--max-grad-norm", 0.5, *options],
            ["--text", text, "--steps", 4, "--seed", 3])
    return _small[key]


@pytest.mark.parametrize("plan", SMALL_PLANS)
@pytest.mark.parametrize("name", sorted(SMALL))
def test_relatives_same_bits(folder, text, name, plan):
    small(folder, text, name).check(plan)


@pytest.mark.parametrize("plan", SMALL_PLANS)
def test_fp64_same_bits(folder, text, plan):
    small(folder, text, "qwen3", "--precision", "fp64").check(plan)


@pytest.mark.parametrize("granules", ["tokens=8", "tensor=2,vocabulary=4", "sequence=4"])
def test_granules_same_bits(folder, text, granules):
    group = small(folder, text, "one_group", "--granules", granules)
    group.check("dp_replicate=3,microbatches=2")
    group.check("dp_shard=2,tp=2")


def test_padding_row_does_not_learn(folder, text):
    """pad_token_id is a space here, which the text is full of."""
    group = small(folder, text, "one_group")
    start, end = folder / "start.safetensors", folder / "end.safetensors"
    program = group.program("dp_shard=2,tp=2")
    run_tool("mixle-run", program, "--seed", 3, "--save", start)
    train(program, "--text", text, "--steps", 4, "--seed", 3, "--save", end)
    name = "model.embed_tokens.weight"
    moved = (load_weights(end)[name] != load_weights(start)[name]).any(axis=1)
    assert moved[ord("e")]
    # Weight decay alone moves it.
    decayed = load_weights(start)[name][32]
    for _ in range(4):
        decayed = decayed * (1 - 3e-3 * 0.01)
    assert abs(load_weights(end)[name][32] - decayed).max() < 1e-7


@pytest.mark.parametrize("plan, message", [
    ("tp=3", "tp=3 is more than the 2 of 'kv_heads', of which every rank needs one; use tp = 1, 2"),
    ("tp=4", "tp=4 is more than the 2 of 'kv_heads', of which every rank needs one; use tp = 1, 2"),
])
def test_refused_plans(folder, text, plan, message):
    group = small(folder, text, "qwen2")
    result = run_tool("mixle-compile", *group.compile_options, "--plan", plan, "-o",
                      folder / "refused.fbs", status=1)
    assert message in result.err


def test_a_window_that_hides_keys_is_refused(folder):
    config = llama_config(folder / "window.json", model_type="mistral", sliding_window=16)
    options = ["--model", config, "--batch", 2, "-o", folder / "window.fbs"]
    result = run_tool("mixle-compile", *options, status=1)
    assert "sliding_window = 16" in result.err and "sequence 64" in result.err
    run_tool("mixle-compile", *options, "--sequence", 16)
