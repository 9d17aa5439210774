"""From journal lines to rows: one transaction a batch, every line once, whoever else records the same journal."""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from horizon_app.contracts.events import (
    EVENT,
    CheckChanged,
    CheckpointWritten,
    Event,
    FactNoted,
    KnobChanged,
    LogWritten,
    MetricsRecorded,
    SampleGenerated,
    StateChanged,
    metrics_event,
)
from horizon_app.contracts.knobs import KnobStatus
from horizon_app.contracts.run_state import ENDED
from horizon_app.control import sparkline
from horizon_app.control.checklist import update_checklist
from horizon_app.control.errors import IllegalTransition
from horizon_app.control.lifecycle import enter_state, locked_run, tell
from horizon_app.store.checkpoints import forget_checkpoint, record_checkpoint
from horizon_app.store.database import Database, Transaction
from horizon_app.store.events import NewEvent, append_events
from horizon_app.store.knobs import answer_change
from horizon_app.store.metrics import record_metrics
from horizon_app.store.runs import StoredRun, get_run, update_run
from horizon_app.store.segments import go_back

_log = logging.getLogger(__name__)
_SHOWN = 300


@dataclass(frozen=True, kw_only=True, slots=True)
class JournalBatch:
    """Whole lines of a journal, and where they stand in it."""

    first_line: int
    """Number of the first line, counted from 1."""
    end_bytes: int
    """Offset behind the last line."""
    lines: Sequence[bytes]


def record_batch(database: Database, run_id: str, batch: JournalBatch) -> StoredRun | None:
    """Record the lines that are not recorded yet; gives the run as it is then, or None where it was deleted."""
    with database.write() as tx:
        run = get_run(tx, run_id, lock=True)
        if run is None:
            return None
        lines = batch.lines[max(0, run.journal_seq + 1 - batch.first_line) :]
        if lines:
            _Fold(tx, run).record(lines, batch.end_bytes)
            run = locked_run(tx, run_id)
            if run.state in ENDED:  # at once: who reads the stream to its end sees what came of the checks
                update_checklist(tx, run)
        return get_run(tx, run_id)


def note(database: Database, run_id: str, events: Sequence[Event]) -> None:
    """Append events of the server's own to a run's stream."""
    with database.write() as tx:
        run = get_run(tx, run_id, lock=True)
        if run is None:
            return
        tell(tx, run, *events)


