"""A worker's hold on one run: builds the parts, trains, journals every fact, and ends in exactly one final state."""

import json
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from horizon_app.contracts.checkpoints import SPEC
from horizon_app.contracts.commands import Command, ContinueRun, PauseRun, SaveCheckpoint, StopRun
from horizon_app.contracts.confinement import confined_to
from horizon_app.contracts.events import WORKER, PeakUse, RunOutcome, StateChanged
from horizon_app.contracts.run_spec import DEFAULT_STEPS, TrainingSpec
from horizon_app.contracts.run_state import RunState
from horizon_app.data.errors import DataStopped
from horizon_app.engine.errors import BuildStopped
from horizon_app.worker.attendance import Attendance
from horizon_app.worker.boundary import BoundaryParts, StepBoundary, Wishes
from horizon_app.worker.channel import CommandChannel
from horizon_app.worker.checkpoints import CheckpointFolder, Facts, SearchStopped
from horizon_app.worker.durable_files import replace_file
from horizon_app.worker.event_sink import EventSink, JournalLogHandler
from horizon_app.worker.failure import failure_reason, trace_lines
from horizon_app.worker.generation_config import generation_config_faults
from horizon_app.worker.heartbeat import Heartbeat
from horizon_app.worker.heeding_import import ImportStopped
from horizon_app.worker.intervals import Intervals
from horizon_app.worker.knob_request import KnobRequest
from horizon_app.worker.observer import Observer
from horizon_app.worker.order import RunOrder, read_order
from horizon_app.worker.parts import Builders, TrainingData, TrainingEngine, Writer
from horizon_app.worker.pause_request import PauseRequest
from horizon_app.worker.resumption import Start, refuse_other_data, resumed_message, start_from
from horizon_app.worker.saving import CheckpointSaver
from horizon_app.worker.stop_request import StopRequest

_CLOSE_DEADLINE_S = 15.0
_log = logging.getLogger(__name__)


