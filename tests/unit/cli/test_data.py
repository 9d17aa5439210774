import json
from pathlib import Path

from typer.main import get_command
from typer.testing import CliRunner

from horizon_app.cli.main import app

runner = CliRunner()
CHAT = {"messages": [{"role": "user", "content": "a?"}, {"role": "assistant", "content": "b\u001b[31m."}]}


def write(path: Path, *lines: str) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def test_data_preview_has_exactly_its_frozen_options() -> None:
    command = get_command(app).commands["data"].commands["preview"]  # type: ignore[attr-defined]
    assert [option.opts[-1] for option in command.params] == [
        "paths", "--format", "--tokenizer", "--set", "--samples", "--whole", "--json",
    ]  # fmt: skip


def test_data_preview_marks_what_is_trained_and_hands_the_terminal_no_control_character(tmp_path: Path) -> None:
    result = runner.invoke(app, ["data", "preview", write(tmp_path / "a.jsonl", json.dumps(CHAT))])
    assert result.exit_code == 0
    assert "messages rows: 1 in 1 files" in result.stdout
    assert "assistant: ⟦b\\x1b[31m.⟧" in result.stdout
    assert "\x1b" not in result.stdout


def test_data_preview_of_bad_rows_names_file_and_line_and_fails(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", json.dumps(CHAT), '{"text": 5}')
    result = runner.invoke(app, ["data", "preview", path])
    assert result.exit_code == 1
    assert f"{path}:2: " in result.stderr
    assert "text is a number (5)" in result.stderr


def test_data_preview_as_json_prints_one_object_even_with_problems(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", json.dumps(CHAT), "{")
    result = runner.invoke(app, ["data", "preview", path, "--json"])
    body = json.loads(result.stdout)
    assert result.exit_code == 1
    assert (body["format"], body["rows"], body["num_errors"]) == ("messages", 1, 1)
    assert body["samples"][0]["trained_spans"] == ["b\u001b[31m."]


def test_data_preview_of_an_unknown_format_names_the_known_ones(tmp_path: Path) -> None:
    result = runner.invoke(app, ["data", "preview", write(tmp_path / "a.txt", "x"), "--format", "csv"])
    assert result.exit_code == 2
    assert "messages" in result.stderr


def test_data_preview_takes_keys_of_the_data_section_and_several_files(tmp_path: Path) -> None:
    one, two = (write(tmp_path / name, '{"text": "a"}', "{") for name in ("a.jsonl", "b.jsonl"))
    result = runner.invoke(app, ["data", "preview", one, two, "--set", "bad_rows=skip", "--json"])
    body = json.loads(result.stdout)
    assert (result.exit_code, body["rows"], body["bad_rows"], len(body["files"])) == (0, 2, 2, 2)
    unknown = runner.invoke(app, ["data", "preview", one, "--set", "bad_row=skip"])
    assert unknown.exit_code == 2
    assert "did you mean data.bad_rows?" in unknown.stderr


def test_data_preview_with_a_tokenizer_that_is_not_there_still_tells_the_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", json.dumps(CHAT))
    result = runner.invoke(app, ["data", "preview", path, "--tokenizer", str(tmp_path / "gone")])
    assert result.exit_code == 1
    assert "messages rows: 1 in 1 files" in result.stdout
    assert "no rows" not in result.stdout
    assert "there is no folder" in result.stderr
