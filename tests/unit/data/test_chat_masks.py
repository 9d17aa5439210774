"""Every assistant turn's text and its end mark is trained, and nothing else, whatever the template looks like."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from horizon_app.contracts.spec_words import TrainOn
from horizon_app.data.encoding import Encoded, encode_rows
from horizon_app.data.errors import DataError, ProblemList
from horizon_app.data.rows import ChatRow
from horizon_app.data.tokenizer import Tokenizer, load_tokenizer
from tests.unit.data.conftest import CHATML, MakeTokenizer

MARKED = (
    "{{ bos_token }}{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' }}{% if m['role'] == 'assistant' %}"
    "{% generation %}{{ m['content'] + '<|im_end|>' }}{% endgeneration %}{% else %}{{ m['content'] + '<|im_end|>' }}"
    "{% endif %}{{ '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
PLAIN_WORDS = (
    "{{ bos_token }}{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"
)
TRIMMING = (
    "{{ bos_token }}{% for m in messages %}"
    "{% if m['role'] == 'user' %}{{ '[INST] ' + m['content'] | trim + ' [/INST]' }}"
    "{% else %}{{ ' ' + m['content'] | trim + eos_token }}{% endif %}"
    "{% endfor %}"
)
NO_OPENING = PLAIN_WORDS.partition("{% if add")[0]
COUNTING = "{{ messages | length }}" + CHATML
CLOSED_EARLY = MARKED.replace(
    "{% generation %}{{ m['content'] + '<|im_end|>' }}{% endgeneration %}",
    "{% generation %}{{ m['content'] }}{% endgeneration %}{{ eos_token }}",
)
TURNS = [
    {"role": "system", "content": "Answer briefly."},
    {"role": "user", "content": "France?"},
    {"role": "assistant", "content": "Paris, naïve 北京 🌍"},
    {"role": "user", "content": "Paris, naïve 北京 🌍"},
    {"role": "assistant", "content": "yes"},
]


def encode(
    folder: Path, messages: list[dict[str, Any]], train_on: TrainOn = TrainOn.COMPLETIONS
) -> tuple[Tokenizer, Encoded | None, ProblemList]:
    tokenizer, problems = load_tokenizer(folder), ProblemList()
    row = ChatRow(file="a.jsonl", line=7, messages=messages)
    return tokenizer, next(iter(encode_rows([row], tokenizer, train_on, problems)), None), problems


def trained_text(folder: Path, messages: list[dict[str, Any]], train_on: TrainOn = TrainOn.COMPLETIONS) -> list[str]:
    """The text of every run of trained tokens."""
    tokenizer, encoded, problems = encode(folder, messages, train_on)
    assert problems.found.listed == []
    assert encoded is not None
    borders = np.flatnonzero(np.diff(np.concatenate([[0], encoded.trained.astype(np.int8), [0]])))
    runs = [encoded.ids[a:b].tolist() for a, b in zip(borders[::2], borders[1::2], strict=True)]
    return ["".join(tokenizer.show(run)) for run in runs]


@pytest.mark.parametrize(
    ("template", "end"),
    [(MARKED, "<|im_end|>"), (CHATML, "<|im_end|>"), (PLAIN_WORDS, "\n"), (NO_OPENING, "\n"), (CLOSED_EARLY, "</s>")],
    ids=["marked", "chatml", "plain words", "plain words, none for an opening", "mark closed before the end"],
)
def test_answers_and_their_end_marks_are_trained_and_nothing_else(
    template: str, end: str, make_tokenizer: MakeTokenizer
) -> None:
    expected = [message["content"] + end for message in TURNS if message["role"] == "assistant"]
    assert trained_text(make_tokenizer(template), TURNS) == expected


def test_answer_that_the_template_trims_is_trained_as_it_is_rendered(make_tokenizer: MakeTokenizer) -> None:
    messages = [{"role": "user", "content": " a "}, {"role": "assistant", "content": "  b \n"}]
    assert trained_text(make_tokenizer(TRIMMING), messages) == [" b</s>"]


def test_answers_of_a_template_with_marks_equal_those_found_by_prefixes(make_tokenizer: MakeTokenizer) -> None:
    _, marked, _ = encode(make_tokenizer(MARKED), TURNS)
    _, found, _ = encode(make_tokenizer("{{ bos_token }}" + CHATML), TURNS)
    assert marked is not None
    assert found is not None
    assert marked.ids.tolist() == found.ids.tolist()
    assert marked.trained.tolist() == found.trained.tolist()


@pytest.mark.parametrize("template", [MARKED, PLAIN_WORDS])
def test_beginning_of_text_mark_of_a_template_is_not_doubled(template: str, make_tokenizer: MakeTokenizer) -> None:
    tokenizer, encoded, _ = encode(make_tokenizer(template, bos=True), TURNS)
    assert encoded is not None
    assert encoded.ids[0] == tokenizer.bos_id
    assert np.count_nonzero(encoded.ids == tokenizer.bos_id) == 1


def test_template_whose_beginnings_change_is_refused_with_the_reason(make_tokenizer: MakeTokenizer) -> None:
    _, encoded, problems = encode(make_tokenizer(COUNTING), TURNS)
    assert encoded is None
    (problem,) = problems.found.listed
    assert (problem.file, problem.line) == ("a.jsonl", 7)
    assert "unlike in the whole chat" in problem.message
    assert "train_on" in problem.fix


def test_template_whose_beginnings_change_serves_where_all_is_trained(make_tokenizer: MakeTokenizer) -> None:
    (text,) = trained_text(make_tokenizer(COUNTING, bos=False), TURNS[:3], TrainOn.ALL)
    assert text.startswith("3<|im_start|>system")
    assert text.endswith("<|im_end|>\n")


def test_row_that_the_template_refuses_is_named_with_its_words(make_tokenizer: MakeTokenizer) -> None:
    template = "{{ raise_exception('roles must alternate') }}" + CHATML
    _, encoded, problems = encode(make_tokenizer(template), TURNS)
    assert encoded is None
    assert "roles must alternate" in problems.found.listed[0].message
    assert problems.found.listed[0].line == 7


def test_tokenizer_without_a_template_is_refused_with_the_fix(make_tokenizer: MakeTokenizer) -> None:
    with pytest.raises(DataError, match="no chat template") as caught:
        encode(make_tokenizer(None), TURNS)
    assert caught.value.problems[0].field == "data.chat_template"
    assert "chatml, llama3, gemma, alpaca" in caught.value.problems[0].fix


def test_chat_that_the_assistant_opens_is_trained_from_its_first_word(make_tokenizer: MakeTokenizer) -> None:
    messages = [{"role": "assistant", "content": "hello"}, {"role": "user", "content": "hi"}]
    assert trained_text(make_tokenizer(CHATML), messages) == ["hello<|im_end|>"]


def test_chat_whose_template_adds_an_empty_thought_to_the_last_answer_finds_every_answer(
    make_tokenizer: MakeTokenizer,
) -> None:
    template = (
        "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' }}"
        "{% if loop.last and m['role'] == 'assistant' %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}"
        "{{ m['content'] + '<|im_end|>\\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
    )
    found = trained_text(make_tokenizer(template), TURNS)
    assert found == ["Paris, naïve 北京 🌍<|im_end|>", "<think>\n\n</think>\n\nyes<|im_end|>"]


def test_folder_whose_tokenizer_is_broken_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text('{"model": 1}')
    with pytest.raises(DataError, match="can't be loaded"):
        load_tokenizer(tmp_path)


def test_folder_whose_config_has_a_value_of_another_type_is_refused_with_its_field(
    make_tokenizer: MakeTokenizer,
) -> None:
    folder = make_tokenizer(CHATML)
    (folder / "config.json").write_text('{"model_type": "llama", "hidden_size": "wide"}')
    with pytest.raises(DataError, match=r"can't be loaded: .*hidden_size"):
        load_tokenizer(folder)
