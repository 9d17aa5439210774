"""The files of a checkpoint that are no weights: config, tokenizer, chat template, generation config."""

from pathlib import Path

from horizon_app.contracts.checkpoints import MANIFEST, SPEC, STATE
from horizon_app.contracts.export import ABOUT

_SUFFIXES = frozenset({".json", ".txt", ".model", ".jinja", ".tiktoken"})
_INDEX_END = ".index.json"
_LICENCES = ("LICENSE", "LICENCE", "NOTICE")
_OURS = frozenset({MANIFEST, SPEC, STATE, ABOUT})
"""What a checkpoint or an export holds besides the model: a run that starts from one writes its own."""


def read_companions(model_dir: Path) -> dict[str, bytes]:
    """The files of a model's folder that belong to it whatever its weights are, by name. Raises OSError.

    They are some MiB, and are held by whoever writes checkpoints: the folder that a run began with may be gone by then.
    """
    return {path.name: path.read_bytes() for path in sorted(model_dir.iterdir()) if _is_companion(path)}


def _is_companion(path: Path) -> bool:
    belongs = path.suffix in _SUFFIXES or path.name.startswith(_LICENCES)
    wanted = belongs and not path.name.endswith(_INDEX_END) and path.name not in _OURS
    return wanted and path.is_file()
