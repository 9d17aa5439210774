"""Viewers read at their own pace and get every text frame once, in order."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from horizon_app.contracts.events import LogWritten
from horizon_app.control import hub as module
from horizon_app.control.hub import Hub, Viewer
from horizon_app.control.recorder import note
from horizon_app.store.database import Database
from tests.support.stores import add_run, open_store


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with open_store(tmp_path) as database:
        yield database


def write(database: Database, run_id: str, count: int) -> None:
    note(database, run_id, [LogWritten(message="") for _ in range(count)])


async def read_all(viewer: Viewer) -> list[int]:
    found: list[int] = []
    while texts := await viewer.texts():
        found += [json.loads(text)["seq"] for text in texts]
    return found


async def test_viewer_that_fell_behind_the_ring_gets_the_rest_from_the_database(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RING_FRAMES", 5)
    monkeypatch.setattr(module, "READ_FRAMES", 3)
    run_id, hub = add_run(database), Hub(database)
    with hub.view(run_id, after=0, last_seq=0) as slow, hub.view(run_id, after=0, last_seq=0) as quick:
        seen: list[int] = []
        for _ in range(10):
            write(database, run_id, 4)
            await hub.refresh(run_id)
            seen += await read_all(quick)
        assert seen == list(range(1, 41)) == await read_all(slow)


async def test_viewer_is_woken_by_events_and_by_frames(database: Database) -> None:
    run_id, hub = add_run(database), Hub(database)
    with hub.view(run_id, after=0, last_seq=0) as viewer:
        write(database, run_id, 1)
        await hub.refresh(run_id)
        await asyncio.wait_for(viewer.wait(), 5)
        assert await read_all(viewer) == [1]
        hub.show_frame(run_id, 1, b"one")
        hub.show_frame(run_id, 2, b"two")
        await asyncio.wait_for(viewer.wait(), 5)
        assert viewer.has_frame() and viewer.take_frame() == b"two" and not viewer.has_frame()
        await viewer.wait(timeout_s=0.001)
        assert await viewer.texts() == []


async def test_events_of_another_process_are_found_when_the_watched_are_refreshed(database: Database) -> None:
    run_id, hub = add_run(database), Hub(database)
    with hub.view(run_id, after=0, last_seq=0) as viewer:
        write(database, run_id, 2)
        assert await viewer.texts() == []
        await hub.refresh_watched()
        assert await read_all(viewer) == [1, 2]


async def test_runs_nobody_looks_at_are_not_kept(database: Database) -> None:
    run_id, hub = add_run(database), Hub(database)
    with hub.view(run_id, after=0, last_seq=0):
        assert hub.is_watched(run_id)
    assert not hub.is_watched(run_id)
    hub.show_frame(run_id, 1, b"x")
    await hub.refresh(run_id)
    await hub.refresh_watched()


async def test_overview_collects_changes_until_it_is_asked(database: Database) -> None:
    hub = Hub(database)
    with hub.overview() as overview:
        for run_id in ("a", "b", "a"):
            await hub.refresh(run_id)
        assert await asyncio.wait_for(overview.changed(), 5) == {"a", "b"}


async def test_refreshes_at_once_double_nothing(database: Database) -> None:
    run_id, hub = add_run(database), Hub(database)
    with hub.view(run_id, after=0, last_seq=0) as viewer:
        write(database, run_id, 30)
        await asyncio.gather(*(hub.refresh(run_id) for _ in range(8)))
        assert await read_all(viewer) == list(range(1, 31))
