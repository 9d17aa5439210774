"""Viewers read at their own pace and get every text frame once, in order."""

import asyncio
import contextlib
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


async def test_refreshes_at_once_double_nothing(database: Database) -> None:
    run_id, hub = add_run(database), Hub(database)
    with hub.view(run_id, after=0, last_seq=0) as viewer:
        write(database, run_id, 30)
        await asyncio.gather(*(hub.refresh(run_id) for _ in range(8)))
        assert await read_all(viewer) == list(range(1, 31))


async def test_each_frame_is_wrapped_once_and_is_one_object_for_all_viewers(database: Database) -> None:
    wrapped: list[str | bytes] = []

    def wrap(content: str | bytes) -> bytes:
        wrapped.append(content)
        return module.plain(content)

    run_id, hub = add_run(database), Hub(database, wrap)
    with contextlib.ExitStack() as stack:
        viewers = [stack.enter_context(hub.view(run_id, after=0, last_seq=0)) for _ in range(50)]
        write(database, run_id, 3)
        await hub.refresh(run_id)
        hub.show_frame(run_id, 1, b"residency")
        for viewer in viewers:
            await asyncio.wait_for(viewer.wait(), 5)
        found = [[*await viewer.texts(), viewer.take_frame()] for viewer in viewers]
    assert [type(content) for content in wrapped] == [str, str, str, bytes]
    assert all(ours is first for one in found for ours, first in zip(one, found[0], strict=True))


@pytest.mark.parametrize(("rest_s", "wakes"), [(0.0, 3), (1000.0, 1)])
async def test_viewers_are_told_at_once_or_after_their_rest_of_all_that_came_meanwhile(
    database: Database, monkeypatch: pytest.MonkeyPatch, rest_s: float, wakes: int
) -> None:
    monkeypatch.setattr(module, "REST_S", rest_s)
    woken: list[Viewer] = []
    monkeypatch.setattr(Viewer, "wake", lambda viewer: woken.append(viewer))  # a method, as append is none
    run_id, hub = add_run(database), Hub(database)
    with hub.view(run_id, after=0, last_seq=0) as one, hub.view(run_id, after=0, last_seq=0) as other:
        for number in range(3):
            write(database, run_id, 1)
            await hub.refresh(run_id)
            hub.show_frame(run_id, number + 1, b"residency")
            await asyncio.sleep(0)
            await asyncio.sleep(0)
    assert (woken.count(one), woken.count(other)) == (wakes, wakes)


async def test_viewer_hears_after_its_rest_of_what_came_meanwhile(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REST_S", 0.02)
    run_id, hub = add_run(database), Hub(database)
    with hub.view(run_id, after=0, last_seq=0) as viewer:
        seen: list[int] = []
        for _ in range(4):
            write(database, run_id, 1)
            await hub.refresh(run_id)
        while len(seen) < 4:
            await asyncio.wait_for(viewer.wait(), 5)
            seen += await read_all(viewer)
    assert seen == [1, 2, 3, 4]
