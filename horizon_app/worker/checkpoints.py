"""The checkpoints of a run: each written whole or not at all, found again, rotated. Knows nothing of what is in them.

A folder counts as this run's only by its manifest. Whatever else lies among them is never removed.
"""

import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from horizon_app.contracts.checkpoints import (
    BROKEN,
    FOLDER,
    MANIFEST,
    CheckpointFile,
    CheckpointManifest,
    FoundCheckpoint,
    best_step,
    changed_file,
    find_checkpoints,
    look_at,
    whole_ones,
)
from horizon_app.engine.model.new_folder import sync, sync_tree

_MOMENTARY = re.compile(r"\.\d+\.(partial|removed)")
"""Folders that only a worker that was killed leaves behind."""
_SPARE_BYTES = 4 << 20
"""Left free beside a checkpoint: the journal and the database grow on the same disk."""


class SearchStopped(Exception):
    """The search for a checkpoint was given up halfway, as it was asked to be; nothing is changed."""


class CheckpointNotWritten(Exception):
    """The disk did not take a checkpoint; what it had taken of it is removed again, and those before are whole."""


class WrittenFiles(Protocol):
    """What a snapshot has written."""

    @property
    def files(self) -> dict[str, CheckpointFile]:
        """Every file by its path inside the folder."""
        ...

    @property
    def nonfinite(self) -> dict[str, int]:
        """Tensors with NaN or infinities, and how many elements are."""
        ...


