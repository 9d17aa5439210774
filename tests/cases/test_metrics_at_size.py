"""Numbers that JSON has no word for, and histories that have grown: from the journal to REST and stream."""

import asyncio
import json
import math
import tracemalloc
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event
from websockets.asyncio.client import connect

from horizon_app.control.history import History
from horizon_app.settings import AppSettings
from horizon_app.store.database import Database, open_database
from tests.support.commands import run_horizon, write_spec
from tests.support.large_history import KEYS, SPIKE, LargeHistory, build_history
from tests.support.server import ServerProcess, furnish_home

INPUTS = Path(__file__).parent / "inputs"
RUNS, POINTS, LINES = 120, 20_000, 21_000
MOST_LIST_BYTES, MOST_SERIES_BYTES = 200_000, 500_000


def strict(text: str) -> Any:
    """Parsed as JSON that knows no NaN and no infinities."""

    def refuse(word: str) -> Any:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(furnish_home(tmp_path_factory.mktemp("shared") / "home")) as process:
        yield process


def test_e10_losses_that_are_not_finite_are_null_and_flagged_on_rest_and_stream(server: ServerProcess) -> None:
    written = [json.loads(line) for line in (INPUTS / "E10" / "metrics.jsonl").read_text().splitlines()]
    run_id = server.submit(len(written), step_s=0, losses=[line["loss"] for line in written])
    server.wait_state(run_id, "finished")
    expected = [None if not math.isfinite(line["loss"]) else line["loss"] for line in written]
    flags = [[2, "nan"], [3, "inf"], [4, "-inf"]]

    answers: dict[str, Any] = {}
    for path in ("", "/metrics", "/metrics?max_points=3", "/events?types=metrics", "/checkpoints", "/logs"):
        answer = server.client.get(f"/runs/{run_id}{path}")
        assert answer.status_code == 200, path
        answers[path] = strict(answer.text)
    strict(server.client.get("/runs").text)
    assert answers["/metrics"]["series"]["train/loss"] == {"x": [1, 2, 3, 4, 5], "y": expected}
    assert answers["/metrics"]["nonfinite"]["train/loss"] == flags
    assert answers["/metrics?max_points=3"]["series"]["train/loss"] == {"x": [1, 5], "y": [2.5, 2.4]}

    frames = [frame for frame in asyncio.run(_frames(server.stream_url(run_id, after=0))) if frame["type"] == "metrics"]
    assert [frame["values"]["train/loss"] for frame in frames] == expected
    told = [[frame["step"], frame["nonfinite"]["train/loss"]] for frame in frames if frame["nonfinite"]]
    assert told == flags
    assert answers["/events?types=metrics"]["events"] == frames


def test_e10_losses_that_are_not_finite_are_strict_json_from_every_verb_with_and_without_a_server(
    tmp_path: Path,
) -> None:
    losses = [json.loads(line)["loss"] for line in (INPUTS / "E10" / "metrics.jsonl").read_text().splitlines()]
    home = furnish_home(tmp_path / "home")
    with ServerProcess(home) as server:
        runs = [server.submit(len(losses), step_s=0, losses=losses) for _ in range(2)]
        for run_id in runs:
            server.wait_state(run_id, "finished")
        through_server = _answers(home, runs)
    alone = _answers(home, runs, only=("show", "watch", "export"))
    assert alone == {name: through_server[name] for name in alone}
    expected, flags = [2.5, None, None, None, 2.4], [[2, "nan"], [3, "inf"], [4, "-inf"]]
    exported = through_server["export"][0]
    assert exported["metrics"]["train/loss"] == {"x": [1, 2, 3, 4, 5], "y": expected}
    assert exported["nonfinite"]["train/loss"] == flags
    steps = [frame for frame in through_server["watch"] if frame["type"] == "metrics"]
    assert [frame["values"]["train/loss"] for frame in steps] == expected
    assert [[frame["step"], frame["nonfinite"]["train/loss"]] for frame in steps if frame["nonfinite"]] == flags
    assert [line.split(",")[1] for line in through_server["csv"]] == [
        "time/step", "0.01", "0.01", "0.01", "0.01", "0.01"
    ]  # fmt: skip


