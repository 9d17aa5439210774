"""The checklist of runs through a real server: kept, streamed once, over a restart; and its fixes, carried out."""

import asyncio
import json
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from websockets.asyncio.client import connect

from horizon_app.client import Conflict, Horizon, NotFound
from tests.support.commands import run_horizon
from tests.support.server import ServerProcess, furnish_home, scripted_spec, wait_for

EXPLODING = [*(4.0 / step for step in range(1, 41)), *([90.0] * 20)]
STARVED = {
    "time/stall": 0.006, "prefetch/hit_rate": 0.6, "prefetch/late_rate": 0.35, "prefetch/miss_rate": 0.05,
    "prefetch/optimal_hit_rate": 0.62, "throughput/tokens_per_second": 4000.0,
}  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(furnish_home(tmp_path_factory.mktemp("checks") / "home")) as process:
        yield process


@pytest.fixture(scope="module")
def exploded(server: ServerProcess) -> str:
    """A run whose loss has run away."""
    run_id = server.submit(len(EXPLODING), losses=EXPLODING)
    server.wait_state(run_id, "finished")
    return run_id


@pytest.fixture
def starving(server: ServerProcess) -> Iterator[str]:
    """A live run whose device waits, as its checklist says by now."""
    spec = {**scripted_spec(100_000, step_s=0.05, metrics=STARVED), "offload": {"share_device": True}}
    run_id = server.post("/runs", {"spec": spec})["id"]
    wait_for(lambda: check(server, run_id, "device_starved")["verdict"] == "problem", "the device is seen to wait")
    yield run_id
    server.post(f"/runs/{run_id}/stop")
    server.wait_state(run_id, "stopped")


def check(server: ServerProcess, run_id: str, name: str) -> dict[str, Any]:
    return next(one for one in server.get(f"/runs/{run_id}/checks")["checks"] if one["id"] == name)


def told(server: ServerProcess, run_id: str, name: str) -> list[dict[str, Any]]:
    events = server.get(f"/runs/{run_id}/events", types="check", limit=5000)["events"]
    return [event for event in events if event["check"] == name]


async def streamed(server: ServerProcess, run_id: str) -> list[dict[str, Any]]:
    """All that a viewer gets from the beginning on."""
    last = server.get(f"/runs/{run_id}")["last_seq"]
    async with connect(server.stream_url(run_id, after=0)) as socket, asyncio.timeout(20):
        frames: list[dict[str, Any]] = []
        while not frames or frames[-1]["seq"] < last:
            message = await socket.recv()
            if isinstance(message, str):
                frames.append(json.loads(message))
    return frames


async def test_loss_that_explodes_is_a_problem_told_once_in_the_stream_and_after_a_restart(
    server: ServerProcess, exploded: str
) -> None:
    found = check(server, exploded, "divergence")
    assert (found["verdict"], found["step"]) == ("problem", 60)
    assert found["numbers"]["level"] == 90.0 and "rose from" in found["evidence"]
    before = await streamed(server, exploded)
    assert [frame["seq"] for frame in before] == list(range(1, len(before) + 1))
    [frame] = [one for one in before if one["type"] == "check" and one["check"] == "divergence"]
    assert (frame["new"], frame["evidence"], frame["fix"]) == ("problem", found["evidence"], found["fix"])
    server.end()
    server.start()
    assert await streamed(server, exploded) == before
    assert check(server, exploded, "divergence") == found


def test_checks_are_answered_with_a_tag_and_of_an_unknown_run_not_found(server: ServerProcess, exploded: str) -> None:
    first = server.client.get(f"/runs/{exploded}/checks")
    again = server.client.get(f"/runs/{exploded}/checks", headers={"If-None-Match": first.headers["etag"]})
    assert (first.json()["verdict"], again.status_code) == ("problem", 304)
    unknown = "20260101-000000-abcdef"
    assert server.client.get(f"/runs/{unknown}/checks").status_code == 404
    assert server.client.post(f"/runs/{unknown}/checks/divergence/apply").status_code == 404
    missing = server.client.post(f"/runs/{exploded}/checks/nonsense/apply")
    assert (missing.status_code, missing.json()["type"]) == (404, "horizon:check-not-found")
    assert "device_starved" in missing.json()["detail"]


