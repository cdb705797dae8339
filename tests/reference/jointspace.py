"""The joint space by hand: plain loops over plain numbers, written from the paper's equations.

Nothing here imports the library. Slow on purpose; a vector is a list of floats.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Vector = Sequence[float]


def d(f: Vector, k: Vector) -> float:
    """The Euclidean distance d(f, k)."""
    total = 0.0
    for a, b in zip(f, k, strict=True):
        total += (a - b) * (a - b)
    return math.sqrt(total)


def mean(features: Sequence[Vector]) -> list[float]:
    return [sum(f[i] for f in features) / len(features) for i in range(len(features[0]))]


def scatter(features: Sequence[Vector]) -> list[list[float]]:
    """The sum of (f − mean)(f − mean)ᵀ."""
    centre = mean(features)
    size = len(centre)
    total = [[0.0] * size for _ in range(size)]
    for f in features:
        for i in range(size):
            for j in range(size):
                total[i][j] += (f[i] - centre[i]) * (f[j] - centre[j])
    return total


def unit(f: Vector) -> list[float]:
    norm = d(f, [0.0] * len(f))
    return [x / norm for x in f] if norm > 0 else list(f)


def whitened(f: Vector, centre: Vector, matrix: Sequence[Vector]) -> list[float]:
    """(f − mean) @ matrix."""
    columns = range(len(matrix[0]))
    return [sum((f[i] - centre[i]) * matrix[i][j] for i in range(len(f))) for j in columns]


# Rows 5 to 8: the tangents.


def radius(features: Sequence[Vector], centre: Vector) -> float:
    return max(d(f, centre) for f in features)


def tangent_directions(features: Sequence[Vector], centre: Vector, count: int) -> list[list[float]]:
    furthest = sorted(features, key=lambda f: -d(f, centre))[:count]
    directions = []
    for f in furthest:
        length = d(f, centre)
        if length > 0:
            directions.append([(a - k) / length for a, k in zip(f, centre, strict=True)])
    return directions


def tangent_value(f: Vector, direction: Vector, centre: Vector, r: float) -> float:
    """The paper's D_j in its own two steps: the tangent at f_j, then f_j pushed out to r."""
    along = sum(u * (a - k) for u, a, k in zip(direction, f, centre, strict=True))
    return r - along


def outliers_by_tangent(
    pool_values: Sequence[Vector], labelled_values: Sequence[Vector], tolerance: float
) -> list[list[bool]]:
    usual = mean(labelled_values)
    return [
        [abs(v - u) > tolerance for v, u in zip(row, usual, strict=True)] for row in pool_values
    ]


def choose_candidate(outliers: Sequence[Sequence[bool]]) -> tuple[int, float]:
    best, best_rate = 0, 0.0
    for j in range(len(outliers[0])):
        rate = sum(1 for row in outliers if row[j]) / len(outliers)
        if rate > best_rate:
            best, best_rate = j, rate
    return best, best_rate


# Rows 9 and 10: the Apollonius circle.


def apollonius_ratio(f: Vector, known_centre: Vector, outlier_centre: Vector) -> float:
    d1, d2 = d(f, known_centre), d(f, outlier_centre)
    if d2 > 0:
        return d1 / d2
    return math.inf if d1 > 0 else 1.0


def apollonius_circle(
    known_centre: Vector, outlier_centre: Vector, limit: float
) -> tuple[list[float], float]:
    pairs = zip(known_centre, outlier_centre, strict=True)
    centre = [(k - limit**2 * o) / (1 - limit**2) for k, o in pairs]
    return centre, limit * d(known_centre, outlier_centre) / abs(1 - limit**2)


def update_centres(
    known_centre: Vector,
    outlier_centre: Vector,
    labelled: Sequence[Vector],
    pool: Sequence[Vector],
    outlier_mask: Sequence[bool],
) -> tuple[list[float], list[float]]:
    known = list(labelled) + [f for f, out in zip(pool, outlier_mask, strict=True) if not out]
    outliers = [f for f, out in zip(pool, outlier_mask, strict=True) if out]
    return (
        mean(known) if known else list(known_centre),
        mean(outliers) if outliers else list(outlier_centre),
    )