def _answers(home: Path, runs: list[str], only: Sequence[str] = ()) -> dict[str, list[Any]]:
    """What each verb prints of runs, by line."""
    verbs = {
        "list": ["list", "--json"], "show": ["show", runs[0], "--json"], "compare": ["compare", *runs, "--json"],
        "checkpoints": ["checkpoints", runs[0], "--json"], "watch": ["watch", runs[0], "--json", "--after", "0"],
        "export": ["export", runs[0], "--format", "json"], "csv": ["export", runs[0], "--format", "csv"],
    }  # fmt: skip
    found: dict[str, list[Any]] = {}
    for name in only or verbs:
        verb = verbs[name]
        done = run_horizon("runs", *verb, home=home)
        assert done.exit_code == 0, done.stderr
        lines = done.stdout.splitlines()
        found[name] = lines if name == "csv" else [strict(line) for line in lines]
    return found


def test_e10_foreground_run_whose_last_loss_is_no_number_prints_strict_json(tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "spec", training={"optimizer_steps": 3}, notes=json.dumps({"nan_at": 3}))
    done = run_horizon("run", spec, "--json", home=tmp_path / "home", worker="tests.support.scripted_worker")
    assert done.exit_code == 0, done.stderr
    assert strict(done.stdout)["state"] == "finished"


async def _frames(url: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    async with asyncio.timeout(20), connect(url) as socket:
        async for message in socket:
            if isinstance(message, str):
                found.append(strict(message))
                if found[-1]["type"] == "state" and found[-1]["state"] == "finished":
                    break
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Large:
    """A history of some size, and a server on it."""

    runs: LargeHistory
    server: ServerProcess


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Large]:
    home = furnish_home(tmp_path_factory.mktemp("large") / "home")
    runs = build_history(home, runs=RUNS, points=POINTS, log_lines=LINES)
    with ServerProcess(home) as process:
        yield Large(runs=runs, server=process)


@dataclass
class Work:
    """What a database was made to do."""

    statements: int = 0
    thousand_instructions: int = 0


@contextmanager
def work_of(database: Database) -> Generator[Work]:
    """Counts the statements, and the instructions of SQLite's virtual machine: every row looked at costs several."""
    work = Work()

    def count(connection: Connection, *_: Any) -> None:
        work.statements += 1
        driver: Any = connection.connection.driver_connection
        driver.set_progress_handler(tick, 1000)

    def tick() -> int:
        work.thousand_instructions += 1
        return 0

    event.listen(database._engine, "before_cursor_execute", count)
    try:
        yield work
    finally:
        event.remove(database._engine, "before_cursor_execute", count)


@pytest.fixture
def history(large: Large) -> Iterator[tuple[History, Database]]:
    """The same history without a server between."""
    settings = AppSettings(home=large.server.home)
    database = open_database(settings)
    yield History(database, settings), database
    database.close()


