"""One program, many plans: the same bits.

Every plan of a group trains the same model on the same rows; losses, gradient
norms, reruns, learning rates and the digest of parameters and optimizer state
are compared step by step and must be equal, not close.
"""

import numpy as np
import pytest

from mixle_testing import (
    Group, causal_lm_config, gpt2_config, load_weights, needs_mpirun, pseudo_text, run_tool,
    save_npy, save_weights, train, world_size,
)

# Batch 16: 3, 5, 6 and 7 do not divide it, nor do 3 microbatches or windows of 3
# and 5 calls.
PLANS = [
    "dp_replicate=1",
    "dp_replicate=1,microbatches=3",
    "dp_replicate=1,gradient_accumulation_steps=5",
    "dp_replicate=2",
    "dp_replicate=3,microbatches=2",
    "dp_replicate=5",
    "dp_replicate=6",
    "dp_replicate=7,gradient_accumulation_steps=2",
    "dp_replicate=8",
    "dp_shard=2",
    "dp_shard=3,gradient_accumulation_steps=3",
    "dp_shard=5,microbatches=4",
    "dp_shard=8",
    "tp=2",
    "tp=3",
    "tp=6",
    "tp=2,microbatches=16",
    "tp=3,microbatches=5,gradient_accumulation_steps=2",
    "dp_replicate=2,dp_shard=2",
    "dp_replicate=2,dp_shard=3,microbatches=2",
    "dp_replicate=3,dp_shard=2,gradient_accumulation_steps=2",
    "dp_replicate=2,tp=2",
    "dp_replicate=2,tp=3",
    "dp_replicate=3,tp=2,microbatches=3,gradient_accumulation_steps=3",
    "dp_shard=2,tp=3",
    "dp_shard=4,tp=2",
    "dp_replicate=2,dp_shard=2,tp=2",
    "dp_replicate=2,dp_shard=2,tp=2,microbatches=2,gradient_accumulation_steps=2",
]

MPI_PLANS = [
    "dp_replicate=2",
    "dp_shard=3",
    "tp=3,microbatches=2",
    "dp_replicate=2,tp=2",
    "dp_replicate=3,dp_shard=2,gradient_accumulation_steps=2",
]


@pytest.fixture(scope="module")
def text(folder):
    return pseudo_text(folder / "text.txt")


@pytest.fixture(scope="module")
def gpt2(folder, text):
    config = gpt2_config(folder / "gpt2.json")
    return Group(
        folder, "gpt2",
        ["--model", config, "--batch", 16,
         "--optimizer", "adamw,lr=3e-3,weight_decay=0.1",
         "--max-grad-norm", 1.0, "--lr-schedule", "cosine,warmup=5,total=20"],
        ["--text", text, "--steps", 20, "--seed", 1],
    )


def test_training_learns(gpt2):
    """The bits below are those of a training run that works."""
    run = gpt2.expected()
    assert len(run.receipts) == 20
    assert 5.3 < run.losses[0] < 5.8  # log 257 = 5.55
    assert run.losses[-1] < run.losses[0] - 1.5
    assert len(set(run.digests)) == 20
    norms = [receipt["extra"]["gradient_norm"] for receipt in run.receipts]
    assert max(norms) > 1.0, "clipping was never active"


@pytest.mark.parametrize("plan", PLANS)
def test_gpt2_same_bits(gpt2, plan):
    gpt2.check(plan)


@pytest.mark.skipif(bool(needs_mpirun()), reason=str(needs_mpirun()))
@pytest.mark.parametrize("plan", MPI_PLANS)
def test_gpt2_same_bits_mpi(gpt2, plan):
    gpt2.check(plan, ranks=world_size(plan))


# Stages: one to eight, more than layers too (a layer's halves are stages), fewer
# microbatches than stages, every schedule; tied embeddings on the first and the
# last stage.
PIPELINES = [
    ("pp=2", []),
    ("pp=3,microbatches=4", []),
    ("pp=4,microbatches=8", ["--pipeline-schedule", "gpipe"]),
    ("pp=4,microbatches=2", ["--pipeline-schedule", "1f1b"]),
    ("pp=5,microbatches=3,gradient_accumulation_steps=2", ["--pipeline-schedule", "zb-h1"]),
    ("pp=7,microbatches=16", ["--pipeline-schedule", "zb-h1"]),
    ("pp=2,microbatches=5", ["--pipeline-schedule", "interleaved", "--pipeline-chunks", 2]),
    ("pp=3,microbatches=4", ["--pipeline-schedule", "interleaved", "--pipeline-chunks", 3]),
    ("pp=2,microbatches=4", ["--pipeline-schedule", "zb-h1", "--pipeline-chunks", 2]),
    ("pp=2,microbatches=4", ["--pipeline-schedule", "gpipe", "--pipeline-chunks", 2]),
    ("pp=2,microbatches=3", ["--pipeline-split", "h.3"]),
    ("dp_replicate=2,pp=2,microbatches=3", []),
    ("dp_replicate=3,pp=2,microbatches=2", ["--pipeline-schedule", "zb-h1"]),
    ("dp_shard=2,pp=2,microbatches=2", []),
    ("dp_shard=3,pp=3,microbatches=3", ["--pipeline-schedule", "interleaved", "--pipeline-chunks", 2]),
    ("tp=2,pp=2,microbatches=4", []),
    ("tp=3,pp=4,microbatches=4", ["--pipeline-schedule", "gpipe"]),
    ("dp_replicate=2,dp_shard=2,tp=2,pp=2,microbatches=2", ["--pipeline-schedule", "zb-h1"]),
]


