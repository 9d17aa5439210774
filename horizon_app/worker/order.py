"""What a worker is told to do: run.json in the run's folder, written by the server before it starts the worker."""

import json
from dataclasses import dataclass
from pathlib import Path

from horizon_app.contracts.confinement import require_all_inside, require_inside
from horizon_app.contracts.run_spec import RunSpec
from horizon_app.contracts.spec_parse import parse_spec


class OrderUnreadable(Exception):
    """run.json is missing, torn or of another shape."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DataPaths:
    """Where the data of a run lies."""

    train: tuple[Path, ...]
    evaluation: tuple[Path, ...] = ()
    """Files of the eval data; empty where it has none of its own."""
    cache_dir: Path
    """Where tokenised data is kept between runs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunOrder:
    """One run, with its paths made absolute."""

    run_id: str
    spec: RunSpec
    model_dir: Path
    data_paths: DataPaths
    disk_dir: Path
    """Where the disk tier's file goes."""
    orphan_pause_s: float = 86_400.0
    """Seconds that a paused run waits for somebody who watches it."""
    goes_on: bool = False
    """Whether something of this run was recorded before, wherever its journal is now."""
    folders: tuple[Path, ...] | None = None
    """Real paths of the folders that its files may lie in; None: wherever the user has them."""

    def require_inside(self, model_dir: Path) -> None:
        """Raise LeadsOut where what is about to be opened leads out of the folders that the run may use."""
        for path in (*self.data_paths.train, *self.data_paths.evaluation, self.disk_dir):
            require_inside(path, self.folders)
        if model_dir == self.model_dir:  # else it is a checkpoint, which has no links
            require_all_inside(model_dir, self.folders)


def read_order(run_dir: Path) -> RunOrder:
    """The order in `run_dir`. Raises OrderUnreadable, or SpecRefused where the spec is one that can't run."""
    path = run_dir / "run.json"
    try:
        content = json.loads(path.read_bytes())
        spec, model_dir, data_paths = content["spec"], content["model_dir"], content["data_paths"]
        run_id, disk_dir = content["run_id"], content["disk_dir"]
        eval_paths, cache_dir = content["eval_paths"], content["cache_dir"]
        told = {name: content[name] for name in ("orphan_pause_s", "goes_on") if name in content}
        folders = None if content.get("folders") is None else (*map(Path, content["folders"]), run_dir.resolve())
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OrderUnreadable(f"{path.name} can't be read: {type(error).__name__}: {error}") from error
    places = DataPaths(
        train=tuple(Path(name) for name in data_paths), evaluation=tuple(Path(name) for name in eval_paths),
        cache_dir=Path(cache_dir),
    )  # fmt: skip
    return RunOrder(
        run_id=run_id, spec=parse_spec(spec), model_dir=Path(model_dir), data_paths=places, disk_dir=Path(disk_dir),
        folders=folders, **told,
    )  # fmt: skip
