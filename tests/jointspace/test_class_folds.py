"""Trust in evidence that sees classes which were left out."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from ossl.jointspace.class_folds import _alternating, _auroc, trust_by_class_folds
from ossl.jointspace.principal import StackSettings, fit_principal_space
from tests.jointspace.clusters import Clusters, clusters
from tests.jointspace.drawn import close, examples, normal, scales, seeds, shuffled, sizes
from tests.reference import evidence as slow

SETTINGS = StackSettings()


def trust(made: Clusters) -> torch.Tensor:
    space = fit_principal_space(made.labelled, made.pool, SETTINGS)
    x, p = space.project(made.labelled), space.project(made.pool)
    return trust_by_class_folds(space, x, made.labels, p, SETTINGS)


@examples
@given(seeds, sizes, sizes, st.booleans())
def test_auroc_is_the_loop_and_equal_values_count_half(
    seed: int, n: int, m: int, ties: bool
) -> None:
    known, outlier = normal(n, 3, seed=seed), normal(m, 3, seed=seed + 1) + 0.5
    if ties:
        known, outlier = known.round(), outlier.round()
    by_hand = [
        slow.auroc(known[:, i].tolist(), outlier[:, i].tolist()) for i in range(known.shape[1])
    ]
    close(_auroc(known, outlier), by_hand)
    close(_auroc(outlier, known), [1 - a for a in by_hand])


@examples
@given(seeds, scales)
def test_auroc_sees_order_alone(seed: int, scale: float) -> None:
    known, outlier = normal(9, 2, seed=seed), normal(7, 2, seed=seed + 1)
    moved = (scale * known[shuffled(9, seed)] + 1, scale * outlier[shuffled(7, seed)] + 1)
    close(_auroc(*moved), _auroc(known, outlier))


def test_a_column_that_says_the_same_of_all_is_chance() -> None:
    assert _auroc(torch.ones(4, 1), torch.ones(9, 1)).tolist() == [0.5]


def test_halves_alternate_within_each_class() -> None:
    assert _alternating(torch.tensor([0, 1, 0, 0, 1, 2])).tolist() == [0, 0, 1, 0, 1, 0]


def test_trust_adds_up_to_one() -> None:
    for classes, per_class in ((2, 2), (2, 10), (5, 8), (3, 3)):
        found = trust(clusters(classes, per_class, 60, 0.2, seed=classes))
        assert (found > 0).all()
        close(found.sum(), 1.0, 1e-5)


def test_nothing_to_leave_out_gives_even_weights() -> None:
    for classes, per_class in ((1, 6), (1, 1), (4, 1)):
        found = trust(clusters(classes, per_class, 30, 0.2, seed=0))
        close(found, torch.full_like(found, 1 / len(found)), 1e-6)