@pytest.mark.parametrize("plan,options", PIPELINES)
def test_gpt2_pipelines_same_bits(gpt2, plan, options):
    gpt2.check(plan, options=options)


@pytest.mark.skipif(bool(needs_mpirun()), reason=str(needs_mpirun()))
@pytest.mark.parametrize("plan,options", [
    ("pp=3,microbatches=4", []),
    ("dp_replicate=2,pp=2,microbatches=3", ["--pipeline-schedule", "zb-h1"]),
    ("dp_shard=2,tp=2,pp=2,microbatches=2", []),
])
def test_gpt2_pipelines_same_bits_mpi(gpt2, plan, options):
    gpt2.check(plan, ranks=world_size(plan), options=options)


def test_pipelines_evaluate_predict_save_and_load(gpt2, text):
    """What ranks of other stages hold or compute comes to rank 0."""
    folder = gpt2.folder
    lines = {}
    for plan in ["dp_replicate=1", "tp=2,pp=3,microbatches=2"]:
        program = gpt2.program(plan)
        saved = folder / f"stages-{len(lines)}.safetensors"
        run = run_tool("mixle-run", program, "-q", "--text", text, "--steps", 2, "--seed", 1,
                       "--save", saved, "--prompt", "The", "--generate", 20)
        evaluated = run_tool("mixle-run", program, "-q", "--text", text, "--weights", saved,
                             "--evaluate")
        said = [line for line in run.out.splitlines() if "per_second" not in line]
        lines[plan] = (said, evaluated.out, saved.read_bytes())
    one, staged = lines.values()
    assert one == staged
    assert "evaluation_loss" in one[1]


def test_pipelines_explode_at_step_5_same_bits(explosion):
    explosion.check("pp=4,microbatches=3", options=["--pipeline-schedule", "zb-h1"])
    explosion.check("dp_shard=2,pp=2,microbatches=2")


def test_pipelines_of_causal_lm_same_bits(causal_lm):
    causal_lm.check("dp_replicate=2,pp=2,microbatches=2")
    causal_lm.check("tp=3,pp=3", options=["--pipeline-schedule", "gpipe"])


def test_other_seeds_differ(gpt2, text):
    """The digest is not a constant: another seed gives another one."""
    other = train(gpt2.program("dp_replicate=1"), "--text", text, "--steps", 2, "--seed", 2)
    assert not set(other.digests) & set(gpt2.expected().digests)


@pytest.mark.parametrize(
    "plan", ["dp_replicate=3", "dp_shard=2,tp=2", "tp=3,microbatches=2",
             "dp_replicate=2,gradient_accumulation_steps=3"])
def test_gpt2_fp64_same_bits(folder, text, plan):
    group = small_group(folder, text, "f64", ["--precision", "fp64"])
    group.check(plan)


@pytest.mark.parametrize(
    "optimizer", ["sgd,lr=0.1", "sgd,lr=0.1,momentum=0.9,weight_decay=0.01,decay=all",
                  "adam,lr=1e-3,weight_decay=0.1", "adamw,lr=1e-3,beta1=0.8,beta2=0.99,eps=1e-6"])
@pytest.mark.parametrize("plan", ["dp_replicate=2,tp=3", "dp_shard=3,microbatches=2"])
def test_gpt2_optimizers_same_bits(folder, text, optimizer, plan):
    group = small_group(folder, text, optimizer, [], optimizer)
    group.check(plan)


@pytest.mark.parametrize(
    "granules", ["tokens=8", "tokens=16,tensor=12", "tensor=2,vocabulary=4", "vocabulary=3",
                 "vocabulary=12,tokens=32", "sequence=4"])
def test_gpt2_granules_same_bits(folder, text, granules):
    """Other granules, other bits; but the same ones under all plans that do not
    cut inside one."""
    group = small_group(folder, text, granules, ["--granules", granules])
    group.check("dp_replicate=3,microbatches=2")
    group.check("dp_shard=2,tp=2" if "vocabulary=3" not in granules else "tp=3")


_small_groups = {}


