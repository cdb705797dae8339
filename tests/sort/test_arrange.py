"""Which folder a picture belongs to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ossl.errors import InputError
from ossl.sort.arrange import Scores, check_places, counts, groups, plan


def scores(score: list[float], confidence: list[float] | None = None, limit: float = 0) -> Scores:
    sure = confidence or [0.9] * len(score)
    return Scores(["cat"] * len(score), np.array(sure), np.array(score), limit)


def test_known_outliers_and_the_nearest_to_the_boundary() -> None:
    score = [-5.0, -0.1, 0.0, 0.2, 7.0, *[-9.0] * 15]
    assert groups(scores(score), 0.1)[:5] == ["known", "unsure", "unsure", "outliers", "outliers"]
    assert groups(scores(score), 0)[:5] == ["known", "known", "known", "outliers", "outliers"]
    assert set(groups(scores(score), 1)) == {"unsure"}


def test_a_class_with_less_than_an_even_chance_is_unsure() -> None:
    said = groups(scores([-9.0, -9.0, 9.0], [0.49, 0.5, 0.2]), 0.01)
    assert said == ["unsure", "known", "outliers"]
    assert groups(scores([-9.0], [0.1]), 0) == ["known"]


def test_another_boundary_moves_the_unsure() -> None:
    score = list(map(float, range(20)))
    assert groups(scores(score, limit=15.5), 0.1)[15:17] == ["unsure", "unsure"]


def test_counts_name_all_three() -> None:
    assert counts(["known", "known"]) == {"known": 2, "outliers": 0, "unsure": 0}


def test_a_plan_keeps_the_paths(tmp_path: Path) -> None:
    files = [tmp_path / "a" / "x.jpg", tmp_path / "b" / "x.jpg", tmp_path / "x.jpg"]
    steps = plan(tmp_path, files, ["known", "outliers", "unsure"], ["CON", "cat", "cat"])
    assert [step.destination for step in steps] == [
        "known/_CON/a/x.jpg",
        "outliers/b/x.jpg",
        "unsure/x.jpg",
    ]
    assert [step.source for step in steps] == list(map(str, files))


@pytest.mark.parametrize("out", ["pool", "pool/sorted", "pool/../pool/x"])
def test_nothing_is_arranged_inside_the_pool(out: str, tmp_path: Path) -> None:
    (tmp_path / "pool").mkdir()
    with pytest.raises(InputError, match="lies inside --images"):
        check_places(tmp_path / "pool", tmp_path / out)


def test_a_pool_where_the_pictures_would_go(tmp_path: Path) -> None:
    (tmp_path / "known" / "old").mkdir(parents=True)
    with pytest.raises(InputError, match="where the pictures would go"):
        check_places(tmp_path / "known" / "old", tmp_path)


def test_a_folder_that_is_arranged_already(tmp_path: Path) -> None:
    (tmp_path / "out" / "unsure").mkdir(parents=True)
    (tmp_path / "pool").mkdir()
    with pytest.raises(InputError, match="already holds unsure/"):
        check_places(tmp_path / "pool", tmp_path / "out")
    check_places(tmp_path / "pool", tmp_path / "new")
