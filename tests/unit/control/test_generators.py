"""The processes that answer, around one without a model: one at a time, cancelled, replaced, dead."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import pytest

from horizon_app.contracts.generation import GeneratorEvent, TextAdded, TextAsked, TextDone
from horizon_app.contracts.spec_words import ChatTemplate
from horizon_app.control import generators
from horizon_app.control.errors import GeneratorBusy, GeneratorFailed
from horizon_app.control.generators import Generators
from horizon_app.control.run_models import SavedModel
from tests.support.commands import ROOT
from tests.support.run_folders import wait_until


@pytest.fixture
async def pool(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Generators]:
    monkeypatch.setattr(generators, "MODULE", "tests.support.fake_generator")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    made = Generators(idle_s=60.0)
    yield made
    await made.close()


def model(folder: Path, step: int = 4, *, there: bool = True) -> SavedModel:
    checkpoint = folder / "checkpoints" / str(step)
    (checkpoint if there else folder).mkdir(parents=True, exist_ok=True)
    return SavedModel(step=step, folder=checkpoint, run_dir=folder, chat_template=ChatTemplate.TOKENIZER)


async def answer(pool: Generators, which: SavedModel, prompt: str) -> list[GeneratorEvent]:
    return [event async for event in pool.answer(which, TextAsked(prompt=prompt))]


def text(events: list[GeneratorEvent]) -> str:
    done = events[-1]
    assert isinstance(done, TextDone)
    assert "".join(event.text for event in events if isinstance(event, TextAdded)) == done.text
    return done.text


async def when_free(pool: Generators, which: SavedModel, prompt: str) -> list[GeneratorEvent]:
    """The answer as soon as the one before is over."""
    async with asyncio.timeout(20):
        while True:
            try:
                return await answer(pool, which, prompt)
            except GeneratorBusy:
                await asyncio.sleep(0.01)


async def test_answers_come_from_one_process_until_another_checkpoint_is_asked(
    pool: Generators, tmp_path: Path
) -> None:
    first, second = model(tmp_path / "a"), model(tmp_path / "b")
    assert text(await answer(pool, first, "one two")) == "one.two."
    process = pool._process
    assert text(await when_free(pool, first, "three")) == "three."
    assert pool._process is process
    assert text(await when_free(pool, second, "four")) == "four."
    assert process is not None
    assert not process.is_alive


async def test_answer_while_another_is_written_is_refused(pool: Generators, tmp_path: Path) -> None:
    which = model(tmp_path / "run")
    async with aclosing(pool.answer(which, TextAsked(prompt="endless"))) as events:
        assert isinstance(await anext(events), TextAdded)
        with pytest.raises(GeneratorBusy, match="an answer of run run is being written"):
            await answer(pool, which, "me too")
    assert text(await when_free(pool, which, "me too")) == "me.too."


async def test_process_that_dies_is_told_with_its_last_words_and_replaced(pool: Generators, tmp_path: Path) -> None:
    which = model(tmp_path / "run")
    with pytest.raises(GeneratorFailed, match="its process is gone: no memory left"):
        await answer(pool, which, "die")
    assert text(await when_free(pool, which, "again")) == "again."


async def test_process_that_speaks_nonsense_is_ended_and_replaced(pool: Generators, tmp_path: Path) -> None:
    which = model(tmp_path / "run")
    with pytest.raises(GeneratorFailed, match="does not speak as it should"):
        await answer(pool, which, "babble")
    assert text(await when_free(pool, which, "again")) == "again."


async def test_checkpoint_that_cannot_be_loaded_is_told_by_its_reason(pool: Generators, tmp_path: Path) -> None:
    with pytest.raises(GeneratorFailed, match="can't answer: loading the checkpoint of step 7: there is none"):
        await answer(pool, model(tmp_path / "run", 7, there=False), "hello")


async def test_process_ends_by_itself_when_nobody_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generators, "MODULE", "tests.support.fake_generator")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pool, which = Generators(idle_s=0.05), model(tmp_path / "run")
    assert text(await answer(pool, which, "one")) == "one."
    process = pool._process
    assert process is not None
    await asyncio.to_thread(wait_until, lambda: not process.is_alive, "the process ends")
    assert text(await when_free(pool, which, "two")) == "two."
    await pool.close()


async def test_run_that_is_to_be_deleted_is_let_go_unless_it_answers(pool: Generators, tmp_path: Path) -> None:
    which, other = model(tmp_path / "run"), model(tmp_path / "other")
    async with aclosing(pool.answer(which, TextAsked(prompt="endless"))) as events:
        await anext(events)
        process = pool._process
        assert process is not None
        await pool.forget(other.run_dir.name)
        with pytest.raises(GeneratorBusy):
            await pool.forget(which.run_dir.name)
        assert process.is_alive
    await pool.forget(which.run_dir.name)
    assert not process.is_alive
    assert text(await when_free(pool, other, "four")) == "four."
