"""Does what a check of a run proposes: changes knobs while it runs, or clones it with another spec."""

from dataclasses import dataclass
from typing import Any, Protocol

from horizon_app.contracts.events import FactNoted
from horizon_app.contracts.run_checks import AppliedFix, RunCheck
from horizon_app.contracts.run_view import RunDetail
from horizon_app.control.checklist import checklist, update_checklist
from horizon_app.control.errors import CheckNotFound, NothingToApply
from horizon_app.control.knobs import Asked, Knobs
from horizon_app.control.lifecycle import locked_run, tell
from horizon_app.store.database import Database
from horizon_app.store.events import facts_saying


class Clone(Protocol):
    """The use case that submits a run's spec again."""

    def __call__(
        self, run_id: str, changes: dict[str, Any], *, start: bool, key: str | None, by_client: bool, who: str
    ) -> RunDetail:
        """The new run. Raises RunNotFound, SpecRefused, KeyReused."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Applied:
    """What was done; of knobs the worker's answer is still to come."""

    fix: AppliedFix
    asked: Asked | None


class Fixes:
    """The use case. For any thread."""

    def __init__(self, database: Database, knobs: Knobs, clone: Clone) -> None:
        self._database, self._knobs, self._clone = database, knobs, clone

    def apply(
        self, run_id: str, check_id: str, *, start: bool = False, key: str | None = None, by_client: bool = True,
        who: str = "api",
    ) -> Applied:  # fmt: skip
        """Carry the fix of a check out; a clone waits, held, unless it is to `start`.

        Raises RunNotFound, CheckNotFound, NothingToApply, what changing knobs raises, and what cloning raises.
        """
        with self._database.read() as tx:
            check = _check(checklist(tx, run_id).checks, check_id)
        remedy = check.remedy
        if remedy is None or not check.verdict.asks_for_something:
            raise NothingToApply(_reason(check))
        fix = AppliedFix(check=check.id, remedy=remedy)
        if remedy.by == "clone":
            new = self._clone(run_id, remedy.set, start=start, key=key, by_client=by_client, who=who)
            self._note(run_id, check, {"run": new.id}, f"cloned as {new.id} with", who=who)
            return Applied(fix=fix.model_copy(update={"run": new}), asked=None)
        asked = self._knobs.ask(run_id, remedy.set, who=who)
        self._note(run_id, check, {"knobs": list(asked.numbers)}, "asked for", who=who)
        return Applied(fix=fix, asked=asked)

    def _note(self, run_id: str, check: RunCheck, done: dict[str, Any], verb: str, *, who: str) -> None:
        assert check.remedy is not None, "it was just carried out"
        values = ", ".join(f"{key} {value}" for key, value in check.remedy.set.items())
        data = {"check": check.id, "who": who, "set": check.remedy.set, **done}
        fact = FactNoted(kind="fix", message=f"{check.title}: {verb} {values}", data=data)
        with self._database.write() as tx:
            if check.remedy.by == "clone" and facts_saying(tx, run_id, fact.message, limit=1):
                return  # the same call once more, which made no second run
            tell(tx, locked_run(tx, run_id), fact)
            if check.remedy.by == "knobs":  # judged anew from here on: nobody applies it a second time by mistake
                update_checklist(tx, locked_run(tx, run_id))


def _check(checks: list[RunCheck], check_id: str) -> RunCheck:
    found = next((check for check in checks if check.id == check_id), None)
    if found is None:
        raise CheckNotFound(check=check_id, known=[check.id for check in checks])
    return found


def _reason(check: RunCheck) -> str:
    if not check.verdict.asks_for_something:
        return (
            f"{check.title}: {check.verdict.value} after step {check.step} ({check.evidence}): there is nothing to do"
        )
    return f"{check.title}: nothing that a machine can do; {check.fix}"
