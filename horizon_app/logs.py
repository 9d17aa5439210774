"""Log lines of the server and of workers: one record an event, in words or as JSON, with the run that it is about.

The standard library's logging with two formatters: what libraries log comes out the same way. Knows no settings.
"""

import json
import logging
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Literal, TextIO

LogFormat = Literal["human", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]
FILE_BYTES = 10 << 20
FILES_KEPT = 5
_CHATTY = ("alembic", "httpx", "httpcore", "asyncio")
"""What they log below a warning tells nobody anything; and httpx names whole addresses."""
_about: ContextVar[str | None] = ContextVar("run_id", default=None)
_ESCAPES = {number: f"\\x{number:02x}" for number in (*range(32), 127, *range(128, 160)) if number != 9}


@contextmanager
def about_run(run_id: str) -> Generator[None]:
    """What is logged inside, in this task or thread and in the tasks it starts, is about this run."""
    token = _about.set(run_id)
    try:
        yield
    finally:
        _about.reset(token)


def fields(**values: Any) -> dict[str, Any]:
    """The `extra` of a log call: facts that are kept apart from the message."""
    return {"fields": values}


def log_to_stderr(form: LogFormat, level: LogLevel, *, run_id: str | None = None) -> None:
    """Log to standard error for the rest of this process, which is that of one run where `run_id` is given."""
    _attach(logging.StreamHandler(sys.stderr), form, run_id)
    _set_level(level)


@contextmanager
def log_server(form: LogFormat, level: LogLevel, file: Path, *, stream: TextIO | None = None) -> Generator[None]:
    """Log to standard error and to a file, which is kept with its four forerunners once it is full. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    rotating = RotatingFileHandler(
        file, maxBytes=FILE_BYTES, backupCount=FILES_KEPT - 1, encoding="utf-8", errors="backslashreplace"
    )
    handlers = [logging.StreamHandler(stream or sys.stderr), rotating]
    before = logging.getLogger().level
    for handler in handlers:
        _attach(handler, form, None)
    _set_level(level)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        logging.getLogger().setLevel(before)
        for handler in handlers:
            logging.getLogger().removeHandler(handler)
        rotating.close()


def _attach(handler: logging.Handler, form: LogFormat, run_id: str | None) -> None:
    handler.setFormatter(_JsonFormatter(run_id) if form == "json" else _HumanFormatter(run_id))
    handler.addFilter(_is_not_told_twice)
    logging.getLogger().addHandler(handler)


def _set_level(level: LogLevel) -> None:
    logging.getLogger().setLevel(level.upper())
    for chatty in _CHATTY:
        logging.getLogger(chatty).setLevel(logging.WARNING)
    logging.captureWarnings(True)


def _is_not_told_twice(record: logging.LogRecord) -> bool:
    """Leaves out what uvicorn says of an exception that the log of requests has told whole."""
    return not (record.name == "uvicorn.error" and str(record.msg).startswith("Exception in ASGI application"))


class _Formatter(logging.Formatter):
    def __init__(self, run_id: str | None) -> None:
        super().__init__()
        self._run_id = run_id

    def _parts(self, record: logging.LogRecord) -> dict[str, Any]:
        """What both formats say; empty parts are left out."""
        given: Mapping[str, Any] = getattr(record, "fields", {})
        trace = self.formatException(record.exc_info) if record.exc_info and record.exc_info[0] else None
        parts: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")[:-6] + "Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "run_id": _about.get() or self._run_id,
            **given,
            "trace": trace,
        }
        return {name: value for name, value in parts.items() if value is not None}


class _JsonFormatter(_Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(self._parts(record), ensure_ascii=False, default=str)


class _HumanFormatter(_Formatter):
    def format(self, record: logging.LogRecord) -> str:
        parts = self._parts(record)
        head = [parts.pop("time"), parts.pop("level").upper(), f"{parts.pop('logger')}:"]
        trace = parts.pop("trace", "")
        facts = [f"{name}={value}" for name, value in parts.items() if name != "message"]
        # Escaped: what a client sent must not look like a line of its own.
        line = " ".join([*head, parts["message"], *facts]).translate(_ESCAPES)
        return f"{line}\n{trace}" if trace else line
