"""Which causal language models the installed transformers knows, read from its source text.

Importing transformers takes seconds and brings torch, which the server never loads.
"""

import ast
import importlib.util
from functools import cache
from pathlib import Path
from typing import cast

_LIST = "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES"
_FILE = Path("models", "auto", "modeling_auto.py")


@cache
def causal_models() -> dict[str, str]:
    """model_type -> the class that AutoModelForCausalLM makes of it; empty where the list is not found."""
    package = importlib.util.find_spec("transformers")
    if package is None or package.origin is None:
        return {}
    try:
        tree = ast.parse((Path(package.origin).parent / _FILE).read_text(encoding="utf-8"))
    except (OSError, SyntaxError):
        return {}
    for node in tree.body:
        names = (
            [target.id for target in node.targets if isinstance(target, ast.Name)]
            if isinstance(node, ast.Assign)
            else []
        )
        if isinstance(node, ast.Assign) and _LIST in names and isinstance(node.value, ast.Call):
            return _pairs(node.value)
    return {}


def _pairs(call: ast.Call) -> dict[str, str]:
    """The pairs of names that an OrderedDict is made of; a type may have several classes, the first counts."""
    try:
        pairs = cast(list[tuple[str, str | tuple[str, ...]]], ast.literal_eval(call.args[0]))
        return {kind: made if isinstance(made, str) else made[0] for kind, made in pairs}
    except (ValueError, IndexError, TypeError):
        return {}
