"""Knobs in a browser: changed while the run runs, answered with the step, refused with the reason, taken back."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import Witness
from tests.e2e.looks import take_pictures
from tests.support.server import ServerProcess, furnish_home

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


@pytest.fixture
def live_run(tmp_path: Path) -> Iterator[tuple[ServerProcess, str]]:
    """A server without torch, and a run on it whose device is full."""
    with ServerProcess(furnish_home(tmp_path / "home")) as server:
        run_id = server.submit(100_000, step_s=0.05, refused_knobs={"max_gpu_blocks": "the device has no memory for 9"})
        with server.stepping(run_id) as live:
            yield live


def test_knobs_changed_in_the_browser_hold_from_the_step_it_shows(
    page: Page, live_run: tuple[ServerProcess, str], shots: Path
) -> None:
    server, run_id = live_run
    witness = Witness()
    witness.watch(page)
    page.goto(f"{server.url}/runs/{run_id}")
    panel = page.get_by_role("complementary", name="Live knobs")
    panel.get_by_role("slider", name="Prefetch window").fill("7")
    panel.get_by_label("Replacement policy").select_option("lru")
    panel.get_by_role("button", name="Apply").click()
    expect(panel.locator("[data-change='1']")).to_contain_text("Prefetch window 3 → 7")
    window, policy = server.get(f"/runs/{run_id}/knobs")["changes"]
    assert (window["new"], policy["new"], window["who"]) == (7, "lru", "browser")
    expect(panel.locator("[data-change='1']")).to_contain_text(f"from step {window['step']:,}")
    expect(panel.get_by_role("button", name="Apply")).to_have_count(0)

    panel.get_by_role("button", name="Undo").click()
    expect(panel.locator("[data-change='3']")).to_contain_text("undoes change 2")
    expect(panel.get_by_label("Replacement policy")).to_have_value("clock_pro")
    assert witness.complaints == []

    witness.expecting_an_outage = True  # the browser writes a line for a refusal's status too
    panel.get_by_role("slider", name="Max device blocks").fill("9")
    panel.get_by_role("button", name="Apply").click()
    expect(panel.get_by_role("alert")).to_contain_text("the device has no memory for 9")
    take_pictures(page, shots, "knobs")
    panel.get_by_role("button", name="Reset").click()
    expect(panel.get_by_role("alert")).to_have_count(0)
