"""One server a home folder."""

import json
import os
from pathlib import Path

import pytest

from horizon_app.control.errors import ServerRunning
from horizon_app.control.server_file import ServerClaim, find_server


def test_claim_writes_where_the_server_is_and_removes_it(tmp_path: Path) -> None:
    assert find_server(tmp_path) is None
    with ServerClaim(tmp_path, "127.0.0.1", 8321):
        found = find_server(tmp_path)
        assert found is not None
        assert (found.pid, found.host, found.port) == (os.getpid(), "127.0.0.1", 8321)
    assert find_server(tmp_path) is None
    assert not (tmp_path / "server.json").exists()


def test_second_claim_is_refused_and_names_the_first(tmp_path: Path) -> None:
    with ServerClaim(tmp_path, "127.0.0.1", 8321):
        with pytest.raises(ServerRunning, match=f"process {os.getpid()} at http://127.0.0.1:8321"):
            ServerClaim(tmp_path, "127.0.0.1", 9999)
        found = find_server(tmp_path)
        assert found is not None and found.port == 8321


def test_file_of_a_killed_server_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "server.json").write_text(json.dumps({"pid": 1, "host": "127.0.0.1", "port": 1}))
    (tmp_path / "server.lock").touch()
    assert find_server(tmp_path) is None
    with ServerClaim(tmp_path, "127.0.0.1", 8321):
        found = find_server(tmp_path)
        assert found is not None and found.pid == os.getpid()


def test_claim_of_a_server_that_can_not_say_where_it_is_leaves_no_word_of_the_one_before(tmp_path: Path) -> None:
    (tmp_path / "server.json").write_text(json.dumps({"pid": 1, "host": "127.0.0.1", "port": 1}))
    (tmp_path / ".server.json.partial").mkdir()
    with pytest.raises(IsADirectoryError):
        ServerClaim(tmp_path, "127.0.0.1", 8321)
    assert not (tmp_path / "server.json").exists()


@pytest.mark.parametrize("content", ["", "{", '{"pid": "x"}'])
def test_refusal_without_a_readable_file_still_refuses(tmp_path: Path, content: str) -> None:
    with ServerClaim(tmp_path, "127.0.0.1", 8321):
        (tmp_path / "server.json").write_text(content)
        with pytest.raises(ServerRunning, match="another process"):
            ServerClaim(tmp_path, "127.0.0.1", 1)
