"""Odd names, paths out and foreign servers as over REST, through the command line with and without a server."""

import http.server
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from typer.testing import Result

from horizon_app.control.server_file import ServerClaim
from tests.cases.test_server_safety import CANARY, INPUTS, NAMES, PAYLOADS, strict
from tests.support.commands import run_horizon, write_spec
from tests.support.served import served
from tests.support.server import ServerProcess, furnish_home, scripted_spec

OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""What a terminal would obey, or what turns the text beside it around."""
TOKEN = "a-token-of-the-user-0123456789"


def told(result: Result) -> str:
    """All that a command has said, which has to be fit for a terminal."""
    assert not OBEYED.search(result.stdout + result.stderr), result.output
    assert "Traceback" not in result.stderr
    return result.stdout + result.stderr


# -- E12: odd names


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server on the folder of E13: a secret lies beside it, and a link leads there."""
    folder = tmp_path_factory.mktemp("E13")
    (folder / "outside").mkdir()
    (folder / "outside" / "secret.txt").write_bytes((INPUTS / "E13" / "outside" / "secret.txt").read_bytes())
    home = furnish_home(folder / "data")
    (home / "ok.jsonl").write_bytes((INPUTS / "E13" / "data" / "ok.jsonl").read_bytes())
    (home / "link.jsonl").symlink_to("../outside/secret.txt")
    with ServerProcess(home) as process:
        yield process


@pytest.fixture(scope="module")
def source(server: ServerProcess) -> str:
    """A run that was stopped before it started."""
    run_id = server.post("/runs", {"spec": scripted_spec(), "start": False})["id"]
    return server.post(f"/runs/{run_id}/stop")["id"]


def test_e12_odd_names_through_a_server_are_refused_by_rule_or_kept_and_shown_harmlessly(
    server: ServerProcess, source: str
) -> None:
    kept: dict[str, str] = {}
    refused: list[str] = []
    for name in NAMES:
        made = run_horizon("runs", "clone", source, "--name", name, "--no-start", "--json", home=server.home)
        if made.exit_code == 2:
            assert "name: " in told(made)
            refused.append(name[:10])
            continue
        assert made.exit_code == 0, made.stderr
        run = strict(made.stdout)
        assert run["name"] == name and run["id"] not in kept
        kept[run["id"]] = name
    assert refused == ["", "   ", "x" * 10, "a\0b", "line\nbreak", "tab\there"]
    listed = run_horizon("runs", "list", "--limit", "100", "--json", home=server.home)
    told(listed)
    assert kept.items() <= {run["id"]: run["name"] for run in strict(listed.stdout)["runs"]}.items()
    for verb in ("list", "queue"):
        assert "emoji 🚀" in told(run_horizon("runs", verb, home=server.home))
    for run_id, name in kept.items():
        shown = told(run_horizon("runs", "show", run_id, home=server.home))
        assert name.replace("\u202e", "\\u202e") in shown
        assert told(run_horizon("runs", "delete", run_id, "--json", home=server.home))
    assert strict(run_horizon("runs", "list", "--json", home=server.home).stdout)["total"] == 1


def test_e12_odd_name_without_a_server_is_kept_and_shown_harmlessly(tmp_path: Path) -> None:
    name = "\u202eexe.txt <b>[red]运行 🚀[/red]"
    spec = write_spec(tmp_path / "spec", name=name, training={"optimizer_steps": 1})
    done = run_horizon("run", spec, home=tmp_path / "home")
    assert done.exit_code == 0 and name.replace("\u202e", "\\u202e") in told(done)
    (run,) = strict(run_horizon("runs", "list", "--json", home=tmp_path / "home").stdout)["runs"]
    assert run["name"] == name
    for verb in ("show", "delete"):
        told(run_horizon("runs", verb, run["id"], home=tmp_path / "home"))


@pytest.mark.parametrize("name", ["line\nbreak", "a\u009bb", "", "x" * 201])
def test_e12_name_without_a_server_that_can_not_be_shown_is_refused_with_file_and_line(
    name: str, tmp_path: Path
) -> None:
    spec = write_spec(tmp_path / "spec", name=name)
    done = run_horizon("run", spec, home=tmp_path / "home")
    assert done.exit_code == 2
    assert re.search(rf"{re.escape(str(spec))}:\d+: name: ", told(done))


