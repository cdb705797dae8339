"""Which pictures keep a thumbnail, what they may cost, and how names are packed."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from ossl.data.pictures import UnreadablePicture
from ossl.sort.report import front_coded, front_decoded
from ossl.sort.thumbnails import MOST, SIDES, choose, encoded, make, side_for
from tests.sort.pool import tinted


def drawn(count: int, classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    score = rng.normal(size=count).astype(np.float32)
    return score, rng.random(count).astype(np.float32), rng.integers(0, classes, count)


def test_a_small_pool_keeps_all() -> None:
    score, confidence, label = drawn(500, 7)
    assert sorted(choose(score, confidence, label, 0.0)) == list(range(500))


@pytest.mark.parametrize("classes", [1, 12, 300])
def test_a_large_pool_keeps_the_extremes_the_boundary_and_something_of_everything(
    classes: int,
) -> None:
    score, confidence, label = drawn(30_000, classes)
    wanted = choose(score, confidence, label, 1.0)
    assert len(wanted) == len(set(wanted)) == MOST
    order = np.argsort(score)
    assert set(order[::-1][:60]) <= set(wanted)
    place = int((score <= 1.0).sum())
    assert set(order[place - 40 : place + 40]) <= set(wanted)
    of_class = np.bincount(label[wanted], minlength=classes)
    assert of_class.min() >= 2
    for c in range(min(classes, 12)):
        rows = np.flatnonzero(label == c)
        assert rows[confidence[rows].argmax()] in wanted
        assert rows[confidence[rows].argmin()] in wanted
    # Wherever the boundary goes, a kept picture is among the nearest two in a hundred.
    ranks = np.sort(np.argsort(order)[wanted])
    assert np.diff(ranks).max() < 0.02 * 30_000


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_scores_that_are_no_numbers_do_no_harm(odd: float) -> None:
    score, confidence, label = drawn(50, 2)
    score[:3] = odd
    assert sorted(choose(score, confidence, label, 0.0)) == list(range(50))
    score[:] = odd
    assert sorted(choose(score, confidence, label, 0.0)) == list(range(50))
    assert choose(score[:0], confidence[:0], label[:0], 0.0) == []


def test_the_budget_is_kept_and_the_most_wanted_come_first() -> None:
    wanted = list(range(30))
    whole = make(wanted, 40, tinted)
    sizes = [len(base64.b64decode(text)) for text in whole.kept.values()]
    assert list(whole.kept) == wanted
    half = make(wanted, 40, tinted, budget=sum(sizes) // 2)
    assert 10 <= len(half.kept) < 20
    assert list(half.kept)[:10] == wanted[:10]
    assert sum(len(base64.b64decode(text)) for text in half.kept.values()) <= sum(sizes) // 2


def test_what_can_no_longer_be_read_keeps_its_earlier_thumbnail() -> None:
    def gone(index: int) -> Image.Image:
        if index % 2:
            raise UnreadablePicture("no such file")
        return tinted(index)

    made = make(list(range(6)), 40, gone, lambda index: "QUJD" if index == 1 else None)
    assert sorted(made.kept) == [0, 1, 2, 4]
    assert made.kept[1] == "QUJD"
    assert (made.unreadable, made.reused) == (3, 1)


def test_a_thumbnail_is_upright_whole_and_no_larger_than_asked(tmp_path: Path) -> None:
    image = Image.new("RGB", (400, 100), (200, 0, 0))
    exif = image.getexif()
    exif[0x0112] = 6  # to be turned a quarter
    image.save(tmp_path / "a.jpg", exif=exif)
    with Image.open(tmp_path / "a.jpg") as opened:
        small = Image.open(io.BytesIO(encoded(opened, 128)))
    assert (small.format, small.size) == ("WEBP", (32, 128))
    assert Image.open(io.BytesIO(encoded(tinted(0, 40), 128))).size == (40, 40)
    assert [side_for(count) for count in (1, 700, 701, 10**6)] == [
        *(SIDES[0][1], SIDES[0][1], SIDES[1][1], SIDES[2][1])
    ]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=90), max_size=20))
def test_names_come_back(names: list[str]) -> None:
    assert front_decoded(front_coded(names)) == names


def test_names_that_begin_alike_take_little_room() -> None:
    names = [f"a/long/folder/name/picture_{i:06d}.jpg" for i in range(10_000)]
    assert len("".join(front_coded(names))) < 0.3 * len("".join(names))
