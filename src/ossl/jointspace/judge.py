"""All evidence about one pool, fitted on a fold or on everything, and its weighing."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ossl.jointspace.anchored import anchored_mixture
from ossl.jointspace.bank import Bank, Ranks, fit_bank, ranked
from ossl.jointspace.centre_sets import CentreSets, fit_centres
from ossl.jointspace.principal import PrincipalSpace, StackSettings
from ossl.jointspace.self_training import self_train

WEIGHING_STEPS = 400


def weigh(
    hidden: Tensor,
    pool: Tensor,
    prior: Tensor,
    penalty: float,
    outliers: Tensor | None = None,
) -> Tensor:
    """Return non-negative weights (E,) of evidence columns, which add up to one.

    A balanced logistic regression of hidden labelled pictures against the pool, in which leaving
    the ``prior`` weights by a part δ of themselves costs ``penalty`` / (2 hidden) δ². Where hardly
    anything tells the two apart (few outliers, few labels) the prior therefore stays. ``outliers``
    are pictures that a person has marked; each counts as much as a hidden one.
    """
    if len(hidden) < 2:
        return prior
    marked = pool[:0] if outliers is None else outliers
    rows = torch.cat([hidden, pool, marked])
    target = torch.cat([torch.zeros(len(hidden)), torch.ones(len(pool) + len(marked))])
    each = [
        (len(hidden), 0.5 / len(hidden)),
        (len(pool), 0.5 / len(pool)),
        (len(marked), 0.5 / len(hidden)),
    ]
    balance = torch.cat([torch.full((count,), weight) for count, weight in each])
    free = torch.zeros(1)
    scale = _logistic((rows @ prior)[:, None], target, balance, torch.ones(1), free)
    expected = scale.clamp_min(1e-3) * prior.clamp_min(1e-3 / len(prior))
    weights = _logistic(rows, target, balance, expected, penalty / len(hidden) / expected.square())
    return weights / weights.sum().clamp_min(1e-12)


def _logistic(rows: Tensor, target: Tensor, balance: Tensor, start: Tensor, pull: Tensor) -> Tensor:
    """Return the non-negative coefficients of a weighted logistic regression.

    They are pulled back to ``start`` by ``pull``; coordinates scaled by the curvature make
    accelerated projected gradient steps need no line search.
    """
    inside = 0.25 * (balance[:, None] * rows.square()).sum(0) * rows.shape[1] * 1.01
    step = 1 / (inside + pull + 1e-4)
    weights = ahead = start
    bias = bias_ahead = torch.zeros(())
    momentum = 1.0
    for _ in range(WEIGHING_STEPS):
        miss = balance * (torch.sigmoid(rows @ ahead + bias_ahead) - target)
        moved = (ahead - step * (rows.T @ miss + pull * (ahead - start))).clamp_min(0)
        bias_moved = bias_ahead - 2 * miss.sum()
        faster = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        part = (momentum - 1) / faster
        ahead, bias_ahead = (
            moved + part * (moved - weights),
            bias_moved + part * (bias_moved - bias),
        )
        weights, bias, momentum = moved, bias_moved, faster
    return weights


@dataclass
class Judge:
    """One fit of all evidence: on a fold, or on everything."""

    space: PrincipalSpace
    bank: Bank
    bank_ranks: list[Ranks]
    bank_weights: Tensor | None = None
    directions: list[Tensor] | None = None
    centres: list[tuple[int, CentreSets]] | None = None
    ranks: list[Ranks] | None = None

    def simple(self, x: Tensor) -> Tensor:
        """Return the simple evidence as normal quantiles, (N, E)."""
        return ranked(self.bank(x), self.bank_ranks)

    def _learned(self, x: Tensor, simple: Tensor) -> Tensor:
        assert self.directions is not None and self.centres is not None
        columns = [simple]
        for direction in self.directions:
            dim = len(direction)
            columns.append((x[:, :dim] * self.space.scale(dim)) @ direction)
        for dim, centres in self.centres:
            columns.append(centres(x[:, :dim] * self.space.scale(dim)))
        return torch.stack(columns, 1)

    def learned(self, x: Tensor) -> Tensor:
        """Return the learned evidence as normal quantiles, (N, E')."""
        assert self.bank_weights is not None and self.ranks is not None
        return ranked(self._learned(x, self.simple(x) @ self.bank_weights), self.ranks)


def centre_counts(classes: int, pool: int) -> list[int]:
    """Return how many outlier centres to try: fewer than the known classes, and more."""
    most = max(2, pool // 10)
    return sorted({min(most, max(2, classes // 2)), min(most, max(4, 2 * classes))})


def start_judge(
    space: PrincipalSpace, x: Tensor, y: Tensor, pool: Tensor, settings: StackSettings
) -> tuple[Judge, Tensor]:
    """Return a judge with its simple evidence fitted, and that evidence of the pool."""
    bank = fit_bank(space, x, y, pool, settings)
    columns = bank(pool)
    ranks = [Ranks.of(column) for column in columns.T]
    return Judge(space, bank, ranks), ranked(columns, ranks)


def finish_judge(
    judge: Judge,
    x: Tensor,
    y: Tensor,
    pool: Tensor,
    hidden: int,
    simple: Tensor,
    weights: Tensor,
    settings: StackSettings,
    outliers: Tensor | None = None,
) -> Tensor:
    """Return the pool's learned evidence, after fitting self-trained directions and centres.

    The first ``hidden`` rows of ``pool`` are labelled pictures hidden in it; ``simple`` is the
    pool's simple evidence, which the fits start from, weighed by ``weights``. ``outliers`` are
    projected pictures that a person has marked.
    """
    judge.bank_weights = weights
    start = simple @ weights
    share = float(anchored_mixture(start[hidden:], start[:hidden]).mean())
    share = min(max(share, 0.05), 0.95)
    marked = pool[:0] if outliers is None else outliers
    judge.directions, judge.centres = [], []
    for dim in sorted({judge.bank.dims[len(judge.bank.dims) // 3], judge.bank.dims[-1]}):
        judge.directions.append(
            self_train(
                x[:, :dim] * judge.space.scale(dim),
                pool[:, :dim] * judge.space.scale(dim),
                start,
                hidden,
                settings,
                marked[:, :dim] * judge.space.scale(dim),
            )
        )
    sample = slice(0, settings.fold_pool)
    for dim in judge.bank.dims[1:3] or judge.bank.dims:
        scale = judge.space.scale(dim)
        for count in centre_counts(int(y.max()) + 1, len(pool[sample])):
            centres = fit_centres(
                x[:, :dim] * scale,
                y,
                pool[sample, :dim] * scale,
                start[sample],
                share,
                count,
                dim // 2,
                settings,
                marked[:, :dim] * scale,
            )
            judge.centres.append((dim, centres))
    columns = judge._learned(pool, start)
    judge.ranks = [Ranks.of(column) for column in columns.T]
    return ranked(columns, judge.ranks)
