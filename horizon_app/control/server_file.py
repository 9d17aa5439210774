"""One server a home folder: a lock that dies with its holder, and server.json that tells others where it listens."""

import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from horizon_app.control.errors import ServerRunning

_FILE = "server.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerInfo:
    """The server that runs on a home folder."""

    pid: int
    host: str
    port: int


class ServerClaim:
    """Held while a server runs on a home folder."""

    def __init__(self, home: Path, host: str, port: int) -> None:
        """Take the lock and write server.json. Raises ServerRunning where another process has it."""
        self._path = home / _FILE
        self._fd = os.open(home / "server.lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._fd)
            info = _read(self._path)
            raise ServerRunning(
                home=str(home), pid=info and info.pid, host=info and info.host, port=info and info.port
            ) from None
        forget_server(home)  # a server that was killed left its own: it would count until ours is written
        partial = home / ".server.json.partial"
        partial.write_text(json.dumps({"pid": os.getpid(), "host": host, "port": port}))
        partial.replace(self._path)

    def release(self) -> None:
        """Remove server.json and give the lock back."""
        forget_server(self._path.parent)
        os.close(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def forget_server(home: Path) -> None:
    """Remove server.json. For the process that holds the lock."""
    (home / _FILE).unlink(missing_ok=True)


def find_server(home: Path) -> ServerInfo | None:
    """The server that runs on a home folder now; a file that a killed server left behind does not count."""
    try:
        fd = os.open(home / "server.lock", os.O_RDWR)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _read(home / _FILE)
    finally:
        os.close(fd)
    return None


def _read(path: Path) -> ServerInfo | None:
    try:
        content = json.loads(path.read_bytes())
        return ServerInfo(pid=int(content["pid"]), host=str(content["host"]), port=int(content["port"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
