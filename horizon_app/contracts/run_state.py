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

ENDED = frozenset({_S.FINISHED, _S.STOPPED, _S.FAILED, _S.INTERRUPTED})
"""States in which no worker process exists any more."""


def is_legal(old: RunState, new: RunState) -> bool:
    """Whether a run may go from `old` to `new`."""
    return new in TRANSITIONS[old]
