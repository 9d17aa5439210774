"""A server of answers given beforehand, for the Python client."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, get_origin

import httpx

from horizon_app.client import Horizon
from horizon_app.contracts.run_view import RunDetail


def horizon(answer: Callable[[httpx.Request], httpx.Response], url: str = "http://server", **given: Any) -> Horizon:
    """A client whose server is a function."""
    return Horizon(url, http=httpx.MockTransport(answer), **given)


def document(run_id: str = "20260131-120000-abcdef", **changes: Any) -> dict[str, Any]:
    """A run as the server answers it."""
    known = {
        "id": run_id, "name": "tiny", "tags": [], "notes": "", "state": "running", "reason": "",
        "created_at": datetime(2026, 1, 31, 12, tzinfo=UTC).isoformat(), "started_at": None, "ended_at": None,
        "device": None, "model": {"name": "tiny"}, "step": 3, "total_steps": 9, "metrics": {"train/loss": 2.5},
        "sparkline": [], "last_seq": 7, "spec": {"model": {"path": "m"}}, "plan": None, "layout_ready": False,
        "outcome": None, "checkpoints": [], **changes,
    }  # fmt: skip
    return {**_nothing(set(known)), **known}


def _nothing(but: set[str]) -> dict[str, Any]:
    """Every field of a run that has to be there, without anything in it."""
    empty: dict[Any, Any] = {int: 0, bool: False, str: "", dict: {}, list: []}
    required = {name: field.annotation for name, field in RunDetail.model_fields.items() if field.is_required()}
    return {name: empty.get(get_origin(kind) or kind) for name, kind in required.items() if name not in but}


def problem(status: int, name: str, detail: str, **more: Any) -> httpx.Response:
    """An answer that says what is wrong."""
    body = {"type": f"horizon:{name}", "title": "No", "status": status, "detail": detail, **more}
    return httpx.Response(status, json=body, headers={"content-type": "application/problem+json"})