def test_fix_of_a_loss_that_explodes_makes_a_held_clone_with_half_the_learning_rate(
    server: ServerProcess, exploded: str
) -> None:
    answer = server.client.post(
        f"/runs/{exploded}/checks/divergence/apply",
        headers={"Idempotency-Key": "twice", "Horizon-Client": "a test"},
    )
    assert answer.status_code == 201, answer.text
    run = answer.json()["run"]
    assert (run["held"], run["state"], run["cloned_from"]) == (True, "queued", exploded)
    assert run["spec"]["training"]["learning_rate"] == 1e-5
    assert answer.json()["remedy"] == {"by": "clone", "set": {"training.learning_rate": 1e-5}}
    again = server.client.post(
        f"/runs/{exploded}/checks/divergence/apply", headers={"Idempotency-Key": "twice"}, json={"start": False}
    )
    assert again.json()["run"]["id"] == run["id"]
    facts = [one for one in server.get(f"/runs/{exploded}/events")["events"] if one.get("kind") == "fix"]
    assert [one["data"] for one in facts] == [{
        "check": "divergence", "who": "a test", "set": {"training.learning_rate": 1e-5}, "run": run["id"],
    }]  # fmt: skip


def test_fix_of_a_device_that_waits_changes_the_knob_and_is_not_applied_twice(
    server: ServerProcess, starving: str
) -> None:
    before = check(server, starving, "device_starved")
    assert before["remedy"] == {"by": "knobs", "set": {"prefetch_window": 5}}
    answer = server.client.post(f"/runs/{starving}/checks/device_starved/apply")
    assert answer.status_code == 200, answer.text
    [change] = answer.json()["knobs"]["changes"]
    assert (change["knob"], change["old"], change["new"], change["status"]) == ("prefetch_window", 3, 5, "holds")
    refused = server.client.post(f"/runs/{starving}/checks/device_starved/apply")
    assert (refused.status_code, refused.json()["type"]) == (409, "horizon:nothing-to-apply")
    assert "knobs in force" in refused.json()["detail"]
    assert server.get(f"/runs/{starving}")["knobs"]["prefetch_window"] == 5
    fine = server.client.post(f"/runs/{starving}/checks/out_of_memory/apply")
    assert (fine.status_code, "there is nothing to do" in fine.json()["detail"]) == (409, True)


def test_live_run_is_judged_without_a_server_and_by_the_next_one_and_told_nothing_twice(
    server: ServerProcess, starving: str
) -> None:
    before = check(server, starving, "device_starved")
    server.end(signal.SIGKILL)
    alone = run_horizon("doctor", starving, "--json", home=server.home)
    assert alone.exit_code == 1
    [still] = [one for one in json.loads(alone.stdout)["checks"] if one["id"] == "device_starved"]
    assert (still["since"], still["changes"]) == (before["since"], before["changes"])
    assert still["step"] > before["step"]
    changed = run_horizon("doctor", starving, "--apply", "device_starved", home=server.home)
    assert changed.exit_code == 0, changed.output
    assert "prefetch_window: 3 → 5 from optimizer step" in changed.stdout
    server.start()
    step = server.get(f"/runs/{starving}")["step"]
    wait_for(lambda: check(server, starving, "device_starved")["step"] > step, "it is judged on")
    verdicts = [one["new"] for one in told(server, starving, "device_starved")]
    assert verdicts[:2] == ["problem", "unknown"]
    assert [one["old"] for one in told(server, starving, "device_starved")] == ["unknown", *verdicts[:-1]]


def test_command_line_and_client_show_the_checklist_and_apply_a_fix(
    server: ServerProcess, exploded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    shown = run_horizon("doctor", exploded, "--json", home=server.home)
    assert shown.exit_code == 1
    assert json.loads(shown.stdout) == server.get(f"/runs/{exploded}/checks")
    words = run_horizon("doctor", exploded, home=server.home)
    assert words.exit_code == 1
    assert "Loss runs away" in words.stdout and "--apply divergence" in words.stdout
    applied = run_horizon("doctor", exploded, "--apply", "divergence", "--json", home=server.home)
    assert applied.exit_code == 0, applied.output
    assert json.loads(applied.stdout)["run"]["spec"]["training"]["learning_rate"] == 1e-5
    refused = run_horizon("doctor", exploded, "--apply", "out_of_memory", home=server.home)
    assert refused.exit_code == 1 and "there is nothing to do" in refused.stderr
    assert run_horizon("doctor", "--apply", "divergence", home=server.home).exit_code == 2
    with Horizon(server.url) as horizon:
        run = horizon.runs.get(exploded)
        assert {one.id: one.verdict.value for one in run.checks()}["divergence"] == "problem"
        made = run.apply("divergence").run
        assert made is not None and made.held and made.cloned_from == exploded
        with pytest.raises(Conflict):
            run.apply("out_of_memory")
        with pytest.raises(NotFound):
            run.apply("nonsense")


def test_export_and_report_hold_the_checklist(server: ServerProcess, exploded: str) -> None:
    exported = server.get(f"/runs/{exploded}/export", format="json")
    assert exported["checks"] == server.get(f"/runs/{exploded}/checks")["checks"]
    assert any(event["type"] == "check" for event in exported["events"])
    report = server.client.get(f"/runs/{exploded}/export", params={"format": "html"}).text
    assert "Loss runs away" in report and "halve the learning rate" in report