def test_e12_name_of_a_folder_never_reaches_the_terminal_as_it_is(tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "spec", model="\x1b]0;pwned\x07\nmodel", training={"optimizer_steps": 1})
    done = run_horizon("run", spec, home=tmp_path / "home")
    assert done.exit_code == 0, done.stderr
    told(done)
    (run,) = strict(run_horizon("runs", "list", "--json", home=tmp_path / "home").stdout)["runs"]
    assert run["name"] == "�]0;pwned��model"
    for verb in (["list"], ["show", run["id"]], ["show", run["id"], "--json"], ["watch", run["id"], "--json"]):
        told(run_horizon("runs", *verb, home=tmp_path / "home"))


# -- E13: paths that lead out. The user's own paths are free; those that a server is sent stay in its folders.


def contents(folder: Path) -> dict[Path, bytes]:
    """Every file below a folder but those of the server itself."""
    files = (path for path in folder.rglob("*") if path.is_file() and "runs" not in path.parts)
    return {path: path.read_bytes() for path in files if not path.name.startswith(("horizon.db", "server"))}


@pytest.mark.parametrize("payload", PAYLOADS)
def test_e13_path_sent_to_a_server_is_refused_for_every_field(payload: str, server: ServerProcess, source: str) -> None:
    written = json.dumps(payload)
    fields = ["data.path", "data.eval_path", "model.path", "offload.disk_path"]
    sets = [part for field in fields for part in ("--set", f"{field}={written}")]
    made = run_horizon("runs", "clone", source, "--no-start", *sets, home=server.home)
    assert made.exit_code == 2
    assert CANARY not in told(made)
    assert {field for field in fields if f"horizon: {field}: " in made.stderr} == set(fields), made.stderr
    resumed = run_horizon("runs", "resume", source, "--set", f"offload.disk_path={written}", home=server.home)
    assert resumed.exit_code == 2
    assert "horizon: offload.disk_path: " in told(resumed) and CANARY not in resumed.stderr


