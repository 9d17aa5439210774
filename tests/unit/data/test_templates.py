"""Every template that comes with Horizon tells where its answers are, with the end that a model has to write."""

from pathlib import Path

import pytest

from horizon_app.contracts.spec_words import ChatTemplate, TrainOn
from horizon_app.data.encoding import encode_rows
from horizon_app.data.errors import ProblemList
from horizon_app.data.rows import ChatRow, Message
from horizon_app.data.tokenizer import load_tokenizer
from tests.unit.data.conftest import MakeTokenizer

TURNS: list[Message] = [
    {"role": "user", "content": "France?"},
    {"role": "assistant", "content": "Paris."},
    {"role": "user", "content": "Japan?"},
    {"role": "assistant", "content": "Tokyo."},
]
ENDS = {
    ChatTemplate.CHATML: "<|im_end|>", ChatTemplate.LLAMA3: "<|eot_id|>", ChatTemplate.GEMMA: "<end_of_turn>",
    ChatTemplate.ALPACA: "</s>",
}  # fmt: skip


def spans(folder: Path, template: ChatTemplate, turns: list[Message]) -> tuple[list[str], list[str]]:
    """The trained texts of a chat, and the problems."""
    tokenizer, problems = load_tokenizer(folder, template), ProblemList()
    row = ChatRow(file="a.jsonl", line=1, messages=turns)
    found: list[str] = []
    for encoded in encode_rows([row], tokenizer, TrainOn.COMPLETIONS, problems):
        run: list[int] = []
        for token, trained in zip([*encoded.ids.tolist(), -1], [*encoded.trained.tolist(), False], strict=True):
            if trained:
                run.append(token)
            elif run:
                found.append(tokenizer.decode(run))
                run = []
    return found, [problem.message for problem in problems.found.listed]


@pytest.mark.parametrize("template", ENDS)
def test_built_in_template_trains_each_answer_with_its_end(
    template: ChatTemplate, make_tokenizer: MakeTokenizer
) -> None:
    end = ENDS[template]
    assert spans(make_tokenizer(None), template, TURNS) == ([f"Paris.{end}", f"Tokyo.{end}"], [])


def test_every_word_of_the_spec_but_the_tokenizers_own_has_a_template() -> None:
    assert set(ENDS) == set(ChatTemplate) - {ChatTemplate.TOKENIZER}


def test_template_that_is_chosen_replaces_the_tokenizers_own(make_tokenizer: MakeTokenizer) -> None:
    folder = make_tokenizer()
    assert spans(folder, ChatTemplate.TOKENIZER, TURNS[:2])[0] == ["Paris.<|im_end|>"]
    assert spans(folder, ChatTemplate.ALPACA, TURNS[:2])[0] == ["Paris.</s>"]


def test_template_of_gemma_refuses_a_system_turn_in_words(make_tokenizer: MakeTokenizer) -> None:
    found, problems = spans(make_tokenizer(None), ChatTemplate.GEMMA, [{"role": "system", "content": "s"}, *TURNS])
    assert found == []
    assert "system role not supported" in problems[0]
