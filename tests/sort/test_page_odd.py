"""Pools at the edge: one picture, none, many classes, scores that are no numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.browser import OpenPage, settle
from tests.sort.pool import THRESHOLD, make_pool


def counts(page: Any) -> tuple[str, str]:
    return page.locator("#kept").inner_text(), page.locator("#aside").inner_text()


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_pictures(tmp_path: Path, open_page: OpenPage, count: int) -> None:
    pool = make_pool(tmp_path, count, ("only",), names=["a.png", "b.png"][:count])
    page = open_page(pool.page)
    aside = int(pool.aside(THRESHOLD).sum())
    assert counts(page) == (str(count - aside), str(aside))
    page.locator("#slider").press("End")
    settle(page)
    assert counts(page) == (str(count), "0")
    assert page.locator("#gallery-outside .empty").inner_text() == "No picture is put aside."
    page.locator("#slider").press("Home")
    settle(page)
    assert counts(page) == ("0", str(count))
    page.locator("#classes").scroll_into_view_if_needed()
    settle(page)
    assert page.locator(".class-row .empty").first.inner_text() == "No picture is kept."


@pytest.mark.parametrize("value", [0.0, 1.5, float("inf"), float("nan")])
def test_scores_that_are_all_the_same(tmp_path: Path, open_page: OpenPage, value: float) -> None:
    pool = make_pool(tmp_path, 12, scores=np.full(12, value, dtype=np.float32))
    page = open_page(pool.page)
    aside = int(pool.aside(THRESHOLD).sum())
    assert counts(page) == (str(12 - aside), str(aside))


def test_scores_that_are_no_numbers_among_others(tmp_path: Path, open_page: OpenPage) -> None:
    scores = np.linspace(-1, 2, 40, dtype=np.float32)
    scores[[3, 7, 11]] = np.inf, np.nan, -np.inf
    pool = make_pool(tmp_path, 40, scores=scores)
    page = open_page(pool.page)
    aside = int(pool.aside(THRESHOLD).sum())
    assert counts(page) == (str(40 - aside), str(aside))
    first = page.locator("#gallery-outlying .card").first
    assert first.get_attribute("data-index") == "3"
    assert first.locator(".score").inner_text() == "inf"
    with page.expect_download() as waiting:
        page.locator("#download-predictions").click()
    lines = Path(waiting.value.path()).read_text(encoding="utf-8").splitlines()
    assert sum(line.endswith(",true") for line in lines) == aside
    assert [sum(f",{odd}," in line for line in lines) for odd in ("inf", "nan", "-inf")] == [
        1,
        1,
        1,
    ]


def test_many_classes_with_names_of_every_kind(tmp_path: Path, open_page: OpenPage) -> None:
    classes = ("<b>bold</b>", 'comma, and "quotes"', "x" * 180, *(f"class {i}" for i in range(150)))
    pool = make_pool(tmp_path, 400, classes, on_disk=True)
    page = open_page(pool.page, viewport={"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator(".class-row").count() == 153
    assert page.locator("#classes b").count() == 0
    page.locator(".class-row").last.scroll_into_view_if_needed()
    settle(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.locator("#show").select_option("c2")
    settle(page)
    kept = (pool.label == 2) & ~pool.aside(THRESHOLD)
    assert page.locator("#matches").inner_text() == f"{int(kept.sum())} of 400 pictures"
    page.locator("#show").select_option("all")
    settle(page)
    page.locator("#browse-list .card:visible").first.focus()
    page.keyboard.press("c")
    page.keyboard.type('AND "q')
    assert page.locator("#viewer-marks button:visible").all_inner_texts() == [
        "Outlier O",
        f"{classes[1]} 2",
    ]
    page.keyboard.press("Enter")
    settle(page)
    assert page.locator("#viewer-marks [aria-pressed=true]").all_inner_texts() == [
        f"{classes[1]} 2"
    ]
    page.keyboard.press("Escape")
    with page.expect_download() as waiting:
        page.locator("#download-decisions").click()
    text = Path(waiting.value.path()).read_text(encoding="utf-8")
    assert text.splitlines()[1].endswith(',"comma, and ""quotes""",false')
