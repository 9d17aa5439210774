"""Data as people bring it, through the command line: what it is, what is trained of it, or what is wrong with it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from horizon_app.cli.main import app

INPUTS = Path(__file__).parent / "inputs"
TINY = INPUTS / "_common" / "tiny-llama"


def expected(case: str) -> Any:
    """The right values of a case."""
    return json.loads((INPUTS / case / "expected.json").read_text())


def di(file: Path | str, model: Path | str | None = TINY, **options: Any) -> dict[str, Any]:
    """What `horizon data preview --json` prints of a file of the inputs."""
    arguments = ["data", "preview", "--json", *(f"--set={key}={json.dumps(value)}" for key, value in options.items())]
    arguments += [] if model is None else ["--tokenizer", str(INPUTS / model)]
    ran = CliRunner().invoke(app, [*arguments, "--", str(INPUTS / file)])
    body = json.loads(ran.stdout)
    assert ran.exit_code == (1 if body["num_errors"] else 0)
    return body


def error_lines(body: dict[str, Any]) -> list[int | None]:
    return [error["line"] for error in body["errors"]]


def all_ids(body: dict[str, Any]) -> list[list[int]]:
    return [sample["ids"] for sample in body["samples"]]


@pytest.mark.parametrize("name", expected("A01"))
def test_malformed_lines_are_all_named_and_the_good_rows_counted(name: str) -> None:
    right, body = expected("A01")[name], di(f"A01/{name}")
    if "bad_lines" in right:
        assert error_lines(body) == right["bad_lines"]
        assert body["rows"] == right["good_rows"]
        assert all(error["file"].endswith(name) and error["message"] and error["fix"] for error in body["errors"])
        skipping = di(f"A01/{name}", bad_rows="skip")
        assert (skipping["errors"], skipping["bad_rows"]) == ([], len(right["bad_lines"]))
        assert [warning["line"] for warning in skipping["warnings"]] == right["bad_lines"]
    else:
        assert [(w["line"], w["field"]) for w in body["warnings"]] == [(right["warn_lines"][0], right["key"])]
        assert (body["errors"], body["rows"]) == ([], 12)


@pytest.mark.parametrize(
    "name", ["array_inside.jsonl", "blank_lines.jsonl", "lines_inside.json", "pretty_objects.jsonl", "wrapped.json"]
)
def test_container_is_told_by_content_whatever_the_name(name: str) -> None:
    body, lines = di(f"A02/{name}"), di("A02/blank_lines.jsonl")
    assert (body["rows"], body["errors"]) == (expected("A02")["rows_when_accepted"], [])
    assert all_ids(body) == all_ids(lines)
    assert body["files"][0]["container_reason"]
    assert list(body["files"][0]["formats"]) == ["alpaca"]


def test_mark_and_line_ends_change_neither_ids_nor_fingerprint() -> None:
    bodies = [di(f"A03/{name}.jsonl") for name in ("plain", "bom", "crlf", "bom_crlf_no_last_newline")]
    assert {body["rows"] for body in bodies} == {expected("A03")["rows"]}
    assert all(all_ids(body) == all_ids(bodies[0]) and len(all_ids(body)) == 6 for body in bodies)
    assert len({body["fingerprint"] for body in bodies}) == 1
    assert bodies[0]["fingerprint"]


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_file_that_is_not_utf8_is_named_by_line_whatever_the_locale(locale: str) -> None:
    right = {name: value for name, value in expected("A05").items() if name != "never"}
    names = sorted(right)
    ran = subprocess.run(
        [sys.executable, "-m", "horizon_app", "data", "preview", "--json", *(str(INPUTS / "A05" / n) for n in names)],
        capture_output=True, check=False, env={**os.environ, "LC_ALL": locale},
    )  # fmt: skip
    body = json.loads(ran.stdout)
    assert ran.returncode == 1
    found = {Path(error["file"]).name: error for error in body["errors"]}
    assert {name: found[name]["line"] for name in names} == {name: right[name]["line"] for name in names}
    assert right["utf16.jsonl"]["hint"] in found["utf16.jsonl"]["message"]
    assert "GB18030" in found["gbk_line_4.jsonl"]["fix"]
    assert "�" not in ran.stdout.decode()
    assert "offset 309" in found["gbk_line_4.jsonl"]["message"]


def test_prompt_holds_only_the_tools_of_its_own_row() -> None:
    body = di("A07/tools.jsonl", "A07/model")
    texts = {f"row {sample['line']} must not mention": sample["text"] for sample in body["samples"]}
    assert len(texts) == 4
    for rule, words in expected("A07").items():
        assert [word for word in words if word in texts[rule]] == []
    assert body["samples"][0]["trained_spans"] == ['[call weather {"city": "Oslo"}]<|im_end|>', "Cold.<|im_end|>"]


def test_content_in_parts_or_beside_a_call_is_used_and_the_rest_named() -> None:
    body = di("A08/contents.jsonl", "A08/model")
    assert (body["used"], error_lines(body)) == (2, [3, 4, 5, 6, 7])
    first, second = body["samples"]
    assert "<|im_start|>user\npart one part two<|im_end|>" in first["text"]
    assert second["trained_spans"][0] == '[call f {"x": 1}]<|im_end|>'
    assert "None" not in first["text"] + second["text"]
    messages = [error["message"] for error in body["errors"]]
    for message, words in zip(
        messages, ("messages[1].content is null", "messages[0].content[0] is of the type image_url",
                   "messages[1].content is missing", "messages is an empty list", "messages[1].content is a number"),
        strict=True,
    ):  # fmt: skip
        assert words in message
    assert body["errors"][0]["field"] == "messages[1].content"


def test_rows_without_a_trained_token_are_counted_and_listed() -> None:
    body = di("A09/one_of_five_masked.jsonl", sequence_length=64)
    assert (body["rows"], body["used"], body["skipped"]) == (5, 4, 1)
    assert (4, "no token to train on, since it is cut after 64 tokens") in [
        (warning["line"], warning["message"]) for warning in body["warnings"]
    ]
    assert body["samples"][-1]["num_tokens"] == 64
    dropping = di("A09/one_of_five_masked.jsonl", sequence_length=64, too_long="drop")
    assert (dropping["used"], dropping["dropped"]) == (3, 2)


@pytest.mark.parametrize("name", ["all_masked.jsonl", "only_user_turns.jsonl"])
def test_data_whose_every_token_is_masked_is_refused(name: str) -> None:
    body = di(f"A09/{name}", sequence_length=64)
    assert (body["used"], body["skipped"], body["num_errors"]) == (0, 4, 1)
    assert "none of the 4 samples has a token to train on" in body["errors"][0]["message"]


def test_line_of_two_megabytes_is_cut_into_whole_sequences(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    path.write_text(json.dumps({"text": "lorem " * 350_000}) + "\n")
    body = di(path, sequence_length=64)
    assert body["num_errors"] == 0
    assert {sample["num_tokens"] for sample in body["samples"]} == {64}


@pytest.mark.parametrize("model", ["model-both", "model-processor-only", "model-template-only"])
def test_beginning_of_text_stands_once_and_first_in_each_chat(model: str) -> None:
    right = expected("A12")
    for ids in all_ids(di("A12/chat.jsonl", f"A12/{model}")):
        assert ids.count(right["bos_id"]) == right["count_per_chat_sample"]
        assert ids[right["position"]] == right["bos_id"]
    (text,) = all_ids(di("A12/text.jsonl", f"A12/{model}"))
    assert text.count(right["bos_id"]) == (0 if model == "model-template-only" else right["plain_text_with_processor"])


def test_prompt_and_completion_keep_their_border_and_end() -> None:
    from transformers import AutoTokenizer

    right, body = expected("A14"), di("A14/prompt_completion.jsonl", "A14/model")
    plain = AutoTokenizer.from_pretrained(INPUTS / "A14" / "model")
    rows = [json.loads(line) for line in (INPUTS / "A14" / "prompt_completion.jsonl").read_text().splitlines()]
    assert ["".join(sample["trained_spans"]) for sample in body["samples"]] == right["decoded labels"]
    for sample, row in zip(body["samples"], rows, strict=True):
        assert sample["labels"][-1] == right["eos_id"]
        prompt = [token for token, label in zip(sample["ids"], sample["labels"], strict=True) if label == -100]
        assert prompt == plain(row["prompt"])["input_ids"]


def test_every_answer_of_a_chat_is_trained_and_nothing_else() -> None:
    spans = [sample["trained_spans"] for sample in di("A15/multi.jsonl")["samples"]]
    assert spans == [expected("A15")[f"row {row} trained"] for row in (1, 2, 3)]


@pytest.mark.parametrize(
    ("name", "words"), [("system", "this template has no system turn"), ("not_alternating", "turns must alternate")]
)
def test_row_that_a_strict_template_refuses_is_named_with_its_words_and_a_fix(name: str, words: str) -> None:
    body = di(f"A16/{name}.jsonl", "A16/model-strict")
    assert error_lines(body) == [2]
    assert words in body["errors"][0]["message"]
    assert "first user turn" in body["errors"][0]["fix"]
    assert "data.chat_template" in body["errors"][0]["fix"]


def test_model_without_a_template_is_refused_until_one_is_chosen() -> None:
    body = di("A16/system.jsonl", "A16/model-no-template")
    assert [error["field"] for error in body["errors"]] == ["data.chat_template"]
    assert "chatml, llama3, gemma, alpaca" in body["errors"][0]["fix"]
    chosen = di("A16/system.jsonl", "A16/model-no-template", chat_template="chatml")
    assert (chosen["errors"], chosen["used"]) == ([], 2)
    assert chosen["samples"][0]["trained_spans"] == ["a<|im_end|>"]


def test_parquet_lists_structs_and_json_text_give_the_same_samples() -> None:
    bodies = [di(f"A19/{name}.parquet") for name in ("list_struct", "large_list", "json_string")]
    assert [body["rows"] for body in bodies] == [expected("A19")["rows"]] * 3
    assert all(all_ids(body) == all_ids(bodies[0]) and not body["errors"] for body in bodies)
    nulls = di("A19/dict_null_large.parquet")
    assert [(error["line"], error["message"]) for error in nulls["errors"]] == [(3, "instruction is null, not text")]


@pytest.mark.parametrize("name", ["cut", "no_rows", "not_parquet"])
def test_parquet_that_can_not_be_read_or_is_empty_is_refused_by_name(name: str) -> None:
    body = di(f"A19/{name}.parquet")
    assert (body["rows"], body["num_errors"]) == (0, 1)
    named = [body["errors"][0]["file"] or "", *(warning["file"] or "" for warning in body["warnings"])]
    assert any(f"{name}.parquet" in file for file in named)


def test_changed_file_of_the_same_name_size_and_time_is_seen(tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []
    for version in ("v1", "v2"):
        shutil.copyfile(INPUTS / "A21" / version / "train.jsonl", tmp_path / "train.jsonl")
        os.utime(tmp_path / "train.jsonl", (1_700_000_000, 1_700_000_000))
        seen.append(di(tmp_path / "train.jsonl"))
    assert [body["samples"][0]["trained_spans"] for body in seen] == [["apple<|im_end|>"], ["grape<|im_end|>"]]
    assert len({body["fingerprint"] for body in seen}) == 2


def awkward_folders(root: Path) -> list[Path]:
    names = json.loads((INPUTS / "D06" / "names.json").read_text())
    return [*(root / name for name in names), root.joinpath(*["d" * 64] * 12)]


def test_data_and_tokenizer_in_folders_of_awkward_names_are_found(tmp_path: Path) -> None:
    for folder in awkward_folders(tmp_path):
        shutil.copytree(INPUTS / "D06" / "model", folder / "model")
        shutil.copy(INPUTS / "D06" / "train.jsonl", folder)
        body = di(folder / "train.jsonl", folder / "model")
        assert (body["rows"], body["used"], body["num_errors"]) == (4, 4, 0)
        whole = di(folder, None)
        assert (whole["rows"], whole["num_errors"]) == (4, 0)  # nothing of the model is taken for data
