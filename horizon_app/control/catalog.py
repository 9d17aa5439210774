"""The models and data files in the home folder and the allowed folders."""

import os
from collections.abc import Iterator
from pathlib import Path

from horizon_app.contracts.machine_view import DataKind, DatasetEntry, DatasetsAnswer, ModelEntry, ModelsAnswer
from horizon_app.contracts.run_spec import Init
from horizon_app.control.model_folder import is_model_folder, read_model_facts
from horizon_app.planning.feasibility import tokenizer_fault
from horizon_app.settings import AppSettings

_DEEPEST = 4
_MOST = 500
_PACKED = (".gz", ".zst")
_DATA_KINDS: dict[str, DataKind] = {
    ".txt": "text",
    ".md": "text",
    ".jsonl": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".parquet": "parquet",
}


def list_models(settings: AppSettings) -> ModelsAnswer:
    """Every model folder that a spec may name, with whether it can be trained and why not."""
    roots = _roots(settings)
    entries = [_model(folder, settings.home) for folder in _folders(roots) if is_model_folder(folder)]
    return ModelsAnswer(folders=[str(root) for root in roots], models=entries[:_MOST])


def list_datasets(settings: AppSettings) -> DatasetsAnswer:
    """Every data file that a spec may name."""
    entries = [
        _dataset(path, settings.home)
        for folder in _folders(_roots(settings))
        if not is_model_folder(folder)
        for path in sorted(folder.iterdir())
        if _data_suffix(path) in _DATA_KINDS and not path.name.startswith(".") and path.is_file()
    ]
    return DatasetsAnswer(datasets=entries[:_MOST])


def spec_path(path: Path, home: Path) -> str:
    """A path as a spec sent to this server names it."""
    return str(path.relative_to(home)) if path.is_relative_to(home) else str(path)


def _roots(settings: AppSettings) -> list[Path]:
    inside = [settings.home / name for name in ("models", "data", "examples")]
    return [
        root for root in (*inside, *(folder.expanduser().absolute() for folder in settings.folders)) if root.is_dir()
    ]


def _folders(roots: list[Path]) -> Iterator[Path]:
    """The folders below the roots, a few levels deep; links are not followed, so there is no way out and no circle."""
    for root in roots:
        for place, names, _ in os.walk(root):
            depth = len(Path(place).relative_to(root).parts)
            names[:] = sorted(name for name in names if not name.startswith(".")) if depth < _DEEPEST else []
            yield Path(place)


def _model(folder: Path, home: Path) -> ModelEntry:
    facts = read_model_facts(folder)
    reason = facts.obstacle or tokenizer_fault(facts) or ("" if facts.has_tokenizer else "the folder has no tokenizer")
    starts_from = [] if reason else [init for init in Init if init is Init.RANDOM or not facts.weights_obstacle]
    if starts_from == [Init.RANDOM]:
        reason = f"{facts.weights_obstacle}: only a run with model.init random can be started"
    return ModelEntry(
        path=spec_path(folder, home), name=folder.name, architecture=facts.architecture, parameters=facts.parameters,
        layers=facts.layers, dtype=facts.dtype, bytes=facts.weight_bytes, has_weights=facts.has_weights,
        trainable=Init.PRETRAINED in starts_from, starts_from=starts_from, reason=reason,
    )  # fmt: skip


def _dataset(path: Path, home: Path) -> DatasetEntry:
    kind = _DATA_KINDS[_data_suffix(path)]
    return DatasetEntry(path=spec_path(path, home), name=path.name, bytes=path.stat().st_size, kind=kind)


def _data_suffix(path: Path) -> str:
    """The ending that tells the format: that of `a.jsonl` for `a.jsonl.gz`."""
    name = Path(path.stem) if path.suffix.lower() in _PACKED else path
    return name.suffix.lower()
