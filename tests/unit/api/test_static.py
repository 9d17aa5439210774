"""The UI's files, and a clear page where they are not built."""

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from horizon_app.api import static


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "ui"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<title>the app</title>")
    (folder / "assets" / "app-1a2b.js").write_text("1")
    (tmp_path / "secret.txt").write_text("SECRET-CANARY")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    monkeypatch.setattr(static, "ui_folder", lambda: folder)
    return folder


@pytest.mark.parametrize("path", ["/", "/runs", "/runs/20260101-000000-abcdef", "/new"])
def test_page_of_the_app_is_its_index(client: TestClient, built: Path, path: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, "the app" in answer.text) == (200, True)
    assert answer.headers["cache-control"] == "no-cache"


def test_asset_is_kept_by_the_browser(client: TestClient, built: Path) -> None:
    answer = client.get("/assets/app-1a2b.js")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/javascript")
    assert "immutable" in answer.headers["cache-control"]


@pytest.mark.parametrize("path", ["/assets/none.js", "/favicon.ico", "/api/v1/none", "/api", "/link.txt"])
def test_file_that_is_not_there_is_a_404(client: TestClient, built: Path, path: str) -> None:
    assert client.get(path).status_code == 404


@pytest.mark.parametrize(
    "path", ["/../secret.txt", "/..%2fsecret.txt", "/assets/..%2f..%2fsecret.txt", "//etc/hostname"]
)
def test_path_that_leads_out_gives_nothing(client: TestClient, built: Path, path: str) -> None:
    assert "SECRET-CANARY" not in client.get(path).text


def test_server_without_a_built_ui_says_how_to_build_it(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static, "ui_folder", lambda: None)
    answer = client.get("/")
    assert answer.status_code == 200 and "make run" in answer.text
    assert client.get("/runs").status_code == 404
