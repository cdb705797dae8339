"""The simple outlier scores are their formulas, whatever is left out of what is kept for them."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from torch import Tensor

from ossl.jointspace.evidence import max_softmax
from ossl.jointspace.simple import (
    DIRECTION_RIDGE,
    FEATURE_SCORES,
    LOGIT_SCORES,
    MAHALANOBIS_RIDGE,
    NEIGHBOURS,
    SIMPLE_SCORES,
    SimpleScores,
    fit_simple_scores,
    logit_scores,
)
from ossl.jointspace.state import from_tensors, to_tensors
from tests.jointspace.drawn import close, dimensions, examples, normal, rotation, scales, seeds
from tests.reference import simple as slow

CLASSES = 3
HALF = 2e-3  # what float16 does to a cosine, at most


def _drawn(size: int, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Labelled features, their classes, a pool, and features to score; none about the origin."""
    labels = torch.arange(8) % CLASSES
    labelled = normal(8, size, seed=seed) + labels[:, None] + 1
    return labelled, labels, normal(11, size, seed=seed + 1) + 2, normal(5, size, seed=seed + 2) + 1


@given(dimensions, seeds)
@examples
def test_feature_scores_are_their_formulas(size: int, seed: int) -> None:
    labelled, labels, pool, some = _drawn(size, seed)
    found = fit_simple_scores(labelled, labels, pool, CLASSES)(some)
    assert tuple(found) == FEATURE_SCORES
    known, classes, lake = labelled.tolist(), labels.tolist(), pool.tolist()
    for place, x in enumerate(some.tolist()):
        close(found["knn"][place], slow.knn(x, known, NEIGHBOURS), HALF)
        theirs = slow.direction(x, known, classes, lake, DIRECTION_RIDGE)
        close(found["pool_direction"][place], theirs, 1e-7)
        theirs = slow.relative_mahalanobis(x, known, classes, lake, MAHALANOBIS_RIDGE)
        close(found["relative_mahalanobis"][place], theirs, 1e-7)


@given(dimensions, seeds, scales)
@examples
def test_feature_scores_know_no_axes_and_no_unit(size: int, seed: int, scale: float) -> None:
    labelled, labels, pool, some = _drawn(size, seed)
    plain = fit_simple_scores(labelled, labels, pool, CLASSES)(some)
    turn = scale * rotation(size, seed)
    turned = fit_simple_scores(labelled @ turn, labels, pool @ turn, CLASSES)(some @ turn)
    for name in FEATURE_SCORES:
        close(turned[name], plain[name], HALF if name == "knn" else 1e-6)


def test_what_is_kept_is_small_and_scores_the_same() -> None:
    size = 40
    labelled, labels, pool, some = (
        t.float() if t.is_floating_point() else t for t in _drawn(size, 0)
    )
    fitted = fit_simple_scores(labelled, labels, pool, CLASSES)
    kept = to_tensors(fitted, "simple")
    assert set(kept) == {
        f"simple.{name}" for name in ("labelled", "mean", "direction", "plane", "centres")
    }
    numbers = sum(tensor.numel() for tensor in kept.values())
    assert numbers <= len(labelled) * size + (2 + CLASSES) * size + CLASSES**2
    again = from_tensors(SimpleScores, kept, "simple")
    for name, score in fitted(some).items():
        assert torch.equal(again(some)[name], score)


def test_a_pool_that_does_not_vary_still_has_scores() -> None:
    labelled, labels, _, some = _drawn(4, 0)
    pool = torch.ones(6, 4)
    found = fit_simple_scores(labelled.float(), labels, pool, CLASSES)(some.float())
    assert all(score.isfinite().all() for score in found.values())


@given(seeds)
@examples
def test_logit_scores_are_their_formulas(seed: int) -> None:
    logits = normal(6, 4, seed=seed) * 3
    found = logit_scores(logits)
    assert tuple(found) == LOGIT_SCORES
    for place, z in enumerate(logits.tolist()):
        p = slow.max_softmax(z)
        close(found["max_softmax"][place], math.log((1 - p) / p), 1e-7)
        close(found["energy"][place], slow.energy(z))
    assert torch.equal(found["max_softmax"].argsort(), max_softmax(logits).argsort())


def test_sure_pictures_are_told_apart() -> None:
    logits = torch.tensor([[900.0, 0.0], [40.0, 0.0], [5.0, 0.0]])
    assert max_softmax(logits)[0] == max_softmax(logits)[1]  # both round to 1
    assert logit_scores(logits)["max_softmax"].tolist() == pytest.approx([-900, -40, -5], rel=1e-3)


def test_every_score_has_a_name_of_its_own() -> None:
    assert len(set(SIMPLE_SCORES)) == len(SIMPLE_SCORES) == 5
