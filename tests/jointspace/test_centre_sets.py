"""Several known and outlier centres in a space where classes are round."""

from __future__ import annotations

import dataclasses

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ossl.jointspace.centre_sets import _spread_out, fit_centres, round_classes
from ossl.jointspace.principal import StackSettings
from tests.jointspace.clusters import auroc, clusters
from tests.jointspace.drawn import close, examples, normal, rotation, seeds, source
from tests.reference import evidence as slow
from tests.reference import jointspace as plain


@examples
@given(seeds, st.integers(1, 5), st.integers(2, 6))
def test_classes_are_round_along_the_directions_that_are_kept(
    seed: int, size: int, per_class: int
) -> None:
    labels = torch.arange(3 * per_class) % 3
    white = normal(len(labels), size, seed=seed) @ normal(size, size, seed=seed + 1)
    scatter = torch.zeros(size, size, dtype=torch.float64)
    for k in range(3):
        scatter += torch.tensor(plain.scatter(white[labels == k].tolist()), dtype=torch.float64)
    seen = len(labels) - 3
    part = size / (size + seen)
    cov = (1 - part) * scatter / seen
    cov += part * float(scatter.diagonal().mean()) / seen * torch.eye(size)
    keep = max(1, size // 2)
    found = round_classes(white, labels, keep)
    assert found.shape == (size, keep)
    close(found.T @ cov @ found, torch.eye(keep), 1e-5)
    # No other direction has less spread within classes.
    close(found.square().sum(0).reciprocal(), torch.linalg.eigvalsh(cov)[:keep], 1e-5)


@examples
@given(seeds)
def test_distances_between_rounded_classes_do_not_see_rotation(seed: int) -> None:
    white, labels = normal(12, 4, seed=seed), torch.arange(12) % 3
    turned = white @ rotation(4, seed + 1)

    def distances(x: torch.Tensor) -> torch.Tensor:
        rounded = x @ round_classes(x, labels, 4)
        return torch.cdist(rounded, rounded)

    close(distances(turned), distances(white), 1e-5)


def test_one_picture_a_class_is_left_as_it_is() -> None:
    white = normal(4, 5, seed=0).float()
    close(round_classes(white, torch.arange(4), 3), torch.eye(5)[:, :3])


@settings(examples, max_examples=10)
@given(seeds, st.integers(1, 4), st.sampled_from([0.1, 0.5, 0.9]))
def test_the_centres_are_the_loops(seed: int, steps: int, share: float) -> None:
    made = dataclasses.replace(StackSettings(), centre_steps=steps)
    white, labels = normal(8, 3, seed=seed), torch.arange(8) % 2
    pool, start = 2 * normal(20, 3, seed=seed + 1), normal(20, seed=seed + 2)
    found = fit_centres(white, labels, pool, start, share, 2, 2, made)
    x, p = white @ found.transform, pool @ found.transform
    first = _spread_out(p[start >= start.quantile(1 - share)], 2, source(made.seed))
    by_hand = slow.centres_by_em(
        x.tolist(), labels.tolist(), p.tolist(), first.tolist(), share, steps
    )
    ours = (found.known, found.known_weights, found.outlier, found.outlier_weights)
    for one, other in zip(ours, by_hand, strict=True):
        close(one, other, 1e-4)
    close(found.known_weights.sum() + found.outlier_weights.sum(), 1.0, 1e-5)


def test_outlier_centres_find_the_clusters_without_a_label() -> None:
    made = clusters(3, 10, 200, 0.4, seed=1, size=8)
    start = made.outlier.float() + normal(200, seed=2).float()
    before = torch.get_rng_state()
    settings_ = StackSettings()
    args = (made.labelled, made.labels, made.pool, start, 0.4, 4, 4, settings_)
    found = fit_centres(*args)
    assert auroc(found(made.pool), made.outlier) > 0.95
    assert auroc(found(made.pool), made.outlier) > auroc(start, made.outlier)
    again = fit_centres(*args)
    assert torch.equal(again.outlier, found.outlier)
    assert torch.equal(torch.get_rng_state(), before)


def test_one_pool_picture_and_equal_pictures_are_finite() -> None:
    white, labels = normal(6, 3, seed=0).float(), torch.arange(6) % 2
    for pool in (white[:1], white[:1].repeat(30, 1), white):
        start = torch.zeros(len(pool))
        found = fit_centres(white, labels, pool, start, 0.5, 5, 2, StackSettings())
        assert found(pool).isfinite().all()


def test_k_means_of_groups_far_apart_are_their_means() -> None:
    groups = normal(3, 1, 2, seed=0) + 100 * torch.tensor([[[0.0, 0]], [[1, 0]], [[0, 1]]])
    points = (groups + 0.1 * normal(3, 9, 2, seed=1)).reshape(27, 2)
    found = _spread_out(points, 3, source(0))
    means = points.reshape(3, 9, 2).mean(1)
    close(torch.cdist(means, found).amin(1), torch.zeros(3), 1e-6)
