"""The page and the table say what the results say, by figures worked out by hand."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from typing import Any

import pytest

from ossl.reproduce.render import csv_text, entries, markdown, simple_value, value
from ossl.reproduce.results import Result
from ossl.reproduce.tables import Table
from tests.reproduce import tiny
from tests.reproduce.test_results import RESULT

SIMPLE = {"max_softmax": 0.7, "energy": 0.8, "knn": 0.6, "pool_direction": None}


def result(cell: str, seed: int, **metrics: Any) -> Result:
    known = {"data": "x, split cifar10-50 (…)", "simple_scores": SIMPLE} | metrics
    return replace(RESULT, cell=cell, seed=seed, metrics=known)


RESULTS = [
    result("folders", 0, auroc=0.90, known_accuracy=0.7, outlier_share=0.4, outlier_share_true=0.5),
    result("folders", 1, auroc=0.94, known_accuracy=0.7, outlier_share=0.5, outlier_share_true=0.5),
    result(
        "unseen",
        0,
        auroc=0.85,
        unseen={"svhn": 0.95},
        unseen_simple_scores={"svhn": {"energy": 0.9, "knn": 0.97}},
    ),
]


def test_entries() -> None:
    found = {(e.cell, e.figure): e for e in entries(tiny.TABLE, RESULTS)}
    own = found["folders", "auroc"]
    assert own.mean == pytest.approx(0.92)
    assert own.std == pytest.approx(0.02 * 2**0.5)  # n − 1
    assert (own.seeds, own.met) == (2, True)
    assert own.best == ("energy", 0.8)
    assert own.margin == pytest.approx(0.12)
    assert own.share == pytest.approx(0.45)
    assert own.share_true == pytest.approx(0.5)
    assert (own.seconds, own.seconds_remembered) == (3.5, None)
    accuracy = found["folders", "known_accuracy"]
    assert (accuracy.met, accuracy.best, accuracy.share) == (False, None, None)
    assert found["unseen", "auroc"].std is None
    assert found["unseen", "unseen.svhn"].best == ("knn", 0.97)
    assert found["unseen", "unseen.mean"].mean is None  # scenes were not there
    assert found["scratch", "auroc"].seeds == 0
    rows = [e.row for e in entries(tiny.TABLE, RESULTS)]
    assert rows[-2:] == ["unseen: SVHN", "unseen: mean"]  # after the cells' own rows


def test_the_time_of_whole_fits() -> None:
    runs = [
        result("folders", 0, auroc=0.9),
        replace(result("folders", 1, auroc=0.9), seconds=1.5, features_remembered=30),
        replace(result("folders", 2, auroc=0.9), seconds=0.5, resumed=True),  # of the rest alone
    ]
    own = entries(tiny.TABLE, runs)[0]
    assert (own.seconds, own.seconds_remembered) == (3.5, 1.5)
    assert "| 4 / 2 |" in markdown(tiny.TABLE, "desk", runs)


def test_the_mean_over_unseen_sets() -> None:
    both = {"unseen": {"svhn": 0.9, "scenes": 0.8}}
    assert value(both, "unseen.mean", ("svhn", "scenes")) == pytest.approx(0.85)
    assert value(both, "unseen.mean", ("svhn", "scenes", "dtd")) is None
    assert value({}, "unseen.mean", ("svhn",)) is None
    scores = {"unseen_simple_scores": {"svhn": {"knn": 0.9}, "scenes": {"knn": 0.7}}}
    assert simple_value(scores, "unseen.mean", "knn", ("svhn", "scenes")) == pytest.approx(0.8)
    assert simple_value(scores, "unseen.mean", "energy", ("svhn", "scenes")) is None


def test_the_page() -> None:
    page = markdown(tiny.TABLE, "desk", RESULTS)
    assert "ossl 1, torch 2" in page
    overview, _, detail = page.partition("## Everything")
    assert "92.00 ± 2.83 / 70.00 ± 0.00<br>target 1.0 / 101.0: met / missed by 31.00" in overview
    assert "| CIFAR-10 | 85.00 | – | – |" in overview
    assert "Targets met: 1 of 2." in overview
    assert "8.50 on average, 5.00 at the least (unseen)" in overview
    (line,) = [line for line in detail.splitlines() if line.startswith("| unseen: SVHN")]
    assert "| 95.00 | 1 | – | – | 94.1 ± 1.1 |" in line
    assert "97.00 knn" in line
    assert "45.0 / 50.0" in detail
    assert "not there" not in detail  # nothing was run
    assert "- cifar10-50: pool=19k of 50k" in detail
    widths = {line.count("|") for line in detail.splitlines() if line.startswith("|")}
    assert len(widths) == 1


def test_a_page_without_results() -> None:
    page = markdown(tiny.TABLE, "desk", [])
    assert "| shapes | – | – | – |" in page
    assert "Targets" not in page
    assert Table("none", "Nothing", ()).cells == ()


def test_the_table_for_programs() -> None:
    rows = list(csv.DictReader(io.StringIO(csv_text(tiny.TABLE, RESULTS))))
    assert len(rows) == sum(len(cell.figures) for cell in tiny.TABLE.cells)
    own = rows[0]
    assert (own["cell"], own["figure"], own["met"], own["best_simple"]) == (
        *("folders", "auroc", "True"),
        "energy",
    )
    assert float(own["mean"]) == pytest.approx(0.92)
    assert own["relative_mahalanobis"] == ""
