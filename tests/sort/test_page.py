"""The page of a sorted folder, driven in a real browser as a person would."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.browser import READY, OpenPage, settle, until
from tests.sort.pool import CLASSES, EVIL, FORMULA, THRESHOLD, SortedPool, make_pool

COUNT = 90


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> SortedPool:
    return make_pool(tmp_path_factory.mktemp("page"), COUNT, on_disk=True)


def move(page: Any, step_from_low: float) -> float:
    """The new boundary, after putting the slider this part of the way from its low end."""
    page.locator("#slider").evaluate(
        """(slider, part) => {
          const [low, high] = [Number(slider.min), Number(slider.max)];
          slider.value = Math.round(low + part * (high - low));
          slider.dispatchEvent(new Event("input", { bubbles: true }));
        }""",
        step_from_low,
    )
    settle(page)
    return threshold_in_command(page)


def threshold_in_command(page: Any) -> float:
    command = page.locator("#sort-command").inner_text()
    return float(command.replace("=", " ").split("--threshold ")[1])


def downloaded(page: Any, button: str) -> tuple[str, list[dict[str, str]]]:
    """The name and the rows of the file that a button hands over."""
    with page.expect_download() as waiting:
        page.locator(button).click()
    text = Path(waiting.value.path()).read_text(encoding="utf-8")
    return waiting.value.suggested_filename, list(csv.DictReader(io.StringIO(text)))


def shown(page: Any, gallery: str) -> list[int]:
    """The pictures in a gallery, by their row."""
    cards = page.locator(f"{gallery} .card:visible")
    return [int(cards.nth(i).get_attribute("data-index")) for i in range(cards.count())]


def number(page: Any, place: str) -> int:
    return int(page.locator(place).inner_text().replace(",", ""))


# --- the boundary -----------------------------------------------------------------------------


def test_the_page_opens_at_the_boundary_that_was_sorted_by(
    pool: SortedPool, open_page: OpenPage
) -> None:
    page = open_page(pool.page)
    aside = int(pool.aside(THRESHOLD).sum())
    assert (number(page, "#kept"), number(page, "#aside")) == (COUNT - aside, aside)
    said = page.locator("#lede").inner_text().replace("\u00a0", " ")
    assert f"{aside} put aside ({100 * aside / COUNT:.1f} %)" in said
    assert "estimates 40 % outliers in the pool it learned from, between 31 % and 52 %" in said
    assert "2 files left out" in said
    assert page.locator("#rejected td").all_inner_texts() == [
        *("broken <b>.jpg", "damaged"),
        *("empty.jpg", "empty file"),
    ]
    assert page.locator("#reset").is_hidden()


@pytest.mark.parametrize("part", [0.0, 0.3, 0.55, 0.8, 1.0])
def test_the_slider_moves_counts_galleries_and_export(
    pool: SortedPool, open_page: OpenPage, part: float
) -> None:
    page = open_page(pool.page)
    threshold = move(page, part)
    aside = pool.aside(threshold)
    assert (number(page, "#kept"), number(page, "#aside")) == (
        int((~aside).sum()),
        int(aside.sum()),
    )

    # The nearest pictures on either side, nearest first.
    order = np.argsort(pool.score, kind="stable")
    inside = shown(page, "#gallery-inside")
    outside = shown(page, "#gallery-outside")
    assert inside == order[~aside[order]][::-1][: len(inside)].tolist()
    assert outside == order[aside[order]][: len(outside)].tolist()
    assert bool(inside) == bool((~aside).any())
    assert bool(outside) == bool(aside.any())
    assert shown(page, "#gallery-outlying")[:5] == order[::-1][:5].tolist()

    # Every class by itself: how many are kept, and which are the surest.
    page.locator("#classes").scroll_into_view_if_needed()
    for c, name in enumerate(CLASSES):
        row = page.locator(".class-row").nth(c)
        row.scroll_into_view_if_needed()
        until(page, f"document.querySelectorAll('.class-row h3 .soft')[{c}].textContent !== ''")
        kept = np.flatnonzero((pool.label == c) & ~aside)
        of_all = int((pool.label == c).sum())
        assert row.locator("h3").inner_text().endswith(f"{name} {len(kept)} kept of {of_all}")
        surest = kept[np.argsort(-pool.confidence[kept], kind="stable")]
        first = row.locator("ul").first.locator(".card")
        found = [int(first.nth(i).get_attribute("data-index")) for i in range(first.count())]
        assert found == surest[: len(found)].tolist()
        assert bool(found) == bool(len(kept))

    name, rows = downloaded(page, "#download-predictions")
    assert name == "predictions.csv"
    assert [row["is_outlier"] == "true" for row in rows] == aside.tolist()


def test_all_predictions_are_those_of_the_csv_file(pool: SortedPool, open_page: OpenPage) -> None:
    _, rows = downloaded(open_page(pool.page), "#download-predictions")
    with (pool.out / "predictions.csv").open(newline="", encoding="utf-8") as file:
        written = list(csv.DictReader(file))
    assert [row.keys() for row in rows] == [row.keys() for row in written]
    for ours, theirs in zip(rows, written, strict=True):
        assert ours["path"].removeprefix("./") == theirs["path"]
        assert (ours["label"], ours["is_outlier"]) == (theirs["label"], theirs["is_outlier"])
        for column in ("confidence", "outlier_score"):
            assert np.float32(ours[column]) == np.float32(theirs[column])
    assert {row["path"] for row in rows if row["path"][0] in "=+-@"} == set()


def test_the_keyboard_and_the_number_field_move_the_boundary(
    pool: SortedPool, open_page: OpenPage
) -> None:
    page = open_page(pool.page)
    page.keyboard.press("b")
    before = threshold_in_command(page)
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    settle(page)
    assert threshold_in_command(page) > before
    said = page.locator("#slider").get_attribute("aria-valuetext").replace("\u00a0", " ")
    assert f"{number(page, '#kept')} kept, {number(page, '#aside')} put aside" in said
    # A resting slider is spoken.
    until(page, "document.getElementById('counts').textContent.includes('put aside')")

    page.locator("#exact").fill("-1.25")
    page.locator("#exact").press("Enter")
    settle(page)
    assert threshold_in_command(page) == -1.25
    assert "--threshold=-1.25" in page.locator("#sort-command").inner_text()
    assert number(page, "#aside") == int(pool.aside(-1.25).sum())
    page.locator("#reset").click()
    settle(page)
    assert threshold_in_command(page) == THRESHOLD
    assert number(page, "#aside") == int(pool.aside(THRESHOLD).sum())


def test_a_boundary_that_is_a_pictures_own_score_keeps_it(
    pool: SortedPool, open_page: OpenPage
) -> None:
    page = open_page(pool.page)
    for row in range(0, COUNT, 9):
        page.locator("#exact").fill(str(pool.score[row]))  # as short as 32 bits need it
        page.locator("#exact").press("Enter")
        settle(page)
        assert np.float32(threshold_in_command(page)) == pool.score[row]
        assert number(page, "#aside") == int((pool.score > pool.score[row]).sum())
        assert row in shown(page, "#gallery-inside")[:1]


def test_the_histogram_can_be_dragged(pool: SortedPool, open_page: OpenPage) -> None:
    page = open_page(pool.page)
    box = page.locator("#histogram").bounding_box()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.9 * box["width"], box["y"] + 20, steps=4)
    page.mouse.up()
    settle(page)
    low, high = (float(page.locator("#slider").get_attribute(end)) for end in ("min", "max"))
    at = float(page.locator("#slider").input_value())
    assert 0.87 < (at - low) / (high - low) < 0.93
    assert number(page, "#aside") == int(pool.aside(threshold_in_command(page)).sum())


# --- decisions --------------------------------------------------------------------------------


def test_marking_by_keyboard_and_the_decisions(pool: SortedPool, open_page: OpenPage) -> None:
    page = open_page(pool.page)
    assert page.locator("#download-decisions").is_disabled()
    cards = page.locator("#gallery-outlying .card")
    rows = shown(page, "#gallery-outlying")
    cards.first.focus()
    for key in ("o", "ArrowRight", "2", "ArrowRight", "k", "ArrowRight", "1", "u"):
        page.keyboard.press(key)
    settle(page)
    assert cards.nth(0).locator(".mark").text_content() == "marked ▲ outlier"
    assert cards.nth(1).locator(".mark").text_content() == f"marked ● {CLASSES[1]}"
    assert cards.nth(3).locator(".mark").is_hidden()
    heard = cards.nth(0).evaluate("card => card.textContent")
    assert "marked ▲ outlier" in heard
    assert ", put aside: " in heard
    assert page.locator("#said").inner_text().endswith("mark taken back.")
    assert page.locator("#marked").inner_text() == "3 marked: 1 as an outlier, 2 as a class."

    name, decisions = downloaded(page, "#download-decisions")
    assert name == "decisions.csv"
    expected = {
        rows[0]: ("", "true"),
        rows[1]: (CLASSES[1], "false"),
        rows[2]: (CLASSES[int(pool.label[rows[2]])], "false"),
    }
    assert list(decisions[0]) == ["path", "label", "is_outlier"]
    assert [row["path"].removeprefix("./") for row in decisions] == [
        pool.names[i] for i in sorted(expected)
    ]
    assert [(row["label"], row["is_outlier"]) for row in decisions] == [
        expected[i] for i in sorted(expected)
    ]

    # They outlive a reload, and only a person takes them back.
    page.reload()
    until(page, READY)
    settle(page)
    assert page.locator("#marked").inner_text().startswith("3 marked")
    page.once("dialog", lambda dialog: dialog.accept())
    page.locator("#clear").click()
    settle(page)
    assert page.locator("#marked").inner_text().startswith("Nothing marked yet.")
    assert page.locator("#download-decisions").is_disabled()


def test_a_path_that_a_spreadsheet_would_run_is_the_same_path_and_harmless(
    pool: SortedPool, open_page: OpenPage
) -> None:
    page = open_page(pool.page)
    page.locator("#search").fill("calc")
    settle(page)
    page.locator("#browse-list .card:visible").first.focus()
    page.keyboard.press("o")
    settle(page)
    _, rows = downloaded(page, "#download-decisions")
    assert rows == [{"path": f"./{FORMULA}", "label": "", "is_outlier": "true"}]


def test_enlarging(pool: SortedPool, open_page: OpenPage) -> None:
    page = open_page(pool.page)
    rows = shown(page, "#gallery-inside")
    page.locator("#gallery-inside .card").first.click()
    viewer = page.locator("#viewer")
    assert viewer.is_visible()
    assert page.locator("#viewer-title").inner_text() == pool.names[rows[0]]
    assert page.locator("#viewer-before").is_disabled()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("3")
    settle(page)
    assert page.locator("#viewer-title").inner_text() == pool.names[rows[1]]
    pressed = page.locator("#viewer-marks [aria-pressed=true]")
    assert pressed.all_inner_texts() == [f"{CLASSES[2]} 3"]
    page.locator("#viewer-marks button").first.click()
    settle(page)
    assert pressed.all_inner_texts() == ["Outlier O"]
    page.keyboard.press("Escape")
    assert viewer.is_hidden()
    focused = "document.activeElement.closest('ul').id + document.activeElement.dataset.index"
    assert page.evaluate(focused) == f"gallery-inside{rows[0]}"
    assert (
        page.locator("#gallery-inside .card").nth(1).locator(".mark").text_content()
        == "marked ▲ outlier"
    )


def test_enlarging_shows_the_file_itself_where_it_still_lies(
    tmp_path: Path, open_page: OpenPage
) -> None:
    names = ["a b#c?.png", "deep/é%20.png", *(f"{i}.png" for i in range(6))]
    pool = make_pool(tmp_path, len(names), names=names, on_disk=True)
    page = open_page(pool.page)
    for name in names[:2]:
        page.locator("#search").fill(name)
        settle(page)
        page.locator("#browse-list .card:visible").first.click()
        until(page, "document.getElementById('viewer-picture').src.startsWith('file:')")
        page.keyboard.press("Escape")


# --- finding ----------------------------------------------------------------------------------


def test_search_filter_and_order(pool: SortedPool, open_page: OpenPage) -> None:
    page = open_page(pool.page)
    page.locator("#all").scroll_into_view_if_needed()
    page.keyboard.press("/")
    page.keyboard.type("SHOOT_3/")
    settle(page)
    wanted = [i for i, name in enumerate(pool.names) if "shoot_3/" in name]
    by_score = sorted(wanted, key=lambda i: -pool.score[i])
    assert page.locator("#matches").inner_text() == f"{len(wanted)} of {COUNT} pictures"
    assert sorted(shown(page, "#browse-list")) == sorted(wanted)
    places = page.locator("#browse-list li:visible")
    at = {
        int(places.nth(i).get_attribute("aria-posinset")): int(
            places.nth(i).locator(".card").get_attribute("data-index")
        )
        for i in range(places.count())
    }
    assert [at[place] for place in sorted(at)] == by_score

    page.locator("#search").fill("")
    page.locator("#show").select_option("aside")
    settle(page)
    assert page.locator("#matches").inner_text().startswith(f"{number(page, '#aside')} of")
    move(page, 0.2)
    assert page.locator("#matches").inner_text().startswith(f"{number(page, '#aside')} of")
    page.locator("#show").select_option("c1")
    settle(page)
    kept = (pool.label == 1) & ~pool.aside(threshold_in_command(page))
    assert page.locator("#matches").inner_text() == f"{int(kept.sum())} of {COUNT} pictures"
    page.locator("#search").fill("no such name")
    settle(page)
    assert page.locator("#matches").inner_text() == "No picture matches."
    assert shown(page, "#browse-list") == []


def test_a_name_full_of_markup_does_nothing(pool: SortedPool, open_page: OpenPage) -> None:
    page = open_page(pool.page)
    page.on("dialog", lambda dialog: pytest.fail(f"a dialog: {dialog.message}"))
    page.locator("#search").fill("onerror")
    settle(page)
    card = page.locator("#browse-list .card:visible")
    assert card.count() == 1
    assert card.get_attribute("title") == EVIL
    card.click()
    assert page.locator("#viewer-title").inner_text() == EVIL
    page.keyboard.press("o")
    page.keyboard.press("Escape")
    _, rows = downloaded(page, "#download-decisions")
    assert rows == [{"path": EVIL, "label": "", "is_outlier": "true"}]
    assert page.evaluate("window.hacked") is None
    assert page.locator("img[src='x']").count() == 0
    assert EVIL not in pool.page.read_text(encoding="utf-8")
