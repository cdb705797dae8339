"""What a person says of pool pictures, and what of the scores it corrects.

A marked picture is certain, but a person picked it, mostly where the boundary was in doubt: it is
no fair draw of the known or the outlying. So it is learnt from and never used to measure with.

Beside what the fits make of them, the marks that are on the wrong side of the boundary when they
are not shown pull the scores around them over:

    f(x) = Σ_i k(x, x_i) α_i,    (K + ρ) α = r,    r_i = y_i max(0, margin − y_i (s_i − t))

with y = 1 for an outlier and −1 for a known picture, s the score and t the boundary. How far that
reaches and how much of it is taken is what brings marks to their side that were left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from ossl.jointspace.kernel_head import gaussian, place

MARGIN = 1.0  # spreads of the known, from the boundary
REACHES = (1.0, 0.5, 0.25, 0.125)  # of the pool's mean squared distance from its middle
RIDGES = (1.0, 3.0, 10.0)
FEWEST = 5  # marks; of fewer nothing can be left out


@dataclass
class Marks:
    """Pool pictures that a person has named."""

    rows: Tensor  # (m,) of the pool
    labels: Tensor  # (m,), -1 = outlier

    @property
    def outlying(self) -> Tensor:
        """Return which of them are outliers, (m,)."""
        return self.labels < 0

    @property
    def known_count(self) -> int:
        """Return how many of them are known."""
        return int((~self.outlying).sum())

    @staticmethod
    def none() -> Marks:
        """Return no marks."""
        return Marks(torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64))


@dataclass
class Pull:
    """What is added to the score of features, f(x)."""

    points: Tensor  # (m, D)
    coefficients: Tensor  # (m,)
    reach: float
    roots: bool

    def __call__(self, features: Tensor) -> Tensor:
        """Return f of features, (N,)."""
        found: Tensor = gaussian(place(features, self.roots), self.points, self.reach) @ (
            self.coefficients
        )
        return found


def fit_pull(
    features: Tensor, scores: Tensor, outlying: Tensor, limit: float, pool: Tensor
) -> Pull | None:
    """Return f from marked features and their scores; None where no mark helps another."""
    if len(features) < FEWEST:
        return None
    roots = bool((features >= 0).all()) and bool((pool >= 0).all())
    points, around = place(features, roots), place(pool, roots)
    spread = float((around - around.mean(0)).square().sum(1).mean())
    side = outlying.to(scores) * 2 - 1
    beyond = side * (scores - limit)
    missing = side * (MARGIN - beyond).clamp_min(0)
    best, found = float(functional.softplus(-beyond).mean()), None
    for part in REACHES:
        kernel = gaussian(points, points, part * spread)
        for ridge in RIDGES:
            inverse = torch.linalg.inv((kernel + ridge * torch.eye(len(kernel))).double()).float()
            solved = inverse @ missing
            left_out = missing - solved / inverse.diagonal()
            loss = float(functional.softplus(-side * (scores + left_out - limit)).mean())
            if loss < best:
                best, found = loss, Pull(points, solved, part * spread, roots)
    return found
