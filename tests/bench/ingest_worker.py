"""`python -m tests.bench.ingest_worker RUN_DIR`: a worker whose steps compute a little and journal 25 metrics each.

The run's notes tell it as JSON: `interval_s` between steps (0: none, and nothing is computed). Leaves `ingest.json` in
the folder: seconds of each step's computation, and of handing its metrics over.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from horizon_app.contracts.events import RunOutcome, StateChanged
from horizon_app.contracts.run_state import RunState
from horizon_app.worker.event_sink import EventSink
from tests.support.large_history import KEYS

_SIZE = 256


def work(run_dir: Path) -> None:
    """All steps of the run's spec, and what a worker leaves behind."""
    order = json.loads((run_dir / "run.json").read_text())
    interval = json.loads(order["spec"]["notes"])["interval_s"]
    identity = {"pid": os.getpid(), "start_time": psutil.Process().create_time(), "heartbeat": time.time()}
    (run_dir / "worker.json").write_text(json.dumps(identity))
    sink = EventSink(run_dir)
    sink.emit(StateChanged(state=RunState.RUNNING, who="worker"))
    seconds = _steps(sink, order["spec"]["training"]["optimizer_steps"], interval)
    outcome = RunOutcome(state=RunState.FINISHED)
    sink.note("outcome", "", outcome.model_dump(mode="json"))
    sink.emit(StateChanged(state=RunState.FINISHED, who="worker"))
    sink.close()
    (run_dir / "ingest.json").write_text(json.dumps(seconds))
    (run_dir / "exit.json").write_text(json.dumps({"exit_code": 0, "state": "finished", "reason": ""}))


def _steps(sink: EventSink, steps: int, interval: float) -> dict[str, Any]:
    matrix = np.ones((_SIZE, _SIZE))
    computing: list[float] = []
    handing: list[float] = []
    due = begin = time.monotonic()
    for step in range(1, steps + 1):
        start = time.perf_counter()
        if interval:
            matrix = matrix @ matrix / _SIZE
        computed = time.perf_counter()
        sink.metrics(step, {key: (number + 1) / step for number, key in enumerate(KEYS)})
        computing.append(computed - start)
        handing.append(time.perf_counter() - computed)
        due += interval
        time.sleep(max(0.0, due - time.monotonic()))
    return {"computing": computing, "handing": handing, "total": time.monotonic() - begin}


if __name__ == "__main__":
    work(Path(sys.argv[1]))
