"""Watches one live run until it has ended: journal, residency recording, process, stop deadline.

Everything it knows it finds in the run's folder and the database, so it can be started anew at any time, by any
process, beside another one.
"""

import asyncio
import logging
import math
import signal
import time
import traceback
from datetime import UTC, datetime
from enum import Enum

from horizon_app.contracts.events import SERVER, Event, LogWritten
from horizon_app.contracts.run_state import ENDED, Cause, RunState
from horizon_app.control import process_watch
from horizon_app.control.checklist import ChecklistPace, update_checklist
from horizon_app.control.checkpoints import last_in_words
from horizon_app.control.errors import IllegalTransition, RunNotFound
from horizon_app.control.hub import Hub
from horizon_app.control.journal_follower import JournalFollower
from horizon_app.control.launcher import Launcher
from horizon_app.control.lifecycle import change_state, locked_run
from horizon_app.control.memory import memory_here, oom_kills
from horizon_app.control.patience import StopWatch, patience_s
from horizon_app.control.recorder import note
from horizon_app.control.run_folder import RunFolder
from horizon_app.control.worker_end import WorkerEnd
from horizon_app.settings import AppSettings
from horizon_app.store.checkpoints import checkpoints_of
from horizon_app.store.database import Database
from horizon_app.store.errors import DatabaseBusy
from horizon_app.store.runs import StoredRun, get_run, update_run

_log = logging.getLogger(__name__)
TICK_S = 0.1
AFTER_TROUBLE_S = 1.0
LAUNCH_GRACE_S = 5.0
"""How long a run may be starting without anyone knowing its process, and without one to be found."""
PARENT_GRACE_S = 3.0
"""How long the process that started a worker has to say how it ended, before another one calls it interrupted."""
EXIT_GRACE_S = 30.0
"""How long a worker may live on after its final state."""
_ATTEND_S = 5.0
"""How often a paused worker is told that somebody watches it."""
_TOLD_LINES = 12


class _Process(Enum):
    UNKNOWN = "unknown"
    ALIVE = "alive"
    GONE = "gone"


