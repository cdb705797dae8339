"""The share of outliers in a pool, by a mixture that held-out labelled scores anchor."""

from __future__ import annotations

import torch
from torch import Tensor


def anchored_mixture(pool: Tensor, known: Tensor, start: float = 0.5, steps: int = 60) -> Tensor:
    """Return P(outlier) for every pool score under two Gaussians, ``known`` anchoring the first.

    ``known`` are scores of labelled pictures that the score was *not* fitted on. With fewer than
    two of them the lower half of the pool anchors instead, with the weight of one picture.
    """
    n = float(len(known))
    if n > 1:
        mean_l, var_l = known.mean(), known.var() + 1e-4
    else:
        low = pool[pool <= pool.quantile(0.5)]
        mean_l, var_l, n = low.mean(), low.var(correction=0) + 1e-4, 1.0
    mean_k, var_k = mean_l, var_l
    high = pool[pool >= pool.quantile(0.7)]
    mean_o, var_o = high.mean(), high.var(correction=0) + 1e-3
    share = torch.tensor(start, dtype=pool.dtype)
    outlier = torch.zeros_like(pool)
    for _ in range(steps):
        log_o = share.log() - 0.5 * var_o.log() - 0.5 * (pool - mean_o).square() / var_o
        log_k = (1 - share).log() - 0.5 * var_k.log() - 0.5 * (pool - mean_k).square() / var_k
        outlier = torch.sigmoid(log_o - log_k)
        inlier = 1 - outlier
        mean_k = (inlier @ pool + n * mean_l) / (inlier.sum() + n)
        spread = inlier @ (pool - mean_k).square() + n * (var_l + (mean_l - mean_k).square())
        var_k = spread / (inlier.sum() + n) + 1e-6
        mean_o = (outlier @ pool) / outlier.sum().clamp_min(1e-6)
        var_o = (outlier @ (pool - mean_o).square()) / outlier.sum().clamp_min(1e-6)
        var_o = torch.maximum(var_o, 0.05 * var_k)
        share = outlier.mean().clamp(1e-3, 1 - 1e-3)
    return outlier
