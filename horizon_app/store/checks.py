"""Rows of checks: the checklist of a run as it was last found."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import bindparam, select
from sqlalchemy.dialects import postgresql, sqlite

from horizon_app.contracts.run_checks import RunCheck
from horizon_app.store.database import Transaction
from horizon_app.store.tables import CheckTable

_T = CheckTable
_COLUMNS = ("changes", "since", "since_step", "step", "verdict")
"""Fields of a check that are columns; the others are its body."""


def _upsert(make: Any) -> Any:
    statement = make(_T)
    new = {name: statement.excluded[name] for name in (*_COLUMNS, "place", "body")}
    return statement.on_conflict_do_update(index_elements=["run_id", "check_id"], set_=new)


# Built once: it is done every few seconds for each live run, and to build statements takes longer.
_UPSERTS = {"sqlite": _upsert(sqlite.insert), "postgresql": _upsert(postgresql.insert)}
_OF_RUN = (
    select(_T.check_id, _T.body, *(getattr(_T, name) for name in _COLUMNS))
    .where(_T.run_id == bindparam("run"))
    .order_by(_T.place)
)


def keep_checks(tx: Transaction, run_id: str, checks: Sequence[RunCheck]) -> None:
    """Set the checks of a run, in the order in which they are shown."""
    rows = [
        {
            **{name: getattr(check, name) for name in _COLUMNS},
            "run_id": run_id, "check_id": check.id, "place": place, "verdict": check.verdict.value,
            "body": check.model_dump(mode="json", exclude={"id", *_COLUMNS}),
        }
        for place, check in enumerate(checks)
    ]  # fmt: skip
    tx.execute(_UPSERTS[tx.dialect.name], rows)


def checks_of(tx: Transaction, run_id: str) -> list[RunCheck]:
    """The checks of a run, in the order in which they are shown; none where it was never looked at."""
    rows = tx.execute(_OF_RUN, {"run": run_id}).mappings()
    return [
        RunCheck.model_validate({**row["body"], "id": row["check_id"], **{name: row[name] for name in _COLUMNS}})
        for row in rows
    ]
