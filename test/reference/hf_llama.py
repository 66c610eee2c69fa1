"""Training runs of Hugging Face's Llama and its relatives, as
make_hf_llama_goldens.py records them and the live comparison repeats them. Only
run() and logits_of() need PyTorch and transformers."""

import contextlib
import copy

import numpy as np

from hf_gpt2 import make_data, optimize

BASE = {
    "vocab_size": 61, "hidden_size": 32, "intermediate_size": 56, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 24,
}
CONFIGS = {
    "llama": {"model_type": "llama", **BASE, "rope_theta": 5000.0},
    "llama3": {
        "model_type": "llama", **BASE, "tie_word_embeddings": True, "rms_norm_eps": 1e-5,
        "attention_bias": True, "mlp_bias": True, "head_dim": 12,
        "rope_theta": 500.0,
        "rope_scaling": {
            "rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 16,
        },
    },
    "qwen3": {
        "model_type": "qwen3", **BASE, "head_dim": 16, "num_key_value_heads": 1,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1000.0},
    },
}
# Compared live only.
LIVE = {
    **CONFIGS,
    "qwen2": {"model_type": "qwen2", **BASE, "tie_word_embeddings": True},
    "mistral": {"model_type": "mistral", **BASE, "num_key_value_heads": 4,
                "sliding_window": 24, "hidden_act": "gelu_pytorch_tanh"},
    "padding": {"model_type": "llama", **BASE, "pad_token_id": 3},
    "linear": {"model_type": "llama", **BASE,
               "rope_scaling": {"type": "linear", "factor": 3.0}},
    "dynamic": {"model_type": "llama", **BASE,
                "rope_parameters": {"rope_type": "dynamic", "factor": 3.0,
                                    "rope_theta": 10000.0}},
    "yarn": {"model_type": "qwen3", **BASE, "head_dim": 16,
             "rope_parameters": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 100.0,
                                 "original_max_position_embeddings": 16,
                                 "beta_fast": 4.0}},
}


def data_of(config):
    """Batches and targets, as GPT-2's."""
    return make_data({"n_positions": config["max_position_embeddings"],
                      "vocab_size": config["vocab_size"]})


def make_weights(shapes):
    """Weights by name in single precision; norms about one, all else about zero,
    biases included, so that nothing hides behind a zero."""
    generator = np.random.default_rng(13)
    weights = {}
    for name in sorted(shapes):
        values = generator.normal(0.0, 0.08, shapes[name])
        if "norm" in name:
            values += 1
        weights[name] = values.astype(np.float32)
    return weights


@contextlib.contextmanager
def in_double(wanted):
    """transformers casts norms, rotary angles and probabilities to single
    precision whatever the model's; here that means double."""
    import torch

    if not wanted:
        yield
        return
    saved = torch.float32, torch.float, torch.Tensor.float
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = saved


def model_of(config, precision, weights=None):
    """(model, initial weights by name)."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.set_num_threads(1)
    # A copy: transformers completes what it is given.
    settings = {k: v for k, v in copy.deepcopy(config).items() if k != "model_type"}
    with in_double(precision == "f64"):
        model = AutoModelForCausalLM.from_config(
            AutoConfig.for_model(config["model_type"], **settings),
            attn_implementation="eager")
        initial = weights or make_weights(
            {n: tuple(p.shape) for n, p in model.named_parameters()})
        model = model.to(torch.float64 if precision == "f64" else torch.get_default_dtype())
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(initial[name]))
    return model, initial


def logits_of(config, precision, weights, tokens):
    """Logits [rows, sequence, vocabulary] of weights by name."""
    import torch

    model, _ = model_of(config, precision, weights)
    model.eval()
    with in_double(precision == "f64"), torch.no_grad():
        return model(input_ids=torch.from_numpy(tokens.astype(np.int64))).logits.numpy()


def run(config, precision):
    """Trains with PyTorch: (initial weights, losses, final weights)."""
    model, initial = model_of(config, precision)
    model.train()

    def logits_in_precision(tokens):
        with in_double(precision == "f64"):
            return model(input_ids=tokens).logits

    losses, final = optimize(model, *data_of(config), logits_in_precision)
    return initial, losses, final
