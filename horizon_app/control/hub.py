"""From recorded events to viewers. The database is the stream; this keeps its newest part at hand and wakes who waits.

Every viewer has a cursor and reads at its own pace: from a short ring of the newest text frames, or from the database
where it has fallen behind the ring. So a slow viewer loses nothing, holds nobody up and fills no queue. Residency
frames are not kept: a viewer gets the newest one when it is ready for it.
"""

import asyncio
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice

from horizon_app.store.database import Database, dump_json
from horizon_app.store.events import events_after
from horizon_app.store.runs import last_seqs

RING_FRAMES = 2000
RING_CHARS = 8 << 20
"""The newest frames of a run that are kept at hand, whatever comes first."""
READ_FRAMES = 200
READ_CHARS = 1 << 20
"""What one viewer holds at most while it sends, but for a frame that is larger."""
REPLAYS_AT_ONCE = 2
"""Viewers that read from the database at the same time: who has fallen far behind must not hold the supervisors up."""


@dataclass
class _Channel:
    """One run that somebody looks at."""

    last_seq: int
    ring: deque[tuple[int, str]] = field(default_factory=deque[tuple[int, str]])
    """The newest frames, with no place left out."""
    ring_chars: int = 0
    gone: bool = False
    frame: bytes = b""
    frame_number: int = 0
    viewers: set["Viewer"] = field(default_factory=set["Viewer"])
    busy: asyncio.Lock = field(default_factory=asyncio.Lock)

    def push(self, found: list[tuple[int, str]]) -> None:
        """Keep the next frames, and forget the oldest for them."""
        self.ring.extend(found)
        self.ring_chars += sum(len(text) for _, text in found)
        while len(self.ring) > RING_FRAMES or (self.ring_chars > RING_CHARS and len(self.ring) > 1):
            self.ring_chars -= len(self.ring.popleft()[1])
        self.last_seq = found[-1][0]

    def newest(self, after: int) -> list[tuple[int, str]] | None:
        """What follows a place; None where the ring begins behind it."""
        if not self.ring or self.ring[0][0] > after + 1:
            return None
        wanted = list(islice(reversed(self.ring), self.last_seq - after))  # from the near end: most ask for the last
        return wanted[::-1]


