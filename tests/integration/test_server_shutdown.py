"""How a server ends: the sockets are told, downloads are cut, workers go on; and what it tells systemd."""

import contextlib
import json
import signal
import socket
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from horizon_app.contracts.events import LogWritten
from horizon_app.control.recorder import note
from tests.support.server import ServerProcess, furnish_home, is_alive
from tests.support.stores import add_run, open_store


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return furnish_home(tmp_path / "home")


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[socket.socket]:
    """What a service manager listens on."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(tmp_path / "notify"))
        channel.settimeout(20)
        yield channel


@contextlib.contextmanager
def stalled_export(server: ServerProcess, run_id: str) -> Generator[None]:
    """A client that has asked for much and reads nothing more."""
    host, _, port = server.url.removeprefix("http://").partition(":")
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect((host, int(port)))
        client.sendall(f"GET /api/v1/runs/{run_id}/export HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        assert client.recv(15) == b"HTTP/1.1 200 OK"
        yield


def run_with_a_long_log(home: Path) -> str:
    with open_store(home) as database:
        run_id = add_run(database, held=True)
        note(database, run_id, [LogWritten(message="x" * 400_000) for _ in range(60)])
    return run_id


def test_first_signal_tells_the_sockets_cuts_downloads_and_leaves_workers(home: Path, systemd: socket.socket) -> None:
    long_log = run_with_a_long_log(home)
    server = ServerProcess(home, NOTIFY_SOCKET=systemd.getsockname()).start()
    assert systemd.recv(64) == b"READY=1"
    run_id = server.submit(steps=100_000)
    server.wait_step(run_id, 1)
    worker = json.loads((home / "runs" / run_id / "worker.json").read_text())["pid"]
    with connect(server.stream_url(run_id)) as viewer, stalled_export(server, long_log):
        assert server.end() == 0
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                viewer.recv(timeout=20)
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1012
    assert systemd.recv(64) == b"STOPPING=1"
    assert not (home / "server.json").exists()
    assert is_alive(worker)
    with ServerProcess(home) as again:
        again.post(f"/runs/{run_id}/stop")
        again.wait_state(run_id, "stopped")


def test_second_signal_waits_for_nothing(home: Path, systemd: socket.socket) -> None:
    long_log = run_with_a_long_log(home)
    server = ServerProcess(home, NOTIFY_SOCKET=systemd.getsockname()).start()
    assert systemd.recv(64) == b"READY=1"
    with stalled_export(server, long_log):
        server.send(signal.SIGTERM)
        assert systemd.recv(64) == b"STOPPING=1"
        assert server.end() == 128 + signal.SIGTERM
    assert not (home / "server.json").exists()
