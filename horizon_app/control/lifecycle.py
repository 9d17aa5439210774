"""The only writer of a run's state: compare-and-set along the table of transitions, and an event a change."""

import logging
from datetime import UTC, datetime

from horizon_app.contracts.events import Event, StateChanged
from horizon_app.contracts.run_state import ENDED, TRANSITIONS, Cause, RunState, is_legal
from horizon_app.control.errors import IllegalTransition, RunNotFound
from horizon_app.control.process_watch import boot_id
from horizon_app.control.run_clock import duration_s, since_boot_s
from horizon_app.logs import fields
from horizon_app.store.database import Transaction
from horizon_app.store.events import NewEvent, append_events
from horizon_app.store.knobs import lapse_changes
from horizon_app.store.queue import rank_behind, touch_queue
from horizon_app.store.runs import NewRun, StoredRun, get_run, insert_run, set_state, update_run
from horizon_app.store.segments import close_segment, open_segment

_log = logging.getLogger(__name__)


def create_run(tx: Transaction, run: NewRun, *, who: str) -> None:
    """Insert a run, queued, with its first event."""
    insert_run(tx, run, queue_rank=rank_behind(tx, run.queue_device))
    reason = "not started yet" if run.held else ""
    event = StateChanged(time=run.created_at, state=RunState.QUEUED, reason=reason, who=who)
    append_events(tx, run.id, [NewEvent(seq=1, journal_seq=None, event=event)])
    update_run(tx, run.id, last_seq=1)


def change_state(tx: Transaction, run_id: str, new: RunState, reason: str = "", *, who: str) -> None:
    """Take a run to another state and append the event. Raises RunNotFound, IllegalTransition."""
    run = locked_run(tx, run_id)
    event = StateChanged(time=datetime.now(UTC), state=new, reason=reason, who=who)
    enter_state(tx, run, event)
    tell(tx, run, event)


def tell(tx: Transaction, run: StoredRun, *events: Event) -> None:
    """Append events of the server's own to the stream of a locked run; nothing was appended since it was read."""
    rows = [
        NewEvent(seq=seq, journal_seq=None, event=event) for seq, event in enumerate(events, start=run.last_seq + 1)
    ]
    append_events(tx, run.id, rows)
    update_run(tx, run.id, last_seq=run.last_seq + len(rows))


def read_run(tx: Transaction, run_id: str) -> StoredRun:
    """A run as it is, for a transaction that changes nothing. Raises RunNotFound."""
    run = get_run(tx, run_id)
    if run is None:
        raise RunNotFound(run_id)
    return run


def locked_run(tx: Transaction, run_id: str) -> StoredRun:
    """A run that nobody else changes until the transaction ends. Raises RunNotFound."""
    run = get_run(tx, run_id, lock=True)
    if run is None:
        raise RunNotFound(run_id)
    return run


def enter_state(tx: Transaction, run: StoredRun, event: StateChanged) -> None:
    """Take a locked run to the state of an event that the caller appends. Raises IllegalTransition."""
    if not is_legal(run.state, event.state):
        raise IllegalTransition(run_id=run.id, old=run.state, new=event.state)
    if RunState.QUEUED in (run.state, event.state):
        touch_queue(tx, run.queue_device)  # the others move up or down
    also: dict[str, object] = {}
    if event.state is RunState.STARTING:
        also |= {"started_at": event.time, "started_clock": since_boot_s(), "boot_id": boot_id()}
    if event.state is RunState.STOPPING:
        also["stop_asked_at"] = event.time
    if event.state is RunState.FAILED:
        also["cause"] = Cause.EXCEPTION.value
    if event.state in ENDED:
        also |= {"ended_at": event.time, "ran_s": duration_s(run, until=event.time) or 0.0}
        lapse_changes(tx, run.id, f"the run was {event.state.value} before it came to it")
    if event.state is RunState.QUEUED:  # again
        also |= {"ended_at": None, "stop_asked_at": None, "cause": None, "exit_status": None}
    came_from = [state for state, targets in TRANSITIONS.items() if event.state in targets]
    if not set_state(tx, run.id, came_from, event.state, event.reason, **also):
        raise IllegalTransition(run_id=run.id, old=run.state, new=event.state)
    if event.state is RunState.STARTING:
        open_segment(tx, run.id, run.segment + 1, event.time)
    if event.state in ENDED:
        close_segment(tx, run.id, event.state, event.reason, at=event.time, step=run.step)
    words = f"{run.state.value} -> {event.state.value}{f': {event.reason}' if event.reason else ''}"
    _log.info(words, extra=fields(run_id=run.id, who=event.who))
