"""Every simple evidence is the loop, and does not see what it must not see."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ossl.jointspace import evidence
from tests.jointspace.drawn import (
    close,
    dimensions,
    examples,
    normal,
    rotation,
    scales,
    seeds,
    shuffled,
    sizes,
)
from tests.reference import evidence as slow


@settings(examples, max_examples=12)
@given(seeds, sizes, dimensions, st.integers(1, 7))
def test_cosine_evidence_is_the_loop(seed: int, n: int, size: int, neighbours: int) -> None:
    features, labelled = normal(n, size, seed=seed), normal(5, size, seed=seed + 1)
    rows, known = features.tolist(), labelled.tolist()
    found = evidence.knn_distance(features, labelled, neighbours)
    close(found, [slow.knn_distance(f, known, neighbours) for f in rows])
    found = evidence.centre_cosine(features, labelled)
    close(found, [slow.centre_cosine(f, known) for f in rows])


@examples
@given(seeds, sizes, st.integers(2, 5), scales)
def test_cosines_do_not_see_scale_rotation_or_the_order_of_labelled(
    seed: int, n: int, size: int, scale: float
) -> None:
    features, labelled = normal(n, size, seed=seed), normal(6, size, seed=seed + 1)
    turn = scale * rotation(size, seed + 2)
    moved = (features @ turn, labelled[shuffled(6, seed)] @ turn)
    close(evidence.knn_distance(*moved, 3), evidence.knn_distance(features, labelled, 3))
    close(evidence.centre_cosine(*moved), evidence.centre_cosine(features, labelled))


@examples
@given(seeds, sizes, st.integers(1, 5))
def test_relative_mahalanobis_is_the_loop_and_does_not_see_rotation_or_shift(
    seed: int, n: int, size: int
) -> None:
    features, centres = normal(n, size, seed=seed), normal(3, size, seed=seed + 1)
    pool_mean = normal(size, seed=seed + 2)
    found = evidence.relative_mahalanobis(features, centres, pool_mean)
    rows = features.tolist()
    args = (centres.tolist(), pool_mean.tolist())
    close(found, [slow.relative_mahalanobis(f, *args) for f in rows])
    turn, shift = rotation(size, seed + 3), normal(size, seed=seed + 4)
    moved = [x @ turn + shift for x in (features, centres, pool_mean)]
    close(evidence.relative_mahalanobis(*moved), found)


@examples
@given(seeds, dimensions, st.floats(0.01, 2.0))
def test_the_pool_direction_is_the_loop_and_turns_with_the_features(
    seed: int, size: int, ridge: float
) -> None:
    centres, pool_mean = normal(3, size, seed=seed), normal(size, seed=seed + 1)
    cov = torch.cov(normal(20, size, seed=seed + 2).T).reshape(size, size)
    found = evidence.pool_direction(centres, pool_mean, cov, ridge)
    by_hand = slow.pool_direction(centres.tolist(), pool_mean.tolist(), cov.tolist(), ridge)
    close(found, by_hand)
    turn = rotation(size, seed + 3)
    turned = evidence.pool_direction(centres @ turn, pool_mean @ turn, turn.T @ cov @ turn, ridge)
    close(turned, found @ turn)


@examples
@given(seeds, sizes, dimensions)
def test_the_density_ratio_is_the_loop(seed: int, n: int, size: int) -> None:
    features, known = normal(n, size, seed=seed), normal(3, size, seed=seed + 1)
    outlier = normal(2, size, seed=seed + 2)
    weights = torch.rand(5, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    of_known, of_outlier = weights[:3] + 0.01, weights[3:] + 0.01
    found = evidence.log_density_ratio(features, known, of_known, outlier, of_outlier)
    args = (known.tolist(), of_known.tolist(), outlier.tolist(), of_outlier.tolist())
    close(found, [slow.log_density_ratio(f, *args) for f in features.tolist()], 1e-7)


def test_the_density_ratio_far_from_everything_is_finite() -> None:
    far, one = torch.full((2, 3), 1e4), torch.ones(1)
    assert evidence.log_density_ratio(far, far[:1] + 1, one, -far[:1], one).isfinite().all()


@examples
@given(seeds, st.integers(3, 12), dimensions)
def test_class_means_are_the_loop_whatever_the_order(seed: int, n: int, size: int) -> None:
    features, labels = normal(n, size, seed=seed), torch.arange(n) % 3
    found = evidence.class_means(features, labels, 3)
    close(found, slow.class_means(features.tolist(), labels.tolist(), 3))
    order = shuffled(n, seed)
    close(evidence.class_means(features[order], labels[order], 3), found)
    assert evidence.class_means(features, labels, 4)[3].tolist() == [0.0] * size
