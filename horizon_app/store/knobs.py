"""Rows of changed knobs: asked for by the server, answered by the worker."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import bindparam, func, insert, select, update

from horizon_app.contracts.events import KnobChanged
from horizon_app.contracts.knobs import KnobChange, KnobStatus
from horizon_app.store.database import Transaction
from horizon_app.store.tables import KnobChangeTable

_T = KnobChangeTable

# Built once: to build a statement takes longer than to carry it out.
_OF_RUN = (
    select(*(getattr(_T, name) for name in KnobChange.model_fields))
    .where(_T.run_id == bindparam("run"))
    .order_by(_T.number)
)


def insert_changes(tx: Transaction, run_id: str, changes: Sequence[KnobChange]) -> None:
    """Append changes that were asked for."""
    rows = [
        {**change.model_dump(), "run_id": run_id, "knob": change.knob.value, "status": change.status.value}
        for change in changes
    ]
    tx.execute(insert(_T), rows)


def answer_change(tx: Transaction, run_id: str, answer: KnobChanged) -> None:
    """Note what came of a change.

    A server that died between telling the worker and its commit has left no row: it is made here.
    """
    message = answer.message if answer.status is KnobStatus.REFUSED else ""
    values: dict[str, Any] = {
        "old": answer.old, "new": answer.new, "status": answer.status.value, "step": answer.step, "message": message,
    }  # fmt: skip
    query = update(_T).where(_T.run_id == run_id, _T.number == answer.number).values(**values)
    if tx.execute(query).rowcount == 0:
        row = {"time": answer.time, "who": answer.who, "knob": answer.knob.value, "undoes": None}
        tx.execute(insert(_T).values(run_id=run_id, number=answer.number, **row, **values))


def lapse_changes(tx: Transaction, run_id: str, message: str) -> None:
    """Refuse what nobody will answer any more."""
    query = update(_T).where(_T.run_id == run_id, _T.status == KnobStatus.ASKED.value)
    tx.execute(query.values(status=KnobStatus.REFUSED.value, message=message))


def changes_of(tx: Transaction, run_id: str) -> list[KnobChange]:
    """All changes of a run, oldest first."""
    return [KnobChange.model_validate(dict(row)) for row in tx.execute(_OF_RUN, {"run": run_id}).mappings()]


def newest_number(tx: Transaction, run_id: str) -> int:
    """Number of the newest change of a run; 0 where there is none."""
    return tx.execute(select(func.max(_T.number)).where(_T.run_id == run_id)).scalar_one() or 0
