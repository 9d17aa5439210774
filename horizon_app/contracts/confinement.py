"""Which folders a run's files may lie in, links followed: asked at submission, and again before they are opened.

Between the two, hours may pass in a queue, and what was a file may have become a link to another one.
"""

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from io import BufferedReader
from pathlib import Path

_FOLDERS: ContextVar[Sequence[Path] | None] = ContextVar("folders", default=None)


class LeadsOut(Exception):
    """A path of a run leads out of the folders that it may use."""

    def __init__(self, *, path: Path, real: Path, folders: Sequence[Path]) -> None:
        self.path, self.real = path, real
        allowed = ", ".join(str(folder) for folder in folders)
        self.message = f"{path} leads to {real} now, outside of the folders that this run may use ({allowed})"
        self.fix = (
            "put the file or folder itself there, or name the other folder in HORIZON_FOLDERS, and submit it again"
        )
        super().__init__(f"{self.message}; {self.fix}")


def require_inside(path: Path, folders: Sequence[Path] | None) -> None:
    """Raise LeadsOut where a path leads out of `folders`, which are real paths; None allows every place."""
    if folders is not None:
        _require(path, path.resolve(), folders)


def require_all_inside(folder: Path, folders: Sequence[Path] | None) -> None:
    """The same for a folder and every link below it. Raises LeadsOut, OSError."""
    if folders is None:
        return
    for path, real in _places(folder):
        _require(path, real, folders)


@contextmanager
def confined_to(folders: Sequence[Path] | None) -> Generator[None]:
    """Meanwhile `open_confined` opens nothing that lies outside of `folders`, which are real paths."""
    token = _FOLDERS.set(folders)
    try:
        yield
    finally:
        _FOLDERS.reset(token)


def open_confined(path: Path) -> BufferedReader:
    """A file, to be read. Raises LeadsOut, OSError.

    What was opened has to lie inside: a path that was looked at before may lead elsewhere when it is opened.
    """
    folders, file = _FOLDERS.get(), path.open("rb")
    try:
        if folders is not None:
            _require(path, _opened(file, path), folders)
    except BaseException:
        file.close()
        raise
    return file


def is_inside(real: Path, folders: Sequence[Path] | None) -> bool:
    """Whether a real path lies in one of `folders`."""
    return folders is None or any(real.is_relative_to(folder) for folder in folders)


def _opened(file: BufferedReader, path: Path) -> Path:
    """The real path of an open file; where the system does not tell it, that of its name a moment later."""
    try:
        return Path(f"/proc/self/fd/{file.fileno()}").readlink()
    except OSError:
        return path.resolve()


def _require(path: Path, real: Path, folders: Sequence[Path]) -> None:
    if not is_inside(real, folders):
        raise LeadsOut(path=path, real=real, folders=folders)


def _places(folder: Path) -> Iterator[tuple[Path, Path]]:
    """The folders and links below a folder, and where they lead; what a link leads to is looked through as well."""
    seen: set[Path] = set()
    waiting = [folder]
    while waiting:
        path = waiting.pop()
        real = path.resolve()
        yield path, real
        if real not in seen and real.is_dir():
            seen.add(real)
            with os.scandir(real) as entries:
                waiting += [Path(entry.path) for entry in entries if entry.is_symlink() or entry.is_dir()]
