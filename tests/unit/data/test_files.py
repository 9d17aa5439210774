from pathlib import Path

from horizon_app.data.errors import ProblemList
from horizon_app.data.files import find_files, read_lines, read_text


def found(path: Path) -> tuple[list[str], list[str], list[str]]:
    """Names of the files, problems and warnings."""
    problems, warnings = ProblemList(), list[str]()
    files = find_files([path], problems, warnings)
    return [file.name for file in files], [f"{p.file}: {p.message}" for p in problems.problems], warnings


def test_folder_gives_its_data_files_sorted_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    for name in ("b.txt", "a.jsonl", "LICENSE", ".hidden.txt"):
        (tmp_path / name).write_text("x")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "c.MD").write_text("x")
    names, problems, warnings = found(tmp_path)
    assert names == ["a.jsonl", "b.txt", "c.MD"]
    assert problems == []
    assert "LICENSE" in warnings[0]


def test_folder_with_a_file_of_a_later_format_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "b.parquet").write_text("x")
    _, problems, _ = found(tmp_path)
    assert problems == [f"{tmp_path / 'b.parquet'}: .parquet files are not available yet"]


def test_file_of_an_unknown_suffix_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.docx").write_text("x")
    assert ".docx is no known data format" in found(tmp_path / "a.docx")[1][0]


def test_folder_without_data_and_missing_file_are_problems(tmp_path: Path) -> None:
    assert "holds no data files" in found(tmp_path)[1][0]
    assert "no such file" in found(tmp_path / "gone.txt")[1][0]


def test_text_with_mark_and_windows_line_ends_reads_as_without(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\n\r\n\xe4\xb8\xad\r\n")
    problems = ProblemList()
    assert read_text(path, problems) == "one\n\n中"
    assert problems.total == 0


def test_line_that_is_not_utf8_is_named_by_line_and_offset_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfone\ntw\xff\nthree")
    problems = ProblemList()
    assert [line.text for line in read_lines(path, problems)] == ["one", "three"]
    (problem,) = problems.problems
    assert (problem.file, problem.line) == (str(path), 2)
    assert "0xff at offset 9 " in problem.message
    assert path.read_bytes()[9] == 0xFF


def test_bad_byte_in_the_first_line_counts_the_mark_into_its_offset(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfab\xff")
    problems = ProblemList()
    assert list(read_lines(path, problems)) == []
    assert "offset 5 " in problems.problems[0].message


def test_utf16_file_is_named_as_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo", encoding="utf-16")
    problems = ProblemList()
    assert list(read_lines(path, problems)) == []
    assert "UTF-16" in problems.problems[0].message
