"""`python -m tests.support.viewer_crowd URL COUNT`: many viewers of one stream, in a process that gives way to others.

Writes `ready` once each has its snapshot; when its standard input ends, it leaves and writes what they saw as JSON. It
takes as little as it can of the machine that it shares with what it measures: plain sockets, read a few times a second.
"""

import json
import os
import select
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from typing import Self

from tests.support.commands import ROOT
from tests.support.raw_viewer import BINARY, CLOSE, PING, PONG, TEXT, RawViewer

_ROUND_S = 0.05


@dataclass
class Seen:
    """What all viewers together saw."""

    viewers: int = 0
    texts: int = 0
    residency_frames: int = 0
    out_of_order: int = 0
    """Text frames that did not follow the one before."""
    dropped: int = 0
    """Viewers whose connection the server ended."""


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


class _Watcher:
    """One viewer behind its snapshot."""

    def __init__(self, url: str) -> None:
        self.viewer = RawViewer(url)
        opcode, content = next(self.viewer.frames())
        assert opcode == TEXT, content
        self._last: int = json.loads(content)["seq"]
        self.viewer.socket.setblocking(False)

    def take(self, seen: Seen) -> bool:
        """Read what is there; whether the connection goes on."""
        goes_on = self.viewer.take()
        while self.viewer.ready:
            opcode, content = self.viewer.ready.popleft()
            if opcode == TEXT:
                seq = int(content[len(b'{"seq":') : content.index(b",")])
                seen.texts += 1
                seen.out_of_order += seq != self._last + 1
                self._last = seq
            elif opcode == PING:
                self.viewer.send(PONG, content)
            elif opcode == CLOSE:
                goes_on = False
            seen.residency_frames += opcode == BINARY
        return goes_on


def _watch(url: str, count: int) -> Seen:
    seen = Seen(viewers=count)
    watchers = [_Watcher(url) for _ in range(count)]
    poll = select.poll()
    by_descriptor = {watcher.viewer.socket.fileno(): watcher for watcher in watchers}
    for descriptor in (sys.stdin.fileno(), *by_descriptor):
        poll.register(descriptor, select.POLLIN)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        ready = [descriptor for descriptor, _ in poll.poll()]
        for descriptor in ready:
            if descriptor in by_descriptor and not by_descriptor[descriptor].take(seen):
                poll.unregister(descriptor)
                seen.dropped += 1
        if sys.stdin.fileno() in ready:
            return seen
        time.sleep(_ROUND_S)


if __name__ == "__main__":
    os.nice(19)
    sys.stdout.write(json.dumps(asdict(_watch(sys.argv[1], int(sys.argv[2])))) + "\n")
