"""Knobs of live runs: ask for changes, take them back, and see what came of them."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from horizon_app.contracts.commands import SetKnobs
from horizon_app.contracts.knobs import (
    AskedChange,
    ChangedKnobs,
    Knob,
    KnobChange,
    KnobsAnswer,
    KnobStatus,
    KnobValue,
)
from horizon_app.contracts.problems import FieldProblem
from horizon_app.contracts.run_state import TAKES_KNOBS
from horizon_app.control.errors import KnobsChangedSince, KnobsRefused, NothingToUndo, RunNotFound, RunNotLive
from horizon_app.control.hub import Hub
from horizon_app.control.knob_values import ranges, read_wishes
from horizon_app.control.run_folder import RunFolder
from horizon_app.settings import AppSettings
from horizon_app.store.database import Database, Transaction
from horizon_app.store.knobs import changes_of, insert_changes, newest_number
from horizon_app.store.runs import StoredOrder, StoredRun, get_order, get_run, update_run

PATIENCE_S = 5.0
"""How long whoever asks waits for the worker; a step may take longer, and then the change is still asked for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """Changes that the worker was told of."""

    run_id: str
    numbers: range
    last_seq: int
    """The run's newest event when they were asked for: the answer comes after it."""


class Knobs:
    """The use cases. Plain methods are for any thread; each is one short transaction."""

    def __init__(self, database: Database, hub: Hub, settings: AppSettings) -> None:
        self._database, self._hub, self._settings = database, hub, settings

    def show(self, run_id: str) -> KnobsAnswer:
        """The knobs of a run, live or past. Raises RunNotFound."""
        with self._database.read() as tx:
            run, order = _read(tx, run_id)
            changes = changes_of(tx, run_id)
        known = ranges(order.spec, order.plan, run.knobs)
        return KnobsAnswer(knobs_version=run.knobs_version, knobs=list(known.values()), changes=changes)

    def ask(self, run_id: str, wanted: Mapping[str, Any], *, who: str, version: int | None = None) -> Asked:
        """Ask the worker for new values, by knob; `version` is the one that whoever asks has seen.

        Raises RunNotFound, RunNotLive, KnobsRefused, NeedsRestart, KnobsChangedSince.
        """
        with self._database.write() as tx:
            run, order = _read(tx, run_id, lock=True)
            known = ranges(order.spec, order.plan, run.knobs)
            wishes = read_wishes(wanted, order.spec, known)
            self._require_live(run)
            _require_version(run, version, {knob: known[knob].value for knob in Knob})
            return self._tell(tx, run, {knob: (known[knob].value, new) for knob, new in wishes.items()}, who)

    def undo(self, run_id: str, number: int | None, *, who: str, version: int | None = None) -> Asked:
        """Take back a change that holds: the newest that was not taken back, or the one with this number.

        Raises RunNotFound, RunNotLive, NothingToUndo, KnobsChangedSince.
        """
        with self._database.write() as tx:
            run, order = _read(tx, run_id, lock=True)
            self._require_live(run)
            values = {knob: one.value for knob, one in ranges(order.spec, order.plan, run.knobs).items()}
            _require_version(run, version, values)
            change = _undoable(changes_of(tx, run_id), number)
            assert change.old is not None, "the worker tells it with its answer"
            return self._tell(tx, run, {change.knob: (values[change.knob], change.old)}, who, undoes=change.number)

    def outcome(self, asked: Asked) -> ChangedKnobs:
        """What came of the changes until now. Raises RunNotFound."""
        with self._database.read() as tx:
            run, _ = _read(tx, asked.run_id)
            changes = [change for change in changes_of(tx, asked.run_id) if change.number in asked.numbers]
        return ChangedKnobs(knobs_version=run.knobs_version, changes=changes)

    async def settle(self, asked: Asked, patience_s: float) -> ChangedKnobs:
        """What came of the changes, once the worker has answered all or `patience_s` is over.

        Raises RunNotFound, and KnobsRefused where the worker has refused every one.
        """
        end = time.monotonic() + patience_s
        with self._hub.view(asked.run_id, after=asked.last_seq, last_seq=asked.last_seq) as viewer:
            while True:
                found = await asyncio.to_thread(self.outcome, asked)
                left = end - time.monotonic()
                if is_answered(found) or left <= 0:
                    return refuse_refused(found)
                await viewer.wait(left)

    def _require_live(self, run: StoredRun) -> None:
        if run.state not in TAKES_KNOBS:
            raise RunNotLive(run_id=run.id, state=run.state, action="change; give other values when it is resumed")

    def _tell(
        self, tx: Transaction, run: StoredRun, wishes: Mapping[Knob, tuple[KnobValue | None, KnobValue]], who: str, *,
        undoes: int | None = None,
    ) -> Asked:  # fmt: skip
        first = newest_number(tx, run.id) + 1
        now = datetime.now(UTC)
        changes = [
            KnobChange(
                number=number, time=now, who=who, knob=knob, old=old, new=new, status=KnobStatus.ASKED, step=None,
                message="", undoes=undoes,
            )
            for number, (knob, (old, new)) in enumerate(wishes.items(), start=first)
        ]  # fmt: skip
        insert_changes(tx, run.id, changes)
        update_run(tx, run.id, knobs_version=changes[-1].number)
        orders = [AskedChange(number=one.number, knob=one.knob, value=one.new, who=who) for one in changes]
        # While the row is held: commands stand in the order of their numbers.
        RunFolder(self._settings.runs_dir, run.id).append_command(SetKnobs(changes=orders))
        return Asked(run_id=run.id, numbers=range(first, first + len(changes)), last_seq=run.last_seq)


def is_answered(found: ChangedKnobs) -> bool:
    """Whether the worker has answered every change."""
    return all(change.status is not KnobStatus.ASKED for change in found.changes)


def refuse_refused(found: ChangedKnobs) -> ChangedKnobs:
    """The same, where not every change was refused. Raises KnobsRefused."""
    if any(change.status is not KnobStatus.REFUSED for change in found.changes):
        return found
    raise KnobsRefused([FieldProblem(field=change.knob, message=change.message) for change in found.changes])


def _read(tx: Transaction, run_id: str, *, lock: bool = False) -> tuple[StoredRun, StoredOrder]:
    run, order = get_run(tx, run_id, lock=lock), get_order(tx, run_id)
    if run is None or order is None:
        raise RunNotFound(run_id)
    return run, order


def _require_version(run: StoredRun, version: int | None, values: Mapping[Knob, KnobValue | None]) -> None:
    if version is not None and version != run.knobs_version:
        raise KnobsChangedSince(asked=version, now=run.knobs_version, values=values)


def _undoable(changes: list[KnobChange], number: int | None) -> KnobChange:
    taken_back = {change.undoes for change in changes if change.status is not KnobStatus.REFUSED}
    holding = [one for one in changes if one.status is KnobStatus.HOLDS and one.number not in taken_back]
    if number is None:
        own = [change for change in holding if change.undoes is None]
        if not own:
            raise NothingToUndo("no change holds that was not taken back")
        return own[-1]
    found = next((change for change in holding if change.number == number), None)
    if found is None:
        raise NothingToUndo(f"change {number} is not there, does not hold, or was taken back already")
    return found
