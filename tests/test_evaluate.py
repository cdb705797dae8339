"""The figures against their definitions, and judging a pool by a person's file."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ossl import evaluate
from ossl.data.truth import read_truth
from ossl.errors import InputError
from tests.reference import metrics as slow

# (truth, label, score): few values, so that ties are the rule
ROWS = st.lists(
    st.tuples(st.integers(-1, 2), st.integers(0, 2), st.integers(-4, 4)), min_size=1, max_size=60
)
LIMIT = 0.5


@given(ROWS)
@settings(max_examples=80, deadline=None)
def test_figures_are_their_definitions(rows: list[tuple[int, int, int]]) -> None:
    truth, label, score = (np.asarray(column) for column in zip(*rows, strict=True))
    found = evaluate.judge(truth, label, score / 4, LIMIT)
    outlier = [value < 0 for value in truth.tolist()]
    scores = (score / 4).tolist()
    if all(outlier) or not any(outlier):
        assert (found.auroc, found.fpr95, found.aupr) == (None, None, None)
    else:
        assert found.auroc == pytest.approx(slow.auroc(outlier, scores))
        assert found.fpr95 == pytest.approx(slow.fpr_at_95(outlier, scores))
        assert found.aupr == pytest.approx(slow.aupr(outlier, scores))
    if all(outlier):
        assert found.known_accuracy is None
    else:
        accuracy = slow.known_accuracy(truth.tolist(), label.tolist())
        assert found.known_accuracy == pytest.approx(accuracy)
    aside = [value > LIMIT for value in scores]
    open_accuracy = slow.open_accuracy(truth.tolist(), label.tolist(), aside)
    assert found.open_accuracy == pytest.approx(open_accuracy)
    assert found.outlier_share_true == pytest.approx(sum(outlier) / len(outlier))


def test_fpr95_counts_every_threshold() -> None:
    # A straight piece of the curve: scikit-learn drops its inner points unless told not to.
    truth = np.tile([-1, 0], 100)
    score = -np.repeat(np.arange(100.0), 2)
    assert evaluate.fpr_at_95(truth, score) == pytest.approx(0.95)


@given(ROWS)
@settings(max_examples=20, deadline=None)
def test_only_ranks_count(rows: list[tuple[int, int, int]]) -> None:
    truth = np.asarray([row[0] for row in rows])
    score = np.asarray([float(row[2]) for row in rows])
    for figure in (evaluate.auroc, evaluate.fpr_at_95, evaluate.aupr):
        assert figure(truth, np.exp(score)) == figure(truth, score)
        infinite = np.where(score == score.max(), math.inf, score)
        assert figure(truth, infinite) == figure(truth, score)


def test_what_is_no_number_has_no_rank() -> None:
    with pytest.raises(ValueError, match="NaN"):
        evaluate.auroc(np.asarray([0, -1]), np.asarray([math.nan, 1.0]))


def test_nothing_to_judge() -> None:
    none = np.zeros(0, dtype=np.int64)
    found = evaluate.judge(none, none, np.zeros(0), LIMIT)
    assert set(vars(found).values()) == {None}


# --- a person's file of the truth -------------------------------------------------------------

NAMES = ("a.png", "tief/größe.png", "c.png")
CLASSES = ("cat", "größe")


def _file(folder: Path, text: str) -> Path:
    path = folder / "truth.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_truth_is_read(tmp_path: Path) -> None:
    path = _file(
        tmp_path,
        # a spreadsheet's mark at the start, columns in any order, accents spelt in two letters
        "\ufefflabel,size,file\nlamp,1,c.png\ncat,1,a.png\n"
        " gro\u0308ße ,1,tief/gro\u0308ße.png\nx,1,bad.jpg\n",
    )
    truth = read_truth(path, NAMES, CLASSES, left_out={"bad.jpg"})
    assert truth.tolist() == [0, 1, -1]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("name,label\na.png,cat\n", "no column 'file'"),
        ("file,class\na.png,cat\n", "no column 'label'"),
        ("", "(nothing)"),
        ("file,label\na.png,cat\n", "2 of the pool's 3 pictures have no row"),
        ("file,label\na.pgn,cat\n", "did you mean 'a.png'?"),
        ("file,label\na.png,cat\na.png,dog\n", "two labels"),
        ("file,label\na.png\n", "line 2 lacks"),
        ("file,label\na.png,x\ntief/größe.png,x\nc.png,x\n", "none of its labels"),
    ],
)
def test_truth_that_does_not_fit(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(InputError) as caught:
        read_truth(_file(tmp_path, text), NAMES, CLASSES)
    assert what in str(caught.value)
    assert "truth.csv" in str(caught.value)


def test_truth_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.csv"):
        with pytest.raises(InputError, match="cannot be read"):
            read_truth(path, NAMES, CLASSES)
    (tmp_path / "b.csv").write_bytes(b"file,label\n\xff\xfe,x\n")
    with pytest.raises(InputError, match="cannot be read"):
        read_truth(tmp_path / "b.csv", NAMES, CLASSES)
