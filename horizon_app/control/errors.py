"""What can go wrong in a use case; each text is ready to be shown."""

from collections.abc import Mapping, Sequence

from horizon_app.contracts.knobs import Knob, KnobValue
from horizon_app.contracts.problems import FieldProblem
from horizon_app.contracts.run_state import RunState


class ControlError(Exception):
    """Root of the errors of use cases."""


class RunNotFound(ControlError):
    """There is no run with this id."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"there is no run {run_id[:60]!r}")


class RunsNotFound(RunNotFound):
    """Of several runs that were named, these are not there."""

    def __init__(self, run_ids: Sequence[str]) -> None:
        named = ", ".join(repr(run_id[:60]) for run_id in run_ids)
        ControlError.__init__(self, f"there {'is no run' if len(run_ids) == 1 else 'are no runs'} {named}")


class IllegalTransition(ControlError):
    """A run can't go from its state to the one asked for."""

    def __init__(self, *, run_id: str, old: RunState, new: RunState) -> None:
        self.run_id, self.old, self.new = run_id, old, new
        super().__init__(f"run {run_id} is {old.value} and can't become {new.value}")


class RunNotLive(ControlError):
    """Something was asked of a run that has ended."""

    def __init__(self, *, run_id: str, state: RunState, action: str) -> None:
        self.run_id, self.state = run_id, state
        super().__init__(f"run {run_id} is {state.value}: there is nothing to {action}")


class NotQueued(ControlError):
    """Something was asked that only a run that waits in a queue can do."""

    def __init__(self, *, run_id: str, state: RunState, action: str) -> None:
        self.run_id, self.state = run_id, state
        super().__init__(f"run {run_id} is {state.value} and can't be {action}: it waits in no queue")


class KnobError(ControlError):
    """Knobs can't be changed as asked; carries one entry per knob."""

    def __init__(self, errors: Sequence[FieldProblem]) -> None:
        self.errors = list(errors)
        super().__init__("; ".join(f"{e.field}: {e.message}" + (f" ({e.fix})" if e.fix else "") for e in self.errors))


class KnobsRefused(KnobError):
    """There is no such knob, or it can't have this value in this run."""


class NeedsRestart(KnobError):
    """A value of the spec can't change while the run runs."""


class KnobsChangedSince(KnobError):
    """Somebody has changed knobs since whoever asks has looked."""

    def __init__(self, *, asked: int, now: int, values: Mapping[Knob, KnobValue | None]) -> None:
        self.now = now
        super().__init__([FieldProblem(field=knob, message=f"is {value} now") for knob, value in values.items()])
        self.args = (f"the knobs were changed: their version is {now}, not {asked}; look at them and ask again",)


class NothingToUndo(ControlError):
    """No change of a knob can be taken back."""


class CheckNotFound(ControlError):
    """The run's checklist has no such item."""

    def __init__(self, *, check: str, known: Sequence[str]) -> None:
        super().__init__(f"there is no check {check[:60]!r}; there are {', '.join(known)}")


class NothingToApply(ControlError):
    """A check has no fix that a machine can carry out, or needs none."""


class RunIsLive(ControlError):
    """Something was asked that needs a run to have ended."""

    def __init__(self, *, run_id: str, state: RunState, action: str) -> None:
        self.run_id, self.state = run_id, state
        super().__init__(f"run {run_id} is {state.value} and can't be {action}; stop it first")


class KeyReused(ControlError):
    """An idempotency key that made one run came again with another spec."""

    def __init__(self, *, key: str, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"the key {key[:60]!r} made run {run_id} from another spec; send a new key for a new run")


class CheckpointPinned(ControlError):
    """A run was to be deleted that has checkpoints somebody wants to keep."""

    def __init__(self, *, run_id: str, steps: Sequence[int]) -> None:
        shown = ", ".join(map(str, steps))
        message = f"the checkpoints of step {shown} are pinned"
        fix = "delete with pinned=delete (command line: --pinned), or take the pins away first"
        self.errors = [FieldProblem(field="pinned", message=message, fix=fix)]
        super().__init__(f"run {run_id} is not deleted: {message}; {fix}")


class NothingToResume(ControlError):
    """A finished run was to go on, without more to do."""


class WorkerStillThere(ControlError):
    """A run has ended, but its worker process does not go."""

    def __init__(self, *, run_id: str, pid: int) -> None:
        super().__init__(f"run {run_id} has ended, but its worker process {pid} still runs; try again in a moment")


class CheckpointNotFound(ControlError):
    """The run has no such checkpoint."""

    def __init__(self, *, run_id: str, step: int) -> None:
        super().__init__(f"run {run_id} has no checkpoint of step {step}")


class NothingRecorded(ControlError):
    """The run has nothing of this kind yet."""


class GeneratorBusy(ControlError):
    """Another answer is being written."""

    def __init__(self, *, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"an answer of run {run_id} is being written; ask again when it has ended")


class GeneratorFailed(ControlError):
    """The process that answers could not load the checkpoint, or died."""

    def __init__(self, cause: str) -> None:
        super().__init__(f"the model can't answer: {cause}")


class ExportBusy(ControlError):
    """Another model is being written."""

    def __init__(self) -> None:
        super().__init__("another model is being written; ask again when that has ended")


class ExportFailed(ControlError):
    """The model could not be written as asked; the target is as it was."""


class TextNotWritten(ControlError):
    """The model can't answer this request."""


class BadQuery(ControlError):
    """A filter, a sorting or a cursor of a list makes no sense."""

    def __init__(self, *, field: str, message: str, fix: str = "") -> None:
        self.field, self.message, self.fix = field, message, fix
        super().__init__(f"{message}; {fix}" if fix else message)


class ServerRunning(ControlError):
    """Another server has this home folder."""

    def __init__(self, *, home: str, pid: int | None, host: str | None, port: int | None) -> None:
        self.pid, self.host, self.port = pid, host, port
        who = f"process {pid} at http://{host}:{port}" if pid is not None else "another process"
        super().__init__(f"a server already runs on {home}: {who}; use that one, or another --home")


class PortTaken(ControlError):
    """The port that the server should bind is in use."""

    def __init__(self, *, host: str, port: int, holder: str) -> None:
        self.host, self.port, self.holder = host, port, holder
        by = f" by {holder}" if holder else ""
        super().__init__(f"port {port} on {host} is in use{by}; stop that, or choose another with --port")


class CannotListen(ControlError):
    """The server can't bind its address."""

    def __init__(self, *, host: str, port: int, cause: str) -> None:
        self.host, self.port = host, port
        super().__init__(f"can't listen on {host[:80]}, port {port}: {cause}")


class DataRefused(ControlError):
    """Data that can't be shown; carries one entry per thing that is wrong with it."""

    def __init__(self, errors: Sequence[FieldProblem]) -> None:
        self.errors = list(errors)
        super().__init__("; ".join(f"{e.file or e.field}: {e.message}" for e in self.errors))


class PreviewFailed(ControlError):
    """The process that looks at data did not come to an end."""


class ExampleFailed(ControlError):
    """The starter example could not be written."""
