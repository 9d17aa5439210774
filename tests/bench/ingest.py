"""Two thousand points a second from a worker into the history: what it costs the worker and the server.

The same worker runs without any server and under one. Then a journal of a million points waits for a server that
starts: how long it takes to catch up, what memory, and how soon it answers meanwhile.
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from tests.bench.processes import run as run_process
from tests.bench.report import Options, Report
from tests.support.large_history import KEYS
from tests.support.run_folders import make_run_folder
from tests.support.server import ServerProcess, furnish_home, scripted_spec, wait_for

_POINTS_A_SECOND = 2000
_SECONDS = 30
_MODULE = "tests.bench.ingest_worker"
_PATIENCE_S = 900.0
_ASK_S = 0.05
_MIB = 1 << 20


def run(options: Options, report: Report) -> None:
    """Print what a step took with and without a server, the server's share of a processor, and the catching up."""
    interval = len(KEYS) / _POINTS_A_SECOND
    steps = round(_SECONDS / interval)
    report.write(f"\nIngest: {_POINTS_A_SECOND} points a second for {_SECONDS} s, in steps of {len(KEYS)}\n")
    with tempfile.TemporaryDirectory(prefix="horizon-bench-", dir=options.disk_folder) as name:
        alone = _alone(Path(name) / "20260101-000000-abcdef", steps, interval)
        report.write(f"  without a server: {_shown(alone)}\n")
        home = furnish_home(Path(name) / "home")
        with ServerProcess(home, HORIZON_WORKER_MODULE=_MODULE) as server:
            beside, share, lag = _under(server, steps, interval)
            report.write(f"  under a server:   {_shown(beside)}\n")
            report.write(f"  the server took {share:.0%} of one processor, and had it all {lag:.2f} s after the end\n")
    with tempfile.TemporaryDirectory(prefix="horizon-bench-", dir=options.disk_folder) as name:
        caught = _catch_up(furnish_home(Path(name) / "home"), options.history_points // len(KEYS))
        speed = caught["points"] / caught["seconds"]
        report.write(
            f"  a journal of {caught['points']:,.0f} points, found at a start: recorded in {caught['seconds']:.1f} s, "
            f"{speed:,.0f} a second\n"
            f"  the server grew from {caught['before'] / _MIB:.0f} to {caught['peak'] / _MIB:.0f} MiB at most, "
            f"and meanwhile gave the list of runs in {caught['answer_ms']:.0f} ms (median), "
            f"{caught['slow_answer_ms']:.0f} ms in one of 100\n"
        )
    report.raw["ingest"] = {"alone": alone, "beside": beside, "share": share, "lag": lag, "catch_up": caught}


def _shown(seconds: dict[str, Any]) -> str:
    computing = 1e3 * statistics.median(seconds["computing"])
    handing = sorted(1e6 * one for one in seconds["handing"])
    return (
        f"a step's computation {computing:.2f} ms (median); its metrics handed over in "
        f"{statistics.median(handing):.0f} us, "
        f"{handing[int(0.99 * len(handing))]:.0f} us in one of 100"
    )


def _alone(folder: Path, steps: int, interval: float) -> dict[str, Any]:
    notes = json.dumps({"interval_s": interval})
    make_run_folder(folder, training={"optimizer_steps": steps}, notes=notes)
    code, _, errors = run_process([sys.executable, "-m", _MODULE, str(folder)], None, _PATIENCE_S)
    assert code == 0, errors
    return json.loads((folder / "ingest.json").read_text())


def _under(server: ServerProcess, steps: int, interval: float) -> tuple[dict[str, Any], float, float]:
    """Seconds of the worker's steps, the server's share of a processor meanwhile, and how long after it had it all."""
    process = psutil.Process(server.pid)
    run_id = server.post("/runs", {"spec": scripted_spec(steps, interval_s=interval)})["id"]
    server.wait_state(run_id, "running", deadline_s=_PATIENCE_S)
    begin, before = time.monotonic(), process.cpu_times()
    told = server.home / "runs" / run_id / "exit.json"
    wait_for(told.exists, "the worker's end", _PATIENCE_S)
    end, after = time.monotonic(), process.cpu_times()
    server.wait_state(run_id, "finished", deadline_s=_PATIENCE_S)
    used = after.user + after.system - before.user - before.system
    seconds = json.loads((told.parent / "ingest.json").read_text())
    return seconds, used / (end - begin), time.monotonic() - end


def _catch_up(home: Path, steps: int) -> dict[str, float]:
    server = ServerProcess(home, HORIZON_WORKER_MODULE=_MODULE)
    with server:
        run_id = server.post("/runs", {"spec": scripted_spec(steps, interval_s=0)})["id"]
        wait_for((home / "runs" / run_id / "worker.json").exists, "the worker's start", _PATIENCE_S)
    wait_for((home / "runs" / run_id / "exit.json").exists, "the worker's end", _PATIENCE_S)
    with server:
        begin, process = time.monotonic(), psutil.Process(server.pid)
        before = process.memory_info().rss
        done = server.get(f"/runs/{run_id}")["step"]
        answers = sorted(_answers(server))
        seconds = time.monotonic() - begin
        status = Path(f"/proc/{server.pid}/status").read_text()
    peak = next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))
    return {
        "points": (steps - done) * len(KEYS), "seconds": seconds, "before": before, "peak": peak,
        "answer_ms": 1e3 * statistics.median(answers), "slow_answer_ms": 1e3 * answers[int(0.99 * len(answers))],
    }  # fmt: skip


def _answers(server: ServerProcess) -> Iterator[float]:
    """Seconds of each answer with the list of runs, a few a second, until its one run has finished."""
    while True:
        begin = time.perf_counter()
        (run,) = server.get("/runs")["runs"]
        yield time.perf_counter() - begin
        if run["state"] == "finished":
            return
        time.sleep(_ASK_S)
