"""A server that others can reach, as a whole process: it asks for its token, and the token is written nowhere."""

import re
import signal
import subprocess
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin, Subprotocol

from tests.support.commands import run_horizon, start_horizon


def serve(home: Path) -> "tuple[subprocess.Popen[str], str, str | None]":
    """A server on every address; gives its own address, and the token where it tells one."""
    process = start_horizon("serve", "--host", "0.0.0.0", "--port", "0", home=home)
    assert process.stdout is not None
    told: list[str] = []
    while not (told and "http" in told[-1]):
        told.append(process.stdout.readline())
        assert told[-1], "the server ended"
    url = re.search(r"http://\S+", told[-1])
    token = re.search(r"token, shown only now: (\S+)", told[0])
    assert url is not None
    return process, url.group(), None if token is None else token.group(1)


def stop(process: "subprocess.Popen[str]") -> str:
    """End a server; gives all that it still said."""
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    return out + err


def test_server_for_others_tells_its_token_once_and_lets_nobody_in_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, url, token = serve(tmp_path)
    wrong = "not-the-token-of-this-server"
    try:
        assert token is not None
        runs, streams = f"{url}/api/v1/runs", url.replace("http", "ws") + "/api/v1/stream"
        assert httpx.get(runs).status_code == 401
        assert httpx.get(f"{runs}?token={wrong}").status_code == 401
        assert httpx.get(runs, headers={"authorization": f"Bearer {wrong}"}).status_code == 401
        assert httpx.get(runs, headers={"authorization": f"Bearer {token}"}).json()["total"] == 0
        offered = [Subprotocol("horizon"), Subprotocol(f"horizon.token.{token}")]
        with connect(streams, subprotocols=offered) as socket:
            assert socket.subprotocol == "horizon"
        with (
            pytest.raises(InvalidStatus) as refused,
            connect(streams, subprotocols=[Subprotocol(f"horizon.token.{wrong}")]),
        ):
            pass
        assert refused.value.response.status_code == 401
        with pytest.raises(InvalidStatus) as foreign, connect(streams, origin=Origin("http://evil.example")):
            pass
        assert foreign.value.response.status_code == 403
        refused_command = run_horizon("runs", "list", home=tmp_path)
        assert refused_command.exit_code == 1 and "token" in refused_command.stderr
        monkeypatch.setenv("HORIZON_TOKEN", token)
        assert run_horizon("runs", "list", home=tmp_path).stdout == "no runs\n"
        monkeypatch.delenv("HORIZON_TOKEN")
    finally:
        said = stop(process)
    written = said + "".join(path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file())
    assert token not in written and wrong not in written
    again, _, told_again = serve(tmp_path)
    stop(again)
    assert told_again is None


def test_token_verbs_replace_and_remove_what_the_server_asks_for(tmp_path: Path) -> None:
    first = run_horizon("token", "new", home=tmp_path)
    second = run_horizon("token", "new", "--json", home=tmp_path)
    assert (first.exit_code, second.exit_code) == (0, 0)
    assert first.stdout.strip() not in second.stdout
    assert second.stdout.startswith('{"token": "')
    assert (tmp_path / "token.json").stat().st_mode & 0o777 == 0o600
    assert run_horizon("token", "remove", home=tmp_path).stdout == "the token is removed\n"
    assert run_horizon("token", "remove", "--json", home=tmp_path).stdout == '{"removed": false}\n'
