"""The Apollonius circle: the binary classifier between two centres (rows 9 and 10).

A feature is known iff d1/d2 ≤ λ, with d1 its distance to the known centre k_ic and d2 to the
outlier centre k_oc. λ < 1 is a ball around k_ic, λ = 1 the bisecting plane, and λ > 1 everything
but a ball around k_oc. All features here are S(f) already.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ossl.jointspace.numerics import ROWS_AT_A_TIME, as_float64, at_least_float32, distance

_AT_THE_CENTRE = 1e-12
"""a share of the distance between the centres; nearer than this, d2 counts as zero"""


@dataclass(frozen=True, eq=False)
class Centres:
    """The two centres, [D] each: k_ic of the known and k_oc of the outliers."""

    known: Tensor
    outlier: Tensor

    def detach(self) -> Centres:
        """Return the centres outside of any graph: they are statistics, not parameters."""
        return Centres(self.known.detach(), self.outlier.detach())


def apollonius_ratio(features: Tensor, known_centre: Tensor, outlier_centre: Tensor) -> Tensor:
    """Return d1/d2 = d(f, k_ic) / d(f, k_oc), the outlier score: higher is more outlying (row 9).

    Infinite at the outlier centre, with a zero gradient there; 0 at the known centre. Where both
    centres coincide nothing can be told apart and the ratio is 1 everywhere.
    """
    d1 = distance(features, known_centre)
    d2 = distance(features, outlier_centre)
    nearest = _AT_THE_CENTRE * distance(known_centre, outlier_centre)
    apart = d2 > nearest
    # The division is given a harmless number where it would not be used: its gradient would
    # otherwise be NaN even though the value is thrown away.
    ratio = d1 / torch.where(apart, d2, torch.ones_like(d2))
    at_centre = torch.where(d1 > nearest, torch.inf, torch.ones_like(d1))
    return torch.where(apart, ratio, at_centre.detach())


def is_outlier(ratio: Tensor, limit: float | Tensor) -> Tensor:
    """Return whether not d1/d2 ≤ λ, bool like `ratio` (row 9); λ = 1 needs no division by 1 − λ².

    Written as the opposite of the rule for the known: a ratio that is NaN is never called known.
    """
    return ~(ratio <= limit)


def apollonius_circle(
    known_centre: Tensor, outlier_centre: Tensor, limit: float
) -> tuple[Tensor, Tensor]:
    """Return the centre (k_ic − λ²k_oc)/(1 − λ²) and radius λ‖k_ic − k_oc‖/|1 − λ²| (row 9).

    For λ < 1 the ball holds the known, for λ > 1 it lies around k_oc and holds the outliers. λ = 1
    is the bisecting plane and no circle: a ValueError, as the rule itself needs none.
    """
    if not limit >= 0:
        raise ValueError(f"λ is a ratio of distances and cannot be {limit}")
    if limit == 1:
        raise ValueError("λ = 1 is the bisecting plane, not a circle: use is_outlier(ratio, 1.0)")
    known = at_least_float32(known_centre)
    outlier = at_least_float32(outlier_centre)
    one_minus_square = (1.0 - limit) * (1.0 + limit)
    # The paper's centre, written from k_ic outwards: λ near 1 would cancel k_ic − λ²k_oc.
    centre = known + (limit**2 / one_minus_square) * (known - outlier)
    return centre, limit * distance(known, outlier) / abs(one_minus_square)


def update_centres(
    centres: Centres, labelled: Tensor, pool: Tensor, outlier_mask: Tensor
) -> tuple[Centres, tuple[str, ...]]:
    """Return the centres after a detection over the whole pool, and a note for each that stays.

    Row 10: k_ic is the mean over labelled and detected known, k_oc over detected outliers; an empty
    side keeps its centre. `labelled` [n, D] and `pool` [m, D] may be empty, the mask is bool [m].
    """
    if outlier_mask.shape != pool.shape[:1] or outlier_mask.dtype != torch.bool:
        raise ValueError(
            f"the outlier mask must be bool [{len(pool)}], one for each picture of the pool, "
            f"not {outlier_mask.dtype} {list(outlier_mask.shape)}"
        )
    everything = torch.ones(len(labelled), dtype=torch.bool, device=labelled.device)
    labelled_sum, labelled_count = _sum_where(labelled, everything)
    known_sum, known_count = _sum_where(pool, ~outlier_mask)
    outlier_sum, outlier_count = _sum_where(pool, outlier_mask)
    notes: list[str] = []
    known, outlier = centres.known, centres.outlier
    if labelled_count + known_count > 0:
        known = ((labelled_sum + known_sum) / (labelled_count + known_count)).to(known)
    else:
        notes.append("nothing was labelled or detected as known: the known centre stays")
    if outlier_count > 0:
        outlier = (outlier_sum / outlier_count).to(outlier)
    else:
        notes.append("no outlier was detected: the outlier centre stays")
    return Centres(known, outlier), tuple(notes)


def _sum_where(features: Tensor, mask: Tensor) -> tuple[Tensor, int]:
    """Return the float64 sum [D] and the number of the features under the mask."""
    total = as_float64(features[:0]).sum(dim=0)
    for start in range(0, len(features), ROWS_AT_A_TIME):
        rows = slice(start, start + ROWS_AT_A_TIME)
        total = total + as_float64(features[rows][mask[rows]]).sum(dim=0)
    return total, int(mask.sum())
