"""Run folders for worker tests, and what a reader finds in them."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from horizon_app.contracts.events import EVENT, Event, StateChanged


def make_run_folder(run_dir: Path, *, model: str = "model", data: str = "corpus.txt", **sections: Any) -> Path:
    """A folder with the run.json that the server writes before it starts a worker."""
    spec = {"model": {"path": model}, "data": {"path": data}, **sections}
    run_dir.mkdir(parents=True)
    order = {
        "run_id": run_dir.name,
        "spec": spec,
        "model_dir": str(run_dir.parent / model),
        "data_paths": [str(run_dir.parent / data)],
        "eval_paths": [],
        "cache_dir": str(run_dir.parent / "cache"),
        "base_dir": str(run_dir.parent),
        "disk_dir": str(run_dir),
    }
    (run_dir / "run.json").write_text(json.dumps(order))
    return run_dir


def read_journal(run_dir: Path) -> list[Event]:
    """The events of a journal, whole lines only."""
    path = run_dir / "journal.jsonl"
    content = path.read_bytes() if path.exists() else b""
    return [EVENT.validate_json(line) for line in content.split(b"\n")[:-1]]


def states(run_dir: Path) -> list[str]:
    """The states that a journal tells of, in order."""
    return [event.state.value for event in read_journal(run_dir) if isinstance(event, StateChanged)]


def wait_until(condition: Callable[[], object], what: str, deadline_s: float = 20.0) -> None:
    """Poll `condition` until it holds; fail with `what` after the deadline."""
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, f"not within {deadline_s} s: {what}"
        time.sleep(0.01)
