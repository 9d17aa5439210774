"""What people fed to other servers, and what other sites sent to them: odd names, paths out, foreign pages, NaN."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

from horizon_app.api.app import create_app
from horizon_app.control.paths import PathRefused, rules_for_clients
from horizon_app.settings import AppSettings
from tests.support.server import ServerProcess, furnish_home, scripted_spec

INPUTS = Path(__file__).parent / "inputs"
CANARY = "SECRET-CANARY"
PAYLOADS: list[str] = json.loads((INPUTS / "E13" / "payloads.json").read_text())
NAMES: list[str] = json.loads((INPUTS / "E12" / "names.json").read_text())
REQUESTS: list[dict[str, Any]] = json.loads((INPUTS / "E14" / "requests.json").read_text())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(furnish_home(tmp_path_factory.mktemp("server") / "home")) as process:
        yield process


@pytest.fixture(scope="module")
def data_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of E13 as a home, with a model in it, a secret beside it and a link that leads there."""
    folder = tmp_path_factory.mktemp("E13")
    shutil.copytree(INPUTS / "E13" / "outside", folder / "outside")
    home = furnish_home(folder / "data")
    shutil.copy(INPUTS / "E13" / "data" / "ok.jsonl", home / "ok.jsonl")
    (home / "link.jsonl").symlink_to("../outside/secret.txt")
    return home


@pytest.fixture(scope="module")
def client(data_home: Path) -> Iterator[TestClient]:
    settings = AppSettings(home=data_home, worker_module="tests.support.scripted_worker")
    app = create_app(settings)
    with TestClient(app, base_url="http://127.0.0.1:8321", raise_server_exceptions=False) as client:
        yield client


def strict(text: str | bytes) -> Any:
    return json.loads(text, parse_constant=pytest.fail)


# -- E10: NaN and infinities


def test_losses_that_are_not_finite_are_null_and_flagged_alike_on_rest_and_stream(server: ServerProcess) -> None:
    lines = (INPUTS / "E10" / "metrics.jsonl").read_text().splitlines()
    losses = [json.loads(line)["loss"] for line in lines]
    run_id = server.submit(len(losses), losses=losses)
    server.wait_state(run_id, "finished")
    paths = ["", "/metrics", "/events?types=metrics", "/logs", "/checkpoints", "/residency"]
    answers = [server.client.get(f"/runs/{run_id}{path}") for path in paths] + [server.client.get("/runs")]
    assert [answer.status_code for answer in answers] == [200] * 7
    bodies = [strict(answer.text) for answer in answers]
    with connect(server.stream_url(run_id, after=0)) as socket:
        frames = [strict(socket.recv(timeout=10)) for _ in range(bodies[0]["last_seq"])]
    streamed = [frame for frame in frames if frame["type"] == "metrics"]
    expected = [2.5, None, None, None, 2.4]
    flags = [[2, "nan"], [3, "inf"], [4, "-inf"]]
    assert bodies[1]["series"]["train/loss"] == {"x": [1, 2, 3, 4, 5], "y": expected}
    assert bodies[1]["nonfinite"]["train/loss"] == flags
    assert bodies[2]["events"] == streamed
    assert [frame["values"]["train/loss"] for frame in streamed] == expected
    assert [[f["step"], f["nonfinite"]["train/loss"]] for f in streamed if f["nonfinite"]] == flags


# -- E12: odd names


def test_odd_names_are_refused_by_rule_or_kept_to_the_letter(client: TestClient, data_home: Path) -> None:
    ids: set[str] = set()
    refused: list[str] = []
    for name in NAMES:
        made = client.post("/api/v1/runs", json={"spec": scripted_spec() | {"name": name}, "start": False})
        if made.status_code == 422:
            (error,) = made.json()["errors"]
            assert error["field"] == "name" and error["message"]
            refused.append(name)
            continue
        assert made.status_code == 201, name
        run = made.json()
        assert run["name"] == name
        assert run["id"] not in ids
        ids.add(run["id"])
        assert client.get(f"/api/v1/runs/{run['id']}").json()["name"] == name
        renamed = client.patch(f"/api/v1/runs/{run['id']}", json={"name": f"{name[:190]} again"})
        assert renamed.json()["name"] == f"{name[:190]} again"
        assert client.patch(f"/api/v1/runs/{run['id']}", json={"name": name}).json()["name"] == name
    listed = {run["id"]: run["name"] for run in client.get("/api/v1/runs?limit=100").json()["runs"]}
    assert ids <= listed.keys()
    assert {path.name for path in (data_home / "runs").iterdir()} <= ids  # folders come from ids
    for run_id in ids:
        assert client.delete(f"/api/v1/runs/{run_id}").status_code == 200
        assert client.get(f"/api/v1/runs/{run_id}").status_code == 404
    assert [name[:10] for name in refused] == ["", "   ", "x" * 10, "a\0b", "line\nbreak", "tab\there"]


