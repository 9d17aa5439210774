"""Starts a run's worker in a session of its own; knows its exit status while this process is its parent."""

import os
import sys
from pathlib import Path
from typing import Any

import psutil

from horizon_app.control.memory import oom_kills
from horizon_app.control.process_watch import RUN_VARIABLE
from horizon_app.control.run_folder import RunFolder
from horizon_app.settings import AppSettings
from horizon_app.store.runs import StoredOrder, StoredRun


def order_document(run_id: str, order: StoredOrder, run_dir: Path) -> dict[str, Any]:
    """What run.json holds: all that a worker needs to know, with absolute paths."""
    return {
        "run_id": run_id,
        "spec": order.spec,
        "model_dir": order.model_dir,
        "data_paths": order.data_paths,
        "eval_paths": order.eval_paths,
        "folders": order.folders,
        "cache_dir": str(run_dir.resolve().parents[1] / "cache"),
        "base_dir": order.base_dir,
        "disk_dir": order.disk_dir or str(run_dir.resolve()),
    }


class Launcher:
    """The workers that this process started."""

    def __init__(self, settings: AppSettings) -> None:
        self._settings = settings
        self._children: dict[str, int] = {}
        self._statuses: dict[str, int] = {}

    def launch(self, run: StoredRun, order: StoredOrder) -> tuple[int, float]:
        """Write run.json and start the worker; gives process id and start time. Raises OSError."""
        self.exit_status(run.id)  # buries the worker of an earlier life, if it was ours
        self._children.pop(run.id, None)
        self._statuses.pop(run.id, None)
        folder = RunFolder(self._settings.runs_dir, run.id)
        folder.write_order(
            {
                **order_document(run.id, order, folder.path), "orphan_pause_s": self._settings.orphan_pause_s,
                "goes_on": run.journal_seq > 0, "oom_kills": oom_kills(),
            }
        )  # fmt: skip
        pid = self._spawn(run.id, folder.path)
        self._children[run.id] = pid
        try:
            return pid, psutil.Process(pid).create_time()
        except psutil.NoSuchProcess as error:
            raise OSError(f"the worker process {pid} ended at once") from error

    def is_parent_of(self, run_id: str) -> bool:
        """Whether this process started the run's worker, and so learns its exit status."""
        return run_id in self._children

    def exit_status(self, run_id: str) -> int | None:
        """Exit code, negative for a signal; None while it runs, or where another process is its parent."""
        if run_id not in self._children or run_id in self._statuses:
            return self._statuses.get(run_id)
        try:
            pid, status = os.waitpid(self._children[run_id], os.WNOHANG)
        except ChildProcessError:
            return None
        if pid == 0:
            return None
        self._statuses[run_id] = os.waitstatus_to_exitcode(status)
        return self._statuses[run_id]

    def _spawn(self, run_id: str, run_dir: Path) -> int:
        command = [sys.executable, "-m", self._settings.worker_module, str(run_dir)]
        log = os.open(run_dir / "worker.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            return os.posix_spawn(
                sys.executable,
                command,
                {**os.environ, RUN_VARIABLE: run_id},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, log, 1),
                    (os.POSIX_SPAWN_DUP2, log, 2),
                ],
                setsid=True,
            )
        finally:
            os.close(log)
