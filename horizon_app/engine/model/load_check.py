"""`python -m horizon_app.engine.model.load_check FOLDER [GGUF SOURCE]`: whether transformers itself can use an export.

In a process of its own, since it holds the whole model: the process that exports stays small.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from horizon_app.engine.model.stored_tensors import StoredTensors

_TOKENS = 8
_ROUNDING = 0.6 / 127
"""Of a tensor's largest value: Q8_0 takes 127 steps to the largest of each block, F16 far more."""


@torch.no_grad()
def check(folder: Path, gguf_file: str | None = None, source: str | None = None) -> dict[str, Any]:
    """Load the folder as anybody would, and compute a few logits. Raises whatever transformers raises.

    The weights of a GGUF file, which are named and turned otherwise, are compared with those of `source`.
    """
    options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    if gguf_file is not None:
        options["gguf_file"] = gguf_file
    auto: Any = AutoModelForCausalLM
    model, info = auto.from_pretrained(str(folder), dtype="auto", output_loading_info=True, **options)
    ids = torch.arange(_TOKENS).remainder(model.get_input_embeddings().num_embeddings).unsqueeze(0)
    logits = model.eval()(input_ids=ids, use_cache=False).logits
    AutoTokenizer.from_pretrained(str(folder), **options)
    wrong = sorted(str(key) for kind in ("missing_keys", "unexpected_keys", "mismatched_keys") for key in info[kind])
    if source is not None:
        wrong += _unlike(model, StoredTensors(Path(source)))
    return {"wrong": wrong[:5], "finite": bool(torch.isfinite(logits).all()), "dtype": str(model.dtype)}


def _unlike(model: Any, stored: StoredTensors) -> list[str]:
    """Parameters further from the stored ones than any rounding of theirs."""
    found: list[str] = []
    for name, parameter in model.named_parameters():
        meant = stored.read(name).float()
        if parameter.shape != meant.shape or (parameter.float() - meant).abs().max() > _ROUNDING * meant.abs().max():
            found.append(name)
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(check(Path(sys.argv[1]), *sys.argv[2:])) + "\n")
