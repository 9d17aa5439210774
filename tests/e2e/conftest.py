"""A real server with the real worker, and a real browser whose every request and complaint is noted."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, WebSocket, expect, sync_playwright

ROOT = Path(__file__).parents[2]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

Found = TypeVar("Found")

# Machines that run tests are busy: what is awaited comes late, and nothing is proven by its being early.
expect.set_options(timeout=30_000)


def wait_for(look: Callable[[], Found], what: str, deadline_s: float = 60.0) -> Found:
    """Poll until `look` finds something true; fail with `what` after the deadline."""
    end = time.monotonic() + deadline_s
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < end, f"not within {deadline_s} s: {what}; last seen: {found!r}"
        time.sleep(0.1)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The browser of this machine. Without one these tests fail: a UI that no browser saw is not tested."""
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.fail(f"no browser found; looked for {', '.join(BROWSERS)} on PATH")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=list(BROWSER_FLAGS))
        yield started
        started.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A fresh page of a visitor who was never here."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, locale="en-GB")
    yield context.new_page()
    context.close()


class Server:
    """`horizon serve` on a home folder and a port of its own; may be killed and started again."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start and wait until it answers."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HORIZON_")}
        command = ["serve", "--port", str(self.port), "--home", str(self.home), "--no-open"]
        with (self.home / "serve.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "horizon_app", *command], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log,
            )  # fmt: skip
        wait_for(self._answers, "the server answers")

    def kill(self) -> None:
        """End it the hard way."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(timeout=20)
        self._process = None

    def close(self) -> None:
        """Stop what is still running on this home, then the server."""
        if self._process is None:
            return
        for run in self.get("/runs?state=queued,starting,running,stopping")["runs"]:
            httpx.post(f"{self.url}/api/v1/runs/{run['id']}/stop", json={"save": False}, trust_env=False)
        wait_for(
            lambda: not self.get("/runs?state=queued,starting,running,stopping")["runs"], "all runs have ended", 120
        )
        self._process.terminate()
        self._process.wait(timeout=20)

    def get(self, path: str) -> Any:
        """The body of a GET below /api/v1."""
        return httpx.get(f"{self.url}/api/v1{path}", trust_env=False).raise_for_status().json()

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.home / "serve.log").read_text()
        try:
            return httpx.get(f"{self.url}/api/v1/healthz", trust_env=False, timeout=2).is_success
        except httpx.TransportError:
            return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server on an empty home folder."""
    home = tmp_path / "home"
    home.mkdir()
    made = Server(home)
    made.start()
    yield made
    made.close()


@dataclass
class Witness:
    """What a page asked for, what it sent through sockets, and what it complained about."""

    complaints: list[str] = field(default_factory=list[str])
    hosts: set[str] = field(default_factory=set[str])
    sent: list[str] = field(default_factory=list[str])
    expecting_an_outage: bool = False

    def watch(self, page: Page) -> None:
        """Note everything of this page."""
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(f"uncaught: {error}"))
        page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))
        page.on("websocket", self._socket)

    def _socket(self, socket: WebSocket) -> None:
        self.hosts.add(urlsplit(socket.url).netloc)
        socket.on("framesent", lambda payload: self.sent.append(str(payload)))

    def _console(self, message: ConsoleMessage) -> None:
        # A browser itself writes a line for each request that found no server.
        if message.type in {"error", "warning"} and not self.expecting_an_outage:
            self.complaints.append(f"{message.type}: {message.text}")


@pytest.fixture
def witness(page: Page, server: Server) -> Iterator[Witness]:
    """Watches the page of the test; at the end it must have been silent and have asked no other host."""
    watching = Witness()
    watching.watch(page)
    yield watching
    assert watching.complaints == []
    assert {host for host in watching.hosts if host} <= {urlsplit(server.url).netloc}


@pytest.fixture
def shots(tmp_path: Path) -> Path:
    """Where pictures of pages go: a folder of the test's own, or the one that E2E_SHOTS names."""
    folder = Path(os.environ.get("E2E_SHOTS") or tmp_path / "shots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
