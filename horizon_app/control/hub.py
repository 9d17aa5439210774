"""From recorded events to viewers of one run. The database is the stream; this keeps its newest part at hand.

Every viewer has a cursor and reads at its own pace: from a short ring of the newest text frames, or from the database
where it has fallen behind the ring. So a slow viewer loses nothing, holds nobody up and fills no queue. Residency
frames are not kept: a viewer gets the newest one when it is ready for it.

What a frame costs is paid once for all viewers: it is written and wrapped when it is read. What is left for each, to be
woken and to write to its socket, is rationed: see `rest_s`.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice

from horizon_app.store.database import Database, dump_json
from horizon_app.store.events import events_after
from horizon_app.store.runs import last_seqs

RING_FRAMES = 2000
RING_BYTES = 8 << 20
"""The newest frames of a run that are kept at hand, whatever comes first."""
READ_FRAMES = 200
READ_BYTES = 1 << 20
"""What one viewer holds at most while it sends, but for a frame that is larger."""
REPLAYS_AT_ONCE = 2
"""Viewers that read from the database at the same time: who has fallen far behind must not hold the supervisors up."""
REST_S = 0.002
"""How much rarer everybody hears of news for each viewer there is."""

Wrap = Callable[[str | bytes], bytes]
"""Makes of a text or a residency frame what viewers are given."""


def plain(content: str | bytes) -> bytes:
    """The content alone, texts in UTF-8."""
    return content.encode() if isinstance(content, str) else content


def rest_s(num_viewers: int) -> float:
    """Seconds between two times that so many viewers are told of news.

    To tell one takes some 50 microseconds of a processor that a run may be training on. So the more look on, the more
    news are told at once, and together they don't take more than some 3% of a core.
    """
    return REST_S * num_viewers


@dataclass
class _Channel:
    """One run that somebody looks at."""

    last_seq: int
    ring: deque[tuple[int, bytes]] = field(default_factory=deque[tuple[int, bytes]])
    """The newest frames, with no place left out."""
    ring_bytes: int = 0
    gone: bool = False
    frame: bytes = b""
    frame_number: int = 0
    next_frame: tuple[int, bytes] | None = None
    """A newer one, which viewers get when they are told the next time."""
    viewers: set["Viewer"] = field(default_factory=set["Viewer"])
    busy: asyncio.Lock = field(default_factory=asyncio.Lock)
    told_at: float = -math.inf
    telling: asyncio.TimerHandle | None = None

    def push(self, found: list[tuple[int, bytes]]) -> None:
        """Keep the next frames, and forget the oldest for them."""
        self.ring.extend(found)
        self.ring_bytes += sum(len(frame) for _, frame in found)
        while len(self.ring) > RING_FRAMES or (self.ring_bytes > RING_BYTES and len(self.ring) > 1):
            self.ring_bytes -= len(self.ring.popleft()[1])
        self.last_seq = found[-1][0]

    def newest(self, after: int) -> list[tuple[int, bytes]] | None:
        """What follows a place; None where the ring begins behind it."""
        if not self.ring or self.ring[0][0] > after + 1:
            return None
        wanted = list(islice(reversed(self.ring), self.last_seq - after))  # from the near end: most ask for the last
        return wanted[::-1]

    def wake_all(self) -> None:
        """Something new is there for every viewer."""
        self.telling = None
        if self.next_frame is not None:
            (self.frame_number, self.frame), self.next_frame = self.next_frame, None
        self.told_at = asyncio.get_running_loop().time()
        for viewer in self.viewers:
            viewer.wake()


class Viewer:
    """One stream that is being read; use on the event loop only."""

    def __init__(self, hub: "Hub", run_id: str, channel: _Channel, after: int) -> None:
        self.cursor = after
        self._hub = hub
        self._run_id = run_id
        self._channel = channel
        self._wake = asyncio.Event()
        self._seen_frame = 0

    async def texts(self) -> list[bytes]:
        """The next text frames behind the cursor, wrapped, in order; empty where there are none yet."""
        channel = self._channel
        if self.cursor >= channel.last_seq:
            return []
        found = channel.newest(self.cursor)
        if found is None:
            found = await self._hub.replay(self._run_id, self.cursor)
        found = _up_to(found, READ_BYTES)
        if found:
            self.cursor = found[-1][0]
        return [frame for _, frame in found]

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
        # A timer that wakes costs a fraction of `asyncio.timeout`, which cancels and catches.
        alarm = None if timeout_s is None else asyncio.get_running_loop().call_later(timeout_s, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            if alarm is not None:
                alarm.cancel()
        self._wake.clear()

    def wake(self) -> None:
        """Something new is there."""
        self._wake.set()


class Hub:
    """All viewers of runs in this process. Its methods belong to the event loop, other than `read`."""

    def __init__(
        self, database: Database, wrap: Wrap = plain, mark: Callable[[str], None] = lambda run_id: None
    ) -> None:
        """`mark` hears of every run that may have changed."""
        self.mark = mark
        self._database = database
        self._wrap = wrap
        self._channels: dict[str, _Channel] = {}
        self._replays = asyncio.Semaphore(REPLAYS_AT_ONCE)

    @property
    def num_viewers(self) -> int:
        """Streams of runs that are open now; for any thread."""
        return sum(len(channel.viewers) for channel in list(self._channels.values()))

    def read(self, run_id: str, after: int) -> list[tuple[int, bytes]]:
        """Text frames from the database, wrapped, with their places; for any thread."""
        with self._database.read() as tx:
            frames = events_after(tx, run_id, after, limit=READ_FRAMES)
        return [(frame["seq"], self._wrap(dump_json(frame))) for frame in frames]

    async def replay(self, run_id: str, after: int) -> list[tuple[int, bytes]]:
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

    async def refresh(self, run_id: str) -> None:
        """The run changed: take what the database has new, and tell its viewers."""
        self.mark(run_id)
        channel = self._channels.get(run_id)
        if channel is None:
            return
        async with channel.busy:
            more = True
            while more:
                found = await asyncio.to_thread(self.read, run_id, channel.last_seq)
                if found:
                    channel.push(found)
                more = len(found) == READ_FRAMES
        self._tell(channel)

    def forget(self, run_id: str) -> None:
        """The run was deleted: send its viewers away."""
        self.mark(run_id)
        channel = self._channels.pop(run_id, None)
        if channel is not None:
            channel.gone = True
            channel.wake_all()

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
        channel.next_frame = number, self._wrap(frame)
        self._tell(channel)

    def is_watched(self, run_id: str) -> bool:
        """Whether somebody looks at this run."""
        return run_id in self._channels

    def _tell(self, channel: _Channel) -> None:
        """Wake the viewers of a run, once they have had their rest since the last time."""
        if channel.telling is None:
            due = channel.told_at + rest_s(self.num_viewers)
            channel.telling = asyncio.get_running_loop().call_at(due, channel.wake_all)

    def _newest(self, run_ids: list[str]) -> dict[str, int]:
        with self._database.read() as tx:
            return last_seqs(tx, run_ids)


def _up_to(found: list[tuple[int, bytes]], most_bytes: int) -> list[tuple[int, bytes]]:
    """The first frames that together have `most_bytes`, and one in any case."""
    size = 0
    for number, (_, frame) in enumerate(found):
        size += len(frame)
        if size > most_bytes and number > 0:
            return found[:number]
    return found
