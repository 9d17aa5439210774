"""A folder that appears whole or not at all, under whatever name it is asked for; and bringing folders to the disk."""

import os
import shutil
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from horizon_app.engine.errors import WeightsUnusable

_PREFIX = ".horizon-new-"  # short and plain: the name asked for may be as long as names can be


@contextmanager
def appearing(target: Path, may_replace: Callable[[Path], bool] = lambda folder: False) -> Generator[Path]:
    """A folder beside `target` that takes its name when the block ends well, and vanishes otherwise.

    What is there already stays, unless it is empty or `may_replace` says that it may go. Raises WeightsUnusable where
    it may not, OSError.
    """
    target = target.absolute()
    refuse_occupied(target, may_replace)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=target.parent))
    partial.chmod(0o777 & ~_umask())
    try:
        yield partial
        sync_tree(partial)
        refuse_occupied(target, may_replace)  # hours may have passed
        _replace(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def refuse_occupied(target: Path, may_replace: Callable[[Path], bool]) -> None:
    """Raise WeightsUnusable where something of somebody else's lies at `target`."""
    if not target.exists() and not target.is_symlink():
        return
    if target.is_symlink() or not target.is_dir():
        raise WeightsUnusable(f"{target} is there already and no folder; name another, or remove it")
    if any(target.iterdir()) and not may_replace(target):
        raise WeightsUnusable(
            f"{target} is there already and holds other things; name an empty folder or a new one, or remove it"
        )


def _replace(partial: Path, target: Path) -> None:
    if not target.exists():
        partial.rename(target)
    else:
        old = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=target.parent))
        target.rename(old)  # onto an empty folder, in one go
        partial.rename(target)
        shutil.rmtree(old, ignore_errors=True)
    sync(target.parent)


def sync_tree(folder: Path) -> None:
    """Bring every file and folder below `folder`, and `folder` itself, to the disk. Raises OSError."""
    for path in [*folder.rglob("*"), folder]:
        sync(path)


def sync(path: Path) -> None:
    """Bring one file, or the names in one folder, to the disk. Raises OSError."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _umask() -> int:
    now = os.umask(0)
    os.umask(now)
    return now
