"""The server's commands: tails commands.jsonl in the run's folder. Knows nothing of what a command leads to."""

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from horizon_app.contracts.commands import COMMAND, Command

_log = logging.getLogger(__name__)


class CommandChannel:
    """A thread that hands each whole line of commands.jsonl to `on_command`, in order and once.

    Commands that were written before the worker started count too: a run may be stopped while it is starting.
    """

    def __init__(self, path: Path, on_command: Callable[[Command], None], poll_s: float = 0.2) -> None:
        self._path = path
        self._on_command = on_command
        self._poll_s = poll_s
        self._read_bytes = 0
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._read_until_closed, name="commands", daemon=True)

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._closed.set()
        self._thread.join(timeout=5.0)

    def read_new(self) -> None:
        """Hand over the lines that came since the last call; a line without its end is left for the next."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._read_bytes)
                content = file.read()
        except OSError:
            return  # no command yet, or the folder is gone; the heartbeat watches that
        whole = content[: content.rfind(b"\n") + 1]
        self._read_bytes += len(whole)
        for line in whole.splitlines():
            self._hand_over(line)

    def _read_until_closed(self) -> None:
        self.read_new()
        while not self._closed.wait(self._poll_s):
            self.read_new()

    def _hand_over(self, line: bytes) -> None:
        try:
            command = COMMAND.validate_json(line)
        except ValidationError:
            _log.warning("a command was not understood and is ignored: %s", line[:200].decode(errors="replace"))
            return
        self._on_command(command)
