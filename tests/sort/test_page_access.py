"""The page for everybody: colours, small windows, the keyboard alone, and what is read aloud."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser import CONTRASTS, UNNAMED, OpenPage, settle
from tests.sort.pool import SortedPool, make_pool


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> SortedPool:
    return make_pool(tmp_path_factory.mktemp("access"), 90, on_disk=True)


def background(page: Any) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(pool: SortedPool, open_page: OpenPage, scheme: str) -> None:
    page = open_page(pool.page, color_scheme=scheme)
    page.locator("#gallery-outlying .card").first.focus()
    for key in ("o", "ArrowRight", "1"):
        page.keyboard.press(key)
    page.wait_for_timeout(300)  # the buttons' colours fade
    seen, poor = page.evaluate(CONTRASTS)
    assert seen > 60
    assert poor == []
    page.keyboard.press("Enter")
    page.wait_for_timeout(300)
    assert page.evaluate(CONTRASTS)[1] == []


def test_light_and_dark(pool: SortedPool, open_page: OpenPage) -> None:
    light = background(open_page(pool.page, color_scheme="light"))
    page = open_page(pool.page, color_scheme="dark")
    dark = background(page)
    assert light != dark
    page.locator("#theme").click()  # from the system's to light
    assert background(page) == light
    page.reload()
    assert background(page) == light
    page.locator("#theme").click()
    assert background(page) == dark
    assert page.locator("#theme").get_attribute("aria-label") == "Dark colours"
    page.locator("#theme").click()
    assert page.locator("#theme").inner_text() == "Auto"
    assert background(page) == dark


@pytest.mark.parametrize("width", [320, 390, 700, 1000, 1600])
def test_no_window_scrolls_sideways(pool: SortedPool, open_page: OpenPage, width: int) -> None:
    page = open_page(pool.page, viewport={"width": width, "height": 800})
    page.evaluate("document.querySelector('#commands').open = true")
    for place in ("#outlying", "#borderline", "#classes", "#all", "#left-out"):
        page.locator(place).scroll_into_view_if_needed()
        settle(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator("#search").fill("onerror")
    settle(page)
    page.locator("#browse-list .card:visible").first.click()
    box = page.locator("#viewer").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_walk_by_keyboard_alone(pool: SortedPool, open_page: OpenPage) -> None:
    page = open_page(pool.page)
    where = """() => { const at = document.activeElement;
      return at.id || at.closest("ul")?.id || at.closest("[id]")?.id || at.tagName; }"""
    stops = []
    for _ in range(60):
        page.keyboard.press("Tab")
        stops.append(page.evaluate(where))
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        assert page.evaluate(outline) != "none", stops
        if stops[-1] == "browse-list":
            break
    expected = [
        *("help-button", "theme", "slider", "exact", "download-predictions"),
        *("more-outlying", "gallery-outlying", "gallery-inside", "gallery-outside"),
        *("search", "show", "order", "browse-list"),
    ]
    assert [stop for stop in stops if stop in expected] == expected  # each once, in this order

    # Within the long list, arrows go on; what leaves the window is scrolled to.
    first = page.evaluate("document.activeElement.closest('li').ariaPosInSet")
    assert first == "1"
    for _ in range(8):
        page.keyboard.press("ArrowDown")
    settle(page)
    inside = """() => { const card = document.activeElement.getBoundingClientRect();
      const box = document.getElementById("browse").getBoundingClientRect();
      return card.top >= box.top - 1 && card.bottom <= box.bottom + 1; }"""
    assert int(page.evaluate("document.activeElement.closest('li').ariaPosInSet")) > 30
    assert page.evaluate(inside)
    page.keyboard.press("Enter")
    assert page.locator("#viewer").is_visible()
    page.keyboard.press("Escape")
    assert page.evaluate(where) == "browse-list"
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()


def test_everything_has_a_name_and_an_id_of_its_own(pool: SortedPool, open_page: OpenPage) -> None:
    page = open_page(pool.page)
    assert page.evaluate(UNNAMED) == []
    page.locator("#gallery-outlying .card").first.click()
    assert page.evaluate(UNNAMED) == []
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((node) => node.id)")
    assert len(ids) == len(set(ids))
    assert page.evaluate("document.documentElement.lang") == "en"
    assert page.locator("h1").count() == 1


def test_reduced_motion_is_respected(pool: SortedPool, open_page: OpenPage) -> None:
    moving = "getComputedStyle(document.documentElement).scrollBehavior"
    fading = "getComputedStyle(document.querySelector('.card')).transitionDuration"
    page = open_page(pool.page, reduced_motion="reduce")
    assert (page.evaluate(moving), page.evaluate(fading)) == ("auto", "0s")
    page = open_page(pool.page, reduced_motion="no-preference")
    assert (page.evaluate(moving), page.evaluate(fading)) != ("auto", "0s")
