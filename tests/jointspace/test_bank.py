"""Simple evidence in several depths, and the ranks that make it comparable."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from ossl.jointspace import evidence
from ossl.jointspace.bank import Ranks, fit_bank
from ossl.jointspace.numerics import ROWS_AT_A_TIME
from ossl.jointspace.principal import StackSettings, fit_principal_space
from tests.jointspace.clusters import clusters
from tests.jointspace.drawn import close, examples, normal, scales, seeds, shuffled


def rank_by_hand(pool: list[float], score: float) -> float:
    """The rank among the pool's sorted scores, by the part of the way between two of them."""
    below = [place for place, knot in enumerate(pool) if knot < score]
    if not below or len(below) == len(pool):
        return float(min(len(below), len(pool) - 1))
    low, high = pool[below[-1]], pool[below[-1] + 1]
    return below[-1] + (score - low) / (high - low)


@examples
@given(seeds, st.integers(1, 40))
def test_ranks_are_the_loop(seed: int, n: int) -> None:
    pool, asked = normal(n, seed=seed), torch.cat([normal(7, seed=seed + 1), normal(n, seed=seed)])
    every = torch.special.ndtri((torch.arange(n).double() + 0.5) / (n + 1)).clamp(-3.2906, 3.2906)
    by_hand = []
    for score in asked.tolist():
        rank = rank_by_hand(sorted(pool.tolist()), score)
        low, part = int(rank), rank - int(rank)
        by_hand.append((1 - part) * every[low] + part * every[min(low + 1, n - 1)])
    close(Ranks.of(pool)(asked), torch.stack(by_hand), 1e-4)


@examples
@given(seeds, scales)
def test_ranks_of_the_pool_see_order_alone(seed: int, scale: float) -> None:
    pool, asked = normal(30, seed=seed), normal(7, seed=seed + 1)
    found = Ranks.of(pool)(asked)
    close(Ranks.of(scale * pool[shuffled(30, seed)])(scale * asked), found, 1e-3)
    assert (found[asked.argsort()].diff() >= 0).all()
    assert torch.equal(Ranks.of(pool.exp())(pool.exp()), Ranks.of(pool)(pool))


@examples
@given(seeds)
def test_the_last_bit_of_a_pool_picture_does_not_decide_its_rank(seed: int) -> None:
    pool = normal(300, seed=seed)
    ranks = Ranks.of(pool)
    steps = pool.sort().values.diff().min()  # far apart against the rounding that is tried
    nudge = 1e-3 * steps * torch.tensor([-1.0, 1.0]).repeat(150)
    close(ranks(pool + nudge), ranks(pool), 2e-3)


def test_ranks_of_one_picture_of_equal_ones_and_of_a_large_pool_are_finite() -> None:
    asked = torch.tensor([-1e30, 0.0, 1.0, 1e30])
    for pool in (torch.ones(1), torch.ones(50), torch.arange(30_000.0)):
        ranks = Ranks.of(pool)
        assert len(ranks.knots) <= 2001
        assert ranks(asked).isfinite().all()
    close(Ranks.of(torch.arange(30_001.0))(torch.tensor([15_000.0])), [0.0], 2e-3)


def test_a_bank_is_its_columns() -> None:
    made = clusters(3, 4, 60, 0.3, seed=0, size=12)
    settings = StackSettings(dims=(4, 8, 32), knn_dims=(8,), neighbours=3)
    space = fit_principal_space(made.labelled, made.pool, settings)
    x, p = space.project(made.labelled), space.project(made.pool)
    bank = fit_bank(space, x, made.labels, p, settings)
    assert bank.dims == [4, 8]
    columns = bank(p)
    assert columns.shape == (60, 1 + 3 + 4)
    close(columns[:, 0], evidence.knn_distance(p, x, 3), 1e-5)
    white, known = p[:, :8] * space.scale(8), x[:, :8] * space.scale(8)
    centres = evidence.class_means(known, made.labels, 3)
    cov = torch.cov(white.T, correction=0)
    direction = evidence.pool_direction(centres, white.mean(0), cov, settings.ridge)
    close(columns[:, 4], white @ direction, 1e-4)
    close(columns[:, 5], evidence.relative_mahalanobis(white, centres, white.mean(0)), 1e-4)
    close(columns[:, 6], evidence.centre_cosine(white, centres), 1e-4)
    close(columns[:, 7], evidence.knn_distance(white, known, 3), 1e-4)


def test_a_bank_of_more_pictures_than_are_asked_at_a_time() -> None:
    made = clusters(2, 3, ROWS_AT_A_TIME + 5, 0.1, seed=0, size=3)
    settings = StackSettings()
    space = fit_principal_space(made.labelled, made.pool, settings)
    x, p = space.project(made.labelled), space.project(made.pool)
    bank = fit_bank(space, x, made.labels, p, settings)
    assert bank.dims == [3]  # narrower than any depth: all there is
    close(bank(p)[-9:], bank(p[-9:]), 1e-5)
