"""An answer that has not changed is not sent again."""

import pytest
from starlette.testclient import TestClient

from tests.support.server import scripted_spec


def test_answer_that_is_known_is_not_sent_again_until_it_changes(client: TestClient) -> None:
    run = client.post("/api/v1/runs", json={"spec": scripted_spec(), "start": False}).json()
    path = f"/api/v1/runs/{run['id']}"
    first = client.get(path)
    tag = first.headers["etag"]
    assert first.headers["cache-control"] == "private, no-cache"
    for known in (tag, tag.removeprefix("W/"), f'"other", {tag}', "*"):
        again = client.get(path, headers={"if-none-match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        assert "content-length" not in again.headers or again.headers["content-length"] == "0"
    client.patch(path, json={"name": "changed"})
    changed = client.get(path, headers={"if-none-match": tag})
    assert changed.status_code == 200 and changed.headers["etag"] != tag
    assert changed.json()["name"] == "changed"


def test_compressed_and_plain_answer_have_one_tag(client: TestClient) -> None:
    tags = {client.get("/api/v1/spec/schema", headers={"accept-encoding": how}).headers["etag"] for how in ("gzip", "")}
    assert len(tags) == 1


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/api/v1/nothing"), ("GET", "/api/v1/runs/x"), ("POST", "/api/v1/runs")]
)
def test_problem_or_change_is_kept_nowhere(client: TestClient, method: str, path: str) -> None:
    answer = client.request(method, path, json={} if method == "POST" else None)
    assert answer.headers["cache-control"] == "no-store"
    assert "etag" not in answer.headers