class Snapshot(Protocol):
    """The state of an engine between two optimizer steps, to be written once."""

    @property
    def num_bytes(self) -> int:
        """Room that it takes: an upper estimate."""
        ...

    def write(self, folder: Path) -> WrittenFiles:
        """Fill a folder. Raises OSError, EngineError."""
        ...

    def wait(self) -> None:
        """Return once training may go on: at once, or when it is released."""
        ...

    def release(self) -> None:
        """Let the weights change again; called in any case, and more than once is no harm."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """What a checkpoint says of itself beside its files."""

    step: int
    total_steps: int
    data_fingerprint: str
    eval_loss: float | None
    texts: Mapping[str, bytes]  # small files of the worker's own, by name


class CheckpointFolder:
    """RUN_DIR/checkpoints, with one folder a step."""

    def __init__(self, run_dir: Path, run_id: str, keep: int, warn: Callable[[str], None]) -> None:
        self._run_dir, self._run_id, self._keep, self._warn = run_dir, run_id, keep, warn
        self._folder = run_dir / FOLDER

    def tidy(self) -> None:
        """Remove what a killed worker left half written or half removed. Raises OSError."""
        if self._folder.is_dir():
            for path in self._folder.iterdir():
                if _MOMENTARY.fullmatch(path.name):
                    shutil.rmtree(path, ignore_errors=True)

    def newest_usable(self, should_stop: Callable[[], bool] = lambda: False) -> tuple[Path, CheckpointManifest] | None:
        """The newest that is this run's and whole to the last byte; each newer one that is not is warned of.

        Weights that have become NaN would end the run again at once, so those with the fewest come first.
        `should_stop` is asked between two pieces that are read: SearchStopped once it says so.
        """
        found = find_checkpoints(self._run_dir)
        for one in found:
            if one.broken:
                self._warn(f"{one.folder} is skipped: {one.broken}")
        whole = sorted(whole_ones(found, self._run_id), key=lambda pair: (pair[1].num_nonfinite, -pair[1].step))
        for one, manifest in whole:
            broken = _damage(one.folder, manifest, should_stop)
            if not broken:
                self._warn_of_newer(whole, manifest)
                return one.folder, manifest
            (one.folder / BROKEN).write_text(broken, encoding="utf-8")
            self._warn(f"{one.folder} is skipped: {broken}")
        return None

    def require_room(self, num_bytes: int) -> None:
        """Raise CheckpointNotWritten where the disk has not `num_bytes` left."""
        place = self._folder if self._folder.is_dir() else self._run_dir
        free = shutil.disk_usage(place).free
        if free < num_bytes + _SPARE_BYTES:
            raise CheckpointNotWritten(
                f"{place}: a checkpoint needs {num_bytes + _SPARE_BYTES:,} bytes, {free:,} are free there; "
                f"{self._advice()}"
            )

    def write(self, facts: Facts, snapshot: Snapshot) -> tuple[str, CheckpointManifest]:
        """Have `snapshot` fill a folder, bring it to the disk, then give it its name; gives its path below the run.

        Raises CheckpointNotWritten, EngineError.
        """
        place, partial = self._folder / str(facts.step), self._folder / f".{facts.step}.partial"
        self.require_room(snapshot.num_bytes)
        try:
            self._folder.mkdir(exist_ok=True)  # not its parents: a deleted run must not come back
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            manifest = self._fill(partial, facts, snapshot)
            sync_tree(partial)
            self._make_way(place)
            partial.rename(place)
            sync(self._folder)
        except OSError as error:
            raise CheckpointNotWritten(self._failed_write(error, place, snapshot.num_bytes)) from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)  # there only where something above failed
            shutil.rmtree(self._leaving(facts.step), ignore_errors=True)
        return f"{FOLDER}/{facts.step}", manifest

    def rotate(self) -> list[int]:
        """Remove all of this run's but the last `keep`, the best, the pinned and the newest sound one; gives the steps.

        A checkpoint with more NaN than an older one never pushes that one out.
        """
        found = find_checkpoints(self._run_dir)
        whole = whole_ones(found, self._run_id)
        if not whole:
            return []
        manifests = [manifest for _, manifest in whole]
        soundest = min(manifests, key=lambda manifest: (manifest.num_nonfinite, -manifest.step)).step
        kept = {best_step(manifests), soundest, *(manifest.step for manifest in manifests[-self._keep :])}
        newest = manifests[-1].step
        gone = [one for one in found if self._is_ours(one) and not one.pinned and one.step not in kept | {newest}]
        gone = [one for one in gone if one.step < newest]
        for one in gone:
            # Renamed first: a reader, or a crash in between, never meets a checkpoint with half its files.
            shutil.rmtree(one.folder.rename(self._leaving(one.step)), ignore_errors=True)
        return [one.step for one in gone]

    def _fill(self, partial: Path, facts: Facts, snapshot: Snapshot) -> CheckpointManifest:
        written = snapshot.write(partial)
        files = dict(written.files)
        for name, content in facts.texts.items():
            (partial / name).write_bytes(content)
            files[name] = CheckpointFile(bytes=len(content), sha256=sha256(content).hexdigest())
        manifest = CheckpointManifest(
            run_id=self._run_id, step=facts.step, total_steps=facts.total_steps,
            data_fingerprint=facts.data_fingerprint, eval_loss=facts.eval_loss, nonfinite=written.nonfinite,
            files=files,
        )  # fmt: skip
        (partial / MANIFEST).write_text(manifest.model_dump_json(indent=1), encoding="utf-8")
        return manifest

    def _make_way(self, place: Path) -> None:
        """Something lies where the new checkpoint goes: a damaged one of ours, or what is not ours and is kept."""
        if not place.exists():
            return
        if self._is_ours(look_at(place)):
            shutil.rmtree(self._leaving(int(place.name)), ignore_errors=True)
            place.rename(self._leaving(int(place.name)))
            return
        number = 1
        while (aside := place.with_name(f"{place.name}.set-aside-{number}")).exists():
            number += 1
        place.rename(aside)
        self._warn(f"{place} was no checkpoint of this run; it is {aside.name} now")

    def _is_ours(self, one: FoundCheckpoint) -> bool:
        return one.manifest is not None and one.manifest.run_id == self._run_id

    def _leaving(self, step: int) -> Path:
        return self._folder / f".{step}.removed"

    def _failed_write(self, error: OSError, place: Path, num_bytes: int) -> str:
        free = ""
        if self._run_dir.is_dir():
            free = f", {shutil.disk_usage(self._run_dir).free:,} are free on its disk"
        return f"{place}: {error.strerror or error}; it needs about {num_bytes:,} bytes{free}; {self._advice()}"

    def _advice(self) -> str:
        whole = whole_ones(find_checkpoints(self._run_dir), self._run_id)
        kept = f"the checkpoint of step {whole[-1][1].step} is whole" if whole else "no checkpoint was written yet"
        return f"{kept}; free some space, then resume the run"

    def _warn_of_newer(
        self, whole: list[tuple[FoundCheckpoint, CheckpointManifest]], chosen: CheckpointManifest
    ) -> None:
        for one, manifest in whole:
            if manifest.step > chosen.step and manifest.num_nonfinite > chosen.num_nonfinite:
                names = ", ".join(list(manifest.nonfinite)[:3])
                self._warn(f"{one.folder} is skipped: {manifest.num_nonfinite} of its values are not finite ({names})")


def _damage(folder: Path, manifest: CheckpointManifest, should_stop: Callable[[], bool]) -> str:
    def go_on() -> None:
        if should_stop():
            raise SearchStopped

    try:
        return changed_file(folder, manifest, go_on)
    except OSError as error:
        return f"it can't be read: {error}"
