"""Every way into the server is as the committed table says: who may come in, and what may change something."""

import hashlib
import pickle
import sqlite3
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from horizon_app.api.app import create_app
from horizon_app.settings import AppSettings
from tests.support.route_table import TABLE, route_table, ways
from tests.support.server import furnish_home, scripted_spec

OPEN = {"GET /api/v1/healthz", "GET /docs", "GET /{path:path}"}
"""For everybody: that the server lives, and pages that hold nothing of the machine."""


def rows() -> dict[str, list[str]]:
    """Method and path -> token, Origin, JSON only, body, may change something."""
    lines = [line.strip("| ").split(" | ") for line in TABLE.read_text(encoding="utf-8").splitlines() if "`/" in line]
    return {f"{method} {path.strip('`')}": marks for method, path, _, *marks in lines}


def test_table_of_routes_is_what_the_server_does() -> None:
    told = "run python -m tests.support.route_table, and look at what the difference means"
    assert TABLE.read_text(encoding="utf-8") == route_table(), told


def test_every_route_but_the_open_ones_needs_the_token() -> None:
    assert {way for way, marks in rows().items() if marks[0] == "no"} == OPEN


def test_whatever_may_change_something_refuses_other_sites_and_other_bodies() -> None:
    changing = {way: marks for way, marks in rows().items() if marks[4] == "yes"}
    assert len(changing) >= 8
    assert {
        way for way, (_, origin, json_only, *_) in changing.items() if (origin, json_only) != ("yes", "yes")
    } == set()
    streams = [marks for way, marks in rows().items() if way.startswith("WebSocket")]
    assert streams and all(origin == "yes" for _, origin, *_ in streams)


def content(home: Path) -> dict[str, Any]:
    """All that is kept: the rows of the database, and every file."""
    files = {
        str(path.relative_to(home)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in home.rglob("*")
        if path.is_file() and not path.name.startswith(("horizon.db", "server."))
    }
    with sqlite3.connect(home / "horizon.db") as database:
        return {"files": files, "rows": "\n".join(database.iterdump())}


class Planted:
    """An object whose unpickling leaves a mark."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> Any:
        return Path.touch, (self._mark,)


def test_nothing_is_changed_by_get_and_no_file_of_a_run_is_unpickled(tmp_path: Path) -> None:
    home, mark = furnish_home(tmp_path / "home"), tmp_path / "unpickled"
    app = create_app(AppSettings(home=home, worker_module="tests.support.scripted_worker"))
    with TestClient(app, base_url="http://127.0.0.1:8321", raise_server_exceptions=False) as client:
        run = client.post("/api/v1/runs", json={"spec": scripted_spec(), "start": False}).json()
        folder = home / "runs" / run["id"]
        for name in ("journal.jsonl", "residency.bin", "worker.log", "worker.json", "exit.json", "x.pkl"):
            plant(folder / name, mark)
        for name in ("manifest.json", "state.json", "pytorch_model.bin", "state/optimizer.pt", "config.json"):
            plant(folder / "checkpoints" / "5" / name, mark)
        before = content(home)
        answered = [
            client.get(way.path.replace("{run_id}", run["id"]).replace("{path:path}", "")).status_code
            for way in ways(app)
            if way.method == "GET"
        ]
        assert content(home) == before
    assert len(answered) > 10 and answered.count(200) > 8
    assert max(answered) < 500
    assert not mark.exists()


def plant(path: Path, mark: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(Planted(mark)))