class Supervisor:
    """One run that may have a worker."""

    def __init__(
        self, run: StoredRun, *, database: Database, hub: Hub, launcher: Launcher, settings: AppSettings
    ) -> None:
        self._run = run
        self._database = database
        self._hub = hub
        self._launcher = launcher
        self._settings = settings
        self._folder = RunFolder(settings.runs_dir, run.id)
        self._journal = JournalFollower(database, self._folder, run)
        self._frame: bytes | None = None
        self._trouble = ""
        self._checklist = ChecklistPace()
        self._stop_watch = StopWatch()
        self._begin_life()

    def _begin_life(self) -> None:
        """Forget what was seen of an earlier worker: an ended run may be resumed while its supervisor still looks."""
        self._frames = 0
        self._attended_at = -math.inf
        self._gone_since: float | None = None
        self._ended_since: float | None = None
        self._signals: set[signal.Signals] = set()

    async def watch(self) -> None:
        """Until the run has ended and its worker is gone, or the run was deleted."""
        done = False
        while not done:
            before = self._run.last_seq
            try:
                done = await asyncio.to_thread(self.look)
            # One run's trouble, whatever it is, must not end its watch: it is recorded and tried again.
            except Exception as error:  # noqa: BLE001
                await self._report(error)
            if self._run.last_seq != before:
                await self._hub.refresh(self._run.id)
            if self._frame is not None:
                self._hub.show_frame(self._run.id, self._frames, self._frame)
                self._frame = None
            if not done:
                await asyncio.sleep(AFTER_TROUBLE_S if self._trouble else 0.0 if self.is_behind else TICK_S)

    def look(self) -> bool:
        """Record what the worker has written since, and act on what is seen; True once nothing is left to watch.

        Of a long journal one piece is recorded, and nothing is done about the process until none is left (`is_behind`).
        """
        process = self._process()  # before the journal is read: what a process wrote before it went is read after
        life = self._run.started_at
        recorded = self._journal.record_next()
        self._run = recorded or self._run
        judged = not self.is_behind and self._checklist.look(self._database, self._run, self._folder)
        if self._hub.is_watched(self._run.id):
            self._frames, self._frame = self._folder.newest_frame(self._frames)
        is_there = (recorded is not None and not judged) or self._refresh()
        if not is_there or self._run.state is RunState.QUEUED:
            return True
        if self._run.started_at != life:
            self._begin_life()
            return False  # what was seen of a process was seen of the last one
        self._trouble = ""
        if self.is_behind:
            return False
        if self._run.state in ENDED:
            return self._see_off(process)
        if process is not _Process.ALIVE:
            self._miss(process)
            return False
        self._gone_since = None
        if self._run.state is RunState.STOPPING:
            self._press()
        elif self._run.state is RunState.PAUSED:
            self._attend()
        return False

    @property
    def is_behind(self) -> bool:
        """Whether the journal holds more that can be recorded at once."""
        return self._journal.is_behind

    @property
    def misses_worker(self) -> bool:
        """Whether the run is live but its worker is gone, which counts after a moment."""
        return self._gone_since is not None

    def _process(self) -> _Process:
        if self._launcher.exit_status(self._run.id) is not None:
            return _Process.GONE
        known = self._known_worker()
        if known is None:
            return _Process.UNKNOWN
        return _Process.ALIVE if process_watch.is_alive(self._run.id, *known) else _Process.GONE

    def _known_worker(self) -> tuple[int, float] | None:
        if self._run.pid is not None and self._run.process_start is not None:
            return self._run.pid, self._run.process_start
        return self._folder.worker()

    def _refresh(self) -> bool:
        with self._database.read() as tx:
            run = get_run(tx, self._run.id)
        if run is not None:
            self._run = run
        return run is not None

    def _see_off(self, process: _Process) -> bool:
        """The run has ended: done once its worker is gone, which a worker that hangs is helped with."""
        now = time.monotonic()
        self._ended_since = self._ended_since or now
        if process is not _Process.ALIVE:
            self._bury(self._run.ended_at)
            return True
        if now - self._ended_since > EXIT_GRACE_S:
            self._signal(signal.SIGKILL, "has not gone after its final state")
        return False

    def _bury(self, ended_at: datetime | None) -> None:
        """Nothing that the worker started outlives it, and how it ended is kept; nobody may have resumed the run."""
        before = time.time() if ended_at is None else ended_at.timestamp()
        left = process_watch.end_leftovers(self._run.id, self._known_worker(), before)
        if left:
            text = f"{left} processes that the worker had started were still there: ended"
            note(self._database, self._run.id, [LogWritten(level="warning", message=text)])
        status = self._launcher.exit_status(self._run.id)
        if status is None or status == self._run.exit_status:
            return
        with self._database.write() as tx:
            now = get_run(tx, self._run.id, lock=True)
            if now is not None and now.state in ENDED and now.started_at == self._run.started_at:
                update_run(tx, self._run.id, exit_status=status)

    def _miss(self, process: _Process) -> None:
        """The run has not ended and no worker is seen: after a while, or at once where it is certain, end it."""
        if process is _Process.UNKNOWN:
            self._search()
            return
        now = time.monotonic()
        self._gone_since = self._gone_since or now
        if not self._launcher.is_parent_of(self._run.id) and now - self._gone_since < PARENT_GRACE_S:
            return
        process_watch.end_leftovers(self._run.id, self._known_worker(), time.time())
        words = self._folder.last_words()
        if words is not None and words.state in ENDED:
            self._end(words.state, words.reason)
        elif self._run.state is RunState.STOPPING and self._stop_watch.waited_s(self._run) >= self._patience_s():
            self._end(RunState.STOPPED, f"did not stop within {self._patience_s():.3g} s and was killed")
        else:
            self._end(RunState.INTERRUPTED, *self._cause())

    def _search(self) -> None:
        """Nobody wrote down which process it is: whoever was to do that may have died before, or be about to."""
        started = self._run.started_at or self._run.created_at
        if datetime.now(UTC).timestamp() - started.timestamp() < LAUNCH_GRACE_S:
            return
        found = process_watch.find_worker(self._run.id)
        if found is None:
            self._end(RunState.INTERRUPTED, "no worker process was ever seen", Cause.NEVER_STARTED)
            return
        with self._database.write() as tx:
            update_run(tx, self._run.id, pid=found[0], process_start=found[1])

    def _end(self, state: RunState, reason: str, cause: Cause | None = None) -> None:
        tail = self._folder.log_tail(_TOLD_LINES) if state is RunState.INTERRUPTED else []
        lines: list[Event] = [LogWritten(level="error", message=f"worker.log: {line}") for line in tail]
        note(self._database, self._run.id, lines)
        try:
            with self._database.write() as tx:
                change_state(tx, self._run.id, state, reason, who=SERVER)
                ending: dict[str, object] = {"exit_status": self._launcher.exit_status(self._run.id)}
                update_run(tx, self._run.id, **ending, **({} if cause is None else {"cause": cause.value}))
                update_checklist(tx, locked_run(tx, self._run.id), peak_bytes=self._folder.peak_bytes())
        except (IllegalTransition, RunNotFound):
            return  # another process was quicker
        finally:
            self._refresh()

    def _cause(self) -> tuple[str, Cause]:
        known, now = self._known_worker(), process_watch.boot_id()
        rebooted = None not in (now, self._run.boot_id) and now != self._run.boot_id
        before = self._folder.oom_kills_at_start()
        end = WorkerEnd(
            pid=known and known[0], exit_code=self._launcher.exit_status(self._run.id),
            oom_kills=0 if rebooted or before is None else max(0, oom_kills() - before),
            peak_bytes=self._folder.peak_bytes(), memory=memory_here(), rebooted=rebooted,
            folder_gone=self._folder.is_gone,
        )  # fmt: skip
        with self._database.read() as tx:
            recorded = checkpoints_of(tx, self._run.id)
        last = last_in_words(self._folder.path, self._run.id, recorded)
        return f"{end.describe()}; {self._run.step} optimizer steps done, {last}", end.cause

    def _attend(self) -> None:
        """Let a paused worker know that it is not forgotten."""
        if time.monotonic() - self._attended_at > _ATTEND_S:
            self._attended_at = time.monotonic()
            self._folder.mark_attended()

    def _patience_s(self) -> float:
        return patience_s(self._run, self._settings.stop_grace_s)

    def _press(self) -> None:
        """The run was asked to stop: after the grace a signal, after some more the end."""
        waited, patience = self._stop_watch.waited_s(self._run), self._patience_s()
        if waited - patience > self._settings.kill_grace_s:
            self._signal(signal.SIGKILL, f"did not stop within {waited:.3g} s")
        elif waited > patience:
            self._signal(signal.SIGTERM, f"did not stop within {patience:.3g} s")

    def _signal(self, number: signal.Signals, why: str) -> None:
        known = self._known_worker()
        if known is None or number in self._signals:
            return
        self._signals.add(number)
        count = process_watch.signal_all(self._run.id, known, number)
        message = f"the worker process {known[0]} {why}: sent {number.name} to it and all that it started ({count})"
        note(self._database, self._run.id, [LogWritten(level="warning", message=message)])

    async def _report(self, error: Exception) -> None:
        """Log trouble with its trace; record it in the run's stream once for each kind."""
        trace = traceback.format_exc()
        kind = f"{type(error).__name__}: {error}"
        if kind == self._trouble:
            return
        self._trouble = kind
        if isinstance(error, DatabaseBusy):  # nothing can be recorded now, and nothing is lost: the journal has it
            _log.warning("run %s is recorded later: %s", self._run.id, error)
            return
        _log.error("run %s: %s", self._run.id, trace)
        try:
            await asyncio.to_thread(
                note, self._database, self._run.id, [LogWritten(level="error", message=f"the server's watch: {trace}")]
            )
        except Exception:  # noqa: BLE001 - the same trouble again, and it is logged
            _log.exception("run %s: the trouble could not be recorded", self._run.id)
