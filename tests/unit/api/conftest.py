"""The app in this process, on a furnished home."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from horizon_app.api.app import create_app
from horizon_app.settings import AppSettings
from tests.support.server import furnish_home


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return furnish_home(tmp_path / "home")


@pytest.fixture
def app(home: Path) -> FastAPI:
    return create_app(AppSettings(home=home, worker_module="tests.support.scripted_worker"))


@pytest.fixture
def client(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app, base_url="http://127.0.0.1:8321", raise_server_exceptions=False) as client:
        yield client
