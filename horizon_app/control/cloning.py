"""A new run from the spec of an earlier one, as that was asked for."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from horizon_app.contracts.ids import RunId
from horizon_app.control.errors import RunNotFound
from horizon_app.control.spec_changes import laid_over
from horizon_app.control.submission import Place, submit
from horizon_app.store.database import Database
from horizon_app.store.runs import StoredOrder, get_order


def clone(
    database: Database, run_id: str, changes: Mapping[str, Any], place: Callable[[StoredOrder], Place],
    *, name: str | None, start: bool, key: str | None, who: str,
) -> RunId:  # fmt: skip
    """Submit the spec of a run again, with `changes` by dotted key. Raises RunNotFound, SpecRefused, KeyReused."""
    with database.read() as tx:
        order = get_order(tx, run_id)
    if order is None:
        raise RunNotFound(run_id)
    document = laid_over(order.spec if order.asked is None else order.asked, changes)
    if name is not None:
        document["name"] = name
    return submit(database, document, place(order), start=start, key=key, who=who, cloned_from=run_id)


def paths_of(order: StoredOrder) -> list[Path]:
    """What a run reads, and where its disk tier lies: real paths."""
    disk = [] if order.disk_dir is None else [order.disk_dir]
    return [Path(text) for text in (order.model_dir, *order.data_paths, *order.eval_paths, *disk)]
