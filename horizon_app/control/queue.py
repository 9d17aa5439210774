"""The queues of the devices, as people order them: release, hold, move."""

from collections import defaultdict

from horizon_app.contracts.events import FactNoted
from horizon_app.contracts.run_state import RunState
from horizon_app.contracts.run_view import DeviceQueue, QueueAnswer, Run
from horizon_app.control.errors import BadQuery, NotQueued
from horizon_app.control.lifecycle import locked_run, read_run, tell
from horizon_app.control.scheduler import may_run_beside
from horizon_app.control.views import run_view
from horizon_app.store.database import Database, Transaction
from horizon_app.store.queue import queue_positions, queued_runs, write_queue
from horizon_app.store.runs import StoredRun, live_runs, update_run


class Queue:
    """What may be done with runs that wait."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def overview(self) -> QueueAnswer:
        """Each device that has something to do: what is live on it, then what waits, in order."""
        with self._database.read() as tx:
            live, queued = live_runs(tx), queued_runs(tx)
        found: dict[str, tuple[list[Run], list[Run]]] = defaultdict(lambda: ([], []))
        for run in live:
            found[run.queue_device][0].append(run_view(run))
        for run in queued:
            waiting = found[run.queue_device][1]
            waiting.append(run_view(run, queue_position=len(waiting) + 1))
        return QueueAnswer(
            devices=[
                DeviceQueue(device=device, live=on, queued=waiting) for device, (on, waiting) in sorted(found.items())
            ]
        )

    def holders(self, run_id: str) -> list[Run]:
        """The live runs that a run has to wait for. Raises RunNotFound."""
        with self._database.read() as tx:
            run = read_run(tx, run_id)
            return [run_view(other) for other in live_runs(tx) if not may_run_beside(run, other)]

    def start(self, run_id: str, *, who: str) -> Run:
        """Let a held run start when its turn comes. Raises RunNotFound, NotQueued."""
        return self._set_held(run_id, held=False, who=who)

    def hold(self, run_id: str, *, who: str) -> Run:
        """Keep a queued run from starting; it keeps its place. Raises RunNotFound, NotQueued."""
        return self._set_held(run_id, held=True, who=who)

    def move(self, run_id: str, *, before: str | None = None, position: int | None = None, who: str) -> Run:
        """Give a queued run another place: `position` counted from 1, right before another run, or the last one.

        Raises RunNotFound, NotQueued, BadQuery.
        """
        with self._database.write() as tx:
            run = _waiting(tx, run_id, "moved")
            others = [other.id for other in queued_runs(tx, run.queue_device) if other.id != run_id]
            if before is not None and before != run_id:
                place = others.index(_neighbour(tx, before, run).id)
            elif before == run_id:
                place = queue_positions(tx)[run_id] - 1
            else:
                place = len(others) if position is None else min(position, len(others) + 1) - 1
            write_queue(tx, [*others[:place], run.id, *others[place:]])
            data = {"action": "move", "position": place + 1, "device": run.queue_device, "who": who}
            tell(
                tx, run, FactNoted(kind="queue", message=f"moved to place {place + 1} of {run.queue_device}", data=data)
            )
            return _shown(tx, run_id)

    def _set_held(self, run_id: str, *, held: bool, who: str) -> Run:
        with self._database.write() as tx:
            run = _waiting(tx, run_id, "held" if held else "started")
            if run.held != held:
                update_run(tx, run_id, held=held, reason="held" if held else "")
                action, message = ("hold", "held back") if held else ("start", "released to start in its turn")
                tell(tx, run, FactNoted(kind="queue", message=message, data={"action": action, "who": who}))
            return _shown(tx, run_id)


def _waiting(tx: Transaction, run_id: str, action: str) -> StoredRun:
    run = locked_run(tx, run_id)
    if run.state is not RunState.QUEUED:
        raise NotQueued(run_id=run_id, state=run.state, action=action)
    return run


def _neighbour(tx: Transaction, run_id: str, run: StoredRun) -> StoredRun:
    other = _waiting(tx, run_id, "moved before")
    if other.queue_device != run.queue_device:
        where = f"run {run_id} waits for {other.queue_device}, run {run.id} for {run.queue_device}"
        raise BadQuery(field="before", message=f"{where}: they are in different queues")
    return other


def _shown(tx: Transaction, run_id: str) -> Run:
    return run_view(locked_run(tx, run_id), queue_position=queue_positions(tx).get(run_id))
