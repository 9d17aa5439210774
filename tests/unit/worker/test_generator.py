"""The process that answers: what it does with commands, and how it ends."""

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest
from pydantic import BaseModel

from horizon_app.contracts.generation import CancelGeneration, Generate, GeneratorReady, TextAsked, TextRefused
from horizon_app.engine.errors import BadBatch
from horizon_app.worker import generator
from horizon_app.worker.generator import Inbox, main
from tests.support.run_folders import wait_until


def request(number: int) -> Generate:
    return Generate(id=number, asked=TextAsked(prompt="hello"))


def lines(*commands: BaseModel) -> BinaryIO:
    return io.BytesIO(b"".join(command.model_dump_json().encode() + b"\n" for command in commands))


class Scripted:
    """Stands for a loaded checkpoint."""

    def __init__(self, act: Callable[[Generate], None]) -> None:
        self.answer = act


def serve(
    monkeypatch: pytest.MonkeyPatch, commands: BinaryIO, act: Callable[[Generate], None], idle_s: float = 60.0
) -> tuple[int, list[BaseModel]]:
    said: list[BaseModel] = []
    ready = GeneratorReady(checkpoint=4, has_chat_template=True)
    monkeypatch.setattr(generator, "_load", lambda *_: (Scripted(act), ready))
    return main(Path("run"), 4, idle_s, commands=commands, say=said.append), said


def test_generator_answers_in_order_and_ends_with_its_input(monkeypatch: pytest.MonkeyPatch) -> None:
    answered: list[int] = []
    code, said = serve(monkeypatch, lines(request(1), request(2)), lambda asked: answered.append(asked.id))
    assert (code, answered, [event.model_dump()["type"] for event in said]) == (0, [1, 2], ["ready"])


def test_generator_ends_when_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    owner, process = os.pipe()
    with os.fdopen(owner, "rb") as commands, os.fdopen(process, "wb"):
        code, _ = serve(monkeypatch, commands, lambda _: None, idle_s=0.02)
    assert code == 0


def test_generator_that_cannot_answer_says_why_and_takes_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(asked: Generate) -> None:
        raise BadBatch("the prompt has 900 tokens") if asked.id == 1 else RuntimeError("a template's own fault")

    _, said = serve(monkeypatch, lines(request(1), request(2)), fail)
    reasons = [event.message for event in said if isinstance(event, TextRefused)]
    assert reasons[0] == "the prompt has 900 tokens"
    assert reasons[1] == "writing the answer: RuntimeError: a template's own fault"


def test_generator_that_cannot_load_says_why_and_ends(tmp_path: Path) -> None:
    said: list[BaseModel] = []
    assert main(tmp_path, 4, 1.0, commands=lines(), say=said.append) == 1
    (only,) = said
    assert isinstance(only, TextRefused)
    assert only.message.startswith("loading the checkpoint of step 4: ")


def test_inbox_knows_which_answers_are_still_wanted() -> None:
    owner, process = os.pipe()
    with os.fdopen(owner, "rb") as commands:
        inbox = Inbox(commands)
        with os.fdopen(process, "wb", buffering=0) as out:
            out.write(b"no command\n" + cast(Any, lines(request(1), CancelGeneration(id=1), request(2))).getvalue())
            first, second = inbox.take(5.0), inbox.take(5.0)
            assert first is not None
            assert second is not None
            wait_until(lambda: not inbox.is_wanted(first), "the cancel is read")
            assert inbox.is_wanted(second)
        wait_until(lambda: inbox.ended, "the end of the input is seen")
        assert not inbox.is_wanted(second)
        assert inbox.take(5.0) is None
