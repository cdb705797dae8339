"""The page for everybody: colours, small windows, the keyboard alone, and what is read aloud."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser import OpenPage, settle
from tests.sort.pool import SortedPool, make_pool

# For every text on the page, its contrast with the ground it stands on. A text over a picture
# has a ground of its own there.
CONTRASTS = """() => {
  const parse = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
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
    assert page.locator("#theme").get_attribute("aria-label") == "Colours: dark"
    page.locator("#theme").click()
    assert page.locator("#theme").inner_text() == "◐ Auto"
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