def small_group(folder, text, name, options, optimizer="adamw,lr=3e-3"):
    """A smaller GPT-2 of 12 heads, 4 steps; made once per name."""
    if name not in _small_groups:
        config = gpt2_config(folder / "small.json", n_layer=2, n_head=12, n_embd=48,
                             vocab_size=128, n_positions=32)
        _small_groups[name] = Group(
            folder, f"small{len(_small_groups)}",
            ["--model", config, "--batch", 7, "--optimizer", optimizer,
             "--max-grad-norm", 0.5, *options],
            ["--text", text, "--steps", 4, "--seed", 3],
        )
    return _small_groups[name]


@pytest.fixture(scope="module")
def causal_lm(folder):
    config = causal_lm_config(folder / "causal.json", n_head=6, d_model=48, block=24)
    generator = np.random.default_rng(5)
    batches = generator.integers(0, 31, (3, 6, 25))
    labels = batches[:, :, 1:].copy()
    # Ignored labels: some of each row, all of rows 4 and 5 (so all of the last
    # ranks'), and nearly all of the second step.
    labels[generator.random(labels.shape) < 0.2] = -100
    labels[:, 4:] = -100
    labels[1, 1:] = -100
    return Group(
        folder, "causal",
        ["--model", config, "--batch", 6, "--optimizer", "adamw,lr=1e-2,decay=all",
         "--max-grad-norm", 1.0],
        ["--batches", save_npy(folder / "batches.npy", batches),
         "--labels", save_npy(folder / "labels.npy", labels), "--seed", 4],
    )


@pytest.mark.parametrize(
    "plan", ["dp_replicate=2", "dp_replicate=3", "dp_replicate=6", "dp_shard=4",
             "tp=2,microbatches=4", "tp=3", "tp=6", "dp_replicate=2,tp=3",
             "dp_replicate=8", "dp_shard=3,tp=2,gradient_accumulation_steps=2"])
def test_causal_lm_ignored_labels_same_bits(causal_lm, plan):
    """Vocabulary 31 divides by no tp; some ranks' labels are all ignored, some
    ranks have no rows."""
    causal_lm.check(plan)


def test_causal_lm_counts_labels(causal_lm):
    labels = np.load(causal_lm.folder / "labels.npy")
    counted = [int((step != -100).sum()) for step in labels]
    assert [r["global_tokens"] for r in causal_lm.expected().receipts] == counted
    assert counted[1] < 25


@pytest.mark.parametrize("plan", ["dp_replicate=2", "tp=2", "dp_shard=2,tp=2"])
def test_fast_numerics_are_close(folder, text, plan):
    """numerics = fast promises no bits; losses agree to fp32 rounding."""
    exact = small_group(folder, text, "exact", []).expected()
    fast = small_group(folder, text, "fast", ["--numerics", "fast"]).run(plan)
    np.testing.assert_allclose(fast.losses, exact.losses, rtol=2e-5)


@pytest.fixture(scope="module")
def explosion(folder, gpt2):
    """The last norm's bias makes the model sure of token 7. Labels are 7, so
    gradients are tiny, but for step 5, whose labels are others: gradients of a
    million times the size do not fit the units of the steps before."""
    start = folder / "explosion-start.safetensors"
    run_tool("mixle-run", gpt2.program("dp_replicate=1"), "--seed", 1, "--save", start)
    weights = dict(load_weights(start))
    row = weights["transformer.wte.weight"][7]
    weights["transformer.ln_f.bias"] = (25 * row / (row @ row)).astype(np.float32)
    generator = np.random.default_rng(9)
    batches = generator.integers(0, 257, (8, 16, 65))
    labels = np.full((8, 16, 64), 7)
    labels[4] = batches[4, :, 1:]
    group = Group(
        folder, "explosion",
        ["--model", folder / "gpt2.json", "--batch", 16, "--optimizer", "adamw,lr=1e-5",
         "--max-grad-norm", 1.0],
        ["--batches", save_npy(folder / "explosion.npy", batches),
         "--labels", save_npy(folder / "explosion-labels.npy", labels),
         "--weights", save_weights(folder / "explosion.safetensors", weights)])
    norms = [r["extra"]["gradient_norm"] for r in group.expected().receipts]
    assert norms[4] > 1e5 * max(norms[:4])
    return group


@pytest.mark.parametrize(
    "plan", ["dp_replicate=1,microbatches=3", "dp_replicate=3", "dp_shard=2,tp=2",
             "tp=3,gradient_accumulation_steps=5", "dp_replicate=2,dp_shard=2,tp=2"])
def test_an_explosion_at_step_5_same_bits(explosion, plan):
    """It is accumulated again with new units, under every plan."""
    reruns = [r["extra"]["reruns"] for r in explosion.expected().receipts]
    assert reruns[:5] == [1, 0, 0, 0, 1]
    explosion.check(plan)


@pytest.mark.skipif(bool(needs_mpirun()), reason=str(needs_mpirun()))
def test_an_explosion_at_step_5_same_bits_mpi(explosion):
    explosion.check("dp_replicate=2,tp=2", ranks=4)
