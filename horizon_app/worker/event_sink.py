"""Where a worker's facts go: the journal, line by line, and the residency recording, frame by frame.

The training thread only puts bytes into a queue; one thread writes them. Events are never dropped (a full disk is
waited for), residency frames are dropped rather than queued.
"""

import contextlib
import logging
import queue
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from horizon_app.contracts.events import Event, FactNoted, KnobChanged, LogWritten, metrics_event
from horizon_app.contracts.residency import BlockLayout
from horizon_app.worker import residency_recording
from horizon_app.worker.durable_files import AppendFile

Level = Literal["debug", "info", "warning", "error"]
RESIDENCY_INTERVAL_S = 0.2

_log = logging.getLogger(__name__)
_RETRY_S = 0.5


class EventSink:
    """The telemetry sink of a worker: returns at once, never raises, and keeps the last value of every metric."""

    def __init__(self, run_dir: Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Open the journal for appending; a torn last line of an earlier worker is cut. Raises OSError."""
        self.last_metrics: dict[str, float | None] = {}
        self._measured_at: dict[str, int] = {}
        self._journal_path = run_dir / "journal.jsonl"
        self._journal = AppendFile(self._journal_path)
        self._journal.drop_torn_line()
        self.goes_on = self._journal.num_bytes > 0
        """Whether an earlier worker of this run has journalled something."""
        self.trouble = ""
        """Why the journal can't be written at this moment; empty: it can."""
        self._residency_path = run_dir / "residency.bin"
        self._residency: AppendFile | None = None
        self._residency_failed = False
        self._clock = clock
        self._next_frame = 0.0
        self._frame_waits = False
        self._records: queue.SimpleQueue[tuple[Literal["line", "frame"], bytes] | None] = queue.SimpleQueue()
        self._deadline = threading.Event()
        self._thread = threading.Thread(target=self._write_until_closed, name="journal", daemon=True)
        self._thread.start()

    def emit(self, event: Event) -> None:
        """Journal one event, after all that came before it."""
        self._records.put(("line", event.model_dump_json(fallback=_plain).encode() + b"\n"))

    def layout(self, layout: BlockLayout) -> None:
        """Journal the blocks of this run."""
        message = f"{len(layout.blocks)} blocks in {len(layout.stages)} stages, {layout.max_device_blocks} slots"
        self.emit(FactNoted(kind="layout", message=message, data=layout.model_dump(mode="json")))

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Journal the numbers of one optimizer step."""
        event = metrics_event(step, {key: float(value) for key, value in values.items()})
        self.last_metrics.update(event.values)
        self._measured_at.update(dict.fromkeys(event.values, step))
        self.emit(event)

    def measured(self, key: str, step: int) -> float | None:
        """The value of a metric at this very step, where it was finite."""
        return self.last_metrics.get(key) if self._measured_at.get(key) == step else None

    def wants_residency(self) -> bool:
        """Whether 0.2 s have passed since the last frame and that one is written."""
        return not self._frame_waits and self._clock() >= self._next_frame

    def residency(self, frame: bytes) -> None:
        """Record one residency frame."""
        self._next_frame = self._clock() + RESIDENCY_INTERVAL_S
        self._frame_waits = True
        self._records.put(("frame", frame))

    def note(self, kind: str, message: str, data: Mapping[str, Any]) -> None:
        """Journal a fact with no type of its own."""
        self.emit(FactNoted(kind=kind, message=message, data=dict(data)))

    def knob(self, change: KnobChanged) -> None:
        """Journal what came of a change of a knob."""
        self.emit(change)

    def log(self, level: str, message: str) -> None:
        """Journal one log line; a level that is not a level counts as info."""
        known: dict[str, Level] = {name: name for name in get_args(Level)}
        self.emit(LogWritten(level=known.get(level, "info"), message=message))

    def close(self, timeout_s: float = 30.0) -> bool:
        """Write what waits and close; gives up after `timeout_s` on a disk that takes nothing, and then says False."""
        self._records.put(None)
        self._thread.join(timeout_s)
        self._deadline.set()
        self._thread.join(5.0)
        return not self._thread.is_alive() and self._records.empty()

    def _write_until_closed(self) -> None:
        while (record := self._records.get()) is not None:
            kind, content = record
            if kind == "frame":
                self._write_frame(content)
                self._frame_waits = False
            elif not self._write_line(content):
                self._records.put(None)  # what is left in the queue tells `close` that the journal is not whole
                break
        with contextlib.suppress(OSError):
            self._journal.close()

    def _write_line(self, line: bytes) -> bool:
        while True:
            try:
                self._journal.append(line)
            except OSError as error:
                if not self.trouble:
                    _log.error("the journal could not be written, trying again until it can: %s", error)
                self.trouble = self._trouble_in_words(error, len(line))
                if self._deadline.wait(_RETRY_S):
                    return False
            else:
                self.trouble = ""
                return True

    def _trouble_in_words(self, error: OSError, needed: int) -> str:
        free = "?"
        with contextlib.suppress(OSError):
            free = f"{shutil.disk_usage(self._journal_path.parent).free:,}"
        return (
            f"{self._journal_path}: {error.strerror or error}; it needs {needed:,} bytes, {free} are free on its disk"
        )

    def _write_frame(self, frame: bytes) -> None:
        try:
            if self._residency is None:
                self._residency = AppendFile(self._residency_path)
                residency_recording.forget_later_frames(self._residency, frame)
            if self._residency.num_bytes + len(frame) > residency_recording.MOST_BYTES:
                self._residency = residency_recording.thin_older_half(self._residency, self._residency_path, len(frame))
            self._residency.append(frame)
        except OSError as error:
            if not self._residency_failed:
                self.log("warning", f"residency frames are lost, the recording could not be written: {error}")
            self._residency_failed = True


def _plain(value: Any) -> Any:
    """A number of numpy's or torch's as itself, anything else as its text: a fact must never end a training run."""
    item: Callable[[], Any] | None = getattr(value, "item", None)
    return str(value) if item is None else item()


class JournalLogHandler(logging.Handler):
    """Copies what libraries log into the journal, so that the browser shows it: warnings, or all where all is wanted"""

    def __init__(self, sink: EventSink) -> None:
        logs_all = logging.getLogger().getEffectiveLevel() <= logging.DEBUG
        super().__init__(logging.DEBUG if logs_all else logging.WARNING)
        self._sink = sink

    def emit(self, record: logging.LogRecord) -> None:
        """Journal one record."""
        self._sink.log(record.levelname.lower().replace("critical", "error"), record.getMessage())
