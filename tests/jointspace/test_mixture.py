"""The mixture: against a hand-written EM, against known shares, and on input that degenerates."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ossl.jointspace import TwoGaussians, fit_two_gaussians
from tests.jointspace.drawn import close, examples, normal, seeds, shuffled
from tests.reference import jointspace as slow

mixtures = st.builds(
    TwoGaussians,
    outlier_share=st.floats(0.05, 0.95),
    known_mean=st.floats(-1.0, 1.0),
    known_std=st.floats(0.3, 2.0),
    outlier_mean=st.floats(1.5, 6.0),
    outlier_std=st.floats(0.3, 2.0),
    converged=st.just(True),
    iterations=st.just(1),
)


def numbers(fit: TwoGaussians) -> slow.Mixture:
    return fit.outlier_share, fit.known_mean, fit.known_std, fit.outlier_mean, fit.outlier_std


def two_groups(seed: int, known: int, outliers: int, apart: float) -> Tensor:
    return torch.cat([normal(known, seed=seed), 1.5 * normal(outliers, seed=seed + 1) + apart])


@examples
@given(mixtures)
def test_probability_is_the_posterior_between_the_means_and_never_falls(
    mixture: TwoGaussians,
) -> None:
    between = torch.linspace(mixture.known_mean, mixture.outlier_mean, 9, dtype=torch.float64)
    expected = [slow.posterior(s, numbers(mixture)) for s in between.tolist()]
    close(mixture.outlier_probability(between), expected)
    wide = torch.linspace(-50, 50, 201, dtype=torch.float64)
    probability = mixture.outlier_probability(wide)
    assert (probability.diff() >= -1e-12).all()
    ends = mixture.outlier_probability(torch.tensor([-math.inf, math.inf, math.nan]))
    assert torch.isfinite(ends[:2]).all()
    assert ends[0] <= ends[1]
    assert ends[2].isnan()
    assert ends.dtype == torch.float32


@examples
@given(mixtures)
def test_threshold_lies_between_the_means_where_the_posteriors_are_equal(
    mixture: TwoGaussians,
) -> None:
    threshold = mixture.threshold()
    assert mixture.known_mean <= threshold <= mixture.outlier_mean
    at_means = [
        slow.posterior(s, numbers(mixture)) for s in (mixture.known_mean, mixture.outlier_mean)
    ]
    if at_means[0] < 0.5 < at_means[1]:
        close(threshold, slow.equal_posterior(numbers(mixture)), 1e-6)
    else:
        close(
            (threshold - mixture.known_mean) / mixture.known_std,
            (mixture.outlier_mean - threshold) / mixture.outlier_std,
        )


def test_threshold_with_equal_deviations_and_with_extreme_shares() -> None:
    even = TwoGaussians(0.5, 0.0, 1.0, 4.0, 1.0, True, 1)
    close(even.threshold(), 2.0)
    for share in (0.0, 1.0):
        one_sided = dataclasses.replace(even, outlier_share=share)
        close(one_sided.threshold(), 2.0)
        assert (one_sided.outlier_probability(torch.tensor([-9.0, 1.0, 9.0])) == share).all()


@pytest.mark.parametrize("with_known", [False, True])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_fit_is_where_the_hand_written_em_stands_still_and_none_is_likelier(
    seed: int, with_known: bool
) -> None:
    scores = two_groups(seed, 70, 50, apart=4.0)
    known = normal(30, seed=seed + 2) if with_known else None
    fit = fit_two_gaussians(scores, known, max_iterations=2000, tolerance=1e-12)
    assert fit.converged
    known_list = [] if known is None else known.tolist()
    close(torch.tensor(slow.em_step(scores.tolist(), known_list, numbers(fit))), numbers(fit), 1e-4)
    best = slow.log_likelihood(scores.tolist(), known_list, numbers(fit))
    for start in ((0.5, 0.0, 1.0, 4.0, 1.0), (0.2, -1.0, 2.0, 5.0, 0.5), (0.7, 0.0, 0.5, 2.0, 2.0)):
        mixture = start
        for _ in range(100):
            mixture = slow.em_step(scores.tolist(), known_list, mixture)
        if mixture[3] > mixture[1]:
            assert best >= slow.log_likelihood(scores.tolist(), known_list, mixture) - 1e-3


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.8])
@pytest.mark.parametrize("count", [600, 20_000])
def test_the_share_is_recovered(share: float, count: int) -> None:
    outliers = round(share * count)
    scores = two_groups(7, count - outliers, outliers, apart=6.0)
    fit = fit_two_gaussians(scores)
    assert fit.converged
    assert abs(fit.outlier_share - share) < 0.03
    assert fit.outlier_mean > fit.known_mean
    flagged = float((scores > fit.threshold()).double().mean())
    assert abs(flagged - share) < 0.03
    close(fit.outlier_probability(scores).mean(), fit.outlier_share, 5e-3)


def test_known_scores_say_which_component_is_known() -> None:
    # Nine in ten are outliers and they overlap the known: alone, the pool is read wrongly.
    scores = torch.cat([normal(60, seed=0), 1.5 * normal(540, seed=1) + 2.5])
    alone = fit_two_gaussians(scores)
    helped = fit_two_gaussians(scores, normal(300, seed=2))
    assert abs(helped.outlier_share - 0.9) < 0.05
    assert abs(helped.outlier_share - 0.9) < abs(alone.outlier_share - 0.9)


def test_known_scores_weigh_the_same_however_long_the_pool() -> None:
    known = normal(400, seed=5) - 0.5
    few = fit_two_gaussians(two_groups(3, 1200, 800, apart=4.0), known)
    repeated = two_groups(3, 1200, 800, apart=4.0).repeat(5)
    many = fit_two_gaussians(repeated, known.repeat(5))
    close(torch.tensor(numbers(many)), numbers(few), 2e-2)


@settings(examples, max_examples=10)
@given(seeds, st.floats(1e-3, 1e3), st.floats(-100.0, 100.0))
def test_order_does_not_matter_and_scale_and_shift_carry_through(
    seed: int, scale: float, shift: float
) -> None:
    scores = two_groups(seed, 40, 30, apart=8.0)
    fit = fit_two_gaussians(scores)
    assert fit_two_gaussians(scores[shuffled(70, seed)]) == fit
    moved = fit_two_gaussians(scale * scores + shift)
    close(moved.outlier_share, fit.outlier_share, 1e-4)
    close((moved.threshold() - shift) / scale, fit.threshold(), 1e-3)


@pytest.mark.parametrize(
    "scores",
    [[3.0] * 9, [0.0] * 4, [-1e-30] * 5, [0.1] * 1000, [5.0], [1.0, 9.0], [1.0, 2.0, 40.0]],
)
def test_scores_that_say_nothing_have_no_outliers(scores: list[float]) -> None:
    fit = fit_two_gaussians(torch.tensor(scores))
    assert fit.outlier_share == 0
    assert not fit.converged
    assert fit.threshold() > max(scores)
    assert (fit.outlier_probability(torch.tensor(scores)) == 0).all()


def test_a_pool_below_all_known_scores_has_no_outliers() -> None:
    fit = fit_two_gaussians(normal(200, seed=0) - 9, normal(400, seed=1))
    assert fit.outlier_share < 0.05


def test_a_constant_pool_far_from_the_known_is_all_outliers() -> None:
    fit = fit_two_gaussians(torch.full((50,), 20.0), normal(50, seed=0))
    assert fit.outlier_share > 0.95
    assert 3 < fit.threshold() < 20


def test_what_is_not_a_number_is_an_error() -> None:
    with pytest.raises(ValueError, match="2 of 5 scores are NaN or infinite"):
        fit_two_gaussians(torch.tensor([0.0, math.nan, 1.0, math.inf, 2.0]))
    with pytest.raises(ValueError, match="1 of 1 known_scores"):
        fit_two_gaussians(torch.rand(9), torch.tensor([math.nan]))
    with pytest.raises(ValueError, match="no scores"):
        fit_two_gaussians(torch.empty(0))
