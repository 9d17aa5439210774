"""Viewers of all runs: what changed is looked up once for all of them, and nobody is told what is not news."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from horizon_app.contracts.events import LogWritten
from horizon_app.contracts.run_state import RunState
from horizon_app.contracts.run_view import Run
from horizon_app.control import overview as module
from horizon_app.control.history import History
from horizon_app.control.overview import Overview, OverviewViewer
from horizon_app.control.recorder import note
from horizon_app.settings import AppSettings
from horizon_app.store.database import Database
from horizon_app.store.errors import DatabaseBusy
from tests.support.stores import add_run, open_store


class CountedHistory(History):
    """Counts how often runs are looked up, and fails as often as it is told to."""

    lookups = 0
    failures = 0

    def summaries(self, run_ids: Sequence[str]) -> list[Run]:
        if self.failures:
            self.failures -= 1
            raise DatabaseBusy(where="here", waited_s=1)
        self.lookups += 1
        return super().summaries(run_ids)


class Room:
    """A database, its history and an overview of it."""

    def __init__(self, database: Database, home: Path) -> None:
        self.database = database
        self.history = CountedHistory(database, AppSettings(home=home))
        self.overview = Overview(self.history)

    def change(self, run_id: str) -> None:
        note(self.database, run_id, [LogWritten(message="")])
        self.overview.mark(run_id)


@pytest.fixture
async def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Room]:
    monkeypatch.setattr(module, "LOOK_S", 0.0)
    with open_store(tmp_path) as database:
        yield Room(database, tmp_path)


async def changes(viewer: OverviewViewer) -> list[dict[str, Any]]:
    return [json.loads(frame) for frame in await asyncio.wait_for(viewer.changes(), 5)]


async def test_change_is_looked_up_once_for_all_viewers(room: Room) -> None:
    run_id = add_run(room.database)
    with contextlib.ExitStack() as stack:
        viewers = [stack.enter_context(room.overview.view()) for _ in range(50)]
        assert room.overview.num_viewers == 50
        room.change(run_id)
        found = [await asyncio.wait_for(viewer.changes(), 5) for viewer in viewers]
    assert room.history.lookups == 1
    assert all(one[0] is found[0][0] and len(one) == 1 for one in found)
    assert json.loads(found[0][0])["run"]["id"] == run_id


async def test_run_that_is_as_it_was_told_is_no_news(room: Room) -> None:
    first, second = add_run(room.database), add_run(room.database)
    with room.overview.view() as viewer:
        room.change(first)
        assert [frame["run"]["id"] for frame in await changes(viewer)] == [first]
        room.overview.mark(first)
        room.change(second)
        assert [frame["run"]["id"] for frame in await changes(viewer)] == [second]


async def test_slow_viewer_gets_each_run_once_as_it_is_in_the_order_of_the_last_changes(room: Room) -> None:
    first, second = add_run(room.database), add_run(room.database)
    with room.overview.view() as slow, room.overview.view() as quick:
        for run_id in (first, second, first):
            room.change(run_id)
            await changes(quick)
        found = await changes(slow)
    assert [frame["run"]["id"] for frame in found] == [second, first]


async def test_viewer_begins_with_what_is_live_and_hears_nothing_older_than_that(room: Room) -> None:
    live, ended = add_run(room.database, RunState.RUNNING), add_run(room.database, RunState.FINISHED)
    with room.overview.view() as early, room.overview.view() as late:
        begun = json.loads((await late.current(None))[0])["run"]
        assert begun["id"] == live
        older = room.history.summaries([live])[0].model_copy(update={"last_seq": begun["last_seq"] - 1})
        room.history.summaries = lambda run_ids: [older]  # looked up before, told after
        room.overview.mark(live)
        assert len(await changes(early)) == 1
        assert await changes(late) == []
        del room.history.summaries
        room.change(live)
        room.change(ended)
        assert {frame["run"]["id"] for frame in await changes(late)} == {live, ended}


async def test_run_that_is_gone_is_told_once(room: Room) -> None:
    with room.overview.view() as viewer:
        room.overview.mark("20260101-000000-abcdef")
        assert [(frame["type"], frame["id"]) for frame in await changes(viewer)] == [("gone", "20260101-000000-abcdef")]
        room.overview.mark("20260101-000000-abcdef")
        room.change(run_id := add_run(room.database))
        assert [frame["run"]["id"] for frame in await changes(viewer)] == [run_id]


async def test_change_that_could_not_be_looked_up_is_told_later(room: Room) -> None:
    run_id = add_run(room.database)
    room.history.failures = 2
    with room.overview.view() as viewer:
        room.change(run_id)
        assert [frame["run"]["id"] for frame in await changes(viewer)] == [run_id]


async def test_changes_that_nobody_looks_at_are_not_looked_up(room: Room) -> None:
    room.change(add_run(room.database))
    await asyncio.sleep(0)
    assert room.history.lookups == 0
