"""All evidence about one pool, fitted on a fold or on everything, and its weighing."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from ossl.jointspace.anchored import anchored_mixture
from ossl.jointspace.bank import Bank, Ranks, fit_bank
from ossl.jointspace.centre_sets import CentreSets, fit_centres
from ossl.jointspace.principal import PrincipalSpace, StackSettings
from ossl.jointspace.self_training import self_train


def weigh(hidden: Tensor, pool: Tensor, penalty: float) -> Tensor:
    """Return non-negative weights (E,) of evidence columns: balanced logistic, hidden vs pool.

    Weights are pulled to their common mean by ``penalty`` / number of hidden pictures, so few
    labels give a plain average and many give the best combination.
    """
    count = hidden.shape[1]
    if len(hidden) < 2:
        return torch.full((count,), 1.0 / count)
    rows = torch.cat([hidden, pool])
    target = torch.cat([torch.zeros(len(hidden)), torch.ones(len(pool))])
    balance = torch.cat(
        [torch.full((len(hidden),), 0.5 / len(hidden)), torch.full((len(pool),), 0.5 / len(pool))]
    )
    raw = torch.full((count + 1,), -2.0)
    raw[-1] = 0.0
    raw.requires_grad_(True)
    solver = torch.optim.LBFGS([raw], max_iter=60, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        solver.zero_grad()
        weights = functional.softplus(raw[:-1])
        miss = functional.binary_cross_entropy_with_logits(
            rows @ weights + raw[-1], target, reduction="none"
        )
        spread = (weights - weights.mean()).square().sum() + 0.01 * weights.square().sum()
        value = (miss * balance).sum() + penalty * spread / (2 * len(hidden))
        value.backward()  # type: ignore[no-untyped-call]
        return value

    solver.step(loss)  # type: ignore[no-untyped-call]
    weights = functional.softplus(raw[:-1]).detach()
    return weights / weights.sum()


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
        columns = self.bank(x)
        return torch.stack([r(columns[:, i]) for i, r in enumerate(self.bank_ranks)], 1)

    def _learned(self, x: Tensor, simple: Tensor) -> Tensor:
        assert self.directions is not None and self.centres is not None
        columns = [simple]
        for direction in self.directions:
            dim = len(direction)
            columns.append((x[:, :dim] * self.space.scale(dim)) @ direction)
        for dim, centres in self.centres:
            columns.append(centres(x[:, :dim] * self.space.scale(dim)))
        return torch.stack(columns, 1)

    def learned(self, x: Tensor, simple: Tensor | None = None) -> Tensor:
        """Return the learned evidence as normal quantiles, (N, E')."""
        assert self.bank_weights is not None and self.ranks is not None
        start = self.simple(x) @ self.bank_weights if simple is None else simple
        columns = self._learned(x, start)
        return torch.stack([r(columns[:, i]) for i, r in enumerate(self.ranks)], 1)


def centre_counts(classes: int, pool: int) -> list[int]:
    """Return how many outlier centres to try: fewer than the known classes, and more."""
    most = max(2, pool // 10)
    return sorted({min(most, max(2, classes // 2)), min(most, max(4, 2 * classes))})


def start_judge(
    space: PrincipalSpace, x: Tensor, y: Tensor, pool: Tensor, settings: StackSettings
) -> Judge:
    """Return a judge with its simple evidence fitted."""
    bank = fit_bank(space, x, y, pool, settings)
    columns = bank(pool)
    return Judge(space, bank, [Ranks.of(columns[:, i]) for i in range(columns.shape[1])])


def finish_judge(
    judge: Judge,
    x: Tensor,
    y: Tensor,
    pool: Tensor,
    hidden: int,
    weights: Tensor,
    share: float | None,
    settings: StackSettings,
) -> Judge:
    """Return the judge with self-trained directions and centres.

    The first ``hidden`` rows of ``pool`` are labelled pictures hidden in it; ``share`` is the share
    of outliers that the centres start from (None: that of the mixture on the simple evidence).
    """
    judge.bank_weights = weights
    start = judge.simple(pool) @ weights
    if share is None:
        share = float(anchored_mixture(start[hidden:], start[:hidden]).mean())
    share = min(max(share, 0.05), 0.95)
    judge.directions, judge.centres = [], []
    for dim in sorted({judge.bank.dims[len(judge.bank.dims) // 3], judge.bank.dims[-1]}):
        judge.directions.append(
            self_train(
                x[:, :dim] * judge.space.scale(dim),
                pool[:, :dim] * judge.space.scale(dim),
                start,
                hidden,
                settings,
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
            )
            judge.centres.append((dim, centres))
    columns = judge._learned(pool, start)
    judge.ranks = [Ranks.of(columns[:, i]) for i in range(columns.shape[1])]
    return judge
