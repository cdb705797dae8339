"""The matrix of mistakes, the figures' words, and the drawings' text."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import numpy as np

from ossl.report import svg
from ossl.report.words import confusion, figures, mistakes


def test_confusion_against_a_count_by_hand() -> None:
    rng = np.random.default_rng(0)
    truth, label = rng.integers(-1, 4, 300), rng.integers(0, 4, 300)
    aside = rng.random(300) < 0.3
    counts = confusion(truth, label, aside, 4)
    slow = np.zeros((5, 5), dtype=int)
    for what, guess, out in zip(truth, label, aside, strict=True):
        slow[4 if what == -1 else what][4 if out else guess] += 1
    np.testing.assert_array_equal(counts, slow)


def test_mistakes_are_named_and_the_most_frequent_first() -> None:
    counts = np.array([[5, 2, 1], [0, 7, 0], [0, 3, 9]])
    assert mistakes(counts, ("cat", "dog")) == [
        "3 of 12 outliers taken for dog",
        "2 of 8 pictures of cat taken for dog",
        "1 of 8 pictures of cat put aside",
    ]
    assert mistakes(np.diag([3, 4, 5]), ("cat", "dog")) == []


def test_figures_say_only_what_is_known() -> None:
    metrics = {
        "auroc": None,
        "threshold": 1.25,
        "trainable_parameters": 10,
        "total_parameters": 1000,
        "outlier_share": 0.38,
        "outlier_share_interval": [0.3, 0.5],
        "outlier_share_true": None,
        "seconds": 61.0,
    }
    rows = {name: value for name, value, _ in figures(metrics)}
    assert rows == {
        "outliers in the pool": "38.0 % (30 to 50 %)",
        "boundary": "1.25",
        "numbers learnt": "10 of 1,000 (1.00 %)",
        "time": "61 s",
    }
    simple = {"simple_scores": {"energy": 0.9, "max_softmax": 0.95, "knn": None}}
    rows = {name: value for name, value, _ in figures(metrics | simple | {"auroc": 0.987})}
    assert rows["AUROC, known against outliers"] == "98.7 %"
    assert rows["best simple score"] == "95.0 % (max-softmax)"


def test_drawings_are_whole_and_escape_what_they_say() -> None:
    said = 'a <b> & "c"'
    chart = svg.line_chart([1, 2, 3], [0.5, -1.0, 2.0], said)
    level = svg.line_chart([1], [0.0], said)
    bars = svg.histogram(np.array([0.0, 1.0, np.inf]), np.array([2.0]), 1.5, said)
    shades = svg.heat(np.eye(40, dtype=int), said)
    for drawing in (chart, level, bars, shades):
        root = ElementTree.fromstring(str(drawing))
        assert root.get("aria-label") == said
        assert "nan" not in str(drawing)
        assert "style=" not in str(drawing)  # the page's policy would refuse it
    # The line begins at the left, ends at the right, and its highest point is drawn highest.
    root = ElementTree.fromstring(str(chart))
    line = next(part.get("d") for part in root if part.get("class") == "curve")
    assert line is not None
    places = [[float(x) for x in at.split()] for at in line[1:].split("L")]
    assert [x for x, _ in places] == [56, 183, 310]
    assert places[2][1] < places[0][1] < places[1][1]
