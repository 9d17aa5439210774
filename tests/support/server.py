"""A real server in a process of its own, with workers that do what their spec tells them."""

import contextlib
import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx
import psutil

from tests.support.commands import CONFIG, ROOT

Found = TypeVar("Found")


def furnish_home(home: Path) -> Path:
    """A home folder with one model (of four elements) and one text."""
    model = home / "models" / "tiny"
    model.mkdir(parents=True)
    (model / "config.json").write_text(json.dumps(CONFIG))
    (model / "tokenizer.json").write_text("{}")
    write_safetensors(model / "model.safetensors", {"layer.weight": (2, 2)})
    (home / "data").mkdir()
    (home / "data" / "corpus.txt").write_text("once upon a time\n" * 10)
    return home


def write_safetensors(path: Path, shapes: dict[str, tuple[int, ...]]) -> None:
    """A file of zeros in fp32."""
    header: dict[str, Any] = {}
    end = 0
    for name, shape in shapes.items():
        size = 4
        for length in shape:
            size *= length
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(end))


def scripted_spec(steps: int = 5, **script: Any) -> dict[str, Any]:
    """A spec for the home of `furnish_home`; `script` is what the scripted worker does."""
    return {
        "model": {"path": "models/tiny"},
        "data": {"path": "data/corpus.txt"},
        "training": {"optimizer_steps": steps},
        "notes": json.dumps(script),
    }


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that nobody has buried does not."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def wait_for(look: Callable[[], Found | None], what: str, deadline_s: float = 20.0) -> Found:
    """Poll until `look` finds something true; fail with `what` after the deadline."""
    end = time.monotonic() + deadline_s
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < end, f"not within {deadline_s} s: {what}"
        time.sleep(0.02)


class ServerProcess:
    """A server on a home folder; may be killed and started again."""

    def __init__(self, home: Path, **environment: str) -> None:
        self.home = home
        self.url = ""
        self._environment = environment
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        """The process that serves."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> Self:
        """Start and wait until it answers."""
        environment = {
            **os.environ,
            "HORIZON_HOME": str(self.home),
            "HORIZON_PORT": "0",
            "HORIZON_WORKER_MODULE": "tests.support.scripted_worker",
            "HORIZON_CHECK_DATA": "false",
            "PYTHONPATH": str(ROOT),
            **self._environment,
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.serve_home"],
            cwd=self.home, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        assert self.url, f"the server ended with {self._process.wait()}"
        self.client = httpx.Client(base_url=f"{self.url}/api/v1", trust_env=False, verify=False, timeout=60)
        return self

    def send(self, number: signal.Signals) -> None:
        """Send a signal and go on."""
        assert self._process is not None
        self._process.send_signal(number)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait; gives the exit code."""
        assert self._process is not None
        self._process.send_signal(number)
        code = self._process.wait(timeout=20)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None
        self.client.close()
        return code

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self.end()

    def get(self, path: str, **params: Any) -> Any:
        """The body of a GET below /api/v1."""
        return self.client.get(path, params=params).raise_for_status().json()

    def post(self, path: str, body: Any = None) -> Any:
        """The body of a POST below /api/v1."""
        return self.client.post(path, json=body).raise_for_status().json()

    def submit(self, steps: int = 5, **script: Any) -> str:
        """Submit a scripted run; gives its id."""
        return self.post("/runs", {"spec": scripted_spec(steps, **script)})["id"]

    def stream_url(self, run_id: str, after: int | None = None) -> str:
        """Address of a run's stream."""
        base = self.url.replace("http://", "ws://")
        return f"{base}/api/v1/runs/{run_id}/stream" + ("" if after is None else f"?after={after}")

    def wait_state(self, run_id: str, *states: str, deadline_s: float = 20.0) -> Any:
        """Wait until a run is in one of these states; gives the run."""

        def look() -> Any:
            run = self.get(f"/runs/{run_id}")
            return run if run["state"] in states else None

        return wait_for(look, f"run {run_id} is {' or '.join(states)}", deadline_s)

    def wait_step(self, run_id: str, step: int, deadline_s: float = 20.0) -> None:
        """Wait until a run has done an optimizer step."""
        wait_for(lambda: self.get(f"/runs/{run_id}")["step"] >= step, f"run {run_id} has done step {step}", deadline_s)

    def wait_saved(self, run_id: str, deadline_s: float = 20.0) -> None:
        """Wait until a run has a whole checkpoint, which is written beside the steps that follow it."""
        wait_for(lambda: self.get(f"/runs/{run_id}/checkpoints")["checkpoints"], f"run {run_id} has saved", deadline_s)

    @contextmanager
    def stepping(self, run_id: str) -> Generator[tuple[Self, str]]:
        """A run that has done some steps, and is stopped when the context is left."""
        self.wait_step(run_id, 3)
        yield self, run_id
        self.post(f"/runs/{run_id}/stop")
        self.wait_state(run_id, "stopped")

    def all_events(self, run_id: str) -> list[dict[str, Any]]:
        """A run's whole stream from the database."""
        types = ["state", "metrics", "log", "event", "checkpoint", "check"]
        return self.get(f"/runs/{run_id}/events", types=types, limit=5000)["events"]
