"""A mixture of two Gaussians on the outlier score: the share of outliers and a threshold from it.

The share of the component with the higher mean estimates how much of the pool is junk; where both
posteriors are equal is the threshold (λ, when the score is d1/d2), found without any tuning.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ossl.jointspace.numerics import as_float64, at_least_float32

_SPLITS = (0.1, 0.25, 0.5, 0.75, 0.9)
"""shares of the sorted scores at which a start cuts known from outlier"""
_MOST_SCORES = 2048
"""scores; of a longer list so many evenly spaced order statistics stand for all. The share is then
known to 0.05 %, and torch stays on one thread: on a busy machine its threads cost 50 times more"""
_LEAST_SCORES = 4
"""scores; fewer do not determine two means and two deviations"""


@dataclass(frozen=True)
class TwoGaussians:
    """Two Gaussians on a score, higher being more outlying; the outliers have the higher mean."""

    outlier_share: float
    """share of outliers among the pool's scores, 0–1; known_scores do not count"""
    known_mean: float
    known_std: float
    outlier_mean: float
    outlier_std: float
    converged: bool
    iterations: int

    def outlier_probability(self, scores: Tensor) -> Tensor:
        """Return p(outlier | s), like `scores` in shape, never falling as s grows.

        p = π N(s; μ_o, σ_o) / (π N(s; μ_o, σ_o) + (1 − π) N(s; μ_k, σ_k)). With unequal deviations
        these odds turn back beyond one of the means (far to the left of the known, a wider outlier
        component wins again); from that turning point on, the odds of the turning point are kept.
        """
        curvature, slope, constant = self._log_odds()
        exact = as_float64(scores) - self.known_mean
        lowest, highest = -math.inf, math.inf
        if curvature > 0:
            lowest = -slope / (2 * curvature)
        elif curvature < 0:
            highest = -slope / (2 * curvature)
        # An infinite score (a feature on the outlier centre) is as good as a very large one.
        far = 1e6 * (self.known_std + self.outlier_std + self.outlier_mean - self.known_mean)
        exact = exact.clamp(max(lowest, -far), min(highest, far))
        log_odds = curvature * exact**2 + slope * exact + constant
        return torch.sigmoid(log_odds).to(at_least_float32(scores))

    def threshold(self) -> float:
        """Return the score between the means at which both posteriors are ½.

        Where one component outweighs the other at both means there is no such score; then it is
        the point as many known deviations above the known mean as it is outlier deviations below
        the outlier mean, (μ_k σ_o + μ_o σ_k)/(σ_k + σ_o): the midpoint, weighted by the deviations.
        """
        curvature, slope, constant = self._log_odds()
        discriminant = slope**2 - 4 * curvature * constant
        if math.isfinite(constant) and discriminant >= 0:
            # The root at which the odds rise, in the form that also holds for equal deviations.
            root = -2 * constant / (slope + math.sqrt(discriminant))
            if 0 <= root <= self.outlier_mean - self.known_mean:
                return self.known_mean + root
        both = self.known_std + self.outlier_std
        return (self.known_mean * self.outlier_std + self.outlier_mean * self.known_std) / both

    def _log_odds(self) -> tuple[float, float, float]:
        """Return a, b, c of log p(outlier | s)/p(known | s) = a t² + b t + c, t = s − μ_k."""
        if self.outlier_share <= 0:
            prior = -math.inf
        elif self.outlier_share >= 1:
            prior = math.inf
        else:
            prior = math.log(self.outlier_share) - math.log1p(-self.outlier_share)
        apart = self.outlier_mean - self.known_mean
        curvature = 0.5 * (self.known_std**-2 - self.outlier_std**-2)
        slope = apart / self.outlier_std**2
        narrower = math.log(self.known_std / self.outlier_std)
        return curvature, slope, prior + narrower - 0.5 * (apart / self.outlier_std) ** 2


