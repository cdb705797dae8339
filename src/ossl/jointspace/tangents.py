"""The first binary classifier: tangents of the circle around the labelled features (rows 5–8).

In the order of the paper: one cluster K of all labelled features with its centre and radius, the
tangents at its N furthest samples, the outliers that each tangent finds in the pool, and the
tangent that finds the most. All features here are S(f) already.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ossl.jointspace.numerics import at_least_float32, distance, without_autocast


def known_centre(features: Tensor) -> Tensor:
    """Return k_ic = mean f_i, the centre [D] of the labelled features [n, D] (row 5)."""
    if len(features) == 0:
        raise ValueError("no features: the known centre is the mean of at least one")
    return at_least_float32(features).mean(dim=0)


def radius(features: Tensor, centre: Tensor) -> Tensor:
    """Return r = max_i d(f_i, k_ic), a scalar (row 5)."""
    if len(features) == 0:
        raise ValueError("no features: the radius is the distance of the furthest one")
    return distance(features, centre).max()


def tangent_directions(features: Tensor, centre: Tensor, count: int) -> Tensor:
    """Return u_j = (f_j − k_ic) / ‖f_j − k_ic‖ of the `count` furthest samples, [N, D] (row 6).

    The furthest comes first, equally far samples in their order. There are fewer rows than `count`
    where there are fewer samples, or where samples lie on the centre: those have no direction.
    """
    if count < 1:
        raise ValueError(f"the number of tangents must be at least 1, not {count}")
    distances = distance(features, centre)
    furthest = torch.sort(distances, descending=True, stable=True).indices[:count]
    furthest = furthest[distances[furthest] > 0]
    return (at_least_float32(features[furthest]) - centre) / distances[furthest].unsqueeze(-1)


def tangent_values(
    features: Tensor, directions: Tensor, centre: Tensor, radius: Tensor | float
) -> Tensor:
    """Return D_j(f) = r − u_j·(f − k_ic) for every feature and tangent, [n, N] (row 6).

    Positive inside the circle, zero on the tangent. Pushing the j-th sample out to the boundary is
    the added (r − d) of the paper: after it, all N tangents have the same distance r to the centre.
    """
    offset = at_least_float32(features) - centre
    with without_autocast(offset):
        return radius - offset @ directions.to(offset.dtype).T


def outliers_by_tangent(
    pool_values: Tensor, labelled_values: Tensor, tolerance: float = 0.1
) -> Tensor:
    """Return whether |D_j(f) − mean D_j(F_l)| > tolerance, bool [n, N] (row 7)."""
    if len(labelled_values) == 0:
        raise ValueError("no labelled values: a tangent is compared with their mean")
    usual = at_least_float32(labelled_values).mean(dim=0)
    return (at_least_float32(pool_values) - usual).abs() > tolerance


def choose_candidate(outliers: Tensor) -> tuple[int, float]:
    """Return the tangent with the largest outlier rate r_j = n_j / m, and that rate (row 8).

    `outliers` is bool [m, N]. The first of equals wins; an empty pool has rate 0 at the first.
    """
    if outliers.ndim != 2 or outliers.shape[1] == 0:
        raise ValueError(
            f"outliers must be [m, N] with at least one tangent, not {list(outliers.shape)}"
        )
    if len(outliers) == 0:
        return 0, 0.0
    found = outliers.sum(dim=0)
    best = int(found.argmax())
    return best, int(found[best]) / len(outliers)
