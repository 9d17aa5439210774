from pathlib import Path
from typing import Any

import pytest

from horizon_app.cli.spec_file import MOST_BYTES, parse_value, read_spec_file
from horizon_app.contracts.problems import FieldProblem, SpecRefused


def write(tmp_path: Path, text: str | bytes, name: str = "spec.yaml") -> Path:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def only_problem(path: Path) -> FieldProblem:
    with pytest.raises(SpecRefused) as refused:
        read_spec_file(path).parse()
    assert len(refused.value.errors) == 1
    return refused.value.errors[0]


MINIMAL = "model:\n  path: m\ndata:\n  path: d.txt\n"


def test_spec_file_with_scientific_notation_without_a_point_reads_numbers(tmp_path: Path) -> None:
    spec = read_spec_file(write(tmp_path, MINIMAL + "training: {learning_rate: 2e-5, eps: 1.0e-8}\n")).parse()
    assert spec.training.learning_rate == 2e-5
    assert spec.training.eps == 1e-8


def test_spec_file_with_a_date_as_name_reads_text(tmp_path: Path) -> None:
    assert read_spec_file(write(tmp_path, "name: 2026-01-31\n" + MINIMAL)).parse().name == "2026-01-31"


def test_spec_file_with_an_emoji_as_json_escapes_it_reads_the_emoji(tmp_path: Path) -> None:
    spec = read_spec_file(write(tmp_path, MINIMAL + 'name: "\\ud83d\\ude80 run"\ntags: ["\\ud83d\\ude80"]\n')).parse()
    assert (spec.name, spec.tags) == ("🚀 run", ["🚀"])
    assert only_problem(write(tmp_path, MINIMAL + 'name: "half \\ud83d"\n')).field == "name"


def test_spec_file_with_a_byte_order_mark_and_windows_lines_reads_as_without(tmp_path: Path) -> None:
    text = "\ufeff" + MINIMAL.replace("\n", "\r\n")
    assert read_spec_file(write(tmp_path, text)).parse().data.path == "d.txt"


def test_spec_file_with_anchors_and_merges_reads_them(tmp_path: Path) -> None:
    text = "data: &d\n  path: a\nmodel:\n  <<: *d\n"
    assert read_spec_file(write(tmp_path, text)).parse().model.path == "a"


def test_spec_problem_names_file_line_and_nearest_key(tmp_path: Path) -> None:
    path = write(tmp_path, MINIMAL + "offload:\n  device: cpu\n  prefetch_windw: 3\n")
    problem = only_problem(path)
    assert (problem.file, problem.line, problem.field) == (str(path), 7, "offload.prefetch_windw")
    assert problem.fix == "did you mean offload.prefetch_window?"


def test_spec_problem_of_a_missing_key_points_at_its_section(tmp_path: Path) -> None:
    problem = only_problem(write(tmp_path, "model:\n  path: m\n\ndata:\n  seed: 1\n"))
    assert (problem.field, problem.line) == ("data.path", 4)


def test_spec_problem_in_a_list_points_at_the_item(tmp_path: Path) -> None:
    problem = only_problem(write(tmp_path, MINIMAL + "tags:\n  - good\n  - [bad]\n"))
    assert (problem.field, problem.line) == ("tags.1", 7)


def test_spec_file_in_json_names_lines_too(tmp_path: Path) -> None:
    text = '{\n\t"model": {"path": "m"},\n\t"data": {"path": "d"},\n\t"trainig": {}\n}'
    problem = only_problem(write(tmp_path, text, "spec.json"))
    assert (problem.field, problem.line) == ("trainig", 4)


def test_spec_file_in_torn_json_names_the_line(tmp_path: Path) -> None:
    problem = only_problem(write(tmp_path, '{\n"model":\n', "spec.json"))
    assert problem.message.startswith("not JSON: ")
    assert problem.line == 3


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("model:\n  path: m\n path: x\n", 3, "not YAML"),
        ("model:\n\tpath: m\n", 2, "not YAML"),
        (MINIMAL + "model:\n  path: other\n", 5, "key 'model' stands twice, first in line 1"),
        ("a: 1\n---\nb: 2\n", 2, "not YAML"),
        ("model: !!python/object/apply:os.system [ls]\n", 1, "not YAML"),
        ("? [a]\n: b\n", 1, "not YAML"),
        ("a: *missing\n", 1, "not YAML"),
        (b"name: \xff\n", 1, "not UTF-8 at byte 6"),
        ("[" * 5000, None, "nested too deeply"),
    ],
)
def test_spec_file_that_is_not_one_yaml_document_names_the_line(
    text: str | bytes, line: int | None, words: str, tmp_path: Path
) -> None:
    problem = only_problem(write(tmp_path, text))
    assert words in problem.message
    assert problem.line == line


@pytest.mark.parametrize(("text", "found"), [("", "nothing"), ("- a\n", "list"), ("# only words\n", "nothing")])
def test_spec_file_without_a_mapping_says_what_it_found(text: str, found: str, tmp_path: Path) -> None:
    assert only_problem(write(tmp_path, text)).message.endswith(f"found {found}")


def test_spec_file_that_is_missing_or_a_folder_or_huge_is_refused(tmp_path: Path) -> None:
    assert "can't be read" in only_problem(tmp_path / "missing.yaml").message
    assert "can't be read" in only_problem(tmp_path).message
    assert "at most" in only_problem(write(tmp_path, b"x" * (MOST_BYTES + 1))).message


def test_spec_file_whose_aliases_multiply_is_read_in_no_time(tmp_path: Path) -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    source = read_spec_file(write(tmp_path, "\n".join(rows)))
    assert len(source.lines) < 1000


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("2e-5", 2e-5),
        ("-.5", -0.5),
        ("true", True),
        ("null", None),
        ("", None),
        ("16MiB", "16MiB"),
        ("[a, 2]", ["a", 2]),
        ("1e", "1e"),
        ("2026-01-31", "2026-01-31"),
        ("cuda:0", "cuda:0"),
        ('"5"', "5"),
    ],
)
def test_value_of_an_option_is_typed_as_in_yaml(text: str, value: Any) -> None:
    assert parse_value(text) == value
    assert type(parse_value(text)) is type(value)
