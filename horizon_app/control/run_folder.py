"""The files of a run's folder, as the server uses them: order, commands, journal, worker, last words, frames."""

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from horizon_app.contracts.commands import COMMAND, Command, ContinueRun, PauseRun
from horizon_app.contracts.ids import is_run_id
from horizon_app.contracts.residency import HEADER_BYTES, decode_header, frame_bytes
from horizon_app.contracts.run_state import RunState
from horizon_app.control.errors import RunNotFound

_READ_BYTES = 512 << 10
"""Of a journal at once: what is recorded in one transaction, some tenths of a second in which others wait to write."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LastWords:
    """What a worker wrote as its last act."""

    exit_code: int
    state: RunState
    reason: str


class RunFolder:
    """RUNS/RUN_ID."""

    def __init__(self, runs_dir: Path, run_id: str) -> None:
        """Name the folder. Raises RunNotFound where `run_id` has not the shape of one."""
        if not is_run_id(run_id):
            raise RunNotFound(run_id)
        self.path = runs_dir / run_id

    def write_order(self, order: dict[str, Any]) -> None:
        """Make the folder and write run.json, in one go. Raises OSError."""
        self.path.mkdir(parents=True, exist_ok=True)
        partial = self.path / ".run.json.partial"
        partial.write_text(json.dumps(order, ensure_ascii=False, indent=1), encoding="utf-8")
        partial.replace(self.path / "run.json")

    def append_command(self, command: Command) -> None:
        """Tell the worker something. Raises OSError."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "commands.jsonl").open("ab") as file:
            file.write(command.model_dump_json().encode() + b"\n")

    def is_told_to_pause(self) -> bool:
        """Whether the worker was told to pause and not to go on since."""
        try:
            lines = (self.path / "commands.jsonl").read_bytes().splitlines()
        except OSError:
            return False
        told = [command for command in map(_command, lines) if isinstance(command, PauseRun | ContinueRun)]
        return bool(told) and isinstance(told[-1], PauseRun)

    def mark_attended(self) -> None:
        """Let a paused worker know that somebody watches the run; not where its folder is gone."""
        with contextlib.suppress(FileNotFoundError):
            (self.path / "attended").touch()

    @property
    def is_gone(self) -> bool:
        """Whether the folder is not there."""
        return not self.path.is_dir()

    def forget_last_worker(self) -> None:
        """Remove what a worker that has gone left for the server, and what it was told. Raises OSError."""
        for name in ("worker.json", "exit.json", "commands.jsonl"):
            (self.path / name).unlink(missing_ok=True)

    def read_journal(self, start: int) -> tuple[list[bytes], int]:
        """Whole lines of the journal from a byte on, half a MiB or one line, and the offset behind them."""
        size = _READ_BYTES
        while True:
            try:
                with (self.path / "journal.jsonl").open("rb") as file:
                    file.seek(start)
                    content = file.read(size)
            except FileNotFoundError:
                return [], start
            whole = content.rfind(b"\n") + 1
            if whole or len(content) < size:
                return content[:whole].split(b"\n")[:-1], start + whole
            size *= 4  # one line is longer than that

    def worker(self) -> tuple[int, float] | None:
        """Process id and start time that the worker wrote down."""
        content = self._json("worker.json")
        pid, start = content.get("pid"), content.get("start_time")
        return (pid, float(start)) if isinstance(pid, int) and isinstance(start, int | float) else None

    def peak_bytes(self) -> int | None:
        """The most memory that the worker said to have held."""
        peak = self._json("worker.json").get("peak_bytes")
        return peak if isinstance(peak, int) else None

    def oom_kills_at_start(self) -> int | None:
        """How many kills for memory there had been when the worker was started; None where nobody wrote it down."""
        count = self._json("run.json").get("oom_kills")
        return count if isinstance(count, int) else None

    def journal_bytes(self) -> int:
        """Length of the journal; 0 where there is none."""
        try:
            return (self.path / "journal.jsonl").stat().st_size
        except OSError:
            return 0

    def last_words(self) -> LastWords | None:
        """exit.json, where the worker came to write it."""
        content = self._json("exit.json")
        try:
            return LastWords(
                exit_code=int(content["exit_code"]),
                state=RunState(content["state"]),
                reason=str(content.get("reason", "")),
            )
        except (KeyError, ValueError, TypeError):
            return None

    def log_tail(self, lines: int) -> list[str]:
        """The last lines of what the worker printed."""
        try:
            with (self.path / "worker.log").open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - 16_384))
                text = file.read().decode(errors="replace")
        except OSError:
            return []
        return [line[:500] for line in text.splitlines() if line.strip()][-lines:]

    def newest_frame(self, seen: int) -> tuple[int, bytes | None]:
        """How many residency frames there are, and the newest where there are more than `seen`."""
        return self._frame_at(None, seen)

    def frame_at_step(self, step: int | None) -> bytes | None:
        """The last frame at or before the end of an optimizer step; the newest where no step is named."""
        if step is None:
            return self._frame_at(None, 0)[1]
        return self._frame_at(step, 0)[1]

    def _json(self, name: str) -> dict[str, Any]:
        try:
            content = json.loads((self.path / name).read_bytes())
        except (OSError, ValueError):
            return {}
        return cast(dict[str, Any], content) if isinstance(content, dict) else {}

    def _frame_at(self, step: int | None, seen: int) -> tuple[int, bytes | None]:
        try:
            with (self.path / "residency.bin").open("rb") as file:
                fd = file.fileno()
                header = os.pread(fd, HEADER_BYTES, 0)
                if len(header) < HEADER_BYTES:
                    return 0, None
                first, maps = decode_header(header)
                length = frame_bytes(first.num_blocks, maps)
                count = os.fstat(fd).st_size // length
                index = count if step is None else _frames_until(fd, length, count, step)
                if index == 0 or (step is None and count <= seen):
                    return count, None
                return count, os.pread(fd, length, (index - 1) * length)
        except (FileNotFoundError, ValueError):
            return 0, None


def _command(line: bytes) -> Command | None:
    try:
        return COMMAND.validate_json(line)
    except ValidationError:
        return None  # the worker says so


def _frames_until(fd: int, length: int, count: int, step: int) -> int:
    """How many frames were recorded until the end of `step`; steps never fall in a recording."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        header, _ = decode_header(os.pread(fd, HEADER_BYTES, middle * length))
        if header.step <= step:
            low = middle + 1
        else:
            high = middle
    return low
