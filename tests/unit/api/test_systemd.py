"""What the service manager is told, at an address in the file system and at an abstract one."""

import os
import socket
from pathlib import Path

import pytest

from horizon_app.api.systemd import notify


@pytest.mark.parametrize("kind", ["file", "abstract"])
def test_state_arrives_where_the_service_manager_listens(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = str(tmp_path / "notify") if kind == "file" else f"@horizon-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(name.replace("@", "\0", 1))
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        notify("READY=1")
        assert manager.recv(64) == b"READY=1"


@pytest.mark.parametrize("address", ["", "vsock:2:1234", "/nowhere/notify"])
def test_nobody_who_listens_is_no_trouble(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    notify("READY=1")
