"""Knobs of live runs through a real server: acknowledged with a step, recorded, taken back, kept by a resumed run."""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect

from tests.support.commands import run_horizon
from tests.support.server import ServerProcess, furnish_home, scripted_spec, wait_for


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server for all: its runs go side by side."""
    with ServerProcess(furnish_home(tmp_path_factory.mktemp("knobs") / "home")) as process:
        yield process


@pytest.fixture
def run_id(server: ServerProcess) -> Iterator[str]:
    """A run that trains until the test is over."""
    yield from living(server)


@pytest.fixture(scope="module")
def untouched(server: ServerProcess) -> Iterator[str]:
    """A run for what changes nothing."""
    yield from living(server)


def living(server: ServerProcess, **script: Any) -> Iterator[str]:
    spec = {**scripted_spec(100_000, **{"step_s": 0.02, **script}), "offload": {"share_device": True}}
    run_id = server.post("/runs", {"spec": spec})["id"]
    server.wait_step(run_id, 2)
    yield run_id
    if server.get(f"/runs/{run_id}")["state"] == "running":
        server.post(f"/runs/{run_id}/stop")
    server.wait_state(run_id, "stopped", "interrupted")


def patch(server: ServerProcess, run_id: str, *, headers: dict[str, str] | None = None, **knobs: Any) -> httpx.Response:
    return server.client.patch(f"/runs/{run_id}/knobs", json=knobs, headers=headers or {})


def test_changed_knob_is_answered_with_the_step_from_which_it_holds(server: ServerProcess, run_id: str) -> None:
    before = server.get(f"/runs/{run_id}")
    assert (before["knobs"]["prefetch_window"], before["knobs_version"]) == (3, 0)
    answer = patch(server, run_id, prefetch_window=5, policy="lru", headers={"Horizon-Client": "a test"})
    assert answer.status_code == 200
    window, policy = answer.json()["changes"]
    assert (window["number"], window["old"], window["new"], window["status"]) == (1, 3, 5, "holds")
    assert (policy["number"], policy["old"], policy["new"], policy["who"]) == (2, "clock_pro", "lru", "a test")
    assert window["step"] > before["step"]
    shown = server.get(f"/runs/{run_id}/knobs")
    assert (shown["knobs_version"], shown["changes"]) == (2, [window, policy])
    assert {one["knob"]: one["value"] for one in shown["knobs"]}["prefetch_window"] == 5
    after = server.get(f"/runs/{run_id}")
    assert (after["knobs"]["policy"], after["knobs_version"]) == ("lru", 2)
    told = [one for one in server.get(f"/runs/{run_id}/events")["events"] if one["type"] == "knobs"]
    assert [(one["knob"], one["step"], one["who"]) for one in told] == [
        ("prefetch_window", window["step"], "a test"), ("policy", policy["step"], "a test"),
    ]  # fmt: skip


def test_undo_takes_the_newest_back_then_the_one_before_and_then_says_that_there_is_none(
    server: ServerProcess, run_id: str
) -> None:
    patch(server, run_id, prefetch_window=5)
    patch(server, run_id, prefetch_window="auto")
    undone = [server.post(f"/runs/{run_id}/knobs/undo")["changes"][0] for _ in range(2)]
    assert [(one["old"], one["new"], one["undoes"], one["status"]) for one in undone] == [
        ("auto", 5, 2, "holds"), (5, 3, 1, "holds"),
    ]  # fmt: skip
    refused = server.client.post(f"/runs/{run_id}/knobs/undo")
    assert (refused.status_code, refused.json()["type"]) == (409, "horizon:nothing-to-undo")
    again = server.client.post(f"/runs/{run_id}/knobs/undo", json={"number": 4}).json()["changes"][0]
    assert (again["new"], again["undoes"]) == (5, 4)


def test_change_with_a_version_that_is_not_the_newest_is_refused_with_what_is_in_force(
    server: ServerProcess, run_id: str
) -> None:
    seen = server.client.get(f"/runs/{run_id}/knobs").headers["etag"]
    assert patch(server, run_id, prefetch_window=5, headers={"If-Match": seen}).status_code == 200
    late = patch(server, run_id, prefetch_window=7, headers={"If-Match": seen})
    assert (late.status_code, late.json()["type"]) == (412, "horizon:knobs-changed")
    assert "version is 1, not 0" in late.json()["detail"]
    assert {"field": "prefetch_window", "message": "is 5 now", "fix": ""} in late.json()["errors"]
    assert patch(server, run_id, prefetch_window=7, headers={"If-Match": '"1"'}).status_code == 200


@pytest.mark.parametrize(
    ("knobs", "status", "field", "words"),
    [
        ({"prefetch_window": 65}, 422, "prefetch_window", "0 to 64"),
        ({"prefetch_window": None}, 422, "prefetch_window", "None"),
        ({"offload.prefetch_window": "wide"}, 422, "offload.prefetch_window", "wide"),
        ({"max_gpu_blocks": 1}, 422, "max_gpu_blocks", "set it to 2 to 10"),
        ({"max_gpu_blocks": 11}, 422, "max_gpu_blocks", "more than the 10"),
        ({"max_gpu_blocks": "auto"}, 422, "max_gpu_blocks", "when a run starts"),
        ({"policy": "fifo"}, 422, "policy", "fifo"),
        ({"prefetch_widow": 3}, 422, "prefetch_widow", "did you mean prefetch_window?"),
        ({"prefetch_window": 3, "offload.prefetch_window": 4}, 422, "offload.prefetch_window", "twice"),
        ({"samples.every": 5}, 422, "samples.every", "prompts"),
        ({"evaluation.every": 5}, 422, "evaluation.every", "no eval data"),
        ({"learning_rate": 0.1}, 409, "training.learning_rate", "resume it with another training.learning_rate"),
        ({"training.seed": 1, "prefetch_window": 5}, 409, "training.seed", "start a new run"),
    ],
)  # fmt: skip
def test_value_that_can_not_be_is_refused_by_name_and_changes_nothing(
    server: ServerProcess, untouched: str, knobs: dict[str, Any], status: int, field: str, words: str
) -> None:
    answer = patch(server, untouched, **knobs)
    assert answer.status_code == status, answer.text
    [problem] = answer.json()["errors"]
    assert problem["field"] == field
    assert words in answer.json()["detail"]
    assert server.get(f"/runs/{untouched}/knobs")["changes"] == []


def test_change_that_the_worker_refuses_is_a_422_with_its_reason_and_stays_in_the_history(
    server: ServerProcess,
) -> None:
    for run_id in living(server, refused_knobs={"max_gpu_blocks": "the device has no memory for 9"}):
        answer = patch(server, run_id, max_gpu_blocks=9)
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["message"] == "the device has no memory for 9"
        shown = server.get(f"/runs/{run_id}/knobs")
        assert [(one["status"], one["message"]) for one in shown["changes"]] == [
            ("refused", "the device has no memory for 9")
        ]
        assert {one["knob"]: one["value"] for one in shown["knobs"]}["max_gpu_blocks"] == 2
        assert server.client.post(f"/runs/{run_id}/knobs/undo").status_code == 409


def test_change_that_is_not_answered_in_time_is_202_and_told_later(server: ServerProcess) -> None:
    for run_id in living(server, step_s=0.5):
        asked = server.client.patch(f"/runs/{run_id}/knobs?patience_s=0", json={"prefetch_window": 9})
        assert asked.status_code == 202
        [change] = asked.json()["changes"]
        assert (change["status"], change["step"], change["old"], change["new"]) == ("asked", None, 3, 9)

        def holding() -> Any:
            [one] = server.get(f"/runs/{run_id}/knobs")["changes"]  # noqa: B023 - called at once
            return one if one["status"] == "holds" else None

        assert wait_for(holding, "the worker answers")["step"] >= 2


def test_run_resumed_begins_with_the_knobs_that_were_in_force(server: ServerProcess) -> None:
    for run_id in living(server):
        server.client.patch(f"/runs/{run_id}/knobs", json={"prefetch_window": 5, "checkpoint.every": 7})
        server.post(f"/runs/{run_id}/stop")
        server.wait_state(run_id, "stopped")
        refused = patch(server, run_id, prefetch_window=6)
        assert (refused.status_code, refused.json()["type"]) == (409, "horizon:run-not-live")
        server.post(f"/runs/{run_id}/resume", {"set": {"checkpoint.every": 8}})
        run = server.wait_state(run_id, "running")
        assert (run["knobs"]["prefetch_window"], run["knobs"]["checkpoint.every"]) == (5, 8)
        order = json.loads((server.home / "runs" / run_id / "run.json").read_text())
        assert (order["spec"]["offload"]["prefetch_window"], order["spec"]["checkpoint"]["every"]) == (5, 8)


def test_change_that_a_killed_worker_never_came_to_is_refused_with_the_run_s_end(server: ServerProcess) -> None:
    for run_id in living(server):
        pid = json.loads((server.home / "runs" / run_id / "worker.json").read_text())["pid"]
        os.kill(pid, signal.SIGSTOP)
        asked = server.client.patch(f"/runs/{run_id}/knobs?patience_s=0", json={"prefetch_window": 9})
        assert asked.status_code == 202
        os.kill(pid, signal.SIGKILL)
        server.wait_state(run_id, "interrupted")
        shown = server.get(f"/runs/{run_id}/knobs")
        assert [one["status"] for one in shown["changes"]] == ["refused"]
        assert "interrupted before" in shown["changes"][0]["message"]
        assert {one["knob"]: one["value"] for one in shown["knobs"]}["prefetch_window"] == 3


async def test_change_is_streamed_to_every_viewer(server: ServerProcess, run_id: str) -> None:
    async with connect(server.stream_url(run_id)) as socket, asyncio.timeout(10):
        await asyncio.to_thread(patch, server, run_id, prefetch_window=0)
        async for message in socket:
            frame = json.loads(message) if isinstance(message, str) else {}
            if frame.get("type") == "knobs":
                assert (frame["number"], frame["old"], frame["new"], frame["status"]) == (1, 3, 0, "holds")
                return


def test_knobs_of_an_unknown_run_are_not_found(server: ServerProcess, tmp_path: Path) -> None:
    unknown = "20260101-000000-abcdef"
    assert server.client.get(f"/runs/{unknown}/knobs").status_code == 404
    assert patch(server, unknown, prefetch_window=1).status_code == 404
    assert server.client.post(f"/runs/{unknown}/knobs/undo").status_code == 404


def test_command_line_changes_knobs_through_a_server_and_without_one(tmp_path: Path) -> None:
    home = furnish_home(tmp_path / "home")
    with ServerProcess(home) as server:
        lives = living(server)
        run_id = next(lives)
        through = run_horizon("runs", "set", run_id, "prefetch_window=5", "policy=lru", "--json", home=home)
        assert through.exit_code == 0, through.output
        answer = json.loads(through.stdout)
        assert [(one["new"], one["status"], one["who"]) for one in answer["changes"]] == [
            (5, "holds", "command line"), ("lru", "holds", "command line"),
        ]  # fmt: skip
        refused = run_horizon("runs", "set", run_id, "prefetch_window=99", home=home)
        assert refused.exit_code == 2 and "prefetch_window" in refused.stderr
        assert run_horizon("runs", "set", run_id, "prefetch_window=6", "--if-version", "1", home=home).exit_code == 1

        server.end(signal.SIGKILL)
        alone = run_horizon("runs", "set", run_id, "prefetch_window=7", "--if-version", "2", home=home)
        assert alone.exit_code == 0, alone.output
        assert "prefetch_window: 5 → 7 from optimizer step" in alone.stdout
        assert run_horizon("runs", "set", run_id, "prefetch_window=99", home=home).exit_code == 2
        undone = json.loads(run_horizon("runs", "set", run_id, "--undo", "--json", home=home).stdout)
        assert [(one["old"], one["new"], one["undoes"]) for one in undone["changes"]] == [(7, 5, 3)]

        server.start()
        changes = server.get(f"/runs/{run_id}/knobs")["changes"]
        assert [(one["number"], one["new"], one["status"]) for one in changes] == [
            (1, 5, "holds"), (2, "lru", "holds"), (3, 7, "holds"), (4, 5, "holds"),
        ]  # fmt: skip
        next(lives, None)


def test_command_line_that_names_no_knob_says_what_to_write(tmp_path: Path) -> None:
    asked = run_horizon("runs", "set", "20260101-000000-abcdef", home=tmp_path)
    assert asked.exit_code == 2 and "prefetch_window=5, or --undo" in asked.stderr
