"""What is searched for words: one row of texts a run, without the difference of capitals, kept beside its run's row.

An index of three-letter pieces finds any part of a text: on SQLite that of FTS5, which triggers keep in step with the
rows, on PostgreSQL that of pg_trgm, where the extension may be made. Without, and for texts of one or two letters, the
rows themselves are read.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from sqlalchemy import ColumnElement, column, insert, or_, select, table, update

from horizon_app.store.database import Transaction
from horizon_app.store.tables import RUN_TEXT_INDEX, RunTable, RunTextTable

_T = RunTextTable
_COLUMNS = {
    "id": _T.run, "name": _T.name, "notes": _T.notes, "tag": _T.tags, "model": _T.model,
    "architecture": _T.architecture, "device": _T.device, "spec": _T.spec,
}  # fmt: skip
"""Field of a filter -> column. All of them are searched for words that name no field."""
_SOURCES = ("id", "name", "notes", "tags", "model_name", "architecture", "device", "spec")
_LABELS = ("name", "tags", "notes")
_LONG = ("notes", "spec")
"""Reading short columns is quicker than collecting what an index finds in them."""
_SHORTEST_INDEXED = 3
_INSERT = insert(_T)


def add_texts(tx: Transaction, run: Mapping[Any, Any]) -> None:
    """The texts of a new run, whose row has these columns."""
    tx.execute(_INSERT, {"run_id": run["id"], **_texts(run)})


def keep_texts(tx: Transaction, run_id: str, changed: Iterable[str]) -> None:
    """Bring a run's texts up to date where one of the `changed` columns is searched."""
    if not set(_SOURCES).intersection(changed):
        return
    columns = [getattr(RunTable, name) for name in _SOURCES]
    row = tx.execute(select(*columns).where(RunTable.id == run_id)).mappings().one_or_none()
    if row is not None:
        tx.execute(update(_T).where(_T.run_id == run_id).values(**_texts(row)))


def _texts(run: Mapping[Any, Any]) -> dict[str, str]:
    spec = {key: value for key, value in run["spec"].items() if key not in _LABELS}
    return {
        "run": run["id"].casefold(),
        "name": run["name"].casefold(),
        "notes": run["notes"].casefold(),
        "tags": "".join(f"\n{tag.casefold()}\n" for tag in run["tags"]),
        "model": run["model_name"].casefold(),
        "architecture": (run["architecture"] or "").casefold(),
        "device": (run.get("device") or "").casefold(),
        "spec": "\n".join(text.casefold() for text in _strings(spec)),
    }


def _strings(value: Any) -> Iterator[str]:
    """Texts among the values of a spec; its keys and numbers are not searched for words."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in cast(Mapping[str, Any], value).values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in cast(list[Any], value):
            yield from _strings(item)


def among(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    """Whether a condition on the row of its texts is true of a run."""
    return RunTable.id.in_(select(_T.run_id).where(condition))


def holds(dialect: str, text: str, field: str | None = None) -> ColumnElement[bool]:
    """Whether texts have a text in a field, or anywhere where none is named."""
    wanted = text.casefold()
    if dialect == "sqlite" and len(wanted) >= _SHORTEST_INDEXED and field in (None, *_LONG):
        return _T.id.in_(_indexed(wanted, field))
    columns = _COLUMNS.values() if field is None else [_COLUMNS[field]]
    return or_(*(one.contains(wanted, autoescape=True) for one in columns))


def equals(text: str, field: str) -> ColumnElement[bool]:
    """Whether a field is this text."""
    return _COLUMNS[field] == text.casefold()


def _indexed(wanted: str, field: str | None) -> Any:
    phrase = '"' + wanted.replace('"', '""') + '"'
    if field is not None:
        phrase = f"{_COLUMNS[field].key} : {phrase}"
    index = table(RUN_TEXT_INDEX, column("rowid"), column(RUN_TEXT_INDEX))
    return select(index.c.rowid).where(index.c[RUN_TEXT_INDEX].op("MATCH", is_comparison=True)(phrase))
