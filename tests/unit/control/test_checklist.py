"""The checklist of a run is kept, told of where a verdict changes, and the same whoever looks how often."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from horizon_app.contracts.checks import Verdict
from horizon_app.contracts.events import Event, FactNoted, StateChanged, metrics_event
from horizon_app.contracts.ids import RunId
from horizon_app.contracts.run_checks import RunCheck, RunChecks
from horizon_app.contracts.run_state import RunState
from horizon_app.control.checklist import EVERY_S, ChecklistPace, checklist, update_checklist
from horizon_app.control.errors import RunNotFound
from horizon_app.control.lifecycle import change_state, locked_run, read_run
from horizon_app.control.memory import Memory
from horizon_app.control.recorder import JournalBatch, record_batch
from horizon_app.control.run_folder import RunFolder
from horizon_app.store.database import Database
from horizon_app.store.events import events_after
from tests.support.run_facts import PLAN, SPEC, facts_of
from tests.support.stores import add_run, open_store, resume_behind

GOOD = [4.0 / step for step in range(1, 41)]
BAD = [*GOOD, *([50.0] * 20)]


@pytest.fixture(autouse=True)
def roomy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory(total_bytes=64 << 30, available_bytes=32 << 30, is_limited=False)
    monkeypatch.setattr("horizon_app.control.checklist.memory_here", lambda: memory)


def losses(values: Sequence[float], more: Mapping[str, float] | None = None, *, first: int = 1) -> list[Event]:
    return [
        metrics_event(step, {"train/loss": value, **(more or {})}) for step, value in enumerate(values, start=first)
    ]


def start(database: Database) -> RunId:
    spec = facts_of({}).spec
    run_id = add_run(database, RunState.RUNNING, spec=dict(spec), asked=SPEC)
    record(database, run_id, [FactNoted(kind="plan", message="", data=PLAN)])
    return run_id


def record(database: Database, run_id: RunId, events: Sequence[Event]) -> None:
    with database.read() as tx:
        journal_seq = read_run(tx, run_id).journal_seq
    lines = [event.model_dump_json().encode() for event in events]
    record_batch(database, run_id, JournalBatch(first_line=journal_seq + 1, end_bytes=1 << 20, lines=lines))


def update(database: Database, run_id: RunId) -> None:
    with database.write() as tx:
        update_checklist(tx, locked_run(tx, run_id))


def look(database: Database, run_id: RunId) -> RunChecks:
    with database.read() as tx:
        return checklist(tx, run_id)


def check(database: Database, run_id: RunId, name: str = "divergence") -> RunCheck:
    return next(one for one in look(database, run_id).checks if one.id == name)


def told(database: Database, run_id: RunId, name: str = "divergence") -> list[dict[str, Any]]:
    with database.read() as tx:
        found = events_after(tx, run_id, 0, limit=1000, types=["check"])
    return [event for event in found if event["check"] == name]


@pytest.mark.usefixtures("any_database")
def test_verdict_that_changes_is_told_once_and_kept_with_its_past(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        run_id = start(database)
        record(database, run_id, losses(GOOD))
        update(database, run_id)
        fine = check(database, run_id)
        assert (fine.verdict, fine.step, fine.changes) == (Verdict.OK, 40, 0)
        record(database, run_id, losses(BAD[40:], first=41))
        for _ in range(3):
            update(database, run_id)
        bad = check(database, run_id)
        assert (bad.verdict, bad.since_step, bad.changes, bad.step) == (Verdict.PROBLEM, 60, 1, 60)
        assert bad.remedy is not None and bad.remedy.set == {"training.learning_rate": 1e-5}
        assert look(database, run_id).verdict is Verdict.PROBLEM
        [event] = told(database, run_id)
        assert (event["old"], event["new"], event["step"], event["fix"]) == ("ok", "problem", 60, bad.fix)
        with database.read() as tx:
            assert event["seq"] == read_run(tx, run_id).last_seq


@pytest.mark.usefixtures("any_database")
def test_evidence_is_refreshed_while_the_verdict_and_its_beginning_stay(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        run_id = start(database)
        record(database, run_id, losses(BAD))
        update(database, run_id)
        before = check(database, run_id)
        record(database, run_id, losses([80.0] * 10, first=61))
        update(database, run_id)
        after = check(database, run_id)
    assert (before.since, before.since_step, before.changes) == (after.since, after.since_step, after.changes)
    assert "to 50" in before.evidence and "to 80" in after.evidence


def test_end_of_a_run_is_judged_in_the_same_breath_as_it_is_recorded(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        run_id = start(database)
        record(database, run_id, [*losses(BAD), StateChanged(state=RunState.FINISHED)])
        with database.read() as tx:
            events = events_after(tx, run_id, 0, limit=1000)
        assert [event["type"] for event in events[-2:]] == ["state", "check"]
        assert check(database, run_id).verdict is Verdict.PROBLEM
        assert check(database, run_id, "out_of_memory").verdict is Verdict.OK


def test_healthy_run_is_told_nothing_of(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        run_id = start(database)
        record(database, run_id, losses([3 - step / 9000 for step in range(3000)]))
        update(database, run_id)
        record(database, run_id, [StateChanged(state=RunState.FINISHED)])
        with database.read() as tx:
            assert events_after(tx, run_id, 0, limit=10, types=["check"]) == []
        assert {one.verdict for one in look(database, run_id).checks} <= {Verdict.OK, Verdict.UNKNOWN}


def test_divergence_at_the_end_of_a_long_run_is_found_in_its_thinned_curve(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        run_id = start(database)
        record(database, run_id, losses([*(2 + 2 / (1 + step / 50) for step in range(5000)), *[9.0] * 300]))
        update(database, run_id)
        assert check(database, run_id).verdict is Verdict.PROBLEM


def test_milder_verdict_counts_only_after_some_steps_so_that_nothing_flickers(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        run_id = start(database)
        step, verdicts = 0, list[str]()
        for stall in (0.21, 0.19, 0.21, 0.19, 0.21):
            record(database, run_id, losses([2.0] * 50, {"time/step": 1.0, "time/stall": stall}, first=step + 1))
            update(database, run_id)
            record(database, run_id, losses([2.0] * 5, {"time/step": 1.0, "time/stall": 0.0}, first=step + 51))
            update(database, run_id)
            step += 55
            verdicts.append(check(database, run_id, "device_starved").verdict.value)
        assert verdicts == ["warning", "ok", "warning", "ok", "warning"]
        assert [one["new"] for one in told(database, run_id, "device_starved")] == verdicts


def test_change_of_a_knob_has_the_transfers_judged_anew(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        run_id = start(database)
        starved = {"time/step": 1.0, "time/stall": 0.7, "prefetch/late_rate": 0.5}
        record(database, run_id, losses([2.0] * 30, starved))
        update(database, run_id)
        assert check(database, run_id, "device_starved").verdict is Verdict.PROBLEM
        answer = (
            b'{"type":"knobs","number":1,"knob":"prefetch_window","old":3,"new":5,"step":25,"who":"","status":"holds",'
            b'"message":""}'
        )
        with database.read() as tx:
            first = read_run(tx, run_id).journal_seq + 1
        record_batch(database, run_id, JournalBatch(first_line=first, end_bytes=1 << 21, lines=[answer]))
        update(database, run_id)
        found = check(database, run_id, "device_starved")
        assert (found.verdict, found.evidence[:28]) == (Verdict.UNKNOWN, "6 steps were timed under the")
        assert [one["new"] for one in told(database, run_id, "device_starved")] == ["problem", "unknown"]


def test_resumed_run_is_judged_by_its_new_life(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        run_id = start(database)
        record(database, run_id, losses(BAD))
        with database.write() as tx:
            change_state(tx, run_id, RunState.FAILED, "optimizer step 61: the gradient is not finite", who="test")
            update_checklist(tx, locked_run(tx, run_id))
        resume_behind(database, run_id, step=40)
        update(database, run_id)
        assert check(database, run_id).verdict is Verdict.OK
        assert [one["new"] for one in told(database, run_id)] == ["problem", "ok"]


def test_run_that_nobody_looked_at_is_diagnosed_when_it_is_asked_for_and_nothing_is_kept(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        run_id = start(database)
        record(database, run_id, losses(BAD))
        with database.write() as tx:
            change_state(tx, run_id, RunState.FINISHED, who="test")
        found = check(database, run_id)
        assert (found.verdict, found.since, found.changes) == (Verdict.PROBLEM, None, 0)
        assert told(database, run_id) == []
        with pytest.raises(RunNotFound):
            look(database, RunId("20260101-000000-abcdef"))


def test_pace_looks_where_the_run_has_got_on_and_not_at_every_step(tmp_path: Path) -> None:
    with open_store(tmp_path) as database:
        run_id = start(database)
        now = 100.0
        pace, folder = ChecklistPace(lambda: now), RunFolder(tmp_path / "runs", run_id)

        def live_step() -> int:
            with database.read() as tx:
                run = read_run(tx, run_id)
            pace.look(database, run, folder)
            return check(database, run_id).step

        assert live_step() == 0
        record(database, run_id, losses(GOOD))
        assert [live_step() for _ in range(3)] == [0, 0, 0]  # soon, but not now
        now += EVERY_S
        assert live_step() == 40
