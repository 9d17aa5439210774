import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from horizon_app.data.errors import ProblemList
from horizon_app.data.files import Unreadable, find_files, inner_suffix, open_bytes

CONTENT = b"".join(b"line %d\n" % number for number in range(5000))
Pack = Callable[[bytes], bytes]
PACKERS: dict[str, Pack] = {".gz": gzip.compress, ".zst": zstandard.ZstdCompressor(write_checksum=True).compress}


def found(path: Path) -> tuple[list[str], list[str], list[str]]:
    """Names of the files, problems and warnings."""
    problems = ProblemList()
    files = find_files([path], problems)
    told = [[f"{p.file}: {p.message}" for p in findings.listed] for findings in (problems.found, problems.warned)]
    return [file.name for file in files], told[0], told[1]


def test_folder_gives_its_data_files_sorted_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    for name in ("b.txt", "a.jsonl.gz", "d.parquet", "LICENSE", ".hidden.txt"):
        (tmp_path / name).write_text("x")
    (tmp_path / "more").mkdir()
    (tmp_path / "model").mkdir()
    for name in ("more/c.MD", "more/README.md", "model/config.json", "model/tokenizer.json"):
        (tmp_path / name).write_text("x")
    names, problems, warnings = found(tmp_path)
    assert names == ["a.jsonl.gz", "b.txt", "d.parquet", "c.MD"]
    assert problems == []
    assert "4 files are no data files and left out, first LICENSE" in warnings[0]


def test_link_that_leads_out_of_its_folder_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("x")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "link.txt").symlink_to(tmp_path / "secret.txt")
    names, problems, _ = found(tmp_path / "data")
    assert names == []
    assert "leads out of the folder" in problems[0]


@pytest.mark.parametrize("name", ["a.docx", "a", "a.gz"])
def test_file_of_an_unknown_suffix_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("x")
    assert "is no known data format" in found(tmp_path / name)[1][0]


def test_folder_without_data_and_missing_file_are_problems(tmp_path: Path) -> None:
    assert "holds no data files" in found(tmp_path)[1][0]
    assert "no such file" in found(tmp_path / "gone.txt")[1][0]


@pytest.mark.parametrize("suffix", PACKERS)
def test_compressed_file_gives_its_plain_bytes_whatever_it_is_called(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(PACKERS[suffix](CONTENT[:700]) + PACKERS[suffix](CONTENT[700:]))
    with open_bytes(path) as file:
        assert file.read() == CONTENT
    assert inner_suffix(Path(f"a.JSONL{suffix}")) == ".jsonl"


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize(
    "damage",
    [lambda packed: packed[:-9], lambda packed: packed[:40] + b"\xff" * 40 + packed[80:]],
    ids=["cut", "overwritten"],
)
def test_compressed_file_that_is_cut_or_damaged_is_unreadable(suffix: str, damage: Pack, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(damage(PACKERS[suffix](CONTENT)))
    with pytest.raises(Unreadable, match=r"cut short|damaged"), open_bytes(path) as file:
        file.read()
