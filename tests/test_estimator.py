"""scikit-learn's face: its own checks, and what it is for, on real features."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.decomposition import PCA
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from ossl import OpenSetClassifier

DIRECTION = (
    "decision_function says how normal a sample is, one number each as in scikit-learn's outlier "
    "detectors; these checks want it to rank the classes"
)
EXPECTED = {
    "check_classifiers_train": DIRECTION,
    "check_classifiers_classes": DIRECTION,
    "check_decision_proba_consistency": DIRECTION,
}

Known = tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_], NDArray[Any]]


@parametrize_with_checks([OpenSetClassifier()], expected_failed_checks=lambda _: EXPECTED)  # type: ignore[untyped-decorator]
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def digits() -> Known:
    """Digits 0 to 5 with ten labels each, the rest unlabelled: X, y, who is an outlier, truth."""
    X, digit = (values[:900] for values in load_digits(return_X_y=True))
    rng = np.random.default_rng(0)
    y = np.full(len(X), -1)
    for number in range(6):
        rows = rng.choice(np.flatnonzero(digit == number), 10, replace=False)
        y[rows] = number
    return X, y, digit > 5, digit


@pytest.fixture(scope="module")
def fitted(digits: Known) -> OpenSetClassifier:
    X, y, _, _ = digits
    return OpenSetClassifier().fit(X, y)


def test_it_learns_the_pool(digits: Known, fitted: OpenSetClassifier) -> None:
    X, y, outlier, truth = digits
    pool = y < 0
    auroc = roc_auc_score(outlier[pool], -fitted.score_samples(X[pool]))
    no_pool = OpenSetClassifier().fit(X[~pool], y[~pool])
    assert auroc > 0.93
    assert auroc > roc_auc_score(outlier[pool], -no_pool.score_samples(X[pool])) + 0.02
    known = pool & ~outlier
    named = fitted.classes_[fitted.predict_proba(X[known]).argmax(1)]
    assert accuracy_score(truth[known], named) > 0.93
    assert abs(fitted.outlier_share_ - outlier[pool].mean()) < 0.15


def test_higher_is_more_normal_here_alone(digits: Known, fitted: OpenSetClassifier) -> None:
    X, y, outlier, _ = digits
    scores, decisions = fitted.score_samples(X), fitted.decision_function(X)
    assert scores[~outlier].mean() > scores[outlier].mean()
    assert np.allclose(decisions, scores + fitted.threshold_)
    assert np.array_equal(fitted.predict(X) == -1, decisions < 0)
    assert (fitted.predict(X[y < 0]) == -1).mean() == pytest.approx(fitted.outlier_share_, abs=0.01)
    assert list(fitted.classes_) == [0, 1, 2, 3, 4, 5]


def test_the_boundary_can_be_given(digits: Known) -> None:
    X, y, _, _ = digits
    fifth = OpenSetClassifier(outlier_share=0.2).fit(X, y)
    assert (fifth.predict(X[y < 0]) == -1).mean() == pytest.approx(0.2, abs=0.01)
    careful, rash = (OpenSetClassifier(max_false_rejects=part).fit(X, y) for part in (0.0, 0.5))
    assert careful.threshold_ > rash.threshold_
    with pytest.raises(ValueError, match="exclude each other"):
        OpenSetClassifier(outlier_share=0.1, max_false_rejects=0.1).fit(X, y)
    with pytest.raises(ValueError, match="between 0 and 1"):
        OpenSetClassifier(outlier_share=1.5).fit(X, y)


def test_equal_seeds_give_equal_results(digits: Known, fitted: OpenSetClassifier) -> None:
    X, y, _, _ = digits
    assert np.array_equal(clone(fitted).fit(X, y).score_samples(X), fitted.score_samples(X))
    other = OpenSetClassifier(random_state=np.random.RandomState(3)).fit(X, y)
    assert not np.array_equal(other.score_samples(X), fitted.score_samples(X))


@pytest.mark.parametrize("unlabelled", [None, -1, "-1"])
def test_text_labels(digits: Known, fitted: OpenSetClassifier, unlabelled: Any) -> None:
    X, y, _, _ = digits
    names = np.array(["zero", "one", "two", "three", "four", "five"])
    words = [unlabelled if label < 0 else names[label] for label in y]
    labels = np.array(words, dtype=object if unlabelled is None else None)
    model = OpenSetClassifier(outlier_label="junk" if unlabelled is None else -1).fit(X, labels)
    said = model.predict(X)
    assert set(model.classes_) == set(names)
    assert set(said) == {*names, "junk" if unlabelled is None else "-1"}
    # The classes are sorted otherwise than the numbers, which only rounding sees.
    same = np.isin(said, names) == (fitted.predict(X) >= 0)
    assert same.mean() > 0.9


def test_in_a_pipeline(digits: Known) -> None:
    X, y, outlier, _ = digits
    model = make_pipeline(StandardScaler(), PCA(20, random_state=0), OpenSetClassifier())
    model.fit(X, y)
    pool = y < 0
    assert roc_auc_score(outlier[pool], -model.decision_function(X[pool])) > 0.9
    assert set(model.predict(X)) == {-1, 0, 1, 2, 3, 4, 5}


def test_in_cross_validation(digits: Known) -> None:
    X, y, _, _ = digits
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    scores = cross_val_score(OpenSetClassifier(), X, y, cv=folds)
    assert scores.shape == (3,)
    assert scores.mean() > 0.6  # unlabelled samples are nobody's mistake, rejected known ones are
    X, y = load_iris(return_X_y=True)
    assert cross_val_score(OpenSetClassifier(), X, y, cv=5).mean() > 0.9


def test_in_a_grid_search(digits: Known) -> None:
    X, y, _, _ = digits
    grid = {"max_false_rejects": [0.0, 0.9]}
    found = GridSearchCV(OpenSetClassifier(), grid, cv=StratifiedKFold(2)).fit(X, y)
    assert found.best_params_ == {"max_false_rejects": 0.0}
    assert found.best_score_ > found.cv_results_["mean_test_score"].min() + 0.2
    assert found.predict(X).shape == y.shape


def test_score_leaves_out_what_has_no_label(digits: Known, fitted: OpenSetClassifier) -> None:
    X, y, _, _ = digits
    labelled = y >= 0
    by_hand = (fitted.predict(X)[labelled] == y[labelled]).mean()
    assert fitted.score(X, y) == pytest.approx(by_hand)
    weights = np.where(y == 0, 1.0, 0.0)
    only_zeros = (fitted.predict(X)[y == 0] == 0).mean()
    assert fitted.score(X, y, weights) == pytest.approx(only_zeros)
    assert np.isnan(fitted.score(X[~labelled], y[~labelled]))


def test_an_embedding_is_compared_by_direction() -> None:
    rng = np.random.default_rng(0)
    centres = np.abs(rng.normal(size=(4, 30)))
    rows = np.repeat(np.arange(4), 60)
    X = np.abs(centres[rows] + 0.3 * rng.normal(size=(240, 30)))
    y = np.where((np.arange(240) % 60 < 8) & (rows < 3), rows, -1)
    model = OpenSetClassifier(embedding=True).fit(X, y)
    assert roc_auc_score(rows == 3, -model.score_samples(X)) > 0.95
    assert np.array_equal(model.predict_proba(5 * X).argmax(1), model.predict_proba(X).argmax(1))


def test_the_smallest_there_can_be() -> None:
    two = OpenSetClassifier().fit([[0.0], [1.0]], ["a", "b"])
    assert list(two.predict([[0.0], [1.0]])) == ["a", "b"]
    constant = OpenSetClassifier().fit(np.ones((6, 2)), [0, 1, 0, 1, 0, 1])
    assert constant.predict_proba(np.ones((2, 2))) == pytest.approx(np.full((2, 2), 0.5))
    assert set(constant.predict(np.ones((2, 2)))) <= {0, 1}
    one_class = OpenSetClassifier().fit([[0.0], [1.0], [0.5]], [7, 7, -1])
    assert list(one_class.predict([[0.5], [100.0]])) == [7, -1]
    far = OpenSetClassifier().fit(load_iris().data, load_iris().target)
    assert list(far.predict([[100.0, 100.0, 100.0, 100.0]])) == [-1]
    assert far.outlier_share_ == 0.0


@pytest.mark.parametrize("pool", [20, 21, 40])
@pytest.mark.parametrize("width", [1, 2, 5])
def test_small_pools_and_narrow_features(pool: int, width: int) -> None:
    rng = np.random.default_rng(pool)
    labelled = np.vstack([rng.normal(size=(4, width)), 8 + rng.normal(size=(4, width))])
    unknown = np.vstack([rng.normal(size=(pool // 2, width)), -20 + rng.normal(size=(pool, width))])
    y = np.array([0] * 4 + [1] * 4 + [-1] * len(unknown))
    model = OpenSetClassifier().fit(np.vstack([labelled, unknown]), y)
    scores = model.score_samples(unknown)
    assert np.isfinite(scores).all()
    assert np.isfinite(model.decision_function(unknown)).all()
    assert scores[: pool // 2].mean() > scores[pool // 2 :].mean()


def test_without_any_label_it_says_so() -> None:
    with pytest.raises(ValueError, match=re.escape("every sample is unlabelled (-1)")):
        OpenSetClassifier().fit(np.eye(4), [-1] * 4)
