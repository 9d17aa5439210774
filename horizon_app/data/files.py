"""Finds the data files and reads their bytes as lines of text. Knows nothing of what the lines mean.

UTF-8 is the only encoding, whatever the locale says; a byte order mark and Windows line ends change nothing.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from horizon_app.data.errors import ProblemList

TEXT_SUFFIXES = (".txt", ".md")
ROW_SUFFIXES = (".jsonl",)
READABLE = TEXT_SUFFIXES + ROW_SUFFIXES
LATER = (".json", ".csv", ".parquet", ".gz", ".zst")
_BOM = b"\xef\xbb\xbf"
_WIDE_MARKS = (
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)


class Line(NamedTuple):
    """A line of a file without its end, and its number from 1."""

    number: int
    text: str


def find_files(paths: Sequence[Path], problems: ProblemList, warnings: list[str]) -> list[Path]:
    """The data files that `paths` name; a folder gives its files, sorted, those of its folders too."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = _inside(path, problems, warnings)
            if not inside:
                problems.add("the folder holds no data files", fix=f"put {_readable()} files into it", file=str(path))
            found += inside
        elif not path.is_file():
            problems.add("there is no such file or folder", fix="correct data.path", file=str(path))
        elif path.suffix.lower() in READABLE:
            found.append(path)
        else:
            _refuse(path, problems)
    return found


def read_lines(path: Path, problems: ProblemList) -> Iterator[Line]:
    """The lines of a UTF-8 file; a line that is not UTF-8 is a problem and left out."""
    offset = 0
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            line = raw.rstrip(b"\r\n")
            skipped = 0
            if number == 1:
                wide = next((name for mark, name in _WIDE_MARKS if raw.startswith(mark)), None)
                if wide:
                    problems.add(
                        f"the file is {wide}, not UTF-8", fix=f"convert it: iconv -f {wide} -t UTF-8",
                        file=str(path), line=1,
                    )  # fmt: skip
                    return
                skipped = len(_BOM) if line.startswith(_BOM) else 0
            try:
                yield Line(number, line[skipped:].decode("utf-8"))
            except UnicodeDecodeError as error:
                at = skipped + error.start
                problems.add(
                    f"byte 0x{line[at]:02x} at offset {offset + at} of the file is not UTF-8",
                    fix=f"convert the file: iconv -f {_likely_encoding(line)} -t UTF-8",
                    file=str(path), line=number,
                )  # fmt: skip
            offset += len(raw)


def read_text(path: Path, problems: ProblemList) -> str:
    """A whole file as text with line feeds between its lines and without empty lines at its start and end."""
    return "\n".join(line.text for line in read_lines(path, problems)).strip("\n")


def _inside(folder: Path, problems: ProblemList, warnings: list[str]) -> list[Path]:
    found: list[Path] = []
    left_out: list[str] = []
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or any(part.startswith(".") for part in path.relative_to(folder).parts):
            continue
        suffix = path.suffix.lower()
        if suffix in READABLE:
            found.append(path)
        elif suffix in LATER:
            _refuse(path, problems)
        else:
            left_out.append(path.name)
    if left_out:
        warnings.append(f"{folder}: {len(left_out)} files are no data files and left out, first {left_out[0]}")
    return found


def _refuse(path: Path, problems: ProblemList) -> None:
    suffix = path.suffix.lower()
    message = (
        f"{suffix} files are not available yet" if suffix in LATER else f"{suffix or 'this'} is no known data format"
    )
    problems.add(message, fix=f"give {_readable()}", file=str(path))


def _readable() -> str:
    return f"{', '.join(READABLE[:-1])} or {READABLE[-1]}"


def _likely_encoding(line: bytes) -> str:
    """A guess for the hint only: text is never read with it."""
    try:
        chinese = sum("\u4e00" <= character <= "\u9fff" for character in line.decode("gb18030"))
    except UnicodeDecodeError:
        return "WINDOWS-1252"
    high = sum(byte >= 0x80 for byte in line)
    return "GB18030" if chinese * 2 >= high * 0.8 else "WINDOWS-1252"
