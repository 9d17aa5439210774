"""Run states and the one table of legal transitions."""

from enum import StrEnum


class RunState(StrEnum):
    """Where a run is in its life."""

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"
    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class Cause(StrEnum):
    """What ended a run that did not end by itself."""

    OUT_OF_MEMORY = "out_of_memory"
    """The kernel killed the worker for memory."""
    SIGNAL = "signal"
    EXIT_CODE = "exit_code"
    """The worker ended without a word."""
    EXCEPTION = "exception"
    """The worker itself told what went wrong."""
    REBOOT = "reboot"
    """The machine was restarted, or lost its power."""
    FOLDER_GONE = "folder_gone"
    NEVER_STARTED = "never_started"
    UNKNOWN = "unknown"
    """The worker is gone, and nobody was there to see how."""


_S = RunState

TRANSITIONS: dict[RunState, frozenset[RunState]] = {
    _S.QUEUED: frozenset({_S.STARTING, _S.STOPPED, _S.FAILED}),
    _S.STARTING: frozenset({_S.RUNNING, _S.STOPPING, _S.FINISHED, _S.STOPPED, _S.FAILED, _S.INTERRUPTED}),
    _S.RUNNING: frozenset({_S.PAUSED, _S.STOPPING, _S.FINISHED, _S.STOPPED, _S.FAILED, _S.INTERRUPTED}),
    _S.PAUSED: frozenset({_S.RUNNING, _S.STOPPING, _S.STOPPED, _S.FAILED, _S.INTERRUPTED}),
    _S.STOPPING: frozenset({_S.STOPPED, _S.FINISHED, _S.FAILED, _S.INTERRUPTED}),
    _S.FINISHED: frozenset({_S.QUEUED}),  # extended
    _S.STOPPED: frozenset({_S.QUEUED}),
    _S.FAILED: frozenset({_S.QUEUED}),
    _S.INTERRUPTED: frozenset({_S.QUEUED}),
}

LIVE = frozenset({_S.STARTING, _S.RUNNING, _S.PAUSED, _S.STOPPING})
"""States in which a worker process may exist."""

TAKES_KNOBS = LIVE - {_S.STOPPING}
"""States in which a worker takes changes of knobs up."""

ENDED = frozenset({_S.FINISHED, _S.STOPPED, _S.FAILED, _S.INTERRUPTED})
"""States in which no worker process exists any more."""

RESUMABLE = ENDED - {_S.FINISHED}
"""States from which a run goes on where its newest checkpoint is, with nothing else asked."""


def is_legal(old: RunState, new: RunState) -> bool:
    """Whether a run may go from `old` to `new`."""
    return new in TRANSITIONS[old]
