"""Keeps a supervisor on every live run and the queue moving, in a server or for one run of the command line."""

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from horizon_app.control.hub import Hub
from horizon_app.control.last_worker import living_worker
from horizon_app.control.launcher import Launcher
from horizon_app.control.process_watch import runs_with_processes
from horizon_app.control.run_folder import RunFolder
from horizon_app.control.scheduler import start_next
from horizon_app.control.supervisor import EXIT_GRACE_S, TICK_S, Supervisor
from horizon_app.logs import about_run
from horizon_app.settings import AppSettings
from horizon_app.store.database import Database
from horizon_app.store.errors import DatabaseBusy
from horizon_app.store.queue import lately_ended
from horizon_app.store.runs import StoredRun, changed_since, live_runs

_log = logging.getLogger(__name__)
ROUND_S = 1.0
_LATELY = 100
"""How many of the runs that ended last are looked at for processes that have not gone."""
_CLOCK_SLACK = timedelta(seconds=2)
_KILL_S = 5.0
"""How long those that were killed may take to be gone."""


class Dispatcher:
    """Looks at the database once a second, and at once when woken: others may have written to it."""

    def __init__(self, *, database: Database, hub: Hub, launcher: Launcher, settings: AppSettings) -> None:
        self._database = database
        self._hub = hub
        self._launcher = launcher
        self._settings = settings
        self._watches: dict[str, tuple[StoredRun, asyncio.Task[None]]] = {}
        self._wake = asyncio.Event()
        self._looked_at = datetime.now(UTC)

    def wake(self) -> None:
        """Something was submitted or has ended: look now."""
        self._wake.set()

    def look_once(self) -> None:
        """Record what the workers of live runs have written since anybody watched them, without going on to watch."""
        for run in self._live():
            supervisor = self._supervisor(run)
            while not supervisor.look() and supervisor.is_behind:
                pass

    def settle(self, run: StoredRun) -> None:
        """Record what a run's worker has written; where that is gone without a last word, end the run."""
        supervisor = self._supervisor(run)
        while not supervisor.look() and (supervisor.is_behind or supervisor.misses_worker):
            if not supervisor.is_behind:
                time.sleep(TICK_S)

    async def seen_off(self, run_id: str) -> None:
        """Until an ended run that is watched here has no worker any more, nor anything that the worker started."""
        watch = self._watches.get(run_id)
        if watch is not None:  # not for ever: somebody may resume it in this moment
            await asyncio.wait([watch[1]], timeout=EXIT_GRACE_S + _KILL_S)

    async def run(self, *, only: str | None = None, may_start: Callable[[], bool] = lambda: True) -> None:
        """Until cancelled. `only` is the one run that may be started here; `may_start` is asked before each start."""
        closing = await asyncio.to_thread(self._closing)
        try:
            self._attach(closing)
            while True:
                try:
                    await self._round(only, may_start)
                except DatabaseBusy as busy:
                    _log.warning("the queue waits: %s", busy)
                # Like a supervisor's task: trouble of one round is logged whole, and the next one tries again.
                except Exception:  # noqa: BLE001
                    _log.exception("a round of the dispatcher failed")
                await self._wait()
        finally:
            tasks = [task for _, task in self._watches.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _round(self, only: str | None, may_start: Callable[[], bool]) -> None:
        self._attach(await asyncio.to_thread(self._live))
        if await asyncio.to_thread(may_start):
            while (started := await asyncio.to_thread(self._start_next, only, self._watched())) is not None:
                self._attach(await asyncio.to_thread(self._live))
                await self._hub.refresh(started)
        await self._hub.refresh_watched()
        for run_id in await asyncio.to_thread(self._changed):
            self._hub.mark(run_id)

    def _attach(self, runs: list[StoredRun]) -> None:
        for run in runs:
            if run.id in self._watches:
                continue
            with about_run(run.id):
                task = asyncio.create_task(self._supervisor(run).watch(), name=f"supervisor {run.id}")
            self._watches[run.id] = run, task
            task.add_done_callback(lambda _, run_id=run.id: self._detach(run_id))

    def _watched(self) -> list[StoredRun]:
        return [run for run, _ in self._watches.values()]

    def _start_next(self, only: str | None, lingering: list[StoredRun]) -> str | None:
        return start_next(self._database, self._launcher, only=only, lingering=lingering)

    def _supervisor(self, run: StoredRun) -> Supervisor:
        return Supervisor(run, database=self._database, hub=self._hub, launcher=self._launcher, settings=self._settings)

    def _detach(self, run_id: str) -> None:
        self._watches.pop(run_id, None)
        self.wake()

    def _live(self) -> list[StoredRun]:
        with self._database.read() as tx:
            return live_runs(tx)

    def _closing(self) -> list[StoredRun]:
        """Runs that ended while nobody watched and have left processes: a worker holds its devices still.

        A worker is known by what was written down of it, whatever of its environment may be read.
        """
        with self._database.read() as tx:
            ended = lately_ended(tx, _LATELY)
        left = runs_with_processes()
        return [run for run in ended if run.id in left or self._has_worker(run)]

    def _has_worker(self, run: StoredRun) -> bool:
        return living_worker(run, RunFolder(self._settings.runs_dir, run.id)) is not None

    def _changed(self) -> list[str]:
        since, self._looked_at = self._looked_at - _CLOCK_SLACK, datetime.now(UTC)
        with self._database.read() as tx:
            return [*changed_since(tx, since)]

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(ROUND_S):
                await self._wake.wait()
        except TimeoutError:
            return
        self._wake.clear()
