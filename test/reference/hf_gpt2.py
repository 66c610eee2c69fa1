"""A training run of Hugging Face's GPT-2, as make_hf_goldens.py records it and
the live comparison repeats it. Only run() needs PyTorch and transformers."""

import math

import numpy as np

STEPS, ROWS = 20, 8
RATE, DECAY, MAX_NORM = 2e-3, 0.1, 1.0
WARMUP, TOTAL, MIN_RATIO = 5, 20, 0.1
OPTIONS = [
    "--batch", ROWS, "--optimizer", f"adamw,lr={RATE},weight_decay={DECAY}",
    "--max-grad-norm", MAX_NORM,
    "--lr-schedule", f"cosine,warmup={WARMUP},total={TOTAL},min_ratio={MIN_RATIO}",
]

BASE = {
    "model_type": "gpt2", "n_layer": 2, "n_head": 4, "n_embd": 32, "vocab_size": 61,
    "n_positions": 24, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
}
CONFIGS = {
    "base": BASE,
    "variant": {
        **BASE, "activation_function": "gelu", "n_inner": 72, "n_head": 2,
        "scale_attn_by_inverse_layer_idx": True, "layer_norm_epsilon": 1e-6,
        "tie_word_embeddings": False,
    },
}


def rate_factor(step):
    """Of step 1, 2, ...: warm-up, then half a cosine down to the least ratio."""
    if step <= WARMUP:
        return step / WARMUP
    wave = (1 + math.cos(math.pi * (step - WARMUP) / (TOTAL - WARMUP))) / 2
    return MIN_RATIO + (1 - MIN_RATIO) * wave


def make_data(config):
    """Batches [steps, rows, sequence + 1] and targets with a tenth ignored."""
    generator = np.random.default_rng(7)
    shape = (STEPS, ROWS, config["n_positions"] + 1)
    # Sorted pairs of draws: frequent and rare tokens.
    draws = generator.integers(0, config["vocab_size"], (2, *shape))
    batches = draws.min(axis=0).astype(np.int32)
    labels = batches[:, :, 1:].copy()
    labels[generator.random(labels.shape) < 0.1] = -100
    return batches, labels


def make_weights(shapes):
    """Weights by name in single precision; norms about one, everything else about
    zero, biases included, so that nothing hides behind a zero."""
    generator = np.random.default_rng(11)
    weights = {}
    for name in sorted(shapes):
        values = generator.normal(0.0, 0.08, shapes[name])
        if ".ln_" in name and name.endswith("weight"):
            values += 1
        weights[name] = values.astype(np.float32)
    return weights


def is_untested(name, width):
    """Elements of a tensor whose true gradient is zero: keys' biases."""
    if not name.endswith("attn.c_attn.bias"):
        return np.s_[0:0]
    return np.s_[width : 2 * width]


def run(config, precision):
    """Trains with PyTorch: (initial weights, losses, final weights)."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.set_num_threads(1)
    settings = {k: v for k, v in config.items() if k != "model_type"}
    model = GPT2LMHeadModel(GPT2Config(**settings, attn_implementation="eager"))
    model.train()
    # Tied tensors are one parameter: named_parameters has them once.
    initial = make_weights({n: tuple(p.shape) for n, p in model.named_parameters()})
    model = model.to(torch.float64 if precision == "f64" else torch.float32)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(initial[name]))
    losses, final = optimize(model, *make_data(config),
                             lambda tokens: model(input_ids=tokens).logits)
    return initial, losses, final


def optimize(model, batches, labels, logits_of):
    """STEPS of AdamW with the options above: (losses, final weights by name).
    `logits_of` runs the model on tokens."""
    import torch

    matrices = [p for p in model.parameters() if p.ndim >= 2]
    vectors = [p for p in model.parameters() if p.ndim < 2]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0.0}],
        lr=RATE, betas=(0.9, 0.999), eps=1e-8)
    losses = []
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = RATE * rate_factor(step + 1)
        tokens = torch.from_numpy(batches[step, :, :-1].astype(np.int64))
        targets = torch.from_numpy(labels[step].astype(np.int64))
        logits = logits_of(tokens)
        loss = torch.nn.functional.cross_entropy(
            logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        optimizer.step()
        losses.append(loss.item())
    return losses, {n: p.detach().numpy().copy() for n, p in model.named_parameters()}
