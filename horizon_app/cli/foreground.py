"""A run that a terminal holds: submitted or resumed, watched to its end, stopped by Ctrl-C, ended by a second one."""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from horizon_app.cli.run_progress import RunProgress
from horizon_app.contracts.events import COMMAND_LINE
from horizon_app.contracts.run_view import Run, RunDetail
from horizon_app.control.errors import RunNotLive
from horizon_app.control.process_watch import is_alive, signal_all
from horizon_app.control.run_folder import RunFolder
from horizon_app.control.workstation import Workstation


class ForegroundRun:
    """One run, from its spec or its last checkpoint to its end."""

    def __init__(self, station: Workstation, runs_dir: Path, progress: RunProgress) -> None:
        self.interrupts = 0
        """How often Ctrl-C (or SIGTERM) was received."""
        self._station = station
        self._runs_dir = runs_dir
        self._progress = progress
        self._run_id: str | None = None

    async def train(self, document: Any, base_dir: Path) -> RunDetail:
        """Submit a spec and stay with the run until it has ended. Raises SpecRefused or ControlError."""
        return await self._stay_with(
            lambda: self._station.submit(document, base_dir=base_dir, who=COMMAND_LINE), after=0
        )

    async def resume(self, run_id: str, changes: Mapping[str, Any]) -> RunDetail:
        """Queue an ended run again and stay with it until it has ended again. Raises SpecRefused or ControlError."""
        before = self._station.run(run_id).last_seq
        return await self._stay_with(
            lambda: self._station.resume(run_id, changes, by_client=False, who=COMMAND_LINE), after=before
        )

    async def _stay_with(self, queue: Callable[[], Run], after: int) -> RunDetail:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._interrupt)
        run = await asyncio.to_thread(queue)  # beside the loop, which hears of Ctrl-C meanwhile
        self._run_id = run.id
        self._progress.say(f"run {run.id} ({run.name})")
        for other in self._station.queue.holders(run.id):
            self._progress.say(f"it waits for run {other.id} ({other.name}), which is {other.state.value}")
        if self.interrupts:
            self._stop(run.id)
        return await self._station.supervise(run.id, self._progress.show, after=after)

    def _interrupt(self) -> None:
        self.interrupts += 1
        if self._run_id is None:
            return
        if self.interrupts == 1:
            self._stop(self._run_id)
        else:
            self._kill(self._run_id)

    def _stop(self, run_id: str) -> None:
        self._progress.say("stopping at the next optimizer step, then saving; Ctrl-C again ends it at once, unsaved")
        with contextlib.suppress(RunNotLive):  # it ended by itself in this very moment
            self._station.stop(run_id, save=True, who=COMMAND_LINE)

    def _kill(self, run_id: str) -> None:
        """End the worker and all that it has started; the supervision then finds it gone and ends the run."""
        worker = RunFolder(self._runs_dir, run_id).worker()
        if worker is not None and is_alive(run_id, *worker):
            signal_all(run_id, worker, signal.SIGKILL)
            self._progress.say("the worker was ended at once, nothing saved")