# Rows 12 and 13: the losses.


def consistency(
    student: Sequence[Vector], teacher: Sequence[Vector], k_ic: Vector, k_oc: Vector, form: str
) -> float:
    total = 0.0
    for f_s, f_t in zip(student, teacher, strict=True):
        if form == "signed":
            total += d(k_ic, f_s) + d(k_oc, f_s) - d(k_ic, f_t) - d(k_oc, f_t)
        else:
            total += abs(d(k_ic, f_s) - d(k_ic, f_t)) + abs(d(k_oc, f_s) - d(k_oc, f_t))
    return total / len(student)


def prompt_contrast(v: Vector, v_bar: Vector, margin: float) -> float:
    zero = [0.0] * len(v)
    cosine = sum(a * b for a, b in zip(v, v_bar, strict=True)) / (d(v, zero) * d(v_bar, zero))
    return max(0.0, cosine - margin)


def gap(
    features: Sequence[Vector],
    k_ic: Vector,
    k_oc: Vector,
    limit: float,
    confident_known: Sequence[bool],
    confident_outlier: Sequence[bool],
    margin: float,
) -> float:
    known_side, outlier_side = [], []
    for f, is_known, is_out in zip(features, confident_known, confident_outlier, strict=True):
        s = math.log(d(f, k_ic)) - math.log(d(f, k_oc)) - math.log(limit)
        if is_known:
            known_side.append(math.log1p(math.exp(margin + s)))
        if is_out:
            outlier_side.append(math.log1p(math.exp(margin - s)))
    halves = [sum(side) / len(side) if side else 0.0 for side in (known_side, outlier_side)]
    return 0.5 * sum(halves)


# The mixture.

Mixture = tuple[float, float, float, float, float]
"""share π, known mean and deviation, outlier mean and deviation"""


def normal(s: float, centre: float, std: float) -> float:
    return math.exp(-((s - centre) ** 2) / (2 * std**2)) / (std * math.sqrt(2 * math.pi))


def posterior(s: float, mixture: Mixture) -> float:
    """The plain posterior p(outlier | s)."""
    share, known_mean, known_std, outlier_mean, outlier_std = mixture
    outlier = share * normal(s, outlier_mean, outlier_std)
    return outlier / (outlier + (1 - share) * normal(s, known_mean, known_std))


def log_likelihood(pool: Vector, known: Vector, mixture: Mixture) -> float:
    share, known_mean, known_std, outlier_mean, outlier_std = mixture
    total = 0.0
    for s in pool:
        total += math.log(
            share * normal(s, outlier_mean, outlier_std)
            + (1 - share) * normal(s, known_mean, known_std)
        )
    for s in known:
        total += math.log(normal(s, known_mean, known_std))
    return total


def em_step(pool: Vector, known: Vector, mixture: Mixture) -> Mixture:
    """One round of expectation and maximisation; the known count as known throughout."""
    outlying = [posterior(s, mixture) for s in pool] + [0.0] * len(known)
    scores = [*pool, *known]

    def component(weights: Vector) -> tuple[float, float]:
        total = sum(weights)
        centre = sum(w * s for w, s in zip(weights, scores, strict=True)) / total
        variance = sum(w * (s - centre) ** 2 for w, s in zip(weights, scores, strict=True)) / total
        return centre, math.sqrt(variance)

    known_mean, known_std = component([1 - w for w in outlying])
    outlier_mean, outlier_std = component(outlying)
    return sum(outlying) / len(pool), known_mean, known_std, outlier_mean, outlier_std


def equal_posterior(mixture: Mixture) -> float:
    """The score between the means with posterior ½, by bisection (there must be one)."""
    low, high = mixture[1], mixture[3]
    for _ in range(200):
        middle = (low + high) / 2
        if posterior(middle, mixture) < 0.5:
            low = middle
        else:
            high = middle
    return (low + high) / 2