def test_e11_list_of_50_runs_is_small_and_unchanged_is_not_sent_again(large: Large) -> None:
    answer = large.server.client.get("/runs", params={"limit": 50})
    assert len(answer.content) <= MOST_LIST_BYTES
    page = strict(answer.text)
    assert (len(page["runs"]), page["total"]) == (50, RUNS)
    again = large.server.client.get("/runs", params={"limit": 50}, headers={"If-None-Match": answer.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_e11_pages_of_the_list_give_every_run_once(large: Large) -> None:
    seen: list[str] = []
    cursor: str | None = None
    while cursor is not None or not seen:
        page = large.server.get("/runs", limit=70, **({} if cursor is None else {"cursor": cursor}))
        seen += [run["id"] for run in page["runs"]]
        cursor = page["next_cursor"]
    assert len(seen) == len(set(seen)) == RUNS and seen == sorted(seen, reverse=True)


def test_e11_list_asks_no_more_for_many_runs_than_for_few(history: tuple[History, Database]) -> None:
    past, database = history
    asked: list[int] = []
    for limit in (1, 20):
        with work_of(database) as work:
            assert len(past.runs(limit=limit, tag="lora").runs) == limit
        asked.append(work.statements)
    assert asked[0] == asked[1] <= 8


def test_e11_series_holds_its_one_spike_in_few_bytes_and_looks_at_few_rows(
    large: Large, history: tuple[History, Database]
) -> None:
    answer = large.server.client.get(f"/runs/{large.runs.tall}/metrics")
    assert len(answer.content) <= MOST_SERIES_BYTES
    loss = strict(answer.text)["series"]["train/loss"]
    assert [large.runs.spike_step, SPIKE] in [list(point) for point in zip(loss["x"], loss["y"], strict=True)]
    assert len(loss["x"]) <= 1000 and loss["x"][-1] == POINTS
    assert min(loss["y"]) == 4.0 / math.sqrt(POINTS)
    past, database = history
    with work_of(database) as work:
        past.series(large.runs.tall)
    assert work.thousand_instructions < POINTS / 1000, "less than one instruction a point: the points are not looked at"


def test_e11_all_series_of_a_run_are_within_bounds(large: Large) -> None:
    answer = large.server.client.get(f"/runs/{large.runs.wide}/metrics", params={"max_points": 300})
    series = strict(answer.text)["series"]
    assert len(answer.content) <= MOST_SERIES_BYTES and set(series) == set(KEYS)
    assert all(len(one["x"]) <= 300 and one["x"][-1] == POINTS // len(KEYS) for one in series.values())


def test_e11_log_is_read_from_its_end_and_a_search_goes_on_where_it_stopped(
    large: Large, history: tuple[History, Database]
) -> None:
    run_id = large.runs.logged
    tail = large.server.get(f"/runs/{run_id}/logs")["lines"]
    assert [line["message"].split(":")[0] for line in tail] == [f"step {n}" for n in range(LINES - 500, LINES)]
    first = large.server.get(f"/runs/{run_id}/logs", q="needle")
    assert first["lines"] == [] and first["scanned_to"] is not None
    second = large.server.get(f"/runs/{run_id}/logs", q="needle", before=first["scanned_to"])
    assert [line["message"] for line in second["lines"]] == ["the needle"] and second["scanned_to"] is None
    errors = large.server.get(f"/runs/{run_id}/logs", level="error")
    assert [line["message"] for line in errors["lines"]] == ["the needle"] and errors["scanned_to"] is None
    past, database = history
    with work_of(database) as work:
        past.logs(run_id, level="error")
    assert work.thousand_instructions < 2, "errors are found by their index"


def test_e11_pages_of_the_command_lines_list_are_small_and_give_every_run_once(large: Large) -> None:
    seen: list[str] = []
    cursor: list[str] = []
    while cursor or not seen:
        done = run_horizon("runs", "list", "--limit", "50", "--json", *cursor, home=large.server.home)
        assert len(done.stdout) <= MOST_LIST_BYTES
        page = strict(done.stdout)
        seen += [run["id"] for run in page["runs"]]
        cursor = ["--cursor", page["next_cursor"]] if page["next_cursor"] else []
    assert len(seen) == len(set(seen)) == RUNS and seen == sorted(seen, reverse=True)
    table = run_horizon("runs", "list", "--limit", "5", home=large.server.home).stdout
    assert f"5 of {RUNS} runs" in table and len(table.splitlines()) == 7


def test_e11_export_by_the_command_line_holds_every_point(large: Large) -> None:
    exported = {
        form: run_horizon("runs", "export", large.runs.tall, "--format", form, home=large.server.home).stdout
        for form in ("json", "csv")
    }
    assert strict(exported["json"])["metrics"]["train/loss"]["x"] == [*range(1, POINTS + 1)]
    assert len(exported["csv"].splitlines()) == POINTS + 1


def test_e11_export_by_the_command_line_of_a_long_log_never_holds_the_whole_of_it(large: Large, tmp_path: Path) -> None:
    held: list[int] = []
    for number, run_id in enumerate([large.runs.wide, large.runs.wide, large.runs.logged]):
        tracemalloc.start()  # the first export imports what the others need, the second is a small one
        verb = ["runs", "export", run_id, "--format", "json", "-o", tmp_path / f"{number}.json"]
        done = run_horizon(*verb, home=large.server.home)
        held.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert done.exit_code == 0, done.stderr
    written = (tmp_path / "2.json").read_text()
    assert len(strict(written)["logs"]) == LINES
    assert held[2] - held[1] < len(written) / 4


def test_e11_long_log_is_watched_from_any_place_each_line_once(large: Large) -> None:
    after = LINES - 2000
    verb = ["runs", "watch", large.runs.logged, "--json", "--after", str(after)]
    frames = [strict(line) for line in run_horizon(*verb, home=large.server.home).stdout.splitlines()]
    last = large.server.get(f"/runs/{large.runs.logged}")["last_seq"]
    assert [frame["seq"] for frame in frames] == [*range(after + 1, last + 1)]