@dataclass
class _Fold:
    """One batch on its way into the database."""

    tx: Transaction
    run: StoredRun
    changes: dict[str, Any] = field(default_factory=dict[str, Any])
    rows: list[NewEvent] = field(default_factory=list[NewEvent])
    metrics: list[MetricsRecorded] = field(default_factory=list[MetricsRecorded])

    def record(self, lines: Sequence[bytes], end_bytes: int) -> None:
        first = self.run.journal_seq + 1
        for number, line in enumerate(lines, start=first):
            seq = self.run.last_seq + 1 + len(self.rows)
            event = self._fold(_parse(line, number), seq)
            self.rows.append(NewEvent(seq=seq, journal_seq=number, event=event))
        append_events(self.tx, self.run.id, self.rows)
        record_metrics(self.tx, self.run.id, self.metrics)
        self.changes["last_seq"] = self.run.last_seq + len(self.rows)
        self.changes["journal_seq"] = first + len(lines) - 1
        self.changes["journal_bytes"] = end_bytes
        update_run(self.tx, self.run.id, **self.changes)

    def _fold(self, event: Event, seq: int) -> Event:
        """Let an event change the run's row; gives the event to be kept, another one where it can't be followed."""
        match event:
            case StateChanged():
                return self._state(event)
            case MetricsRecorded():
                self._metrics(event)
            case FactNoted():
                self._fact(event, seq)
            case CheckpointWritten():
                record_checkpoint(self.tx, self.run.id, event)
            case KnobChanged():
                self._knob(event)
            case LogWritten() | SampleGenerated() | CheckChanged():
                pass
        return event

    def _state(self, event: StateChanged) -> Event:
        if event.state in ENDED and self.changes:
            self._write()  # a run that ends is listed with what it has by then
        try:
            enter_state(self.tx, replace(self.run, step=self.changes.get("step", self.run.step)), event)
        except IllegalTransition as error:
            # For example `running` from a worker that was asked to stop a moment before.
            text = f"the worker says {event.state.value} while the run is {error.old.value}: ignored"
            return LogWritten(time=event.time, level="debug", message=text)
        self.run = replace(self.run, state=event.state)
        return event

    def _write(self) -> None:
        update_run(self.tx, self.run.id, **self.changes)
        self.changes.clear()
        self.run = get_run(self.tx, self.run.id) or self.run

    def _metrics(self, event: MetricsRecorded) -> None:
        self.metrics.append(event)
        self.changes["step"] = event.step
        self.changes["metrics"] = {**self.changes.get("metrics", self.run.metrics), **event.values}
        if "train/loss" in event.values:
            loss = event.values["train/loss"]
            self.changes["loss"] = loss
            before = self.changes.get("sparkline", self.run.sparkline)
            self.changes["sparkline"] = sparkline.add_point(before, event.step, loss)
        if "eval/loss" in event.values:
            self.changes["eval_loss"] = event.values["eval/loss"]

    def _knob(self, event: KnobChanged) -> None:
        answer_change(self.tx, self.run.id, event)
        self.changes["knobs_version"] = max(self.changes.get("knobs_version", self.run.knobs_version), event.number)
        if event.status is KnobStatus.HOLDS:
            self.changes["knobs"] = {**self.changes.get("knobs", self.run.knobs), event.knob.value: event.new}

    def _fact(self, event: FactNoted, seq: int) -> None:
        if event.kind == "layout":
            self.changes["layout_seq"] = seq
            self._keep("device", event.data.get("device"), str)
            self._keep("parameters", event.data.get("parameters"), int)
        elif event.kind == "plan":
            self.changes["plan"] = event.data
            self._keep("total_steps", event.data.get("total_steps"), int)
        elif event.kind == "outcome":
            self.changes["outcome"] = event.data
        elif event.kind == "resumed" and isinstance(event.data.get("step"), int):
            self._go_back(event.data["step"])
        elif event.kind == "checkpoint_removed" and isinstance(event.data.get("step"), int):
            forget_checkpoint(self.tx, self.run.id, event.data["step"])

    def _go_back(self, step: int) -> None:
        """The run goes on from an earlier step: what was measured behind it will be measured again, or never was."""
        record_metrics(self.tx, self.run.id, self.metrics)
        self.metrics.clear()
        go_back(self.tx, self.run.id, step=step)
        self.changes["step"] = step
        self.changes["sparkline"] = sparkline.up_to(self.changes.get("sparkline", self.run.sparkline), step)

    def _keep(self, column: str, value: object, kind: type) -> None:
        if isinstance(value, kind):
            self.changes[column] = value


def _parse(line: bytes, number: int) -> Event:
    """The event of a line; a line that is none becomes a log line, so that nothing after it is held up."""
    try:
        event = EVENT.validate_json(line)
    except ValidationError as error:
        _log.warning("journal line %d can't be read: %s", number, error)
        shown = line[:_SHOWN].decode(errors="replace")
        first = error.errors(include_url=False)[0]["msg"]
        return LogWritten(time=datetime.now(UTC), level="error", message=f"journal line {number}: {first}: {shown}")
    if isinstance(event, MetricsRecorded):
        return _finite(event)
    return event


def _finite(event: MetricsRecorded) -> MetricsRecorded:
    """A worker should have moved NaN and infinities to `nonfinite`; whatever it did, none gets past here."""
    known = {key: value for key, value in event.values.items() if value is not None}
    if all(map(math.isfinite, known.values())):
        return event
    clean = metrics_event(event.step, known)
    values = {**event.values, **clean.values}
    return event.model_copy(update={"values": values, "nonfinite": {**event.nonfinite, **clean.nonfinite}})
