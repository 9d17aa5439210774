"""Rows of runs: insert, read one, compare-and-set of the state, progress."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import bindparam, insert, select, update
from sqlalchemy import delete as sql_delete

from horizon_app.contracts.ids import RunId
from horizon_app.contracts.knobs import KnobValue
from horizon_app.contracts.run_state import ENDED, LIVE, RunState
from horizon_app.store.database import Transaction
from horizon_app.store.run_texts import add_texts, keep_texts
from horizon_app.store.run_values import keep_values, list_metrics
from horizon_app.store.tables import RunTable

_T = RunTable


@dataclass(frozen=True, kw_only=True, slots=True)
class NewRun:
    """What is known of a run when it is submitted."""

    id: RunId
    name: str
    tags: list[str]
    notes: str
    held: bool
    created_at: datetime
    queue_device: str
    share_device: bool
    cloned_from: str | None
    asked: Any
    """The spec as it was sent."""
    spec: dict[str, Any]
    model_dir: str
    data_paths: list[str]
    eval_paths: list[str]
    folders: list[str] | None
    base_dir: str
    disk_dir: str | None
    model_name: str
    architecture: str | None
    parameters: int | None
    total_steps: int | None
    idempotency_key: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredRun:
    """A run as the history lists it."""

    id: RunId
    name: str
    tags: list[str]
    notes: str
    state: RunState
    reason: str
    held: bool
    queue_device: str
    share_device: bool
    cloned_from: str | None
    archived_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    started_clock: float | None
    ran_s: float
    boot_id: str | None
    stop_asked_at: datetime | None
    updated_at: datetime
    device: str | None
    model_name: str
    architecture: str | None
    parameters: int | None
    step: int
    total_steps: int | None
    segment: int
    """Number of the newest worker's part; 0 before the first."""
    knobs: dict[str, KnobValue]
    """Values that were changed while the run ran."""
    knobs_version: int
    metrics: dict[str, float | None]
    sparkline: dict[str, Any]
    layout_seq: int | None
    last_seq: int
    journal_seq: int
    journal_bytes: int
    pid: int | None
    process_start: float | None
    cause: str | None
    exit_status: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredOrder:
    """What a run was asked to do, and what came of it: the large columns, read only where needed."""

    asked: Any
    """The spec as it was sent; None in what was submitted before that was kept."""
    spec: dict[str, Any]
    model_dir: str
    data_paths: list[str]
    eval_paths: list[str]
    folders: list[str] | None
    """Real paths of the folders that its files may lie in; None: the user's own run, which may use all files."""
    base_dir: str
    disk_dir: str | None
    """Where the disk tier lies; None: in the run's own folder."""
    plan: dict[str, Any] | None
    outcome: dict[str, Any] | None


def _columns(kind: type) -> list[Any]:
    return [getattr(_T, field.name) for field in fields(kind)]


RUN_COLUMNS = _columns(StoredRun)
_RUN_NAMES = tuple(field.name for field in fields(StoredRun))
_ORDER_NAMES = tuple(field.name for field in fields(StoredOrder))

# Built once: some are carried out ten times a second for each live run, and to build one takes longer than that.
_BY_ID = select(*RUN_COLUMNS).where(_T.id == bindparam("run"))
_BY_ID_LOCKED = _BY_ID.with_for_update()
_ORDER = select(*_columns(StoredOrder)).where(_T.id == bindparam("run"))
_METRICS = select(_T.metrics).where(_T.id == bindparam("run"))
_BY_IDS = select(*RUN_COLUMNS).where(_T.id.in_(bindparam("runs", expanding=True))).order_by(_T.created_at, _T.id)
_LIVE = select(*RUN_COLUMNS).where(_T.state.in_([state.value for state in LIVE])).order_by(_T.created_at, _T.id)


def stored_run(row: Mapping[Any, Any]) -> StoredRun:
    """A row that has `RUN_COLUMNS`, typed."""
    values: dict[str, Any] = {name: row[name] for name in _RUN_NAMES}
    values["id"], values["state"] = RunId(values["id"]), RunState(values["state"])
    return StoredRun(**values)


