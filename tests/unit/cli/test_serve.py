from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from horizon_app.cli.main import app
from horizon_app.control.errors import PortTaken
from horizon_app.settings import AppSettings
from tests.support.run_folders import wait_until

runner = CliRunner()


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Ports that a server was started on; those below 8324 are taken."""
    ports: list[int] = []

    def serve(settings: AppSettings, *, on_ready: Callable[[str], None], on_token: Callable[[str], None]) -> None:
        if settings.port < 8324:
            raise PortTaken(host=settings.host, port=settings.port, holder="python (pid 7)")
        ports.append(settings.port)
        on_ready(f"http://127.0.0.1:{settings.port}")

    monkeypatch.setattr("horizon_app.api.serving.serve", serve)
    return ports


def invoke(home: Path, *options: str) -> Any:
    return runner.invoke(app, ["serve", "--home", str(home), *options])


def test_serve_without_a_port_takes_the_next_free_one_and_says_why(bound: list[int], tmp_path: Path) -> None:
    result = invoke(tmp_path)
    assert result.exit_code == 0
    assert bound == [8324]
    assert "http://127.0.0.1:8324" in result.stdout
    assert "port 8321 on 127.0.0.1 is in use by python (pid 7)" in result.stderr


def test_serve_with_a_taken_port_that_was_asked_for_does_not_take_another(bound: list[int], tmp_path: Path) -> None:
    assert invoke(tmp_path, "--port", "8322").exit_code == 1
    assert bound == []


def test_serve_with_a_taken_port_from_the_environment_does_not_take_another(
    bound: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HORIZON_PORT", "8323")
    assert invoke(tmp_path).exit_code == 1
    assert bound == []


def test_serve_with_open_opens_the_page_once(bound: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    invoke(tmp_path, "--open", "--port", "9000")
    wait_until(lambda: opened == ["http://127.0.0.1:9000"], "the page is opened")
