"""What a browser test reads off a page: numbers in labels, what canvases show, whether anything sticks out."""

import re
from pathlib import Path

from playwright.sync_api import Page

SIZES = {"desk": {"width": 1440, "height": 900}, "phone": {"width": 390, "height": 844}}

_CANVAS_DIGEST = """canvas => {
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', {willReadFrequently: true});
  copy.drawImage(canvas, 0, 0);
  const pixels = copy.getImageData(0, 0, canvas.width, canvas.height).data;
  let sum = 0;
  for (let i = 0; i < pixels.length; i += 4) {
    if (pixels[i + 3]) sum = (sum * 31 + pixels[i] + pixels[i + 1] * 3 + pixels[i + 2] * 7 + i) >>> 0;
  }
  return sum;
}"""


def curve_points(page: Page) -> int:
    """Points of the loss curve, as its label tells those who can't see it."""
    chart = page.locator("[data-chart=loss]")
    label = (chart.get_attribute("aria-label") or "") if chart.count() else ""
    found = re.search(r"([0-9,]+) points", label)
    return int(found.group(1).replace(",", "")) if found else 0


def drawn(page: Page, canvas: str) -> int:
    """A digest of a canvas's pixels; 0 where nothing is drawn."""
    return page.locator(canvas).evaluate(_CANVAS_DIGEST)


def sticks_out(page: Page) -> int:
    """Pixels by which the page is wider than the window."""
    return page.evaluate("document.documentElement.scrollWidth - innerWidth")


def running_animations(page: Page) -> int:
    """Animations that run now; a page at rest has none."""
    return page.evaluate("document.getAnimations().filter(a => a.playState === 'running').length")


def take_pictures(page: Page, folder: Path, name: str) -> None:
    """The page on a desk and on a phone, light and dark; none of them wider than its window."""
    for size, viewport in SIZES.items():
        page.set_viewport_size(viewport)  # pyright: ignore[reportArgumentType]
        for theme in ("light", "dark"):
            page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
            page.wait_for_timeout(400)  # the next drawing is at most a tenth of a second away
            assert sticks_out(page) <= 0, f"{name} is wider than a {size}'s window"
            page.screenshot(path=folder / f"{name}-{size}-{theme}.png", full_page=size == "phone")
    page.set_viewport_size(SIZES["desk"])  # pyright: ignore[reportArgumentType]
    page.evaluate("delete document.documentElement.dataset.theme")