def insert_run(tx: Transaction, run: NewRun, *, queue_rank: float = 0.0) -> None:
    """A new row, queued, without events."""
    values = {field.name: getattr(run, field.name) for field in fields(NewRun)}
    zero: dict[str, Any] = {
        "reason": "",
        "step": 0,
        "metrics": {},
        "metrics_listed": False,
        "sparkline": {},
        "last_seq": 0,
        "journal_seq": 0,
        "journal_bytes": 0,
        "knobs": {},
        "knobs_version": 0,
        "segment": 0,
        "queue_rank": queue_rank,
        "ran_s": 0.0,
    }
    tx.execute(insert(_T), [{**values, **zero, "state": RunState.QUEUED.value, "updated_at": run.created_at}])
    add_texts(tx, values)
    keep_values(tx, run.id, values, is_new=True)


def get_run(tx: Transaction, run_id: str, *, lock: bool = False) -> StoredRun | None:
    """One run; `lock` keeps other writers away from it where the database locks rows."""
    row = tx.execute(_BY_ID_LOCKED if lock else _BY_ID, {"run": run_id}).mappings().one_or_none()
    return None if row is None else stored_run(row)


def get_runs(tx: Transaction, run_ids: Sequence[str]) -> list[StoredRun]:
    """Those of these runs that are there, oldest first."""
    rows = tx.execute(_BY_IDS, {"runs": run_ids})
    return [stored_run(row) for row in rows.mappings()]


def get_order(tx: Transaction, run_id: str) -> StoredOrder | None:
    """What one run was asked to do."""
    row = tx.execute(_ORDER, {"run": run_id}).mappings().one_or_none()
    return None if row is None else StoredOrder(**{name: row[name] for name in _ORDER_NAMES})


def find_by_key(tx: Transaction, idempotency_key: str) -> RunId | None:
    """The run that was submitted with this key."""
    found = tx.execute(select(_T.id).where(_T.idempotency_key == idempotency_key)).scalar_one_or_none()
    return None if found is None else RunId(found)


def live_runs(tx: Transaction) -> list[StoredRun]:
    """Runs that may have a worker, oldest first."""
    return [stored_run(row) for row in tx.execute(_LIVE).mappings()]


def set_state(
    tx: Transaction, run_id: str, old: Iterable[RunState], new: RunState, reason: str, **also: object
) -> bool:
    """Compare and set: the state becomes `new` only where it is one of `old`. For the lifecycle alone."""
    ends = new in ENDED
    query = (
        update(_T)
        .where(_T.id == run_id, _T.state.in_([state.value for state in old]))
        .values(state=new.value, reason=reason, updated_at=datetime.now(UTC), **also)
    )
    if tx.execute(query.values(metrics_listed=True) if ends else query).rowcount == 0:
        return False
    if ends:
        list_metrics(tx, run_id, tx.execute(_METRICS, {"run": run_id}).scalar_one())
    return True


def update_run(tx: Transaction, run_id: str, **values: object) -> None:
    """Set columns of one run other than its state."""
    assert "state" not in values, "only the lifecycle changes a run's state, through set_state"
    if "metrics" in values:
        values["metrics_listed"] = False
    query = update(_T).where(_T.id == run_id).values(updated_at=datetime.now(UTC), **values)
    if tx.execute(query).rowcount:
        keep_texts(tx, run_id, values)
        keep_values(tx, run_id, values)


def delete_run(tx: Transaction, run_id: str) -> None:
    """Remove a run with its events, metrics and checkpoints."""
    tx.execute(sql_delete(_T).where(_T.id == run_id))


def changed_since(tx: Transaction, moment: datetime) -> list[RunId]:
    """Runs whose row changed at or after a moment."""
    return [RunId(found) for found in tx.execute(select(_T.id).where(_T.updated_at >= moment)).scalars()]


def last_seqs(tx: Transaction, run_ids: Sequence[str]) -> dict[str, int]:
    """The newest `seq` of each of these runs that exists."""
    rows = tx.execute(select(_T.id, _T.last_seq).where(_T.id.in_(run_ids)))
    return {row.id: row.last_seq for row in rows}
