"""Requests that fail or take long are logged, without what the query held."""

import logging
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from horizon_app.api.request_log import RequestLog


def facts(caplog: pytest.LogCaptureFixture) -> list[tuple[str, Any]]:
    records = [record for record in caplog.records if record.name == "horizon_app.api.request_log"]
    return [(record.levelname, record.__dict__["fields"]) for record in records]


def client(slow_s: float) -> TestClient:
    app = FastAPI()

    @app.get("/breaks")
    def breaks() -> None:  # pyright: ignore[reportUnusedFunction]
        raise ValueError("inside")

    @app.get("/works")
    def works() -> str:  # pyright: ignore[reportUnusedFunction]
        return "ok"

    app.add_middleware(RequestLog, slow_s=slow_s)
    return TestClient(app, raise_server_exceptions=False)


def test_failed_request_is_logged_with_its_trace_and_without_its_query(caplog: pytest.LogCaptureFixture) -> None:
    client(slow_s=60).get("/breaks?token=secret")
    ((level, found),) = facts(caplog)
    assert level == "ERROR"
    assert (found["method"], found["path"], found["status"]) == ("GET", "/breaks", 500)
    assert found["ms"] >= 0
    assert "ValueError: inside" in caplog.text
    assert "secret" not in caplog.text


def test_slow_request_is_logged_and_a_quick_one_is_not(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    client(slow_s=60).get("/works")
    assert facts(caplog) == []
    client(slow_s=0).get("/works")
    ((level, found),) = facts(caplog)
    assert (level, found["path"], found["status"]) == ("WARNING", "/works", 200)
