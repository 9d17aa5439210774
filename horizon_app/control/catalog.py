"""The models and data files in the home folder and the allowed folders."""

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
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
    entries = (_model(folder, settings.home) for folder, _ in _folders(roots) if is_model_folder(folder))
    return ModelsAnswer(folders=[str(root) for root in roots], models=[*islice(entries, _MOST)])


def list_datasets(settings: AppSettings) -> DatasetsAnswer:
    """Every data file that a spec may name."""
    return DatasetsAnswer(datasets=[*islice(_datasets(settings), _MOST)])


def spec_path(path: Path, home: Path) -> str:
    """A path as a spec sent to this server names it."""
    return str(path.relative_to(home)) if path.is_relative_to(home) else str(path)


def _roots(settings: AppSettings) -> list[Path]:
    inside = [settings.home / name for name in ("models", "data", "examples")]
    return [
        root for root in (*inside, *(folder.expanduser().absolute() for folder in settings.folders)) if root.is_dir()
    ]


def _folders(roots: list[Path]) -> Iterator[tuple[Path, list[str]]]:
    """The folders below the roots, a few levels deep, with the names of what else lies in each.

    Links are not followed, so there is no way out and no circle.
    """
    for root in roots:
        for place, names, files in os.walk(root):
            depth = len(Path(place).relative_to(root).parts)
            names[:] = sorted(name for name in names if not name.startswith(".")) if depth < _DEEPEST else []
            yield Path(place), files


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


def _datasets(settings: AppSettings) -> Iterator[DatasetEntry]:
    for folder, names in _folders(_roots(settings)):
        if is_model_folder(folder):
            continue
        for path in [folder / name for name in sorted(names) if not name.startswith(".")]:
            with suppress(FileNotFoundError):  # what is being fetched gets another name while it is listed
                if _data_suffix(path) in _DATA_KINDS and path.is_file():
                    yield _dataset(path, settings.home)


def _dataset(path: Path, home: Path) -> DatasetEntry:
    kind = _DATA_KINDS[_data_suffix(path)]
    return DatasetEntry(path=spec_path(path, home), name=path.name, bytes=path.stat().st_size, kind=kind)


def _data_suffix(path: Path) -> str:
    """The ending that tells the format: that of `a.jsonl` for `a.jsonl.gz`."""
    name = Path(path.stem) if path.suffix.lower() in _PACKED else path
    return name.suffix.lower()
