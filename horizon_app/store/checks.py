"""Rows of checks: the checklist of a run as it was last found."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.dialects import postgresql, sqlite

from horizon_app.contracts.run_checks import RunCheck
from horizon_app.store.database import Transaction
from horizon_app.store.tables import CheckTable

_T = CheckTable
_COLUMNS = {"verdict", "step", "since", "since_step", "changes"}
"""Fields of a check that are columns; the others are its body."""


def keep_checks(tx: Transaction, run_id: str, checks: Sequence[RunCheck]) -> None:
    """Set the checks of a run, in the order in which they are shown."""
    make = postgresql.insert if tx.dialect.name == "postgresql" else sqlite.insert
    for place, check in enumerate(checks):
        values: dict[str, Any] = {name: getattr(check, name) for name in _COLUMNS}
        values |= {"place": place, "verdict": check.verdict.value}
        values["body"] = check.model_dump(mode="json", exclude={"id", *_COLUMNS})
        statement = make(_T).values(run_id=run_id, check_id=check.id, **values)
        tx.execute(statement.on_conflict_do_update(index_elements=["run_id", "check_id"], set_=values))


def checks_of(tx: Transaction, run_id: str) -> list[RunCheck]:
    """The checks of a run, in the order in which they are shown; none where it was never looked at."""
    columns = (_T.check_id, _T.body, *(getattr(_T, name) for name in sorted(_COLUMNS)))
    rows = tx.execute(select(*columns).where(_T.run_id == run_id).order_by(_T.place)).mappings()
    return [
        RunCheck.model_validate({**row["body"], "id": row["check_id"], **{name: row[name] for name in _COLUMNS}})
        for row in rows
    ]
