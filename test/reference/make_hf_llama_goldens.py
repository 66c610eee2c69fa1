"""Records golden/hf_llama_* with PyTorch and transformers:

    python test/reference/make_hf_llama_goldens.py
"""

import json
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.numpy import save_file

import hf_llama

GOLDEN = Path(__file__).parent / "golden"

for name, config in hf_llama.CONFIGS.items():
    record = {
        "torch": torch.__version__, "transformers": transformers.__version__,
        "how": "hf_llama.run(config, precision)", "config": config, "losses": {},
    }
    for precision in ("f32", "f64"):
        initial, losses, final = hf_llama.run(config, precision)
        record["losses"][precision] = losses
    # What double precision ends with, rounded: single precision is compared
    # with it more loosely.
    save_file({n: w.astype(np.float32) for n, w in final.items()},
              GOLDEN / f"hf_llama_{name}.final.safetensors")
    save_file(initial, GOLDEN / f"hf_llama_{name}.initial.safetensors")
    (GOLDEN / f"hf_llama_{name}.json").write_text(json.dumps(record, indent=1) + "\n")
