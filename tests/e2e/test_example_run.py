"""The example from the form to the history, in a real browser, with the real engine."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import Server, Witness, wait_for
from tests.e2e.looks import curve_points, drawn, running_animations, take_pictures

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]

LOSS_CANVAS = "[data-chart=loss] canvas"
CELLS = "[data-map] canvas >> nth=1"

SHOW = "delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))"
HIDE = f"Object.defineProperty(document, 'hidden', {{value: true, configurable: true}}); {SHOW.partition('; ')[2]}"


def fill_form(page: Page) -> None:
    """The example with short sequences and few of them, so that steps are quick, and more steps than will be done."""
    page.get_by_role("button", name="Use the example").click()
    expect(page.locator("[data-field='offload.max_gpu_blocks'] input")).not_to_have_value("", timeout=120_000)
    for path, value in {
        "data.sequence_length": "32",
        "training.global_batch_size": "2",
        "training.optimizer_steps": "5000",
    }.items():
        page.locator(f"[data-field='{path}'] input").fill(value)
    expect(page.locator("[data-start-reason]")).to_contain_text("Ready")


def see_it_move(page: Page) -> None:
    """The curve gains points and the map changes, both as numbers and as pixels."""
    wait_for(lambda: curve_points(page) >= 2, "the loss curve has points", 240)
    before = (curve_points(page), drawn(page, LOSS_CANVAS))
    wait_for(lambda: curve_points(page) >= before[0] + 3, "the loss curve grows", 120)
    wait_for(lambda: drawn(page, LOSS_CANVAS) not in (0, before[1]), "the loss curve is drawn anew")
    cells = drawn(page, CELLS)
    assert cells != 0
    wait_for(lambda: drawn(page, CELLS) != cells, "the map shows another moment", 120)


def see_it_rest_while_hidden(page: Page, witness: Witness) -> None:
    """A tab that nobody looks at asks for fewer frames and draws nothing, and catches up when it is looked at."""
    page.evaluate(HIDE)
    wait_for(lambda: '{"residency_hz":0.2}' in witness.sent, "the hidden page asks for fewer residency frames")
    page.wait_for_timeout(300)  # what was asked for before may still be drawn
    loss, points = drawn(page, LOSS_CANVAS), curve_points(page)
    wait_for(lambda: curve_points(page) >= points + 2, "the hidden page still hears of steps", 120)
    assert drawn(page, LOSS_CANVAS) == loss
    page.evaluate(SHOW)
    wait_for(lambda: drawn(page, LOSS_CANVAS) != loss, "the page in view draws again")


def go_on(page: Page, steps: int) -> None:
    """The run goes on where it stopped, on the same page and in the same curve; then it is stopped again."""
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".run[data-state=running]")).to_be_visible(timeout=120_000)
    wait_for(lambda: curve_points(page) >= steps + 2, "the curve goes on", 120)
    page.get_by_role("button", name="Stop…").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop and save the model").click()
    expect(page.locator(".run[data-state=stopped]")).to_be_visible(timeout=120_000)


def test_example_launched_from_the_form_is_watched_stopped_and_kept(
    page: Page, server: Server, witness: Witness, shots: Path
) -> None:
    page.goto(server.url)
    expect(page.get_by_role("heading", name="No runs yet")).to_be_visible()
    take_pictures(page, shots, "empty")
    page.get_by_role("link", name="New run", exact=True).first.click()
    expect(page.get_by_role("button", name="Start run")).to_be_disabled()
    fill_form(page)
    take_pictures(page, shots, "new")

    page.get_by_role("button", name="Start run").dblclick()
    runs = wait_for(lambda: server.get("/runs")["runs"], "the data was looked at, and the run is made", 120)
    expect(page).to_have_url(f"{server.url}/runs/{runs[0]['id']}", timeout=30_000)
    see_it_move(page)
    see_it_rest_while_hidden(page, witness)
    assert running_animations(page) == 0
    take_pictures(page, shots, "run")

    cell = page.locator("[data-map]")
    cell.focus()
    page.keyboard.press("End")
    expect(page.locator("#map-says")).to_contain_text("block")

    page.get_by_role("button", name="Stop…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Stop this run?")
    dialog.get_by_role("button", name="Stop and save the model").click()
    expect(page.locator("[data-state=stopped]").first).to_be_visible(timeout=120_000)
    expect(page.get_by_text("is saved.")).to_be_visible()

    steps = server.get("/runs")["runs"][0]["step"]
    page.reload()
    expect(page.locator(".run[data-state=stopped]")).to_be_visible()
    wait_for(lambda: curve_points(page) == steps, f"the reloaded curve has all {steps} points")
    go_on(page, steps)
    page.get_by_role("link", name="Runs", exact=True).first.click()
    row = page.locator("[data-run]")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("stopped")
    take_pictures(page, shots, "runs")
