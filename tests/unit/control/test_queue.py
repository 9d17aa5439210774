"""The order of the queues, and what starts beside what."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from horizon_app.contracts.run_state import RunState
from horizon_app.control.errors import BadQuery, NotQueued, RunNotFound
from horizon_app.control.lifecycle import change_state, create_run
from horizon_app.control.queue import Queue
from horizon_app.control.scheduler import start_next
from horizon_app.store.database import Database
from horizon_app.store.events import events_after
from horizon_app.store.runs import StoredRun, get_run
from tests.support.idle_launcher import IdleLauncher
from tests.support.stores import new_run, open_store


class Bench:
    """A database with a queue, and a launcher that starts nothing."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.queue = Queue(database)
        self.launcher = IdleLauncher()

    def add(self, device: str = "cpu", *, share: bool = False, held: bool = False) -> str:
        run = new_run(queue_device=device, share_device=share, held=held)
        with self.database.write() as tx:
            create_run(tx, run, who="test")
        return run.id

    def start_all(self, *lingering: StoredRun) -> list[str]:
        self.launcher.ids = []
        while start_next(self.database, self.launcher, lingering=lingering):
            pass
        return self.launcher.ids

    def become(self, run_id: str, *states: RunState) -> None:
        with self.database.write() as tx:
            for state in states:
                change_state(tx, run_id, state, who="test")

    def stored(self, run_id: str) -> StoredRun:
        with self.database.read() as tx:
            run = get_run(tx, run_id)
        assert run is not None
        return run

    def order(self, device: str = "cpu") -> list[str]:
        devices = {one.device: one.queued for one in self.queue.overview().devices}
        assert [run.queue_position for run in devices.get(device, [])] == [*range(1, len(devices.get(device, [])) + 1)]
        return [run.id for run in devices.get(device, [])]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with open_store(tmp_path) as database:
        yield Bench(database)


@pytest.mark.usefixtures("any_database")
def test_each_device_starts_the_head_of_its_own_queue(bench: Bench) -> None:
    first, _, card, other = bench.add(), bench.add(), bench.add("cuda:0"), bench.add("cuda:1")
    assert sorted(bench.start_all()) == sorted([first, card, other])
    assert bench.start_all() == []


def test_next_run_starts_only_once_the_device_is_given_back(bench: Bench) -> None:
    first, second = bench.add("cuda:0"), bench.add("cuda:0")
    assert bench.start_all() == [first]
    for state in (RunState.RUNNING, RunState.PAUSED, RunState.STOPPING):
        bench.become(first, state)
        assert bench.start_all() == []
    lingering = bench.stored(first)
    bench.become(first, RunState.STOPPED)
    assert bench.start_all(lingering) == []  # its worker has not gone yet
    assert bench.start_all() == [second]


def test_runs_that_all_share_start_beside_each_other(bench: Bench) -> None:
    sharing = [bench.add(share=True), bench.add(share=True)]
    assert bench.start_all() == sharing


def test_run_that_shares_waits_for_one_that_does_not(bench: Bench) -> None:
    alone, sharing = bench.add(), bench.add(share=True)
    assert bench.start_all() == [alone]
    bench.become(alone, RunState.FINISHED)
    assert bench.start_all() == [sharing]


def test_run_that_shares_does_not_overtake_a_head_that_has_to_wait(bench: Bench) -> None:
    first, alone, late = bench.add(share=True), bench.add(), bench.add(share=True)
    assert bench.start_all() == [first]
    assert bench.order() == [alone, late]


def test_held_run_keeps_its_place_and_lets_others_pass(bench: Bench) -> None:
    first, second = bench.add(), bench.add()
    assert bench.queue.hold(first, who="browser").held
    assert bench.start_all() == [second]
    assert bench.order() == [first]
    bench.become(second, RunState.FINISHED)
    assert bench.start_all() == []
    bench.queue.start(first, who="browser")
    assert bench.start_all() == [first]


def test_only_the_named_run_is_started_whatever_waits_before_it(bench: Bench) -> None:
    bench.add()
    named = bench.add()
    assert start_next(bench.database, bench.launcher, only=named) == named
    held = bench.add("cuda:0", held=True)
    assert start_next(bench.database, bench.launcher, only=held) is None


@pytest.mark.usefixtures("any_database")
def test_move_reorders_and_the_order_decides_what_starts(bench: Bench) -> None:
    a, b, c, d = (bench.add() for _ in range(4))
    assert bench.queue.move(d, position=1, who="browser").queue_position == 1
    assert bench.order() == [d, a, b, c]
    bench.queue.move(a, before=None, who="browser")
    assert bench.order() == [d, b, c, a]
    bench.queue.move(a, before=c, who="browser")
    assert bench.order() == [d, b, a, c]
    bench.queue.move(d, position=99, who="browser")
    assert bench.order() == [b, a, c, d]
    bench.queue.move(a, before=a, who="browser")
    assert bench.order() == [b, a, c, d]
    assert bench.start_all() == [b]
    assert bench.order() == [a, c, d]


def test_move_many_times_between_the_same_two_loses_no_order(bench: Bench) -> None:
    a, b, c = (bench.add() for _ in range(3))
    for _ in range(30):  # halving the distance each time would be out of numbers after some fifty
        bench.queue.move(c, before=b, who="browser")
        bench.queue.move(b, before=c, who="browser")
    assert bench.order() == [a, b, c]


def test_new_run_waits_behind_all_and_other_queues_do_not_count(bench: Bench) -> None:
    a, b = bench.add(), bench.add()
    bench.queue.move(b, position=1, who="browser")
    card = bench.add("cuda:0")
    assert bench.order() == [b, a] and bench.order("cuda:0") == [card]
    assert bench.order() == [b, a]
    assert [*bench.order(), bench.add()] == bench.order()


def test_what_is_not_queued_is_neither_held_nor_released_nor_moved(bench: Bench) -> None:
    run_id, other, card = bench.add(), bench.add(), bench.add("cuda:0")
    bench.become(run_id, RunState.STARTING)
    for act in (bench.queue.hold, bench.queue.start, bench.queue.move):
        with pytest.raises(NotQueued, match="starting"):
            act(run_id, who="browser")
        with pytest.raises(RunNotFound):
            act("20260101-000000-abcdef", who="browser")
    with pytest.raises(NotQueued, match="moved before"):
        bench.queue.move(other, before=run_id, who="browser")
    with pytest.raises(BadQuery, match="different queues"):
        bench.queue.move(other, before=card, who="browser")
    assert bench.order() == [other]


def test_who_held_moved_and_released_is_in_the_runs_events(bench: Bench) -> None:
    run_id = bench.add()
    bench.queue.hold(run_id, who="browser")
    bench.queue.hold(run_id, who="api")  # is held already: nothing happens
    bench.queue.move(run_id, position=1, who="command line")
    bench.queue.start(run_id, who="api")
    with bench.database.read() as tx:
        found = events_after(tx, run_id, 1, limit=10)
    assert [(event["seq"], event["data"]["action"], event["data"]["who"]) for event in found] == [
        (2, "hold", "browser"), (3, "move", "command line"), (4, "start", "api"),
    ]  # fmt: skip


@pytest.mark.usefixtures("any_database")
def test_run_waits_for_those_on_its_device_that_do_not_share_with_it(bench: Bench) -> None:
    first, card, alone, sharing = bench.add(share=True), bench.add("cuda:0"), bench.add(), bench.add(share=True)
    assert sorted(bench.start_all()) == sorted([first, card])
    assert [run.id for run in bench.queue.holders(alone)] == [first]
    assert bench.queue.holders(sharing) == []
