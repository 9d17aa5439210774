"""Runs that are put away."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from horizon_app.contracts.run_state import ENDED, RunState
from horizon_app.control.errors import RunIsLive
from horizon_app.control.workstation import Workstation
from horizon_app.settings import AppSettings
from tests.support.server import furnish_home, scripted_spec
from tests.support.stores import add_run


@pytest.fixture
def station(tmp_path: Path) -> Iterator[Workstation]:
    with Workstation(AppSettings(home=furnish_home(tmp_path / "home"))) as station:
        yield station


def test_archived_runs_are_listed_only_where_they_are_asked_for(station: Workstation) -> None:
    kept, away = (add_run(station.database, RunState.FINISHED) for _ in range(2))
    assert station.archive(away).archived_at is not None
    assert [run.id for run in station.runs().runs] == [kept]
    assert [run.id for run in station.runs(archived="true").runs] == [away]
    assert {run.id for run in station.runs(archived="all").runs} == {kept, away}
    assert station.runs().counts[RunState.FINISHED] == station.runs().total == 1
    assert station.archive(away, archived=False).archived_at is None
    assert station.runs().total == 2


def test_archiving_twice_is_recorded_once_with_who_asked(station: Workstation) -> None:
    run_id = add_run(station.database, RunState.FAILED)
    before = station.run(run_id).last_seq
    first = station.archive(run_id, who="browser")
    assert station.archive(run_id, who="api") == first
    (event,) = station.events(run_id, after=before)
    assert event.model_dump()["data"] == {"archived": True, "who": "browser"}


@pytest.mark.parametrize("state", sorted(set(RunState) - ENDED))
def test_run_that_has_not_ended_is_not_archived(station: Workstation, state: RunState) -> None:
    with pytest.raises(RunIsLive, match=state.value):
        station.archive(add_run(station.database, state))


def test_archived_run_that_is_resumed_is_listed_again(station: Workstation) -> None:
    run = station.submit(scripted_spec())
    station.stop(run.id)
    station.archive(run.id)
    assert station.resume(run.id, {}).archived_at is None
    assert station.runs().total == 1
