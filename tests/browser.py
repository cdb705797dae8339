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
