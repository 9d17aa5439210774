"""What routes answer when all is well."""

import errno
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from horizon_app.api.openapi_export import full_schema
from horizon_app.control import catalog, example, submission
from horizon_app.control.catalog import spec_path
from tests.support.server import scripted_spec


def held(client: TestClient, **changes: Any) -> dict[str, Any]:
    answer = client.post("/api/v1/runs", json={"spec": {**scripted_spec(), **changes}, "start": False})
    assert answer.status_code == 201
    return answer.json()


def test_created_run_is_found_where_the_location_says(client: TestClient) -> None:
    answer = client.post("/api/v1/runs", json={"spec": scripted_spec(), "start": False})
    assert answer.status_code == 201
    assert client.get(answer.headers["location"]).json() == answer.json()
    assert answer.json()["created_at"].endswith("Z")


def test_repeated_post_with_one_key_answers_with_one_run(client: TestClient) -> None:
    answers = [
        client.post("/api/v1/runs", json={"spec": scripted_spec(), "start": False}, headers={"idempotency-key": "k"})
        for _ in range(2)
    ]
    assert answers[0].json()["id"] == answers[1].json()["id"]
    assert client.get("/api/v1/runs").json()["total"] == 1


def test_labels_are_changed_one_at_a_time(client: TestClient) -> None:
    run = held(client, name="before", tags=["a"])
    changed = client.patch(f"/api/v1/runs/{run['id']}", json={"name": "after <b>"}).json()
    assert (changed["name"], changed["tags"]) == ("after <b>", ["a"])
    assert client.patch(f"/api/v1/runs/{run['id']}", json={"tags": []}).json()["tags"] == []


def test_list_pages_with_a_cursor_and_counts(client: TestClient) -> None:
    made = [held(client)["id"] for _ in range(3)]
    first = client.get("/api/v1/runs?limit=2&sort=created_at").json()
    second = client.get(f"/api/v1/runs?limit=2&sort=created_at&cursor={first['next_cursor']}").json()
    assert {run["id"] for run in first["runs"] + second["runs"]} == set(made)
    assert second["next_cursor"] is None
    assert (first["total"], first["counts"]["queued"]) == (3, 3)


def test_list_takes_a_filter_and_says_what_is_wrong_with_one(client: TestClient) -> None:
    held(client, name="sft", tags=["lora"])
    held(client, name="other", tags=["lora"])
    found = client.get("/api/v1/runs", params={"q": "tag:lora and not name:other and loss != 2"}).json()
    assert [run["name"] for run in found["runs"]] == ["sft"]
    refused = client.get("/api/v1/runs", params={"q": "tag:lora and los < 2"})
    assert refused.status_code == 422
    (error,) = refused.json()["errors"]
    assert (error["field"], error["message"]) == ("q", "column 14: there is no field 'los'")
    assert error["fix"].startswith("did you mean loss?")


@pytest.mark.parametrize("query", ["state=queued,stopped", "state=queued&state=stopped"])
def test_list_takes_several_states_with_commas_or_again(client: TestClient, query: str) -> None:
    held(client)
    client.post(f"/api/v1/runs/{held(client)['id']}/stop")
    assert client.get(f"/api/v1/runs?{query}").json()["total"] == 2
    assert client.get("/api/v1/runs?state=stopped").json()["total"] == 1


def test_reference_names_every_call_and_needs_no_other_host(client: TestClient) -> None:
    page = client.get("/docs").text
    for path, methods in client.get("/api/v1/openapi.json").json()["paths"].items():
        for method in methods:
            assert f"<b>{method.upper()}</b> {path}</code>" in page
    assert page.count("curl ") == sum(map(len, client.get("/api/v1/openapi.json").json()["paths"].values()))
    assert "<script" not in page and "://" not in page and " style=" not in page


def test_machine_and_catalog_tell_what_is_there(client: TestClient, home: Path) -> None:
    system = client.get("/api/v1/system").json()
    assert system["home"] == str(home)
    assert 0 < system["host"]["memory_available"] <= system["host"]["memory_total"]
    assert 0 < system["disk"]["free"] <= system["disk"]["total"]
    (model,) = client.get("/api/v1/models").json()["models"]
    assert (model["path"], model["trainable"], model["reason"]) == ("models/tiny", True, "")
    assert client.get("/api/v1/datasets").json()["datasets"] == [
        {"path": "data/corpus.txt", "name": "corpus.txt", "bytes": 170, "kind": "text"}
    ]


def test_catalog_leaves_out_a_file_that_goes_away_while_it_is_listed(
    client: TestClient, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "data" / "fetched.txt").write_text("half")

    def renamed_meanwhile(path: Path, base: Path) -> str:
        if path.name == "fetched.txt":
            path.rename(path.with_suffix(".done"))
        return spec_path(path, base)

    monkeypatch.setattr(catalog, "spec_path", renamed_meanwhile)
    assert [one["name"] for one in client.get("/api/v1/datasets").json()["datasets"]] == ["corpus.txt"]


