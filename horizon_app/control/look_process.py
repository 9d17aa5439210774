"""The process that looks at data: started for the first question, kept for the next, as its start takes longest."""

import contextlib
import logging
import os
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from typing import IO

from horizon_app.contracts.data_view import LOOK_ANSWER, DataPreview, LookAsked, LookFailed
from horizon_app.control.errors import PreviewFailed

MODULE = "horizon_app.worker.data_look"
LIMIT_S = 120.0
"""How long an answer may take."""
IDLE_S = 600.0
"""Without a question for so long the process ends, and gives its memory back."""
_LAST_MOMENTS_S = 5.0
"""Its output ends a moment before it does."""
_TOLD_LINES = 3
_log = logging.getLogger(__name__)


class _Ended(Exception):
    """The process has ended without an answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Running:
    process: subprocess.Popen[bytes]
    errors: IO[bytes]


class LookProcess:
    """Answers one question at a time: whoever asks sees to that. Only `end` may be called meanwhile."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # over which process there is
        self._ended = False
        self._running: _Running | None = None

    def look(self, asked: LookAsked) -> DataPreview:
        """What some data holds. Raises PreviewFailed."""
        if self._running is not None:
            with contextlib.suppress(_Ended):  # nobody asked for long, or it was killed: it is started anew
                return self._ask(asked)
        try:
            return self._ask(asked)
        except _Ended as error:
            _log.error("the process that looks at data ended %s", error)
            raise PreviewFailed(f"the data could not be looked at {error}") from error

    def end(self) -> None:
        """Kill the process for good: whoever waits for its answer gets none."""
        with self._lock:
            self._ended = True
            if self._running is not None:
                self._running.process.kill()

    def close(self) -> None:
        """The same, and wait for its end. Nobody may be waiting for an answer."""
        self.end()
        self._bury()

    def _ask(self, asked: LookAsked) -> DataPreview:
        process = self._started()
        late = threading.Event()

        def give_up() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(LIMIT_S, give_up)
        timer.start()
        try:
            answer = _answer(process, asked)
        finally:
            timer.cancel()
        if not answer.endswith(b"\n"):
            how = self._bury()
            if late.is_set():
                raise PreviewFailed(f"the data could not be looked at: no answer within {LIMIT_S:g} s")
            raise _Ended(how)
        found = LOOK_ANSWER.validate_json(answer)
        if isinstance(found, LookFailed):
            raise PreviewFailed(f"the data could not be looked at: {found.cause}")
        return found

    def _started(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._ended:
                raise PreviewFailed("the data could not be looked at: the server is about to end")
            if self._running is None:
                self._running = _start()
            self._running.errors.seek(0)  # its place is the process's too, which goes on to write there
            self._running.errors.truncate()
            return self._running.process

    def _bury(self) -> str:
        """Leave nothing of a process that has ended, or is to; gives how it ended, in words."""
        with self._lock:
            running, self._running = self._running, None
        if running is None:
            return ""
        process, errors = running.process, running.errors
        try:
            exit_code = process.wait(_LAST_MOMENTS_S)
        except subprocess.TimeoutExpired:
            process.kill()
            exit_code = process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):  # for what it has not taken
                    pipe.close()
        with errors:
            errors.seek(0)
            told = errors.read().decode(errors="replace").strip().splitlines()
        return f"(exit code {exit_code}): {' / '.join(told[-_TOLD_LINES:])}"


def _start() -> _Running:
    errors = tempfile.TemporaryFile()  # noqa: SIM115 - open for as long as the process lives
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", MODULE, str(IDLE_S)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
            start_new_session=True, env={**os.environ, "PYTHONUTF8": "1"},
        )  # fmt: skip
    except OSError as error:
        errors.close()
        raise PreviewFailed(f"the data could not be looked at: {error}") from error
    return _Running(process=process, errors=errors)


def _answer(process: subprocess.Popen[bytes], asked: LookAsked) -> bytes:
    """One line; less where the process ends before it is whole."""
    if process.stdin is None or process.stdout is None:
        raise AssertionError("both are pipes")
    try:
        process.stdin.write(asked.model_dump_json().encode() + b"\n")
        process.stdin.flush()
        return process.stdout.readline()
    except BrokenPipeError:
        return b""
