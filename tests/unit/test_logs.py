"""Log lines: one an event, with the run that it is about, whole in JSON and unforgeable in words."""

import asyncio
import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from horizon_app import logs
from horizon_app.logs import about_run, fields, log_server

log = logging.getLogger("horizon_app.test")


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def json_lines(stream: io.StringIO, tmp_path: Path) -> Iterator[io.StringIO]:
    with log_server("json", "info", tmp_path / "logs" / "server.log", stream=stream):
        yield stream


def parsed(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_json_line_holds_the_facts_as_fields(json_lines: io.StringIO) -> None:
    log.warning("slow %s", "thing", extra=fields(status=503, ms=12.5))
    (line,) = parsed(json_lines)
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "warning", "logger": "horizon_app.test", "message": "slow thing", "status": 503, "ms": 12.5,
    }  # fmt: skip


def test_json_line_of_an_exception_has_the_trace_as_one_field(json_lines: io.StringIO) -> None:
    try:
        raise ValueError("no\nway")
    except ValueError:
        log.exception("failed")
    (line,) = parsed(json_lines)
    assert "ValueError: no\nway" in line["trace"]
    assert line["message"] == "failed"


async def test_run_is_named_in_tasks_and_threads_that_were_started_about_it(json_lines: io.StringIO) -> None:
    async def watch() -> None:
        log.info("in the task")
        await asyncio.to_thread(log.info, "in its thread")

    with about_run("run-1"):
        task = asyncio.create_task(watch())
    log.info("beside it")
    await task
    assert [(line["message"], line.get("run_id")) for line in parsed(json_lines)] == [
        ("beside it", None), ("in the task", "run-1"), ("in its thread", "run-1"),
    ]  # fmt: skip


def test_level_leaves_out_what_is_below(stream: io.StringIO, tmp_path: Path) -> None:
    with log_server("json", "error", tmp_path / "server.log", stream=stream):
        log.warning("no")
        log.error("yes")
    assert [line["message"] for line in parsed(stream)] == ["yes"]


def test_human_line_can_not_be_forged_by_what_a_client_sent(stream: io.StringIO, tmp_path: Path) -> None:
    with log_server("human", "info", tmp_path / "server.log", stream=stream):
        log.error("bad path", extra=fields(path="/x\n2026-01-01 ERROR forged\x1b[31m"))
    (line,) = stream.getvalue().splitlines()
    assert "bad path path=/x\\x0a2026-01-01 ERROR forged\\x1b[31m" in line


def test_file_gets_the_same_lines_and_is_kept_five_times(
    stream: io.StringIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "FILE_BYTES", 400)
    # Out of reach of pytest's own handlers: a report with half a character in it can't be sent to another process.
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    path = tmp_path / "logs" / "server.log"
    with log_server("json", "info", path, stream=stream):
        for number in range(60):
            log.info("line %d \udc80 名", number)
    kept = sorted(path.parent.iterdir())
    assert [file.name for file in kept] == ["server.log", *(f"server.log.{number}" for number in range(1, 5))]
    assert all(file.stat().st_size <= 400 for file in kept)
    last = json.loads(path.read_text(encoding="utf-8").splitlines()[-1])
    assert last["message"] == "line 59 \udc80 名"


def test_nothing_is_left_behind_when_the_server_has_ended(tmp_path: Path) -> None:
    before = [*logging.getLogger().handlers]
    with log_server("human", "info", tmp_path / "server.log", stream=io.StringIO()):
        pass
    assert logging.getLogger().handlers == before


def test_worker_names_its_run_in_every_line_of_every_thread() -> None:
    code = (
        "import logging, threading\n"
        "from horizon_app.logs import log_to_stderr\n"
        "log_to_stderr('json', 'info', run_id='run-7')\n"
        "thread = threading.Thread(target=logging.getLogger('x').info, args=('hello',))\n"
        "thread.start(); thread.join()\n"
        "import warnings; warnings.warn('careful')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [(line["logger"], line["run_id"]) for line in lines] == [("x", "run-7"), ("py.warnings", "run-7")]
    assert done.stdout == ""
