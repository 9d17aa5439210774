"""What lists are filtered and sorted by beside the columns of a run: a row a tag, a value of its spec, a last metric.

They lie in the order in which they are asked for, by tag or by key: a filter reads what is there of one, and no JSON.
Texts are kept without the difference of capitals. Metrics are listed once a run has ended: those of a live one change
with every batch, and are read from its row.
"""

import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

from sqlalchemy import ColumnElement, Select, and_, bindparam, case, delete, insert, select
from sqlalchemy.orm import aliased

from horizon_app.contracts.run_filter import FieldKind, spec_keys
from horizon_app.contracts.sizes import parse_size
from horizon_app.store.database import Transaction, dump_json
from horizon_app.store.sql_functions import json_number
from horizon_app.store.tables import RunMetricTable, RunTable, RunTagTable, SpecValueTable

_TAG, _VALUE, _METRIC = RunTagTable, SpecValueTable, RunMetricTable
_ROW = aliased(RunTable)  # once: naming a run's columns anew takes longer than looking a page's metrics up
spec_text, spec_number = _VALUE.text, _VALUE.number
"""Of a value of a spec: its text, lists as JSON; and the number that it is, or the bytes of a size."""


class _Rows(NamedTuple):
    """How the rows of a run are put into a table. Built once: that takes longer than to carry it out."""

    drop: Any
    add: Any


def _rows_of(table: Any) -> _Rows:
    return _Rows(delete(table).where(table.run_id == cast(Any, bindparam)("run")), insert(table))


_TAGS, _VALUES, _METRICS = map(_rows_of, (_TAG, _VALUE, _METRIC))


def keep_values(tx: Transaction, run_id: str, changed: Mapping[str, Any], *, is_new: bool = False) -> None:
    """Make a run's tags and values what its row says, of whose columns these were `changed`."""
    if "tags" in changed:
        tags = dict.fromkeys(tag.casefold() for tag in changed["tags"])
        _put(tx, run_id, _TAGS, [{"tag": tag} for tag in tags], is_new=is_new)
    if "spec" in changed:
        _put(tx, run_id, _VALUES, [*_spec_values(changed["spec"])], is_new=is_new)


def list_metrics(tx: Transaction, run_id: str, metrics: Mapping[str, float | None]) -> None:
    """List the last values of a run, as its row says by `metrics_listed`."""
    rows = [{"key": key, "value": value} for key, value in metrics.items() if value is not None]
    _put(tx, run_id, _METRICS, rows, is_new=False)


def has_tag(tag: str) -> ColumnElement[bool]:
    """Whether a run has a whole tag."""
    return RunTable.id.in_(select(_TAG.run_id).where(_TAG.tag == tag.casefold()))


def has_value(key: str, *conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    """Whether a run's spec has a value other than null at a dotted key, of which the conditions are true."""
    return RunTable.id.in_(select(_VALUE.run_id).where(_VALUE.key == key, *conditions))


class LastMetrics:
    """Last values of metrics beside each run: joined once a metric, however often it is asked for.

    As a join, and not as a look into the index a run, so that PostgreSQL may read all values of a metric in one go.
    """

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect
        self._listed: dict[str, Any] = {}

    def __bool__(self) -> bool:
        """Whether any was asked for."""
        return bool(self._listed)

    def value(self, key: str) -> ColumnElement[float | None]:
        """Last value of a metric; null where there is none or it was not finite."""
        listed = self._listed.setdefault(key, aliased(_METRIC))
        # By its id: named in the scan itself, the column would have the whole row of every run read.
        in_row = select(json_number(self.dialect, _ROW.metrics, key)).where(_ROW.id == RunTable.id)
        return case((RunTable.metrics_listed, listed.value), else_=in_row.scalar_subquery())

    def join(self, runs: Select[*tuple[Any, ...]]) -> Select[*tuple[Any, ...]]:
        """A query of runs with all values that were asked for."""
        for key, listed in self._listed.items():
            runs = runs.outerjoin(listed, and_(listed.key == key, listed.run_id == RunTable.id))
        return runs


def _put(tx: Transaction, run_id: str, statements: _Rows, rows: list[dict[str, Any]], *, is_new: bool) -> None:
    if not is_new:
        tx.execute(statements.drop, {"run": run_id})
    if rows:
        tx.execute(statements.add, [{**row, "run_id": run_id} for row in rows])


def _spec_values(spec: Mapping[str, Any], prefix: str = "") -> Iterator[dict[str, Any]]:
    for name, value in spec.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict):
            yield from _spec_values(cast(dict[str, Any], value), f"{key}.")
        elif prefix and value is not None:  # name, tags and notes are fields of their own
            text = value if isinstance(value, str) else dump_json(value)
            yield {"key": key, "text": text.casefold(), "number": _number(key, value)}


def _number(key: str, value: object) -> float | None:
    if isinstance(value, str) and spec_keys().get(key) is FieldKind.SPEC_SIZE:
        try:
            return float(parse_size(value))
        except ValueError:  # such as auto
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > sys.float_info.max:
        return None
    return float(value)
