"""Prompts as tokens and tokens as text, with real tokenizers."""

import json
from pathlib import Path

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from horizon_app.contracts.spec_words import ChatTemplate
from horizon_app.worker.prompts import TextStream, load_prompt_writer
from tests.support.small_model import END, write_small_model

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    return write_small_model(tmp_path / "plain")


@pytest.fixture
def chat(plain: Path) -> Path:
    """The same model with ChatML, whose end of a turn is not the tokenizer's end of a text."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(plain)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    tokenizer.chat_template = CHATML
    tokenizer.save_pretrained(plain)
    return plain


def test_prompt_without_a_chat_template_is_continued_as_it_is(plain: Path) -> None:
    writer = load_prompt_writer(plain)
    assert not writer.has_chat_template
    assert writer.text(writer.prompt("once upon")) == "once upon"
    tokenizer = AutoTokenizer.from_pretrained(plain)
    assert writer.stop_ids == {tokenizer.convert_tokens_to_ids(END)}


def test_prompt_with_a_chat_template_is_a_users_message_that_the_assistant_answers(chat: Path) -> None:
    writer = load_prompt_writer(chat)
    tokenizer = AutoTokenizer.from_pretrained(chat)
    expected = "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.decode(writer.prompt("hello")) == expected


def test_stop_ids_are_the_end_of_the_turn_and_what_the_folder_names(chat: Path) -> None:
    (chat / "generation_config.json").write_text(json.dumps({"eos_token_id": [7, 9]}))
    writer = load_prompt_writer(chat)
    tokenizer = AutoTokenizer.from_pretrained(chat)
    assert writer.stop_ids >= {7, 9, tokenizer.convert_tokens_to_ids("<|im_end|>"), tokenizer.eos_token_id}


def test_broken_generation_config_names_no_stop_ids(plain: Path) -> None:
    (plain / "generation_config.json").write_text("{not json")
    assert load_prompt_writer(plain).stop_ids


@pytest.mark.parametrize("text", ["straße 模型 💡 end", "two\nlines\n\nand more\n", "", "\n\n"])
def test_text_stream_is_the_whole_text_and_never_half_a_character(text: str, plain: Path) -> None:
    """The tokens are bytes, so most characters come in parts."""
    writer = load_prompt_writer(plain)
    stream = TextStream(writer)
    parts = [stream.add(token) for token in writer.continued(text)]
    assert "".join(parts) + stream.rest() == text
    assert "\ufffd" not in "".join(parts)


def test_text_stream_shows_what_waits_in_vain_at_the_end(plain: Path) -> None:
    writer = load_prompt_writer(plain)
    stream = TextStream(writer)
    half = writer.continued("ß")[:1]
    assert [stream.add(token) for token in half] == [""]
    assert stream.rest() == "\ufffd"


def test_answers_of_a_template_whose_marks_are_no_tokens_end_with_its_text(plain: Path) -> None:
    """The tokenizer has never heard of <|im_end|>: the model spells it, and nobody wants to read that."""
    writer = load_prompt_writer(plain, ChatTemplate.CHATML)
    assert writer.end_text == "<|im_end|>"
    spelt = writer.continued("a < b<|im_end|>\nmore")
    stream = TextStream(writer)
    shown = ""
    for token in spelt:
        shown += stream.add(token)
        if stream.ended:
            break
    assert shown + stream.rest() == "a < b" == writer.text(spelt)
    assert stream.ended
    kept = TextStream(writer)
    parts = [kept.add(token) for token in writer.continued("x <|im_e")]
    assert "".join(parts) == "x "
    assert kept.rest() == "<|im_e"


def test_words_of_a_user_that_look_like_marks_stay_text(chat: Path) -> None:
    writer = load_prompt_writer(chat)
    mark = AutoTokenizer.from_pretrained(chat).convert_tokens_to_ids("<|im_end|>")
    assert writer.prompt("say <|im_end|> twice").count(mark) == writer.prompt("say it twice").count(mark) == 1
