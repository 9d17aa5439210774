"""The moment between two optimizer steps: what is measured, saved and waited for there."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event

from horizon_app.contracts.events import WORKER, StateChanged
from horizon_app.contracts.knobs import Knob
from horizon_app.contracts.run_state import RunState
from horizon_app.worker.attendance import Attendance
from horizon_app.worker.checkpoints import CheckpointNotWritten, Facts
from horizon_app.worker.event_sink import EventSink
from horizon_app.worker.intervals import Intervals
from horizon_app.worker.observer import Observer
from horizon_app.worker.parts import TrainingEngine
from horizon_app.worker.pause_request import PauseRequest
from horizon_app.worker.saving import CheckpointSaver
from horizon_app.worker.stop_request import StopRequest

_log = logging.getLogger(__name__)
_POLL_S = 0.1


@dataclass(frozen=True, kw_only=True, slots=True)
class Wishes:
    """What the run was asked for while it runs."""

    stop: StopRequest
    pause: PauseRequest
    save: Event


@dataclass(frozen=True, kw_only=True, slots=True)
class BoundaryParts:
    """What a boundary works with."""

    total_steps: int
    intervals: Intervals
    engine: TrainingEngine
    sink: EventSink
    saver: CheckpointSaver
    observer: Observer
    wishes: Wishes
    facts: Callable[[int], Facts]
    attendance: Callable[[], Attendance]
    orphan_s: float
    """Seconds that a paused run is kept for which nobody watches it."""
    is_unwanted: Callable[[], bool]
    """Whether nobody has a use for this worker any more: nothing is written then."""
    doing: Callable[[str], None]
    """Is told what is being done, for the sentence that says why a run failed."""


class StepBoundary:
    """Everything that is done between two steps, on the training thread. The engine's state is whole and stands still.

    A checkpoint that could not be written for want of room holds the run there: nothing is lost, and it goes on once
    somebody has made room.
    """

    def __init__(self, parts: BoundaryParts) -> None:
        self._p = parts

    def before_first(self, step: int) -> None:
        """Hold where that was asked for while the parts were made, with `step` steps done before. Raises EngineError"""
        self._hold_while_asked(step)

    def after_step(self, step: int) -> None:
        """Measure, save and hold, whatever is due after `step`. Raises EngineError, CheckpointNotWritten."""
        parts = self._p
        parts.doing(f"measuring after optimizer step {step} of {parts.total_steps}")
        parts.observer.after_step(step, last=step == parts.total_steps)
        _log.debug("optimizer step %d of %d: %s", step, parts.total_steps, parts.sink.last_metrics)
        asked = parts.wishes.save.is_set()
        parts.wishes.save.clear()
        due = asked or parts.intervals.is_due(Knob.CHECKPOINT_EVERY, step)
        self._in_spite_of_a_full_disk(step, lambda: self._save_beside(step, due=due))
        self._hold_while_asked(step)
        self._wait_for_journal(step)
        parts.doing(f"training optimizer step {step + 1} of {parts.total_steps}")

    def finish(self, step: int) -> None:
        """Return once the last step is saved, where that is wanted. Raises EngineError, CheckpointNotWritten."""
        self._in_spite_of_a_full_disk(step, lambda: self._save_last(step))
        if self._is_to_end():
            self._save_last(step)  # asked to stop while there was no room: one more try, and it counts

    def _save_last(self, step: int) -> None:
        if step >= self._p.total_steps or self._p.wishes.stop.save:
            self._save_now(step)
        else:
            self._p.saver.finish()

    def _save_beside(self, step: int, *, due: bool) -> None:
        saver = self._p.saver
        self._p.doing(_saving(saver.begun_step))
        saver.raise_failure()
        if due:
            self._begin(step)

    def _save_now(self, step: int) -> None:
        self._begin(step)
        self._p.doing(_saving(self._p.saver.begun_step))
        self._p.saver.finish()

    def _begin(self, step: int) -> None:
        parts = self._p
        if step <= parts.saver.begun_step or parts.is_unwanted():
            return
        parts.doing(_saving(parts.saver.begun_step))
        parts.saver.finish()
        parts.doing(_saving(step))
        parts.saver.begin(parts.facts(step), parts.engine.snapshot)

    def _in_spite_of_a_full_disk(self, step: int, save: Callable[[], None]) -> None:
        """Save; where there is no room, hold until there is. Raises what it failed with once the run is to stop."""
        try:
            save()
        except CheckpointNotWritten as error:
            if self._is_to_end():
                raise
            self._p.saver.forget_failure()
            self._p.wishes.pause.ask(str(error))
            self._hold(step, owes_save=True)

    def _hold_while_asked(self, step: int) -> None:
        if self._p.wishes.pause.reason and not self._is_to_end():
            self._hold(step, owes_save=False)

    def _hold(self, step: int, *, owes_save: bool) -> None:
        """Stay here, with nothing left to be computed, until the run is told to go on or to stop."""
        parts, pause = self._p, self._p.wishes.pause
        parts.engine.settle()
        if pause.take_save():
            self._try_to_save(step)
        self._enter(RunState.PAUSED, f"{pause.reason} ({_after(step)})")
        while True:
            self._wait(step)
            if self._is_to_end():
                return
            if not owes_save or self._try_to_save(step):
                self._enter(RunState.RUNNING, f"goes on {_after(step)}")
                return
            pause.ask("a checkpoint still can't be written")

    def _wait(self, step: int) -> None:
        parts, pause = self._p, self._p.wishes.pause
        attendance = parts.attendance()
        while pause.reason and not self._is_to_end():
            pause.wait(_POLL_S)
            if step and (parts.wishes.save.is_set() or pause.take_save()):  # before the first step nothing is new
                parts.wishes.save.clear()
                self._try_to_save(step)
            if attendance.lonely_s() > parts.orphan_s:
                parts.wishes.stop.ask(f"was paused, and nobody watched it for {parts.orphan_s:g} s", save=True)

    def _try_to_save(self, step: int) -> bool:
        """Whether the checkpoint of `step` is on the disk now; where it is not, the log says why."""
        try:
            self._save_now(step)
        except CheckpointNotWritten as error:
            self._p.saver.forget_failure()
            self._p.sink.log("error", str(error))
            return False
        return True

    def _wait_for_journal(self, step: int) -> None:
        """A journal that can't be written holds the run, so that what it tells never outgrows memory."""
        if not self._p.sink.trouble or self._is_to_end():
            return
        self._p.engine.settle()
        self._enter(RunState.PAUSED, f"{self._p.sink.trouble} (after optimizer step {step}; goes on by itself)")
        while self._p.sink.trouble and not self._is_to_end():
            self._p.wishes.pause.wait(_POLL_S)
        if not self._is_to_end():
            self._enter(RunState.RUNNING, f"the journal can be written again: goes on after optimizer step {step}")

    def _enter(self, state: RunState, reason: str) -> None:
        self._p.sink.emit(StateChanged(state=state, reason=reason, who=WORKER))

    def _is_to_end(self) -> bool:
        return self._p.wishes.stop.requested or self._p.is_unwanted()


def _after(step: int) -> str:
    return f"after optimizer step {step}" if step else "before the first optimizer step"


def _saving(step: int) -> str:
    return f"writing the checkpoint of optimizer step {step}"