class Session:
    """One run from its order to its final state."""

    def __init__(
        self, run_dir: Path, builders: Builders, stop: StopRequest, *, each_beat: Callable[[], None] = lambda: None
    ) -> None:  # fmt: skip
        """Open the journal; `each_beat` is called once a second. Raises OSError where the folder can't be written."""
        self._run_dir = run_dir
        self._builders = builders
        self._stop = stop
        self._started = time.monotonic()
        self._doing = "reading run.json"
        self._steps_done = 0
        self._engine: TrainingEngine | None = None
        self._model_dir = run_dir  # of the weights that the run begins with
        self._saver: CheckpointSaver | None = None
        self._wishes = Wishes(stop=stop, pause=PauseRequest(), save=threading.Event())
        self._knobs = KnobRequest()
        self._sink = EventSink(run_dir)
        self._log_handler = JournalLogHandler(self._sink)
        self._heartbeat = Heartbeat(run_dir, each_beat=each_beat)
        self._channel = CommandChannel(run_dir / "commands.jsonl", self._obey)

    def run(self) -> int:
        """Carry the order out; gives the exit code of the process: 0 finished or stopped, 1 failed or unwanted."""
        logging.getLogger().addHandler(self._log_handler)
        self._heartbeat.start()
        self._channel.start()
        try:
            state, reason = self._train_order(read_order(self._run_dir))
        except SearchStopped:
            state, reason = RunState.STOPPED, f"{self._stop.cause} while {self._doing}, which are as they were"
        except (DataStopped, BuildStopped):
            state, reason = self._stopped(f"while {self._doing}")
        except ImportStopped as error:
            state, reason = self._stopped(f"while {self._doing} (importing {error})")
        # The worker's entry: whatever goes wrong, in any library, becomes a failed run with its whole trace.
        except (Exception, SystemExit) as error:  # noqa: BLE001
            for line in trace_lines(error):
                self._sink.log("error", line)
            state, reason = RunState.FAILED, failure_reason(error, self._doing, self._run_dir)
        return self._end(state, reason)

    def _obey(self, command: Command) -> None:
        if isinstance(command, StopRun):
            wish = "and" if command.save else "not"
            self._sink.log("info", f"asked to stop at the next optimizer step, {wish} to save")
            self._stop.ask("asked to stop", save=command.save)
        elif isinstance(command, SaveCheckpoint):
            self._sink.log("info", "asked for a checkpoint of the next optimizer step")
            self._wishes.save.set()
        elif isinstance(command, PauseRun):
            self._sink.log("info", f"asked {_by(command.who)}to pause after the optimizer step that is being done")
            self._wishes.pause.ask(f"paused {_by(command.who)}".strip(), save=command.save)
        elif isinstance(command, ContinueRun):
            self._sink.log("info", f"asked {_by(command.who)}to go on")
            self._wishes.pause.lift()
        else:
            for change in command.changes:
                self._knobs.ask(change)

    def _should_stop(self) -> bool:
        return self._stop.requested or self._is_unwanted()

    def _is_unwanted(self) -> bool:
        return bool(self._heartbeat.unwanted)

    def _train_order(self, order: RunOrder) -> tuple[RunState, str]:
        self._doing = "looking for checkpoints"
        folder = CheckpointFolder(self._run_dir, order.run_id, order.spec.checkpoint.keep, self._warn)
        folder.tidy()
        start = start_from(order, folder.newest_usable(self._should_stop))
        self._steps_done = start.step
        saver = self._saver = CheckpointSaver(folder, self._sink, start.step)
        self._doing = "reading the data"
        order.require_inside(start.model_dir)
        with confined_to(order.folders):  # reading may take hours, in which a file may become a link
            data = self._builders.data(order.spec.data, order.data_paths, start.model_dir, self._should_stop)
        self._note_data(data)
        refuse_other_data(start, data.fingerprint)
        total_steps = optimizer_steps(order.spec.training, data)
        if self._should_stop():
            return self._stopped(f"after {self._steps_done} of {total_steps} steps")
        engine = self._build(start, order, total_steps)
        if self._should_stop():
            return self._stopped(f"after {self._steps_done} of {total_steps} steps")
        if order.spec.checkpoint.every or self._steps_done < total_steps:
            folder.require_room(engine.checkpoint_bytes)
        self._sink.emit(
            StateChanged(state=RunState.RUNNING, reason=f"training {total_steps} optimizer steps", who=WORKER)
        )
        self._train(order, data, saver, total_steps)
        finished = self._steps_done >= total_steps
        how_far = f"after {self._steps_done} of {total_steps} steps"
        return (RunState.FINISHED, "") if finished else self._stopped(how_far)

    def _build(self, start: Start, order: RunOrder, total_steps: int) -> TrainingEngine:
        self._doing = "building the engine"
        self._model_dir = start.model_dir
        order.require_inside(start.model_dir)  # again: reading the data may have taken hours
        engine = self._engine = self._builders.engine(
            start.spec, start.model_dir, order.disk_dir, self._sink, self._should_stop
        )
        if start.manifest is not None:
            self._doing = f"reading the checkpoint of optimizer step {start.step}"
            engine.restore(start.model_dir)
        if start.manifest is not None or self._sink.goes_on or order.goes_on:
            self._sink.note("resumed", *resumed_message(start, total_steps))
        self._note_plan(engine, total_steps)
        for fault in generation_config_faults(start.model_dir):
            self._warn(fault)
        return engine

    def _train(self, order: RunOrder, data: TrainingData, saver: CheckpointSaver, total_steps: int) -> None:
        engine, spec = self._engine, order.spec
        assert engine is not None, "it is built before it trains"

        def facts(step: int) -> Facts:
            return Facts(
                step=step, total_steps=total_steps, data_fingerprint=data.fingerprint,
                eval_loss=self._sink.measured("eval/loss", step), texts={SPEC: spec.model_dump_json(indent=1).encode()},
            )  # fmt: skip

        intervals = Intervals(spec, self._sink.knob, has_eval_data=data.num_eval_sequences > 0)
        observer = Observer(
            spec, data, engine, self._sink, intervals=intervals,
            writer=lambda: self._writer(order), should_stop=self._should_stop,
        )  # fmt: skip
        boundary = StepBoundary(
            BoundaryParts(
                total_steps=total_steps, intervals=intervals, engine=engine, sink=self._sink, saver=saver,
                observer=observer, wishes=self._wishes, facts=facts, attendance=lambda: Attendance(self._run_dir),
                orphan_s=order.orphan_pause_s, is_unwanted=self._is_unwanted, doing=self._say_doing,
            )
        )  # fmt: skip

        def on_step(step: int) -> None:
            self._steps_done = step
            boundary.after_step(step)
            if step < total_steps and not self._should_stop():
                intervals.apply(step + 1)

        self._doing = f"training optimizer step {self._steps_done + 1} of {total_steps}"
        source = data.source(spec.training.global_batch_size)
        self._knobs.serve(engine, intervals)
        intervals.apply(self._steps_done + 1)
        boundary.before_first(self._steps_done)
        self._steps_done = engine.train(source, total_steps, self._should_stop, on_step)
        boundary.finish(self._steps_done)

    def _writer(self, order: RunOrder) -> Writer:
        order.require_inside(self._model_dir)
        return self._builders.writer(order.spec.data, self._model_dir)

    def _say_doing(self, doing: str) -> None:
        self._doing = doing

    def _warn(self, message: str) -> None:
        self._sink.log("warning", message)

    def _stopped(self, when: str) -> tuple[RunState, str]:
        step = 0 if self._saver is None else self._saver.saved_step
        saved = f"checkpoint of step {step} saved" if step else "nothing saved"
        return RunState.STOPPED, f"{self._stop.cause} {when}, {saved}"

    def _note_data(self, data: TrainingData) -> None:
        facts = {
            "num_samples": data.num_samples,
            "num_sequences": data.num_sequences,
            "num_tokens": data.num_tokens,
            "num_trained_tokens": data.num_trained_tokens,
            "skipped": data.skipped,
            "fingerprint": data.fingerprint,
        }
        message = (
            f"{data.num_samples} samples in {data.num_sequences} sequences, {data.num_tokens} tokens "
            f"({data.num_trained_tokens} trained), {data.skipped} samples skipped"
        )
        self._sink.note("data", message, facts)
        for warning in data.warnings:
            self._sink.log("warning", warning)

    def _note_plan(self, engine: TrainingEngine, total_steps: int) -> None:
        self._sink.note("plan", f"{total_steps} optimizer steps", {**engine.plan_facts, "total_steps": total_steps})

    def _end(self, state: RunState, reason: str) -> int:
        peak = self._peak()
        if self._saver is not None:
            self._saver.settle()  # what is being written when training fails is a good checkpoint
        self._close_engine()
        if self._heartbeat.unwanted:
            _log.warning("%s: ending without a word", self._heartbeat.unwanted)
            self._shut_down()
            return 1
        outcome = RunOutcome(
            state=state, reason=reason, optimizer_steps=self._steps_done, metrics=self._sink.last_metrics, peak=peak,
            seconds=round(time.monotonic() - self._started, 3),
        )  # fmt: skip
        self._sink.note("memory", f"{peak.device_blocks} device blocks at most", peak.model_dump())
        self._sink.note("outcome", f"{state.value} after {self._steps_done} steps", outcome.model_dump(mode="json"))
        self._sink.emit(StateChanged(state=state, reason=reason, who=WORKER))
        exit_code = 1 if state is RunState.FAILED else 0
        self._shut_down()
        last_words = {"exit_code": exit_code, "state": state.value, "reason": reason}
        try:
            replace_file(self._run_dir / "exit.json", json.dumps(last_words).encode())
        except OSError as error:
            _log.error("exit.json could not be written: %s: %s", error, last_words)
        return exit_code

    def _peak(self) -> PeakUse:
        try:
            if self._engine is not None:
                return self._engine.peaks()
        # Still the worker's entry: a broken engine must not keep a run from its final state.
        except Exception:  # noqa: BLE001
            _log.exception("the engine could not say its peaks")
        return PeakUse(resident_bytes=psutil.Process().memory_info().rss)

    def _close_engine(self) -> None:
        """Close the engine beside a deadline: one that failed halfway may never come back, and the run has ended."""
        if self._engine is None:
            return
        thread = threading.Thread(target=self._engine.close, name="close-engine", daemon=True)
        thread.start()
        thread.join(_CLOSE_DEADLINE_S)
        if thread.is_alive():
            _log.warning("the engine did not close within %g s", _CLOSE_DEADLINE_S)

    def _shut_down(self) -> None:
        self._channel.close()
        logging.getLogger().removeHandler(self._log_handler)
        if not self._sink.close():
            _log.error("the journal could not be written to its end")
        self._heartbeat.close()


def _by(who: str) -> str:
    return f"by {who} " if who else ""


def optimizer_steps(training: TrainingSpec, data: TrainingData) -> int:
    """How many optimizer steps a run takes: those it names, or its epochs' worth, rounded up."""
    if training.epochs is not None:
        return data.steps_of_epochs(training.epochs, training.global_batch_size)
    return training.optimizer_steps or DEFAULT_STEPS
