"""`python -m tests.support.viewer_crowd URL COUNT`: many viewers of one stream, in a process that gives way to others.

Writes `ready` once each has its snapshot; when its standard input ends, it leaves and writes what they saw as JSON.
"""

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from typing import Self

from websockets.asyncio.client import ClientConnection, connect

from tests.support.commands import ROOT


@dataclass
class Seen:
    """What all viewers together saw."""

    viewers: int = 0
    texts: int = 0
    residency_frames: int = 0
    out_of_order: int = 0
    """Text frames that did not follow the one before."""


class ViewerCrowd:
    """The parent's side."""

    def __init__(self, url: str, count: int) -> None:
        self._command = [sys.executable, "-m", "tests.support.viewer_crowd", url, str(count)]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self._process.stdout is not None
        assert self._process.stdout.readline().strip() == "ready"
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.leave()

    def leave(self) -> Seen:
        """Have all viewers leave; what they saw."""
        output, _ = self._process.communicate(timeout=60)
        return Seen(**json.loads(output))


async def _watch(url: str, seen: Seen, ready: asyncio.Semaphore) -> None:
    async with connect(url, max_queue=64, compression=None) as socket:
        last: int = json.loads(await socket.recv())["seq"]
        seen.viewers += 1
        ready.release()
        await _count(socket, last, seen)


async def _count(socket: ClientConnection, last: int, seen: Seen) -> None:
    async for message in socket:
        if isinstance(message, bytes):
            seen.residency_frames += 1
            continue
        seq = json.loads(message)["seq"]
        seen.texts += 1
        seen.out_of_order += seq != last + 1
        last = seq


async def _crowd(url: str, count: int) -> Seen:
    seen, ready = Seen(), asyncio.Semaphore(0)
    watching = [asyncio.create_task(_watch(url, seen, ready)) for _ in range(count)]
    for _ in range(count):
        await ready.acquire()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    for task in watching:
        task.cancel()
    await asyncio.gather(*watching, return_exceptions=True)
    return seen


if __name__ == "__main__":
    os.nice(19)
    sys.stdout.write(json.dumps(asdict(asyncio.run(_crowd(sys.argv[1], int(sys.argv[2]))))) + "\n")
