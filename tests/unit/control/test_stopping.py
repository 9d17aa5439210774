"""Stopping: from the queue, twice, and without saving."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from horizon_app.contracts.commands import COMMAND, StopRun
from horizon_app.contracts.events import StateChanged
from horizon_app.contracts.run_state import ENDED, RunState
from horizon_app.control import patience
from horizon_app.control.errors import RunNotLive
from horizon_app.control.patience import StopWatch
from horizon_app.control.workstation import Workstation
from horizon_app.settings import AppSettings
from horizon_app.store.runs import get_run
from tests.support.stores import add_run


@pytest.fixture
def station(tmp_path: Path) -> Iterator[Workstation]:
    with Workstation(AppSettings(home=tmp_path / "home")) as station:
        yield station


def told(station: Workstation, run_id: str) -> list[StopRun]:
    lines = (station.settings.runs_dir / run_id / "commands.jsonl").read_bytes().splitlines()
    return [command for line in lines if isinstance(command := COMMAND.validate_json(line), StopRun)]


def changes(station: Workstation, run_id: str) -> list[tuple[RunState, str]]:
    events = station.events(run_id, types=["state"])
    return [(event.state, event.who) for event in events if isinstance(event, StateChanged)]


def test_queued_run_that_is_stopped_leaves_the_queue_and_tells_no_worker(station: Workstation) -> None:
    run_id = add_run(station.database)
    run = station.stop(run_id, who="browser")
    assert (run.state, run.reason) == (RunState.STOPPED, "stopped while it waited in the queue")
    assert changes(station, run_id) == [(RunState.STOPPED, "browser")]
    assert station.queue.overview().devices == []
    assert not (station.settings.runs_dir / run_id).exists()


@pytest.mark.parametrize("state", [RunState.STARTING, RunState.RUNNING, RunState.PAUSED])
def test_live_run_stopped_twice_changes_its_state_once_and_may_then_be_discarded(
    station: Workstation, state: RunState
) -> None:
    run_id = add_run(station.database, state)
    before = len(changes(station, run_id))
    assert station.stop(run_id, who="browser").state is RunState.STOPPING
    assert station.stop(run_id, save=False, who="api").state is RunState.STOPPING
    assert changes(station, run_id)[before:] == [(RunState.STOPPING, "browser")]
    assert told(station, run_id) == [StopRun(save=True), StopRun(save=False)]


@pytest.mark.parametrize("state", sorted(ENDED))
def test_run_that_has_ended_is_not_stopped(station: Workstation, state: RunState) -> None:
    with pytest.raises(RunNotLive, match=f"{state.value}: there is nothing to stop"):
        station.stop(add_run(station.database, state))


def test_patience_with_a_run_does_not_end_because_somebody_sets_the_clock(
    station: Workstation, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = add_run(station.database, RunState.STOPPING)
    with station.database.read() as tx:
        run = get_run(tx, run_id)
    assert run is not None and run.stop_asked_at is not None
    now = [100.0]
    watch, asked = StopWatch(clock=lambda: now[0]), run.stop_asked_at
    monkeypatch.setattr(patience, "_wall", lambda: asked + timedelta(seconds=3))
    assert watch.waited_s(run) == pytest.approx(3)  # another process has watched it until now
    monkeypatch.setattr(patience, "_wall", lambda: datetime(2036, 1, 1, tzinfo=UTC))
    now[0] += 2
    assert watch.waited_s(run) == pytest.approx(5)
