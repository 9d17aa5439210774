"""Pages beside a run: refusals in the form, what is remembered, and a server that goes and comes back."""

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import Server, Witness, wait_for
from tests.e2e.looks import sticks_out

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def test_spec_pasted_as_yaml_fills_the_form_and_faults_are_told_at_their_place(
    page: Page, server: Server, witness: Witness
) -> None:
    page.goto(f"{server.url}/new")
    page.get_by_role("button", name="YAML", exact=True).click()
    page.get_by_label("YAML").fill("model: {path: models/none}\ndata: {path: [\n")
    expect(page.locator("#yaml-says")).to_contain_text("Line 2")
    expect(page.locator("[data-start-reason]")).to_contain_text("the YAML has an error")
    text = "# mine\nmodel: {path: models/none}\ndata: {path: data/none.txt}\noffload: {max_gpu_blocks: 50}\n"
    page.get_by_label("YAML").fill(text)
    page.get_by_role("button", name="Form", exact=True).click()
    expect(page.locator("[data-field='offload.max_gpu_blocks'] input")).to_have_value("50")

    window = page.locator("[data-field='offload.prefetch_window'] input")
    window.fill("99")
    expect(page.locator("[data-field='offload.prefetch_window']")).to_contain_text("at most 64")
    expect(page.get_by_role("button", name="Start run")).to_be_disabled()
    window.fill("5")
    page.get_by_role("button", name="YAML", exact=True).click()
    expect(page.get_by_label("YAML")).to_have_value(
        text.replace("offload: {max_gpu_blocks: 50}", "offload: {max_gpu_blocks: 50, prefetch_window: 5}")
    )

    witness.expecting_an_outage = True  # a refusal's status too is written to the console by the browser
    page.get_by_role("button", name="Start run").click()
    expect(page.get_by_role("alert")).to_contain_text("models/none")
    assert server.get("/runs")["total"] == 0


def test_language_and_theme_chosen_are_there_on_the_next_visit(page: Page, server: Server, witness: Witness) -> None:
    page.goto(server.url)
    page.get_by_role("button", name="Switch to Chinese").click()
    expect(page.get_by_role("heading", name="还没有运行")).to_be_visible()
    page.get_by_role("button", name="主题：跟随系统").click()
    page.get_by_role("button", name="主题：浅色").click()
    page.reload()
    expect(page.get_by_role("heading", name="还没有运行")).to_be_visible()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
    assert sticks_out(page) <= 0


def test_history_filtered_in_the_address_is_shown_so_and_keeps_what_is_typed(
    page: Page, server: Server, witness: Witness
) -> None:
    page.goto(f"{server.url}/?state=failed&q=llama")
    expect(page.get_by_role("searchbox")).to_have_value("llama")
    expect(page.get_by_text("No run matches.")).to_be_visible()
    page.get_by_role("searchbox").fill("qwen")
    expect(page).to_have_url(f"{server.url}/?state=failed&q=qwen")
    page.get_by_role("button", name="Show all runs").click()
    expect(page.get_by_role("heading", name="No runs yet")).to_be_visible()


def test_server_killed_and_started_again_turns_the_lamp_and_back(page: Page, server: Server, witness: Witness) -> None:
    page.goto(server.url)
    lamp = page.locator("[data-lamp]:visible")
    expect(lamp).to_have_attribute("data-lamp", "live")
    witness.expecting_an_outage = True
    server.kill()
    expect(lamp).to_have_attribute("data-lamp", "offline", timeout=30_000)
    expect(page.get_by_text("The server does not answer.").first).to_be_visible()
    server.start()
    expect(lamp).to_have_attribute("data-lamp", "live", timeout=30_000)


def test_address_of_no_run_says_so(page: Page, server: Server, witness: Witness) -> None:
    witness.expecting_an_outage = True
    page.goto(f"{server.url}/runs/20200101-000000-000000")
    expect(page.get_by_text("There is no run 20200101-000000-000000.")).to_be_visible()
    page.get_by_role("link", name="To the runs").click()
    wait_for(lambda: page.url == f"{server.url}/", "the history is open")
