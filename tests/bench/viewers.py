"""Many viewers of one run beside none: one run trains on, and viewers come and go in the order off, on, on, off."""

import statistics
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.bench.report import Options, Report
from tests.bench.rounds import ratio_line
from tests.support.server import ServerProcess
from tests.support.viewer_crowd import Seen, ViewerCrowd

VIEWERS = 200
_STEPS_FOR_EACH = 8
"""Steps of a stretch, for each that `--steps` asks for."""
_GOAL = 0.99


@dataclass(kw_only=True, slots=True)
class Phase:
    """A stretch of the run."""

    viewers: int
    seconds: float = 0.0
    step_s: list[float] = field(default_factory=list[float])
    server_share: float = 0.0
    """Of one core."""
    seen: Seen | None = None


def run(options: Options, report: Report) -> None:
    """Print step times without and with viewers, what the server takes, and what the viewers saw."""
    report.write(f"\n{VIEWERS} viewers of one run, in a process of their own on the same machine\n")
    with tempfile.TemporaryDirectory(prefix="horizon-bench-") as folder:
        phases = watch_a_run(Path(folder), options.rounds, viewers=VIEWERS, steps=options.steps * _STEPS_FOR_EACH)
    ratios: list[float | None] = [
        _middle(phases[first : first + 4], 0) / _middle(phases[first : first + 4], VIEWERS)
        for first in range(0, len(phases), 4)
    ]
    report.write(f"  {'ratio in one round':<52} {'median':>6} {'min':>6} {'max':>6}\n")
    report.write(ratio_line("speed with viewers / without", ratios, _GOAL))
    without, beside = (_server_share(phases, viewers) for viewers in (0, VIEWERS))
    report.write(f"  the server took {without:.1%} of a core without viewers, {beside:.1%} with them\n")
    seen = [phase.seen for phase in phases if phase.seen is not None]
    seconds = sum(phase.seconds for phase in phases if phase.seen is not None)
    texts = sum(one.texts for one in seen)
    each_us = 1e6 * (beside - without) * seconds / texts
    report.write(
        f"  text frames {texts / seconds:,.0f} a second, each {each_us:.1f} us of a core a viewer; residency frames "
        f"{sum(one.residency_frames for one in seen) / seconds:,.0f} a second; out of order, missing or dropped: "
        f"{sum(one.out_of_order + one.dropped for one in seen)}\n"
    )
    report.raw["viewers"] = [asdict(phase) for phase in phases]


def watch_a_run(folder: Path, rounds: int, *, viewers: int, steps: int) -> list[Phase]:
    """Train the example run, and have viewers look at it in every second stretch."""
    folder.joinpath("home").mkdir()
    with ServerProcess(folder / "home", HORIZON_WORKER_MODULE="horizon_app.worker") as server:
        spec = server.client.post("/examples", timeout=300).raise_for_status().json()["spec"]
        spec["training"]["optimizer_steps"] = 100_000
        run_id: str = server.post("/runs", {"spec": spec})["id"]
        server.wait_step(run_id, 5, deadline_s=300)
        phases = [
            _phase(server, run_id, viewers if on else 0, steps)
            for _ in range(rounds)
            for on in (False, True, True, False)
        ]
        server.post(f"/runs/{run_id}/stop", {"save": False})
        server.wait_state(run_id, "stopped", deadline_s=120)
    return phases


def _phase(server: ServerProcess, run_id: str, viewers: int, steps: int) -> Phase:
    phase = Phase(viewers=viewers)
    if not viewers:
        _stretch(server, run_id, phase, steps)
        return phase
    with ViewerCrowd(server.stream_url(run_id), viewers) as crowd:
        _stretch(server, run_id, phase, steps)
        phase.seen = crowd.leave()
    return phase


def _stretch(server: ServerProcess, run_id: str, phase: Phase, steps: int) -> None:
    process = psutil.Process(server.pid)
    first: int = server.get(f"/runs/{run_id}")["step"] + 2  # the next one was begun before
    before, begin = process.cpu_times(), time.monotonic()
    last = first + steps - 1
    server.wait_step(run_id, last, deadline_s=600)
    after, phase.seconds = process.cpu_times(), time.monotonic() - begin
    phase.server_share = (after.user + after.system - before.user - before.system) / phase.seconds
    asked: dict[str, Any] = {"keys": "time/step", "from": first, "to": last, "max_points": 10_000}
    phase.step_s = server.get(f"/runs/{run_id}/metrics", **asked)["series"]["time/step"]["y"]


def _server_share(phases: list[Phase], viewers: int) -> float:
    """Cores that the server took in the stretches with so many viewers, on average."""
    chosen = [phase for phase in phases if phase.viewers == viewers]
    return sum(phase.server_share * phase.seconds for phase in chosen) / sum(phase.seconds for phase in chosen)


def _middle(phases: list[Phase], viewers: int) -> float:
    """Median seconds of a step in the stretches with so many viewers."""
    return statistics.median(step for phase in phases if phase.viewers == viewers for step in phase.step_s)
