"""Finds the data files and opens them as plain bytes, whatever they are compressed with. Knows nothing of rows."""

import gzip
import io
import zlib
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

import zstandard

from horizon_app.contracts.confinement import open_confined
from horizon_app.data.errors import ProblemList

TEXT_SUFFIXES = (".txt", ".md")
ROW_SUFFIXES = (".jsonl", ".json", ".csv", ".parquet")
PACKED_SUFFIXES = (".gz", ".zst")
READABLE = ROW_SUFFIXES + TEXT_SUFFIXES
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_READ_BYTES = 1 << 20
_ABOUT = {"readme", "license", "dataset_info", "dataset_infos", "dataset_dict"}
"""Names of files that tell of a folder, and are no data."""


class Unreadable(Exception):
    """A file whose bytes can't be had: compressed and damaged, cut short, or gone."""


def find_files(paths: Sequence[Path], problems: ProblemList) -> list[Path]:
    """The data files that `paths` name; a folder gives its files, sorted, those of its folders too."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += _inside(path, problems)
        elif not path.is_file():
            problems.add("there is no such file or folder", fix="correct data.path", file=str(path))
        elif inner_suffix(path) in READABLE:
            found.append(path)
        else:
            message = f"{path.suffix or 'a name without an ending'} is no known data format"
            problems.add(message, fix=f"give {_readable()}", file=str(path))
    return found


def inner_suffix(path: Path) -> str:
    """The ending that tells the format: `.jsonl` of `a.jsonl.gz`."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in PACKED_SUFFIXES:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def is_document(path: Path) -> bool:
    """Whether the name says that the file is one text."""
    return inner_suffix(path) in TEXT_SUFFIXES


def compression(path: Path) -> str:
    """`gzip`, `zstd` or nothing, by the first bytes. Raises Unreadable."""
    try:
        with open_confined(path) as file:
            start = file.read(4)
    except OSError as error:
        raise Unreadable(f"the file can't be read: {error.strerror or error}") from error
    if start == _ZSTD:
        return "zstd"
    return "gzip" if start[:2] == _GZIP else ""


@contextmanager
def open_bytes(path: Path) -> Generator[IO[bytes]]:
    """The file's plain bytes from its start. What goes wrong while they are read is raised as Unreadable."""
    packed = compression(path)
    try:
        with open_confined(path) as file:
            if packed == "gzip":
                with gzip.GzipFile(fileobj=file) as unpacked:
                    yield cast(IO[bytes], io.BufferedReader(unpacked, _READ_BYTES))
            elif packed == "zstd":
                yield cast(IO[bytes], io.BufferedReader(_ZstdFrames(file), _READ_BYTES))
            else:
                yield file
    except EOFError as error:
        raise Unreadable(f"the {packed} file is cut short") from error
    except (zlib.error, gzip.BadGzipFile, zstandard.ZstdError) as error:
        raise Unreadable(f"the {packed} file is damaged: {error}") from error
    except OSError as error:
        raise Unreadable(f"the file can't be read: {error.strerror or error}") from error


class _ZstdFrames(io.RawIOBase):
    """The frames of a zstd file, one behind the other. The library's own reader takes a cut frame for a whole one."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._begun = False
        self._packed = b""
        self._plain = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview[int]") -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        while not self._plain:
            packed = self._packed or self._file.read(_READ_BYTES)
            self._packed = b""
            if not packed:
                if self._begun:
                    raise EOFError
                return 0
            self._begun = True
            self._plain = memoryview(self._frame.decompress(packed))
            if self._frame.eof:
                self._packed = self._frame.unused_data
                self._frame = zstandard.ZstdDecompressor().decompressobj()
                self._begun = False
        size = min(len(buffer), len(self._plain))
        buffer[:size] = self._plain[:size]
        self._plain = self._plain[size:]
        return size


def _inside(folder: Path, problems: ProblemList) -> list[Path]:
    found: list[Path] = []
    left_out: list[str] = []
    root = folder.resolve()
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or any(part.startswith(".") for part in path.relative_to(folder).parts):
            continue
        in_model = (path.parent / "config.json").is_file()
        if in_model or path.stem.lower() in _ABOUT or inner_suffix(path) not in READABLE:
            left_out.append(path.name)
        elif not path.resolve().is_relative_to(root):
            problems.add(
                "the link leads out of the folder", fix="name the file itself in data.path, or remove the link",
                file=str(path),
            )  # fmt: skip
        else:
            found.append(path)
    if left_out:
        problems.warn(f"{len(left_out)} files are no data files and left out, first {left_out[0]}", file=str(folder))
    if not found and not problems.found.total:
        problems.add("the folder holds no data files", fix=f"put {_readable()} files into it", file=str(folder))
    return found


def _readable() -> str:
    return f"{', '.join(READABLE[:-1])} or {READABLE[-1]} (also {' or '.join(PACKED_SUFFIXES)} of them)"
