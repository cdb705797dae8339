"""The share of outliers in a pool, from the scores of labelled pictures that were hidden in it.

Hidden labelled pictures are scored as the pool's known ones are, so below any threshold t

    F_pool(t) = (1 − a) F_known(t) + a F_outlier(t) ≥ (1 − a) F_known(t)

and 1 − a is the least of the ratios F_pool(t)/F_hidden(t), reached where no outlier scores as low
(Blanchard, Lee and Scott 2010). Few pictures make a ratio noisy and the least of many too low, so t
is where the ratio is least with F_pool and F_hidden each taken `CAUTION` standard deviations to its
disfavour, and above `LEAST_PART` of the hidden. A pool without outliers then has hardly any found.
"""

from __future__ import annotations

import torch
from torch import Tensor

CAUTION = 2.0
"""standard deviations"""
LEAST_HIDDEN = 8
"""hidden pictures; a ratio of fewer is not looked at"""
LEAST_PART = 0.5
"""of the hidden pictures"""
RESAMPLES = 200
"""of the hidden and the pool scores, for the interval"""
SPREADS = 1.645
"""standard deviations; a normal estimate is as near as this in nine cases of ten"""
GRID = 400
"""thresholds"""


def outlier_share(hidden: Tensor, pool: Tensor) -> float:
    """Return the estimated share of outliers among the pool's scores, from 0 to 1."""
    return float(_shares(hidden.sort().values[None], pool.sort().values[None])[0])


def share_interval(
    hidden: Tensor, pool: Tensor, share: float, seed: int = 0
) -> tuple[float, float]:
    """Return the ``share`` that was found `SPREADS` standard deviations down and up, from 0 to 1.

    The deviation is that over resampled hidden and pool scores. Their own quantiles would lie too
    high: the least of many ratios is lower still where resampling has added noise to noise. Of too
    few hidden pictures nothing is known: 0 to 1.
    """
    if len(hidden) < LEAST_HIDDEN or len(pool) == 0:
        return 0.0, 1.0
    generator = torch.Generator().manual_seed(seed)
    shares = []
    for _ in range(RESAMPLES):
        drawn = [
            scores[torch.randint(len(scores), (min(len(scores), 20_000),), generator=generator)]
            for scores in (hidden, pool)
        ]
        shares.append(outlier_share(drawn[0], drawn[1]))
    reach = SPREADS * float(torch.tensor(shares).std())
    return max(0.0, share - reach), min(1.0, share + reach)


def _shares(hidden: Tensor, pool: Tensor) -> Tensor:
    """Return the share of outliers for each row of sorted scores."""
    n, m = hidden.shape[1], pool.shape[1]
    if n < LEAST_HIDDEN or m == 0:
        return torch.zeros(len(hidden))
    first = max(LEAST_HIDDEN, int(LEAST_PART * n)) - 1
    places = torch.linspace(first, n - 1, min(GRID, n - first)).round().long()
    limits = hidden[:, places].contiguous()
    known = (places + 1) / n
    below = torch.searchsorted(pool, limits, right=True) / m
    highest = below + CAUTION * (below * (1 - below) / m).sqrt()
    lowest = known - CAUTION * (known * (1 - known) / n).sqrt()
    best = (highest / lowest).argmin(dim=1, keepdim=True)
    return (1 - (below / known).gather(1, best).squeeze(1)).clamp(0, 1)


def hidden_auroc(hidden: Tensor, pool: Tensor) -> float:
    """Return how often a picture of the pool scores above a hidden labelled one (ties: half)."""
    if not len(hidden) or not len(pool):
        return float("nan")
    ordered = hidden.double().sort().values
    scores = pool.double().contiguous()
    below = torch.searchsorted(ordered, scores) + torch.searchsorted(ordered, scores, right=True)
    return float(below.double().mean()) / (2 * len(hidden))