# -- E13: paths that lead out


@pytest.mark.parametrize("payload", PAYLOADS)
def test_path_that_leads_out_is_refused_by_the_rules(payload: str, data_home: Path) -> None:
    rules = rules_for_clients(AppSettings(home=data_home))
    with pytest.raises(PathRefused) as refused:
        rules.resolve(payload)
    assert CANARY not in str(refused.value)
    try:
        made = rules.resolve_new(payload)
    except PathRefused:
        return
    assert made.is_relative_to(data_home.resolve())


def test_path_with_a_tilde_is_refused_even_where_a_folder_has_that_name(tmp_path: Path) -> None:
    (tmp_path / "~" / "data").mkdir(parents=True)
    rules = rules_for_clients(AppSettings(home=tmp_path))
    for find in (rules.resolve, rules.resolve_new):
        with pytest.raises(PathRefused, match="starts with ~"):
            find("~/data")


@pytest.mark.parametrize("payload", PAYLOADS)
def test_path_that_leads_out_is_refused_wherever_a_body_or_a_query_names_one(payload: str, client: TestClient) -> None:
    data = {"path": "ok.jsonl", "eval_path": payload}
    sections = (
        {"model": {"path": payload}},
        {"data": {"path": payload}},
        {"data": {"path": [payload]}},
        {"data": data},
    )
    for section in (*sections, {"offload": {"disk_path": payload}}):
        answer = client.post("/api/v1/runs", json={"spec": scripted_spec() | section, "start": False})
        assert answer.status_code == 422, section
        assert CANARY not in answer.text
    for query in ({"path": payload}, {"path": ["ok.jsonl", payload]}, {"path": "ok.jsonl", "tokenizer": payload}):
        answer = client.get("/api/v1/datasets/preview", params=query)
        assert answer.status_code == 422, query
        assert CANARY not in answer.text


def test_path_that_leads_out_shows_nothing_on_any_route(client: TestClient) -> None:
    paths = client.get("/api/v1/openapi.json").json()["paths"]
    for path, operations in paths.items():
        for method, operation in operations.items():
            named = [one for one in operation.get("parameters", []) if one["in"] in ("path", "query")]
            if not named:
                continue
            for payload in PAYLOADS:
                for how in (quote(payload, safe=""), quote(payload)):
                    address = path
                    for one in named:
                        address = address.replace(f"{{{one['name']}}}", how)
                    query = {one["name"]: payload for one in named if one["in"] == "query"}
                    body = {} if method in ("post", "patch", "put") else None
                    answer = client.request(method, address, params=query, json=body)
                    assert CANARY not in answer.text, (method, address)
                    assert answer.status_code < 500, (method, address, answer.text)
    for payload in PAYLOADS:
        for how in (quote(payload, safe=""), quote(payload)):
            assert CANARY not in client.get(f"/{how}").text
            assert CANARY not in client.get(f"/assets/{how}").text


# -- E14: other sites


@pytest.mark.parametrize("asked", REQUESTS, ids=[f"{r['Origin']}-{r['Host']}-{r['Content-Type']}" for r in REQUESTS])
def test_request_of_a_page_elsewhere_is_refused_and_our_own_is_not(
    asked: dict[str, Any], server: ServerProcess
) -> None:
    port = server.url.rpartition(":")[2]
    headers = {name: asked[name].replace("PORT", port) for name in ("Host", "Origin", "Content-Type") if asked[name]}
    before = server.get("/runs")["total"]
    body = json.dumps({"spec": scripted_spec(), "start": False})
    answer = server.client.post("/runs", content=body, headers=headers)
    statuses = [int(word) for word in asked["want"].split() if word.isdigit()] or [201]
    assert answer.status_code in statuses
    assert server.get("/runs")["total"] - before == (answer.status_code == 201)


@pytest.mark.parametrize(
    "asked",
    [r for r in REQUESTS if r["Content-Type"] == "application/json"],
    ids=lambda r: f"{r['Origin']}-{r['Host']}",
)
def test_handshake_of_a_page_elsewhere_is_403_and_our_own_is_not(asked: dict[str, Any], server: ServerProcess) -> None:
    port = server.url.rpartition(":")[2]
    url = server.url.replace("http://", "ws://") + "/api/v1/stream"
    origin = None if asked["Origin"] is None else Origin(asked["Origin"].replace("PORT", port))
    host = asked["Host"].replace("PORT", port)
    # The library names its own host, which is that of the address: it connects to the server all the same.
    named = url.replace(url.split("/")[2], host)
    address = ("127.0.0.1", int(port))
    if "403" not in asked["want"]:
        with connect(named, origin=origin, address=address):
            return
    with pytest.raises(InvalidStatus) as refused, connect(named, origin=origin, address=address):
        pass
    assert refused.value.response.status_code == 403
