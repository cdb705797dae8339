"""The share of outliers from hidden labelled scores, and how near it is."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from ossl.jointspace.share import (
    CAUTION,
    LEAST_HIDDEN,
    LEAST_PART,
    hidden_auroc,
    outlier_share,
    share_interval,
)
from tests.jointspace.drawn import close, examples, normal, scales, seeds, shuffled
from tests.reference import evidence as slow


def drawn(
    hidden: int, pool: int, share: float, seed: int, apart: float = 4.0
) -> tuple[Tensor, Tensor]:
    scores = normal(hidden + pool, seed=seed).float()
    scores[hidden : hidden + round(share * pool)] += apart
    return scores[:hidden], scores[hidden:]


@examples
@given(seeds, st.integers(LEAST_HIDDEN, 40), st.integers(1, 40), st.floats(0, 1))
def test_the_share_is_the_loop(seed: int, n: int, m: int, share: float) -> None:
    hidden, pool = drawn(n, m, share, seed)
    rule = (CAUTION, LEAST_HIDDEN, LEAST_PART)
    by_hand = slow.outlier_share(hidden.tolist(), pool.tolist(), *rule)
    close(outlier_share(hidden, pool), by_hand, 1e-5)


@examples
@given(seeds, scales)
def test_the_share_sees_order_alone(seed: int, scale: float) -> None:
    hidden, pool = drawn(20, 50, 0.3, seed)
    found = outlier_share(hidden, pool)
    moved = (scale * hidden[shuffled(20, seed)], scale * pool[shuffled(50, seed)])
    assert outlier_share(*moved) == found
    assert outlier_share(hidden.double().exp(), pool.double().exp()) == found


@pytest.mark.parametrize("share", [0.0, 0.05, 0.2, 0.6, 0.9, 1.0])
def test_the_share_is_near_on_the_average_and_its_interval_holds_the_truth(share: float) -> None:
    found, low_misses, high_misses = [], 0, 0
    for seed in range(12):
        hidden, pool = drawn(100, 600, share, seed)
        low, high = share_interval(hidden, pool, outlier_share(hidden, pool))
        found.append(outlier_share(hidden, pool))
        assert 0 <= low <= found[-1] <= high <= 1
        low_misses, high_misses = low_misses + (low > share), high_misses + (high < share)
    assert sum(found) / len(found) == pytest.approx(share, abs=0.05)
    assert low_misses + high_misses <= 4


def test_more_hidden_pictures_narrow_the_interval() -> None:
    widths = []
    for hidden in (20, 80, 800):
        low, high = share_interval(*drawn(hidden, 800, 0.4, seed=3), 0.4)
        widths.append(high - low)
    assert widths == sorted(widths, reverse=True)


def test_the_interval_is_the_same_every_time_and_draws_from_its_own_source() -> None:
    hidden, pool = drawn(30, 60, 0.3, seed=0)
    before = torch.get_rng_state()
    assert share_interval(hidden, pool, outlier_share(hidden, pool)) == share_interval(
        hidden, pool, outlier_share(hidden, pool)
    )
    assert torch.equal(torch.get_rng_state(), before)


def test_too_few_hidden_pictures_say_nothing() -> None:
    for hidden in (0, 1, LEAST_HIDDEN - 1):
        assert share_interval(torch.zeros(hidden), torch.ones(9), 0.5) == (0.0, 1.0)
    assert share_interval(torch.zeros(20), torch.empty(0), 0.5) == (0.0, 1.0)
    assert outlier_share(torch.zeros(20), torch.empty(0)) == 0.0


def test_equal_scores_and_one_pool_picture_give_a_share() -> None:
    same = torch.ones(20)
    assert outlier_share(same, same) == 0.0
    assert outlier_share(same, 2 * same) == 1.0
    assert share_interval(same, same[:1], 0.0) == (0.0, 0.0)


@examples
@given(seeds, st.integers(1, 20), st.integers(1, 20))
def test_hidden_auroc_is_the_loop(seed: int, n: int, m: int) -> None:
    scores = normal(n + m, seed=seed).float().mul(2).round()  # with ties
    hidden, pool = scores[:n], scores[n:]
    wins = sum((p > h) + 0.5 * (p == h) for p in pool.tolist() for h in hidden.tolist())
    assert hidden_auroc(hidden, pool) == pytest.approx(wins / (n * m))


def test_nothing_hidden_has_no_auroc() -> None:
    assert math.isnan(hidden_auroc(torch.empty(0), torch.ones(3)))
