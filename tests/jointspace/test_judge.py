"""How evidence is weighed, and one fit of it all."""

from __future__ import annotations

import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from ossl.jointspace.judge import _logistic, centre_counts, finish_judge, start_judge, weigh
from ossl.jointspace.principal import StackSettings, fit_principal_space
from tests.jointspace.clusters import auroc, clusters
from tests.jointspace.drawn import close, examples, normal, seeds, shuffled
from tests.reference import evidence as slow


def columns(n: int, m: int, seed: int, shift: float) -> tuple[Tensor, Tensor]:
    hidden, pool = normal(n, 3, seed=seed).float(), normal(m, 3, seed=seed + 1).float()
    pool[: m // 2, 0] += 2.5
    return hidden + shift, pool + shift


@settings(examples, max_examples=5)
@given(seeds, st.integers(5, 9), st.sampled_from([0.5, 4.0, 40.0]), st.sampled_from([0.0, 1.0]))
def test_the_weights_are_the_loops_optimum(seed: int, n: int, penalty: float, shift: float) -> None:
    hidden, pool = columns(n, 12, seed, shift)
    prior = torch.tensor([0.5, 0.3, 0.2])
    # Where the prior parts the two wholly, no finite coefficient is the best.
    assume(((pool @ prior) < (hidden @ prior).max()).float().mean() > 0.3)
    by_hand = slow.weigh(hidden.tolist(), pool.tolist(), prior.tolist(), penalty)
    close(weigh(hidden, pool, prior, penalty), by_hand, 2e-3)


@examples
@given(seeds, st.floats(0.01, 3.0))
def test_no_coefficient_could_be_better(seed: int, pull: float) -> None:
    hidden, pool = columns(12, 60, seed, 0.0)
    rows, target = torch.cat([hidden, pool]), torch.tensor([0.0] * 12 + [1.0] * 60)
    balance = torch.tensor([0.5 / 12] * 12 + [0.5 / 60] * 60)
    start, pulls = torch.tensor([0.4, 0.4, 0.2]), torch.full((3,), pull)
    found = _logistic(rows, target, balance, start, pulls)
    low, high = -50.0, 50.0  # of the bias, whose slope grows
    for _ in range(60):
        bias = (low + high) / 2
        miss = balance * (torch.sigmoid(rows @ found + bias) - target)
        low, high = (low, bias) if miss.sum() > 0 else (bias, high)
    slope = rows.T @ miss + pulls * (found - start)
    assert (found >= 0).all()
    assert slope[found > 0].abs().max() < 1e-4
    assert (slope[found == 0] > -1e-4).all()


@settings(examples, max_examples=8)
@given(seeds)
def test_weights_do_not_see_the_order_of_pictures_or_of_evidence(seed: int) -> None:
    hidden, pool = columns(8, 30, seed, 0.0)
    prior = torch.tensor([0.5, 0.3, 0.2])
    found = weigh(hidden, pool, prior, 4.0)
    assert (found >= 0).all()
    close(found.sum(), 1.0, 1e-5)
    a, b, c = shuffled(8, seed), shuffled(30, seed), shuffled(3, seed)
    close(weigh(hidden[a][:, c], pool[b][:, c], prior[c], 4.0), found[c], 1e-4)


def test_a_strong_penalty_or_hardly_any_hidden_picture_keeps_the_prior() -> None:
    hidden, pool = columns(8, 30, 0, 0.0)
    prior = torch.tensor([0.5, 0.3, 0.2])
    close(weigh(hidden, pool, prior, 1e5), prior, 1e-3)
    for few in (0, 1):
        assert weigh(hidden[:few], pool, prior, 4.0) is prior
    assert weigh(hidden, pool, prior, 0.1)[0] > 0.55  # the only column that knows


def test_evidence_that_says_nothing_keeps_the_prior_finite() -> None:
    prior = torch.tensor([0.5, 0.5])
    for value in (0.0, 3.0):
        found = weigh(torch.full((5, 2), value), torch.full((9, 2), value), prior, 4.0)
        close(found, prior, 1e-3)


def test_centre_counts_are_fewer_and_more_than_the_classes_and_fit_the_pool() -> None:
    assert centre_counts(10, 6000) == [5, 20]
    assert centre_counts(1, 6000) == [2, 4]
    assert centre_counts(100, 300) == [30]
    assert centre_counts(20, 5) == [2]


def test_what_a_judge_says_again_is_what_it_said_at_the_fit() -> None:
    made, settings_ = clusters(3, 8, 120, 0.4, seed=0), StackSettings()
    space = fit_principal_space(made.labelled, made.pool, settings_)
    x = space.project(made.labelled)
    mixed = torch.cat([x[::4], space.project(made.pool)])
    shown = torch.arange(24) % 4 > 0
    y = made.labels[shown]
    judge, simple = start_judge(space, x[shown], y, mixed, settings_)
    close(judge.simple(mixed), simple, 1e-5)
    weights = torch.full((simple.shape[1],), 1 / simple.shape[1])
    learned = finish_judge(judge, x[shown], y, mixed, 6, simple, weights, settings_)
    close(judge.learned(mixed), learned, 1e-5)
    assert learned.isfinite().all()
    for column in learned[6:].T:
        assert auroc(column, made.outlier) > 0.9