class Viewer:
    """One stream that is being read; use on the event loop only."""

    def __init__(self, hub: "Hub", run_id: str, channel: _Channel, after: int) -> None:
        self.cursor = after
        self._hub = hub
        self._run_id = run_id
        self._channel = channel
        self._wake = asyncio.Event()
        self._seen_frame = 0

    async def texts(self) -> list[str]:
        """The next text frames behind the cursor as JSON, in order; empty where there are none yet."""
        channel = self._channel
        if self.cursor >= channel.last_seq:
            return []
        found = channel.newest(self.cursor)
        if found is None:
            found = await self._hub.replay(self._run_id, self.cursor)
        found = _up_to(found, READ_CHARS)
        if found:
            self.cursor = found[-1][0]
        return [text for _, text in found]

    @property
    def run_gone(self) -> bool:
        """Whether the run was deleted: nothing comes any more."""
        return self._channel.gone

    def has_frame(self) -> bool:
        """Whether there is a residency frame that this viewer has not had."""
        return self._channel.frame_number != self._seen_frame

    def take_frame(self) -> bytes:
        """The newest residency frame; those between the last one and it are lost to this viewer, and meant to be."""
        self._seen_frame = self._channel.frame_number
        return self._channel.frame

    async def wait(self, timeout_s: float | None = None) -> None:
        """Until something new is there, or for `timeout_s` at most."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._wake.wait()
        except TimeoutError:
            return
        self._wake.clear()

    def wake(self) -> None:
        """Something new is there."""
        self._wake.set()


class Overview:
    """One stream over all runs: collects the ids of those that changed."""

    def __init__(self) -> None:
        self._changed: set[str] = set()
        self._wake = asyncio.Event()

    def mark(self, run_id: str) -> None:
        """A run changed."""
        self._changed.add(run_id)
        self._wake.set()

    async def changed(self) -> set[str]:
        """Wait for changes; gives the runs that changed since the last call."""
        await self._wake.wait()
        self._wake.clear()
        changed, self._changed = self._changed, set()
        return changed


class Hub:
    """All viewers of this process. Its methods belong to the event loop, other than `read`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._channels: dict[str, _Channel] = {}
        self._overviews: set[Overview] = set()
        self._replays = asyncio.Semaphore(REPLAYS_AT_ONCE)

    @property
    def num_viewers(self) -> int:
        """Streams that are open now; for any thread."""
        return sum(len(channel.viewers) for channel in list(self._channels.values())) + len(self._overviews)

    def read(self, run_id: str, after: int) -> list[tuple[int, str]]:
        """Text frames from the database, with their places; for any thread."""
        with self._database.read() as tx:
            frames = events_after(tx, run_id, after, limit=READ_FRAMES)
        return [(frame["seq"], dump_json(frame)) for frame in frames]

    async def replay(self, run_id: str, after: int) -> list[tuple[int, str]]:
        """The same, one after the other where many ask at once."""
        async with self._replays:
            return await asyncio.to_thread(self.read, run_id, after)

    @contextmanager
    def view(self, run_id: str, *, after: int, last_seq: int) -> Generator[Viewer]:
        """Look at a run whose stream has come to `last_seq`, from behind `after` on."""
        channel = self._channels.setdefault(run_id, _Channel(last_seq=last_seq))
        viewer = Viewer(self, run_id, channel, after)
        channel.viewers.add(viewer)
        try:
            yield viewer
        finally:
            channel.viewers.discard(viewer)
            if not channel.viewers and self._channels.get(run_id) is channel:
                del self._channels[run_id]

    @contextmanager
    def overview(self) -> Generator[Overview]:
        """Look at all runs."""
        overview = Overview()
        self._overviews.add(overview)
        try:
            yield overview
        finally:
            self._overviews.discard(overview)

    async def refresh(self, run_id: str) -> None:
        """The run changed: take what the database has new, wake its viewers and those of all runs."""
        self.mark(run_id)
        channel = self._channels.get(run_id)
        if channel is None:
            return
        async with channel.busy:
            while found := await asyncio.to_thread(self.read, run_id, channel.last_seq):
                channel.push(found)
        for viewer in channel.viewers:
            viewer.wake()

    def mark(self, run_id: str) -> None:
        """Tell those who look at all runs that this one may have changed."""
        for overview in self._overviews:
            overview.mark(run_id)

    def forget(self, run_id: str) -> None:
        """The run was deleted: send its viewers away, and tell those who look at all runs."""
        self.mark(run_id)
        channel = self._channels.pop(run_id, None)
        if channel is not None:
            channel.gone = True
            for viewer in channel.viewers:
                viewer.wake()

    async def refresh_watched(self) -> None:
        """Take what other processes have written about the runs that somebody looks at."""
        watched = list(self._channels)
        if not watched:
            return
        newest = await asyncio.to_thread(self._newest, watched)
        for run_id in watched:
            channel = self._channels.get(run_id)
            if channel is not None and newest.get(run_id, 0) > channel.last_seq:
                await self.refresh(run_id)

    def show_frame(self, run_id: str, number: int, frame: bytes) -> None:
        """A newer residency frame of a run."""
        channel = self._channels.get(run_id)
        if channel is None:
            return
        channel.frame, channel.frame_number = frame, number
        for viewer in channel.viewers:
            viewer.wake()

    def is_watched(self, run_id: str) -> bool:
        """Whether somebody looks at this run."""
        return run_id in self._channels

    def _newest(self, run_ids: list[str]) -> dict[str, int]:
        with self._database.read() as tx:
            return last_seqs(tx, run_ids)


def _up_to(found: list[tuple[int, str]], most_chars: int) -> list[tuple[int, str]]:
    """The first frames that together have `most_chars`, and one in any case."""
    chars = 0
    for number, (_, text) in enumerate(found):
        chars += len(text)
        if chars > most_chars and number > 0:
            return found[:number]
    return found
