"""The stream over all runs: a change is looked up, written and wrapped once, however many look on.

A viewer that is slow misses what a run was in between, and gets what it is.
"""

import asyncio
import logging
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import takewhile

from horizon_app.contracts.frames import RunFrame, RunGone
from horizon_app.contracts.run_view import Run
from horizon_app.control.history import History
from horizon_app.control.hub import Wrap, plain, rest_s
from horizon_app.store.errors import StoreError

_log = logging.getLogger(__name__)
LOOK_S = 0.5
"""Changes of this time are looked up together."""


@dataclass(frozen=True, slots=True)
class _News:
    """The last that is told of a run; it is None where the run is gone."""

    number: int
    run: Run | None
    frame: bytes


class OverviewViewer:
    """One stream over all runs; use on the event loop only."""

    def __init__(self, overview: "Overview") -> None:
        self._overview = overview
        self._cursor = overview.number
        self._begun_with: dict[str, int] = {}
        self._wake = asyncio.Event()

    async def current(self, since: datetime | None) -> list[bytes]:
        """Each live run and each that changed since a moment, to begin with."""
        runs, frames = await asyncio.to_thread(self._overview.read_current, since)
        self._begun_with = {run.id: run.last_seq for run in runs}
        return frames

    async def changes(self) -> list[bytes]:
        """Wait for changes; gives each run that changed since the last call, as it is now."""
        await self._wake.wait()
        self._wake.clear()
        found = self._overview.behind(self._cursor)
        self._cursor = self._overview.number
        return [news.frame for news in found if self._is_later(news)]

    def wake(self) -> None:
        """Something new is there."""
        self._wake.set()

    def _is_later(self, news: _News) -> bool:
        """Whether it was not looked up before what this viewer began with, and told after it."""
        return news.run is None or news.run.last_seq >= self._begun_with.get(news.run.id, 0)


class Overview:
    """All viewers of all runs in this process. Its methods belong to the event loop, other than `read_current`."""

    def __init__(self, history: History, wrap: Wrap = plain) -> None:
        self.number = 0
        """Of the newest of the news."""
        self._history = history
        self._wrap = wrap
        self._viewers: set[OverviewViewer] = set()
        self._changed: set[str] = set()
        self._news: dict[str, _News] = {}
        """By run, the newest last."""
        self._looking: asyncio.Task[None] | None = None

    @property
    def num_viewers(self) -> int:
        """Streams over all runs that are open now; for any thread."""
        return len(self._viewers)

    @contextmanager
    def view(self) -> Generator[OverviewViewer]:
        """Look at all runs."""
        if not self._viewers:
            self._news.clear()
        viewer = OverviewViewer(self)
        self._viewers.add(viewer)
        try:
            yield viewer
        finally:
            self._viewers.discard(viewer)

    def mark(self, run_id: str) -> None:
        """A run may have changed."""
        if self._viewers:
            self._changed.add(run_id)
            self._looking = self._looking or asyncio.create_task(self._look(), name="overview")

    def behind(self, number: int) -> list[_News]:
        """What is told of runs behind a number, oldest first."""
        return [*takewhile(lambda news: news.number > number, reversed(self._news.values()))][::-1]

    def read_current(self, since: datetime | None) -> tuple[list[Run], list[bytes]]:
        """Each live run and each that changed since a moment, with its frame; for any thread."""
        looked_at = datetime.now(UTC)
        runs = self._history.current(since)
        return runs, [self._frame(run.id, run, looked_at) for run in runs]

    async def _look(self) -> None:
        """Look up what was marked until nothing is, with a rest after each time."""
        try:
            while self._changed and self._viewers:
                changed, self._changed = self._changed, set()
                looked_at = datetime.now(UTC)
                try:
                    runs = await asyncio.to_thread(self._history.summaries, sorted(changed))
                except StoreError as error:
                    _log.warning("changes of runs are told later: %s", error)
                    self._changed |= changed
                else:
                    self._publish(changed, {run.id: run for run in runs}, looked_at)
                await asyncio.sleep(max(LOOK_S, rest_s(len(self._viewers))))
        finally:
            self._looking = None

    def _publish(self, changed: set[str], runs: Mapping[str, Run], looked_at: datetime) -> None:
        """Tell of each run that is not what was last told of it."""
        before = self.number
        for run_id in changed:
            run, known = runs.get(run_id), self._news.get(run_id)
            if known is None or known.run != run:
                self.number += 1
                self._news.pop(run_id, None)  # it goes behind all others
                self._news[run_id] = _News(self.number, run, self._frame(run_id, run, looked_at))
        for viewer in self._viewers if self.number > before else ():
            viewer.wake()

    def _frame(self, run_id: str, run: Run | None, looked_at: datetime) -> bytes:
        frame = RunGone(time=looked_at, id=run_id) if run is None else RunFrame(time=looked_at, run=run)
        return self._wrap(frame.model_dump_json())
