"""Records golden/hf_gpt2_* with PyTorch and transformers:

    python test/reference/make_hf_goldens.py
"""

import json
from pathlib import Path

import torch
import transformers
from safetensors.numpy import save_file

import hf_gpt2

GOLDEN = Path(__file__).parent / "golden"

for name, config in hf_gpt2.CONFIGS.items():
    record = {
        "torch": torch.__version__, "transformers": transformers.__version__,
        "how": "hf_gpt2.run(config, precision)", "config": config, "losses": {},
    }
    for precision in ("f32", "f64"):
        initial, losses, final = hf_gpt2.run(config, precision)
        record["losses"][precision] = losses
        save_file(final, GOLDEN / f"hf_gpt2_{name}_{precision}.final.safetensors")
    save_file(initial, GOLDEN / f"hf_gpt2_{name}.initial.safetensors")
    (GOLDEN / f"hf_gpt2_{name}.json").write_text(json.dumps(record, indent=1) + "\n")