def fit_two_gaussians(
    scores: Tensor,
    known_scores: Tensor | None = None,
    max_iterations: int = 500,
    tolerance: float = 1e-7,
    std_floor: float = 0.02,
) -> TwoGaussians:
    """Return the two-component mixture of the pool's `scores` [n], by deterministic EM in float64.

    Several cuts through the sorted scores start it, the likeliest end wins; the order of the scores
    does not matter, and shifting or scaling them shifts and scales the answer.

    known_scores   held-out labelled scores: known with certainty, they shape that component and do
                   not count for the share
    max_iterations of each start
    tolerance      least gain of the mean log-likelihood to go on for
    std_floor      least deviation of a component, a share of that of all scores: without it a few
                   scores close to each other become a component of their own

    Scores that are all the same, fewer than four, or without a component above the known give a
    share of 0, a threshold above every score and `converged` false. NaN, infinite or no scores at
    all are a ValueError.
    """
    pool = _sorted_finite(scores, "scores")
    known = _sorted_finite(scores[:0] if known_scores is None else known_scores, "known_scores")
    # Scores stand for more than themselves where the list was thinned; the known must keep pace.
    known_weight = (len(pool) / max(scores.numel(), 1)) * (
        (known.numel() if known_scores is None else known_scores.numel()) / max(len(known), 1)
    )
    everything = torch.cat([pool, known])
    if len(everything) == 0:
        raise ValueError("no scores: a mixture needs at least one")
    highest = float(scores.max()) if scores.numel() > 0 else float(everything[-1])
    middle = float(everything.mean())
    spread = float(everything.std(correction=0))
    size = float(everything.abs().max())
    if len(pool) < _LEAST_SCORES or spread <= 1e-12 * size:
        return _all_known(everything, highest)
    em = _ExpectationMaximisation(
        (pool - middle) / spread, (known - middle) / spread, known_weight, std_floor
    )
    ends = [em.run(start, max_iterations, tolerance) for start in em.starts()]
    admissible = [end for end in ends if end is not None and end[1].rises]
    if not admissible:
        return _all_known(everything, highest)
    _, best, converged, iterations = max(admissible, key=lambda end: end[0])
    return TwoGaussians(
        outlier_share=best.share,
        known_mean=middle + spread * best.known_mean,
        known_std=spread * best.known_std,
        outlier_mean=middle + spread * best.outlier_mean,
        outlier_std=spread * best.outlier_std,
        converged=converged,
        iterations=iterations,
    )


@dataclass(frozen=True)
class _Parameters:
    """One state of the EM, in standardised scores."""

    share: float
    known_mean: float
    known_std: float
    outlier_mean: float
    outlier_std: float

    @property
    def rises(self) -> bool:
        return self.outlier_mean > self.known_mean

    def swapped(self) -> _Parameters:
        return _Parameters(
            1.0 - self.share, self.outlier_mean, self.outlier_std, self.known_mean, self.known_std
        )


_End = tuple[float, _Parameters, bool, int]
"""mean log-likelihood, where it ended, whether it settled, after how many iterations"""


