"""A browser at a server that wants a token; and names that are markup, on its pages."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import ConsoleMessage, Page, expect

from tests.e2e.looks import SIZES, sticks_out
from tests.support.server import ServerProcess, furnish_home, scripted_spec

TOKEN = "the-token-of-the-browser-test"
NAMES = Path(__file__).parents[1] / "cases" / "inputs" / "E12" / "names.json"

pytestmark = pytest.mark.e2e


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(furnish_home(tmp_path / "home"), HORIZON_TOKEN=TOKEN) as server:
        server.client.headers["authorization"] = f"Bearer {TOKEN}"
        yield server


def test_page_asks_for_the_token_and_shows_names_that_are_markup_as_they_are(page: Page, closed: ServerProcess) -> None:
    asked: list[str] = []
    violations: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if "Content Security Policy" in message.text:
            violations.append(message.text)

    page.on("console", note)
    page.on("request", lambda request: asked.append(request.url))
    page.on("websocket", lambda socket: asked.append(socket.url))
    names: list[str] = json.loads(NAMES.read_text())
    markup = next(name for name in names if name.startswith("<img"))
    body = {"spec": scripted_spec(3) | {"name": markup}}
    run = closed.client.post("/runs", json=body).raise_for_status().json()
    closed.wait_state(run["id"], "finished")

    page.goto(closed.url)
    title = page.title()
    field = page.get_by_placeholder("Access token")
    field.fill("not-the-token-of-this-test")
    field.press("Enter")
    expect(page.get_by_text("The server refused that token.")).to_be_visible()
    field.fill(TOKEN)
    field.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_text(markup).first).to_be_visible()
    assert page.title() == title
    page.get_by_text(markup).first.click()
    expect(page.get_by_role("heading", name=markup)).to_be_visible()
    expect(page.locator("canvas").first).to_be_visible()
    expect(page.locator("[data-lamp]:visible")).to_have_attribute("data-lamp", "live")
    assert page.title() != "pwned"
    page.goto(f"{closed.url}/new")
    expect(page.get_by_role("main")).to_be_visible()
    page.goto(f"{closed.url}/docs")
    expect(page.get_by_role("heading", name="Horizon API")).to_be_visible()
    page.set_viewport_size(SIZES["phone"])  # pyright: ignore[reportArgumentType]
    assert sticks_out(page) <= 0
    assert violations == []
    assert [url for url in asked if TOKEN in url] == []
