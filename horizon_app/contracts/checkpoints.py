"""Checkpoint folders as worker and server both see them: the manifest, which folders are whole, which is the best.

RUN_DIR/checkpoints/STEP is a checkpoint once it holds a manifest that names every file with its length and hash. It is
written last, so a folder without one was never finished, whatever else lies in it.
"""

import hashlib
import os
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

FOLDER = "checkpoints"
MANIFEST = "manifest.json"
STATE = "state.json"
SPEC = "spec.json"
PIN = "pinned"
"""An empty file of this name keeps a checkpoint from being rotated away."""
BROKEN = "broken"
"""A file of this name says why the checkpoint can't be used, where only reading all of it showed that."""
_READ_BYTES = 4 << 20


class _Written(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CheckpointFile(_Written):
    """One file of a checkpoint."""

    bytes: int = Field(ge=0)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


class CheckpointManifest(_Written):
    """What a checkpoint is, and all its files."""

    version: int = Field(default=1, ge=1, le=1, description="of this layout")
    run_id: str
    step: int = Field(ge=0, description="optimizer steps done")
    total_steps: int = Field(ge=1, description="optimizer steps that the run was to take")
    data_fingerprint: str = Field(description="of the sequences that it was trained on, in their order")
    written_at: datetime = Field(default_factory=lambda: datetime.now(UTC))
    eval_loss: float | None = Field(default=None, description="measured on the weights of this very step")
    nonfinite: dict[str, int] = Field(
        default_factory=dict[str, int], description="tensors that hold NaN or infinities, and how many elements do"
    )
    files: dict[str, CheckpointFile] = Field(description="path inside the folder, with slashes -> the file")

    @field_validator("files")
    @classmethod
    def _inside(cls, value: dict[str, CheckpointFile]) -> dict[str, CheckpointFile]:
        for name in value:
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or not path.parts:
                raise ValueError(f"{name!r} is no path inside a checkpoint")
        return value

    @property
    def num_bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.bytes for file in self.files.values())

    @property
    def num_nonfinite(self) -> int:
        """Elements that are NaN or infinite."""
        return sum(self.nonfinite.values())


class FoundCheckpoint(BaseModel):
    """A folder in a checkpoint's place."""

    model_config = ConfigDict(frozen=True)

    step: int
    folder: Path
    manifest: CheckpointManifest | None = Field(description="null where it has none that can be read")
    broken: str = Field(description="why it can't be used; empty where it is whole, as far as lengths tell")
    pinned: bool


def find_checkpoints(run_dir: Path) -> list[FoundCheckpoint]:
    """Every folder of RUN_DIR/checkpoints whose name is a number, in order of the numbers. Raises OSError."""
    folder = run_dir / FOLDER
    if not folder.is_dir():
        return []
    numbered = [path for path in folder.iterdir() if _is_step(path.name) and path.is_dir()]
    return [look_at(path) for path in sorted(numbered, key=lambda path: int(path.name))]


def look_at(folder: Path) -> FoundCheckpoint:
    """One folder in a checkpoint's place; nothing but the manifest is read."""
    manifest, broken = None, link_in(folder)
    try:
        manifest = None if broken else CheckpointManifest.model_validate_json((folder / MANIFEST).read_bytes())
    except FileNotFoundError:
        broken = f"{MANIFEST} is missing: it was never finished, or was damaged since"
    except OSError as error:
        broken = f"{MANIFEST} can't be read: {error.strerror or error}"
    except ValidationError as error:
        broken = f"{MANIFEST} can't be read: {error.errors(include_url=False)[0]['msg']}"
    if manifest is not None:
        broken = _told_broken(folder) or _missing_or_cut(folder, manifest)
        if not broken and manifest.step != int(folder.name):
            broken = f"it lies at step {folder.name}, but its manifest says step {manifest.step}"
    return FoundCheckpoint(
        step=int(folder.name), folder=folder, manifest=manifest, broken=broken, pinned=(folder / PIN).exists()
    )


def link_in(folder: Path) -> str:
    """Why a checkpoint that is a link, or holds one, can't be used; nothing where all its files are its own."""
    links = [folder] if folder.is_symlink() else []
    for place, names, files in os.walk(folder):
        links += [path for path in (Path(place, name) for name in (*names, *files)) if path.is_symlink()]
    if not links:
        return ""
    return f"{links[0].name} is a link, to {links[0].readlink()}: put the file or folder itself there"


def changed_file(
    folder: Path, manifest: CheckpointManifest, before_each_part: Callable[[], None] = lambda: None
) -> str:
    """Read every file whole and compare; says which one is not what was written, or nothing.

    What `before_each_part` raises ends the reading. Raises OSError.
    """
    for name, file in manifest.files.items():
        digest = hashlib.sha256()
        with (folder / name).open("rb") as content:
            before_each_part()
            while part := content.read(_READ_BYTES):
                digest.update(part)
                before_each_part()
        if digest.hexdigest() != file.sha256:
            return f"{name} holds other bytes than were written (its SHA-256 differs)"
    return ""


def whole_ones(found: Iterable[FoundCheckpoint], run_id: str) -> list[tuple[FoundCheckpoint, CheckpointManifest]]:
    """Those that this run wrote and that are whole, oldest first."""
    return [
        (one, one.manifest)
        for one in found
        if one.manifest is not None and not one.broken and one.manifest.run_id == run_id
    ]


def best_step(manifests: Iterable[CheckpointManifest]) -> int | None:
    """The step with the lowest eval loss, the later of two alike; None where none was measured."""
    measured = [(one.eval_loss, -one.step) for one in manifests if one.eval_loss is not None]
    return -min(measured)[1] if measured else None


def _is_step(name: str) -> bool:
    return name.isascii() and name.isdigit() and str(int(name)) == name


def _told_broken(folder: Path) -> str:
    try:
        return (folder / BROKEN).read_text(encoding="utf-8", errors="replace").strip() or "it was found damaged"
    except OSError:
        return ""


def _missing_or_cut(folder: Path, manifest: CheckpointManifest) -> str:
    for name, file in manifest.files.items():
        try:
            found = (folder / name).stat().st_size
        except OSError:
            return f"{name} is missing"
        if found != file.bytes:
            return f"{name} has {found} bytes instead of {file.bytes}"
    return ""