@dataclass(frozen=True, eq=False)
class _ExpectationMaximisation:
    """The EM on sorted, standardised scores; `known` has its responsibility fixed."""

    pool: Tensor
    known: Tensor
    known_weight: float
    std_floor: float

    def starts(self) -> list[Tensor]:
        """Return first responsibilities of the outliers [n]: cuts at quantiles and the 2-means cut.

        With known scores, the pool above 95 % of those is one more.
        """
        count = len(self.pool)
        cuts = {min(max(round(split * count), 1), count - 1) for split in _SPLITS}
        cuts.add(self._two_means_cut())
        if len(self.known) > 0:
            usual = torch.quantile(self.known, 0.95)
            cuts.add(min(max(int((self.pool <= usual).sum()), 1), count - 1))
        ranks = torch.arange(count)
        return [(ranks >= cut).double() for cut in sorted(cuts)]

    def _two_means_cut(self) -> int:
        """Return how many of the sorted scores the exact 2-means puts below its cut."""
        count = len(self.pool)
        below = torch.arange(1, count, dtype=torch.float64)
        sums = self.pool.cumsum(dim=0)
        mean_below, mean_above = sums[:-1] / below, (sums[-1] - sums[:-1]) / (count - below)
        between = below * (count - below) * (mean_above - mean_below) ** 2
        return int(between.argmax()) + 1

    def run(self, responsibility: Tensor, max_iterations: int, tolerance: float) -> _End | None:
        """Return where the EM ends from this start, or None where a component dies out."""
        previous, converged, iterations = -math.inf, False, 0
        parameters = self.maximise(responsibility)
        while parameters is not None:
            likelihood, responsibility = self.expect(parameters)
            converged = likelihood - previous < tolerance
            previous = likelihood
            if converged or iterations == max_iterations:
                break
            parameters = self.maximise(responsibility)
            iterations += 1
        if parameters is None:
            return None
        if len(self.known) == 0 and not parameters.rises:
            # Without known scores the two components have no names until their means give them.
            parameters = parameters.swapped()
        return previous, parameters, converged, iterations

    def expect(self, parameters: _Parameters) -> tuple[float, Tensor]:
        """Return the mean log-likelihood and the outliers' responsibilities [n]."""
        p = parameters
        log_known = _log_normal(self.pool, p.known_mean, p.known_std) + math.log1p(-p.share)
        log_outlier = _log_normal(self.pool, p.outlier_mean, p.outlier_std) + math.log(p.share)
        log_both = torch.logaddexp(log_known, log_outlier)
        total = float(log_both.sum()) + self.known_weight * float(
            _log_normal(self.known, p.known_mean, p.known_std).sum()
        )
        weight = len(self.pool) + self.known_weight * len(self.known)
        return total / weight, (log_outlier - log_both).exp()

    def maximise(self, responsibility: Tensor) -> _Parameters | None:
        """Return the parameters for these responsibilities, or None where one side has none."""
        everything = torch.cat([self.pool, self.known])
        as_known = torch.cat([1.0 - responsibility, torch.full_like(self.known, self.known_weight)])
        least = 1e-9 * len(self.pool)
        if float(responsibility.sum()) < least or float(as_known.sum()) < least:
            return None
        # Known scores keep their component alive also where no score of the pool belongs to it.
        share = min(max(float(responsibility.mean()), 1e-9), 1 - 1e-9)
        known_mean, known_std = self._weighted(everything, as_known)
        outlier_mean, outlier_std = self._weighted(self.pool, responsibility)
        return _Parameters(share, known_mean, known_std, outlier_mean, outlier_std)

    def _weighted(self, values: Tensor, weights: Tensor) -> tuple[float, float]:
        total = weights.sum()
        mean = (weights * values).sum() / total
        variance = (weights * (values - mean) ** 2).sum() / total
        return float(mean), max(math.sqrt(float(variance)), self.std_floor)


def _log_normal(scores: Tensor, mean: float, std: float) -> Tensor:
    return -0.5 * ((scores - mean) / std) ** 2 - math.log(std) - 0.5 * math.log(2 * math.pi)


def _sorted_finite(scores: Tensor, name: str) -> Tensor:
    """Return the scores sorted, float64 on the CPU, thinned to evenly spaced order statistics."""
    exact = as_float64(scores).flatten()
    if not bool(torch.isfinite(exact).all()):
        bad = int((~torch.isfinite(exact)).sum())
        raise ValueError(f"{bad} of {len(exact)} {name} are NaN or infinite: leave those out")
    ordered = exact.sort().values
    if len(ordered) > _MOST_SCORES:
        places = (torch.arange(_MOST_SCORES, dtype=torch.float64) + 0.5) / _MOST_SCORES
        ordered = ordered[(places * len(ordered)).long().to(ordered.device)]
    return ordered.cpu()


def _all_known(scores: Tensor, highest: float) -> TwoGaussians:
    """Return the answer that nothing is an outlier: one Gaussian, a threshold above all scores."""
    mean = float(scores.mean())
    # Scores that are all the same have no deviation; a small one keeps the threshold above them.
    std = max(float(scores.std(correction=0)), 1e-3 * abs(mean), 1e-6)
    above = max(3 * std, 1.01 * (highest - mean))
    return TwoGaussians(0.0, mean, std, mean + 2 * above, std, converged=False, iterations=0)