@pytest.mark.parametrize("payload", [payload for payload in PAYLOADS if "\0" not in payload])
def test_e13_path_in_place_of_a_run_or_a_file_shows_nothing_and_writes_where_it_says_alone(
    payload: str, server: ServerProcess, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(server.home)
    before = contents(server.home.parent)
    for verb in (["export", "--format", "json"], ["delete", "--yes"]):
        done = run_horizon("runs", verb[0], payload, *verb[1:], home=server.home)
        assert done.exit_code == 1, verb
        assert CANARY not in told(done)
    target = server.home / payload
    written = run_horizon("runs", "export", source, "--format", "csv", "--output", payload, home=server.home)
    assert CANARY not in told(written)
    after = contents(server.home.parent)
    assert {path: after[path] for path in before} == before
    assert [*after.keys() - before.keys()] == ([target] if written.exit_code == 0 else [])
    if written.exit_code == 0:
        assert target.parent == server.home, "its name is no more than a name here"
        target.unlink()
    else:
        assert written.exit_code == 1 and len(written.stderr.splitlines()) == 1


@pytest.mark.parametrize("payload", PAYLOADS)
def test_e13_path_of_the_user_is_free_and_one_that_is_not_there_is_refused_at_its_option(
    payload: str, server: ServerProcess
) -> None:
    spec = server.home / "spec.yaml"
    spec.write_text("model: {path: models/tiny}\ndata: {path: ok.jsonl}\n")
    sets = ["--set", f"data.path={json.dumps(payload)}", "--set", f"model.path={json.dumps(payload)}"]
    done = run_horizon("run", spec, *sets, home=server.home)
    assert done.exit_code == 2 and CANARY not in told(done)
    there = "\0" not in payload and (server.home / payload).resolve().exists()
    assert ("data.path: " in done.stderr) is not there
    assert "model.path: " in done.stderr
    spec.unlink()


@pytest.mark.parametrize("payload", [payload for payload in PAYLOADS if "\0" not in payload])
def test_e13_preview_shows_the_users_own_text_and_nothing_of_what_is_no_data(
    payload: str, server: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(server.home)
    done = run_horizon("data", "preview", payload, home=server.home)
    own_text = payload == "../outside/secret.txt"
    assert (done.exit_code == 0, CANARY in told(done)) == (own_text, own_text)


def test_export_never_writes_over_a_file_a_link_or_what_appeared_meanwhile(
    server: ServerProcess, source: str, tmp_path: Path
) -> None:
    (tmp_path / "dangling.csv").symlink_to(tmp_path / "elsewhere.csv")
    (tmp_path / "there.csv").write_text("mine")
    for name in ("dangling.csv", "there.csv"):
        done = run_horizon("runs", "export", source, "--format", "csv", "-o", tmp_path / name, home=server.home)
        assert done.exit_code == 1 and "is there already" in told(done)
    assert (tmp_path / "there.csv").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dangling.csv", "there.csv"]
    nowhere = run_horizon("runs", "export", source, "--format", "csv", "-o", tmp_path / "no" / "x", home=server.home)
    assert nowhere.exit_code == 1 and f"{tmp_path / 'no'} is no folder" in told(nowhere)


# -- E14: other servers


class Stranger(http.server.ThreadingHTTPServer):
    """Answers every request with what it is made with, and remembers what it was sent."""

    def __init__(self, status: int = 200, location: str = "") -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.status, self.location = status, location
        self.seen: list[str] = []

    @property
    def port(self) -> int:
        return self.server_address[1]


class _Answer(http.server.BaseHTTPRequestHandler):
    def answer(self) -> None:
        server = cast("Stranger", self.server)
        server.seen.append(f"{self.command} {self.path}\n{self.headers}")
        self.send_response(server.status)
        if server.location:
            self.send_header("Location", f"{server.location}{self.path}")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    do_GET = do_POST = do_PATCH = do_DELETE = answer

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


RUN = "20260131-120000-abcdef"
VERBS = [
    ["list"], ["show", RUN], ["stop", RUN], ["resume", RUN], ["set", RUN, "prefetch_window=5"], ["watch", RUN],
    ["export", RUN, "--format", "csv"], ["delete", RUN, "--yes"], ["clone", RUN],
]  # fmt: skip


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
def test_e14_redirect_to_another_server_is_not_followed_and_the_token_stays_here(
    verb: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HORIZON_TOKEN", TOKEN)
    output = ["-o", str(tmp_path / "out")] if verb[0] == "export" else []
    with (
        served(Stranger()) as other,
        served(Stranger(307, f"http://127.0.0.1:{other.port}")) as ours,
        ServerClaim(tmp_path, "127.0.0.1", ours.port),
    ):
        done = run_horizon("runs", *verb, *output, home=tmp_path)
    assert done.exit_code == 1
    assert f"points to 'http://127.0.0.1:{other.port}/" in told(done) and TOKEN not in done.output
    assert other.seen == [] and len(ours.seen) == 1
    assert not (tmp_path / "out").exists()


def test_e14_stranger_on_the_port_of_a_server_that_was_killed_is_sent_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HORIZON_TOKEN", TOKEN)
    with served(Stranger()) as stranger:
        (tmp_path / "server.json").write_text(json.dumps({"pid": 1, "host": "127.0.0.1", "port": stranger.port}))
        (tmp_path / "server.lock").touch()
        done = run_horizon("runs", "list", home=tmp_path)
    assert (done.exit_code, done.stdout) == (0, "no runs\n")
    assert stranger.seen == []


def test_e14_stranger_on_the_port_that_a_server_tells_of_is_sent_no_token_and_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HORIZON_TOKEN", TOKEN)
    with served(Stranger()) as stranger, ServerClaim(tmp_path, "127.0.0.1", stranger.port):
        done = run_horizon("runs", "list", home=tmp_path)
    assert done.exit_code == 1 and len(done.stderr.splitlines()) == 1
    assert "does not know this access token, so it was not sent there" in told(done)
    assert stranger.seen and not any(TOKEN in request for request in stranger.seen)


def test_e14_command_line_without_the_right_token_is_refused_in_one_line_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = "another-token-0123456789"
    home = furnish_home(tmp_path / "home")
    with ServerProcess(home, HORIZON_REQUIRE_TOKEN="true", HORIZON_TOKEN=TOKEN) as server:
        server.client.headers["Authorization"] = f"Bearer {TOKEN}"
        run_id = server.post("/runs", {"spec": scripted_spec(), "start": False})["id"]
        for number, verb in enumerate(VERBS):
            if number == len(VERBS) // 2:  # the first half without any
                monkeypatch.setenv("HORIZON_TOKEN", wrong)
            done = run_horizon("runs", *(run_id if part == RUN else part for part in verb), home=home)
            assert done.exit_code == 1, verb
            assert "token" in told(done) and len(done.stderr.splitlines()) == 1
            assert wrong not in done.output
        assert server.get(f"/runs/{run_id}")["state"] == "queued"
        monkeypatch.setenv("HORIZON_TOKEN", TOKEN)
        assert strict(run_horizon("runs", "list", "--json", home=home).stdout)["total"] == 1
        assert run_horizon("runs", "stop", run_id, home=home).exit_code == 0
        frames = run_horizon("runs", "watch", run_id, "--json", "--after", "0", home=home)
        assert [strict(line)["state"] for line in frames.stdout.splitlines()] == ["queued", "stopped"]
