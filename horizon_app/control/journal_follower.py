"""Records what a worker writes into its journal, a piece at a time, however much is waiting there."""

import logging
import time
from dataclasses import dataclass, field

from horizon_app.control.recorder import JournalBatch, record_batch
from horizon_app.control.run_folder import RunFolder
from horizon_app.store.database import Database
from horizon_app.store.runs import StoredRun

_log = logging.getLogger(__name__)
_TOLD_S = 2.0
"""A catching up that takes longer is told of in the log."""


@dataclass
class _CatchUp:
    """Several pieces in a row."""

    first_line: int
    begun_at: float = field(default_factory=time.monotonic)


class JournalFollower:
    """One run's journal, from where the database ends."""

    def __init__(self, database: Database, folder: RunFolder, run: StoredRun) -> None:
        self.is_behind = False
        """Whether more was waiting after the last piece."""
        self._database = database
        self._folder = folder
        self._run_id = run.id
        self._read_bytes = run.journal_bytes
        self._read_lines = run.journal_seq
        self._catch_up: _CatchUp | None = None

    def record_next(self) -> StoredRun | None:
        """Record the next piece; gives the run as it is then, None where nothing was waiting or the run was deleted.

        A piece is one transaction: others write between two of them, and memory holds no more than one.
        """
        lines, end = self._folder.read_journal(self._read_bytes)
        run = None
        if lines:
            batch = JournalBatch(first_line=self._read_lines + 1, end_bytes=end, lines=lines)
            run = record_batch(self._database, self._run_id, batch)
        self.is_behind = run is not None and self._folder.journal_bytes() > run.journal_bytes
        if run is not None:
            self._note_speed(run)
            self._read_bytes, self._read_lines = run.journal_bytes, run.journal_seq
        return run

    def _note_speed(self, run: StoredRun) -> None:
        if self.is_behind:
            self._catch_up = self._catch_up or _CatchUp(self._read_lines)
            return
        done, self._catch_up = self._catch_up, None
        if done is None or (seconds := time.monotonic() - done.begun_at) < _TOLD_S:
            return
        count = run.journal_seq - done.first_line
        _log.info("run %s: %d events recorded in %.1f s, %.0f a second", run.id, count, seconds, count / seconds)
