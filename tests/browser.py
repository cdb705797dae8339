"""A real Chromium that opens pages from disk and notes whatever goes wrong in them."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

# For every text on the page, its contrast with the ground it stands on. A text over a picture
# has a ground of its own there.
CONTRASTS = """() => {
  const parse = (text) => {
    const found = (text.match(/[\\d.]+/g) ?? []).map(Number);
    return text.startsWith("color(") ? found.map((v, i) => (i < 3 ? 255 * v : v)) : found;
  };
  const light = ([r, g, b]) => {
    const linear = (v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    const [x, y, z] = [r, g, b].map((v) => linear(v / 255));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] > 0.99) return colour;
    }
    return [255, 255, 255];
  };
  const poor = [];
  let seen = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !node.checkVisibility()) continue;
    if (["SCRIPT", "STYLE", "NOSCRIPT", "OPTION"].includes(node.tagName)) continue;
    const [a, b] = [light(parse(getComputedStyle(node).color)), light(ground(node))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    seen++;
    const what = node.className || node.id || node.tagName;
    if (contrast < 4.5) poor.push(`${what} ${contrast.toFixed(2)}`);
  }
  return [seen, poor];
}"""

UNNAMED = """() => [...document.querySelectorAll(
    "button, input, select, a, [role]:not([role=status]), dialog, aside")]
  .filter((node) => node.checkVisibility())
  .filter((node) => !(node.getAttribute("aria-label") || node.textContent.trim() || node.title
    || node.labels?.length || document.getElementById(node.getAttribute("aria-labelledby"))))
  .map((node) => node.outerHTML.slice(0, 80))"""


@contextmanager
def chromium() -> Iterator[Any]:
    """A running browser; the test is skipped, with the reason, where there is none."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = next((path for path in map(shutil.which, NAMES) if path), None)
    if found is None:
        pytest.skip("there is no Chromium on this machine (apt-get install chromium)")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


OpenPage = Callable[..., Any]
READY = "document.documentElement.dataset.ready !== undefined"


@contextmanager
def opener(browser: Any) -> Iterator[OpenPage]:
    """A function that opens a file; at the end nothing may have gone wrong or been fetched."""
    troubles: list[str] = []
    contexts = []

    def open_page(path: Path, **options: Any) -> Any:
        options = {"viewport": {"width": 1280, "height": 900}, **options}
        context = browser.new_context(accept_downloads=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: troubles.append(f"console {said.type}: {said.text}"))
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.on(
            "request",
            lambda request: (
                None
                if request.url.startswith(("file:", "data:", "blob:"))
                else troubles.append(f"request: {request.url}")
            ),
        )
        page.goto(path.as_uri())
        until(page, READY)
        settle(page)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert troubles == []


def settle(page: Any) -> None:
    """None once two animation frames have gone by: whatever was asked for is drawn."""
    page.evaluate("() => new Promise(f => requestAnimationFrame(() => requestAnimationFrame(f)))")


def until(page: Any, expression: str, seconds: float = 15.0) -> None:
    """None once the expression is true; Playwright's own wait is refused by the page's policy."""
    end = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"still not so: {expression}"
        time.sleep(0.02)
