"""A run in a browser: paused, saved while it holds, and continued where it stood."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import Witness
from tests.e2e.looks import take_pictures
from tests.support.server import ServerProcess, furnish_home, scripted_spec, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


@pytest.fixture
def live_run(tmp_path: Path) -> Iterator[tuple[ServerProcess, str]]:
    """A run whose worker is the real one around a fake engine."""
    worker = {"HORIZON_WORKER_MODULE": "tests.support.fake_worker", "HORIZON_FAKE_STEP_S": "0.1"}
    with ServerProcess(furnish_home(tmp_path / "home"), **worker) as server:
        run_id = server.post("/runs", {"spec": scripted_spec(100_000) | {"notes": ""}})["id"]
        with server.stepping(run_id) as live:
            yield live


def checkpoints(server: ServerProcess, run_id: str) -> list[int]:
    return [one["step"] for one in server.get(f"/runs/{run_id}/checkpoints")["checkpoints"]]


def test_run_is_paused_saved_and_continued_by_the_buttons_of_its_page(
    page: Page, live_run: tuple[ServerProcess, str], shots: Path
) -> None:
    server, run_id = live_run
    witness = Witness()
    witness.watch(page)
    page.goto(f"{server.url}/runs/{run_id}")
    run = page.locator(".run")
    expect(run).to_have_attribute("data-state", "running")

    page.get_by_role("button", name="Checkpoint now").click()
    expect(page.get_by_text("A checkpoint is written after this optimizer step.")).to_be_visible()
    (saved,) = wait_for(lambda: checkpoints(server, run_id), "the checkpoint is written while the run goes on")

    page.get_by_role("button", name="Pause").click()
    expect(run).to_have_attribute("data-state", "paused")
    expect(page.get_by_text("Paused between two optimizer steps.")).to_be_visible()
    paused = server.wait_state(run_id, "paused")
    expect(page.get_by_text(f"Paused by browser (after optimizer step {paused['step']}).")).to_be_visible()
    take_pictures(page, shots, "paused")

    page.get_by_role("button", name="Checkpoint now").click()
    wait_for(lambda: checkpoints(server, run_id) == [saved, paused["step"]], "it is saved while it holds")
    assert server.get(f"/runs/{run_id}")["step"] == paused["step"]

    page.locator("header").get_by_role("button", name="Continue").click()
    expect(run).to_have_attribute("data-state", "running")
    expect(page.get_by_text("Paused between two optimizer steps.")).to_have_count(0)
    server.wait_step(run_id, paused["step"] + 2)
    expect(page.get_by_role("button", name="Pause")).to_be_enabled()
    told = [(event["state"], event["who"]) for event in server.all_events(run_id) if event["type"] == "state"]
    assert told[-2:] == [("paused", "worker"), ("running", "worker")]
    steps = server.get(f"/runs/{run_id}/metrics", keys="train/loss")["series"]["train/loss"]["x"]
    assert steps == list(range(1, len(steps) + 1))
    assert witness.complaints == []
