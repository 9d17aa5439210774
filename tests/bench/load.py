"""A server on a large history: how long it takes to list, filter and read, for one viewer and for several at once.

Requests go over HTTP to a server in a process of its own, through connections that stay open, and count until the last
byte is read.
"""

import http.client
import json
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import quantiles
from urllib.parse import urlencode, urlsplit

import psutil

from tests.bench.report import Options, Report
from tests.support.large_history import LargeHistory, build_history
from tests.support.server import ServerProcess

_REQUESTS = 400
_WARM_UP = 3
_CLIENTS = (1, 8)
_GOAL_MS = 50.0
_MIB = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One question, as several readers ask it."""

    name: str
    path: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Timing:
    """How long one question took: milliseconds, and bytes of the answer."""

    name: str
    clients: int
    p50: float
    p90: float
    p99: float
    most: float
    processor: float
    """The server's own time: what another load on the machine does not change much."""
    num_bytes: int


def run(options: Options, report: Report) -> None:
    """Build the history, or take the one that lies there, and print a line a question."""
    with tempfile.TemporaryDirectory(prefix="horizon-bench-", dir=options.disk_folder) as name:
        home = options.history_home or Path(name)
        runs, points = options.history_runs, options.history_points
        report.write(f"\nLoad: {runs} runs, two of them with {points} points, and one with {points} log lines\n")
        history = _history(home, runs, points, report)
        with ServerProcess(home) as server:
            process = psutil.Process(server.pid)
            cursor = server.get("/runs", limit=min(500, runs // 2))["next_cursor"]
            before = process.memory_info().rss
            report.write(
                f"  {'clients x question':<42} {'p50':>7} {'p90':>7} {'p99':>7} {'most':>7} {'own':>7} ms {'KiB':>7}\n"
            )
            timings = [
                _show(measure(server, call, clients=clients, requests=_REQUESTS), report)
                for clients in _CLIENTS
                for call in calls(history, cursor)
            ]
            after = process.memory_info().rss
            report.write(f"  the server's memory: {before / _MIB:.0f} MiB before, {after / _MIB:.0f} MiB after\n")
    slow = [timing.name for timing in timings if timing.clients == 1 and timing.p99 > _GOAL_MS]
    report.write(f"  over {_GOAL_MS:.0f} ms for one client in one of 100: {', '.join(slow) or 'none'}\n")
    report.raw["load"] = {"timings": [asdict(t) for t in timings], "rss_before": before, "rss_after": after}


def _history(home: Path, runs: int, points: int, report: Report) -> LargeHistory:
    kept = home / "large_history.json"
    if kept.exists():
        return LargeHistory(**json.loads(kept.read_text()))
    begin = time.monotonic()
    history = build_history(
        home, runs=runs, points=points, log_lines=points,
        say=lambda line: report.write(f"  {time.monotonic() - begin:6.0f} s: {line}\n"),
    )  # fmt: skip
    kept.write_text(json.dumps(asdict(history)))
    return history


def _show(timing: Timing, report: Report) -> Timing:
    name = f"{timing.clients} x {timing.name}"
    figures = f"{timing.p50:7.1f} {timing.p90:7.1f} {timing.p99:7.1f} {timing.most:7.1f} {timing.processor:7.1f}"
    report.write(f"  {name:<42} {figures}    {timing.num_bytes / 1024:7.1f}\n")
    return timing


def calls(history: LargeHistory, cursor: str) -> list[Call]:
    """What a reader of the history asks."""

    def call(name: str, path: str, **query: object) -> Call:
        return Call(name=name, path=f"/api/v1{path}" + (f"?{urlencode(query)}" if query else ""))

    tall, wide, logged = (f"/runs/{run}" for run in (history.tall, history.wide, history.logged))
    middle = history.spike_step

    def around(steps: int) -> dict[str, object]:
        return {"keys": "train/loss", "from": middle - steps // 2, "to": middle + steps // 2}

    return [
        call("list, first page of 50", "/runs", limit=50),
        call("list, a page in the middle", "/runs", limit=50, cursor=cursor),
        call("list by state", "/runs", limit=50, state="failed"),
        call("list by a common tag", "/runs", limit=50, tag="lora"),
        call("list by a rare tag", "/runs", limit=50, tag="rare"),
        call("list by a text in many", "/runs", limit=50, q="qwen"),
        call("list by a text in few", "/runs", limit=50, q="qwen-sft-1231"),
        call("list by a text in none", "/runs", limit=50, q="no such words"),
        call("list by loss, tag and model", "/runs", limit=50, q="loss < 2 and tag:lora and model:qwen"),
        call("list by a metric", "/runs", limit=50, q="eval/loss < 2", sort="eval/loss"),
        call("list by another metric", "/runs", limit=50, q="time/step < 2", sort="throughput/tokens_per_second"),
        call("list by a value of the spec", "/runs", limit=50, q="training.learning_rate = 2e-5"),
        call("list by two letters", "/runs", limit=50, q="zq"),
        call("list by name", "/runs", limit=50, sort="name"),
        call("list by duration", "/runs", limit=50, q="duration < 1h", sort="-duration"),
        call("list by loss", "/runs", limit=50, sort="loss"),
        call("one run", tall),
        call("series of a million points", f"{tall}/metrics", keys="train/loss"),
        call("series, a tenth of them", f"{tall}/metrics", **around(100_000)),
        call("series, 5000 steps of them", f"{tall}/metrics", **around(5000)),
        call("series, one of 25", f"{wide}/metrics", keys="train/loss"),
        call("series, all 25 at 1000 points", f"{wide}/metrics"),
        call("series, all 25 at 300 points", f"{wide}/metrics", max_points=300),
        call("log, newest 500", f"{logged}/logs", limit=500),
        call("log, from a place in the middle", f"{logged}/logs", limit=500, after=middle),
        call("log, a text that is nowhere near", f"{logged}/logs", limit=500, q="needle"),
        call("log, errors alone", f"{logged}/logs", limit=500, level="error"),
    ]  # fmt: skip


def measure(server: ServerProcess, call: Call, *, clients: int, requests: int) -> Timing:
    """Ask `requests` times through `clients` connections at once."""
    each = requests // clients
    before = _processor_s(server)
    with ThreadPoolExecutor(clients) as pool:
        parts = list(pool.map(lambda _: _ask(server.url, call, each), range(clients)))
    used = _processor_s(server) - before
    taken = [seconds for part, _ in parts for seconds in part]
    percentiles = quantiles([1000 * seconds for seconds in taken], n=100, method="inclusive")
    return Timing(
        name=call.name, clients=clients, p50=percentiles[49], p90=percentiles[89], p99=percentiles[98],
        most=1000 * max(taken), processor=1000 * used / ((each + _WARM_UP) * clients), num_bytes=parts[0][1],
    )  # fmt: skip


def _processor_s(server: ServerProcess) -> float:
    used = psutil.Process(server.pid).cpu_times()
    return used.user + used.system


def _ask(url: str, call: Call, times: int) -> tuple[list[float], int]:
    where = urlsplit(url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=60)
    taken: list[float] = []
    size = 0
    try:
        for number in range(times + _WARM_UP):
            begin = time.perf_counter()
            connection.request("GET", call.path)
            response = connection.getresponse()
            content = response.read()
            if number >= _WARM_UP:  # the first ones open files and caches
                taken.append(time.perf_counter() - begin)
            size = len(content)
            assert response.status == 200, (call.path, response.status, content[:500])
    finally:
        connection.close()
    return taken, size
