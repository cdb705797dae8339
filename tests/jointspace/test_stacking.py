"""The default recipe's joint space as a whole: what it finds, and every edge of its input."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ossl.jointspace.folds import assign_folds
from ossl.jointspace.principal import StackSettings
from ossl.jointspace.stacking import StackedSpace, fit_stacked_space
from ossl.jointspace.state import from_tensors, to_tensors
from tests.jointspace.clusters import Clusters, auroc, clusters
from tests.jointspace.drawn import close, normal, rotation, shuffled, source


def fit(made: Clusters) -> StackedSpace:
    return fit_stacked_space(made.labelled, made.labels, made.pool)


def sane(space: StackedSpace, *features: Tensor) -> None:
    """Fail unless all that was fitted, and every score, is a number."""
    for name, tensor in to_tensors(space).items():
        assert tensor.double().isfinite().all(), name
    for some in features:
        assert space.outlier_score(some).isfinite().all()
    low, high = space.interval
    assert 0 <= low <= space.share <= high <= 1


@pytest.mark.parametrize("share", [0.05, 0.2, 0.6, 0.9])
def test_clusters_far_apart_are_told_apart_and_counted(share: float) -> None:
    shares = []
    for seed in range(2):
        made = clusters(5, 20, 400, share, seed)
        space = fit(made)
        shares.append(space.share)
        sane(space)
        assert auroc(space.outlier_score(made.pool), made.outlier) > 0.98
    assert sum(shares) / 2 == pytest.approx(share, abs=0.06)


def test_a_pool_without_outliers_has_hardly_any() -> None:
    shares = [fit(clusters(10, 40, 400, 0.0, seed)).share for seed in range(3)]
    assert sum(shares) / 3 <= 0.03


def test_the_limit_puts_as_many_aside_as_it_should() -> None:
    made = clusters(4, 15, 400, 0.3, seed=0)
    space = fit(made)
    score = space.outlier_score(made.pool)
    assert float((score > space.threshold()).float().mean()) == pytest.approx(space.share, abs=0.01)
    for share in (0.0, 0.25, 0.8):
        put_aside = float((score > space.threshold(share=share)).float().mean())
        assert put_aside == pytest.approx(share, abs=0.01)
    limit = space.threshold(max_false_rejects=0.1)
    assert float((score[~made.outlier] > limit).float().mean()) < 0.25


EDGES = {
    "one picture a class": clusters(6, 1, 120, 0.3, seed=1),
    "two pictures a class": clusters(6, 2, 120, 0.3, seed=1),
    "one class": clusters(1, 20, 120, 0.3, seed=1),
    "one class, two pictures": clusters(1, 2, 120, 0.3, seed=1),
    "two classes": clusters(2, 10, 120, 0.3, seed=1),
    "two pictures in all": clusters(2, 1, 60, 0.3, seed=1),
    "a pool of one": clusters(4, 5, 1, 0.0, seed=1),
    "a pool of one, one picture a class": clusters(4, 1, 1, 0.0, seed=1),
    "a pool of five": clusters(4, 5, 5, 0.4, seed=1),
    "a pool of fifty": clusters(4, 5, 50, 0.4, seed=1),
    "fewer pictures than dimensions": clusters(3, 5, 20, 0.4, seed=1, size=100),
    "more classes than pool pictures": clusters(20, 2, 10, 0.4, seed=1),
    "outliers alone": clusters(4, 10, 60, 1.0, seed=1),
    "one dimension": clusters(3, 5, 40, 0.4, seed=1, size=1),
}


@pytest.mark.parametrize("name", EDGES)
def test_every_size_of_input_has_a_joint_space(name: str) -> None:
    made = EDGES[name]
    sane(fit(made), made.pool, made.labelled, torch.zeros(2, made.pool.shape[1]))


def test_identical_pictures_and_dimensions_without_spread() -> None:
    made = clusters(3, 6, 40, 0.3, seed=2)
    labelled, labels, pool = made.labelled, made.labels, made.pool
    still, still_pool = labelled.clone(), pool.clone()
    still[:, :20], still_pool[:, :20] = 1.0, 1.0
    for known, mixed in (
        (labelled, torch.cat([labelled, pool])),  # the labelled lie in the pool too
        (labelled, labelled),
        (labelled, pool[:1].repeat(40, 1)),
        (labelled, torch.cat([pool, pool[-1:].repeat(60, 1)])),
        (labelled[labels * 6], pool),  # equal within each class
        (torch.cat([labelled[:1].repeat(17, 1), labelled[17:]]), pool),
        (still, still_pool),
        (labelled, torch.zeros_like(pool)),
    ):
        sane(fit_stacked_space(known, labels, mixed), mixed)


def test_labels_with_a_gap_are_the_classes_that_there_are() -> None:
    made = clusters(3, 6, 60, 0.3, seed=2)
    space, gaps = fit(made), fit_stacked_space(made.labelled, 3 * made.labels, made.pool)
    assert torch.equal(gaps.outlier_score(made.pool), space.outlier_score(made.pool))


def test_one_picture_a_class_still_tells_far_clusters_apart() -> None:
    for seed in range(2):
        made = clusters(6, 1, 300, 0.3, seed)
        space = fit(made)
        assert auroc(space.outlier_score(made.pool), made.outlier) > 0.95
        assert space.share == pytest.approx(0.3, abs=0.15)
        assert space.interval == (0.0, 1.0)


def test_the_same_input_gives_the_same_bits_and_draws_from_its_own_source() -> None:
    made = clusters(4, 5, 80, 0.3, seed=0)
    before = torch.get_rng_state()
    one = to_tensors(fit(made))
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(3)
    other = to_tensors(fit(made))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_neither_order_nor_rotation_nor_scale_changes_what_is_found() -> None:
    made = clusters(4, 15, 400, 0.3, seed=1)
    space = fit(made)
    score = space.outlier_score(made.pool)
    order, few = shuffled(400, 0), shuffled(60, 1)
    turn = 100 * rotation(24, 2).float()
    for labelled, labels, pool, back in (
        (made.labelled, made.labels, made.pool[order], order.argsort()),
        (made.labelled[few], made.labels[few], made.pool, torch.arange(400)),
        (made.labelled @ turn, made.labels, made.pool @ turn, torch.arange(400)),
    ):
        moved = fit_stacked_space(labelled, labels, pool)
        again = moved.outlier_score(pool)[back]
        assert float(torch.corrcoef(torch.stack([score, again]))[0, 1]) > 0.97
        assert moved.share == pytest.approx(space.share, abs=0.05)


def test_a_picture_is_scored_alike_alone_and_among_others_and_in_half_precision() -> None:
    made = clusters(3, 8, 100, 0.3, seed=3)
    space = fit(made)
    score = space.outlier_score(made.pool)
    alone = torch.cat([space.outlier_score(row[None]) for row in made.pool[:5]])
    close(alone, score[:5], 0.1)  # rounding may move a picture past its own rank, one of 100
    half = fit_stacked_space(made.labelled.half(), made.labels, made.pool.half())
    sane(half, made.pool)
    assert auroc(half.outlier_score(made.pool), made.outlier) > 0.98


def test_a_joint_space_comes_back_from_its_tensors() -> None:
    for per_class in (1, 6):
        made = clusters(4, per_class, 80, 0.3, seed=0)
        space = fit(made)
        again = from_tensors(StackedSpace, to_tensors(space))
        unseen = torch.cat([made.pool, normal(30, 24, seed=4).float()])
        assert torch.equal(again.outlier_score(unseen), space.outlier_score(unseen))
        assert (again.share, again.interval) == (space.share, space.interval)
        assert again.threshold() == space.threshold()


def test_a_pool_larger_than_a_fold_sees() -> None:
    made = clusters(3, 8, 300, 0.3, seed=0)
    small = StackSettings(fold_pool=100, references=60)
    space = fit_stacked_space(made.labelled, made.labels, made.pool, small)
    sane(space, made.pool)
    assert len(space.neighbourhood.reference) <= 60 + 30
    assert auroc(space.outlier_score(made.pool), made.outlier) > 0.98


def test_folds_are_even_over_classes_and_over_all() -> None:
    labels = torch.tensor([0] * 7 + [1] * 2 + [2] + [3] * 5)
    parts = assign_folds(labels, 3, source(0))
    for k in range(4):
        sizes = torch.bincount(parts[labels == k], minlength=3)
        assert sizes.max() - sizes.min() <= 1
    assert torch.bincount(parts, minlength=3).tolist() == [5, 5, 5]