def test_catalog_says_why_a_model_can_not_be_trained_and_follows_no_links(client: TestClient, home: Path) -> None:
    other = home / "models" / "bert"
    other.mkdir()
    (other / "config.json").write_text(json.dumps({"architectures": ["BertForMaskedLM"]}))
    (home / "models" / "circle").symlink_to(home / "models")
    found = {model["name"]: model for model in client.get("/api/v1/models").json()["models"]}
    assert found.keys() == {"bert", "tiny"}
    assert not found["bert"]["trainable"] and "BertForMaskedLM" in found["bert"]["reason"]


def test_catalog_calls_a_model_without_weights_trainable_from_random_weights_only(
    client: TestClient, home: Path
) -> None:
    (home / "models" / "tiny" / "model.safetensors").unlink()
    (model,) = client.get("/api/v1/models").json()["models"]
    assert (model["trainable"], model["starts_from"]) == (False, ["random"])
    assert "no weights" in model["reason"] and "model.init random" in model["reason"]


def test_schema_of_the_spec_has_units(client: TestClient) -> None:
    schema = client.get("/api/v1/spec/schema").json()
    assert schema["$defs"]["OffloadSpec"]["properties"]["param_block_size"]["x-unit"] == "bytes"


def test_example_is_written_once_and_its_paths_start_at_home(
    client: TestClient, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Path] = []

    def write(folder: Path) -> None:
        written.append(folder)
        folder.mkdir(parents=True)
        (folder / "spec.yaml").write_text("model: {path: model}\ndata: {path: corpus.txt}\n")

    monkeypatch.setattr(example, "_run_command", write)
    answers = [client.post("/api/v1/examples") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[1].json() == {
        "spec": {"model": {"path": "examples/starter/model"}, "data": {"path": "examples/starter/corpus.txt"}},
        "folder": "examples/starter",
    }
    assert written == [home / "examples" / "starter"]


def test_example_that_can_not_be_written_is_a_problem_with_the_cause(client: TestClient, home: Path) -> None:
    (home / "examples" / "starter").parent.joinpath("starter").write_text("a file in the way")
    answer = client.post("/api/v1/examples")
    assert answer.status_code == 500
    assert answer.json()["type"] == "horizon:example-failed"


def test_long_answers_are_compressed(client: TestClient) -> None:
    answer = client.get("/api/v1/spec/schema", headers={"accept-encoding": "gzip"})
    assert answer.headers["content-encoding"] == "gzip"


def test_exported_schema_has_the_streams_frames_and_resolves_every_reference() -> None:
    schema = full_schema()
    components = schema["components"]["schemas"]
    assert components["Frame"]["discriminator"]["propertyName"] == "type"
    assert {"MetricsFrame", "SnapshotFrame", "RunFrame", "RunDetail", "Problem"} <= components.keys()
    text = json.dumps(schema)
    references = {part.partition('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert references <= components.keys()
    assert "#/$defs" not in text


def test_run_on_a_full_disk_is_refused_with_the_numbers(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=1000)
    monkeypatch.setattr(submission.shutil, "disk_usage", lambda _path: usage)
    answer = client.post("/api/v1/runs", json={"spec": scripted_spec()})
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["field"] == "checkpoint"
    assert "a checkpoint needs 4,194,352 bytes (4 parameters, 48 bytes each time)" in error["message"]
    assert "1,000 bytes free" in error["message"]


def test_run_where_nothing_can_be_written_is_refused_with_the_folder(
    client: TestClient, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(**_: Any) -> Any:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(submission.tempfile, "TemporaryFile", read_only)
    answer = client.post("/api/v1/runs", json={"spec": scripted_spec()})
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["message"] == f"{home / 'runs'} can't be written: Read-only file system"
    assert "another home folder" in error["fix"]


@pytest.mark.parametrize(
    ("headers", "who"),
    [
        ({}, "api"),
        ({"sec-fetch-site": "same-origin"}, "browser"),
        ({"origin": "http://127.0.0.1:8321"}, "browser"),
        ({"horizon-client": "python client"}, "python client"),
        ({"horizon-client": "Server"}, "api"),
    ],
)
def test_change_of_state_tells_who_asked(client: TestClient, headers: dict[str, str], who: str) -> None:
    run = held(client)
    client.post(f"/api/v1/runs/{run['id']}/stop", headers=headers)
    events = client.get(f"/api/v1/runs/{run['id']}/events").json()["events"]
    assert [(event["state"], event["who"]) for event in events] == [("queued", "api"), ("stopped", who)]


def test_client_whose_name_is_no_word_is_refused_by_header(client: TestClient) -> None:
    answer = client.post("/api/v1/runs/x/stop", headers={"horizon-client": "<script>"})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "horizon-client")
