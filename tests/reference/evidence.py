"""The default recipe's joint space by hand: plain loops over plain numbers, slow on purpose.

Nothing here imports the library. A vector is a list of floats, a table a list of vectors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tests.reference.jointspace import d, mean, unit

Vector = Sequence[float]
Table = Sequence[Vector]


def dot(a: Vector, b: Vector) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def cosine(a: Vector, b: Vector) -> float:
    return dot(unit(a), unit(b))


def class_means(features: Table, labels: Sequence[int], classes: int) -> list[list[float]]:
    return [
        mean([f for f, y in zip(features, labels, strict=True) if y == k]) for k in range(classes)
    ]


def knn_distance(f: Vector, labelled: Table, neighbours: int) -> float:
    nearest = sorted((cosine(f, x) for x in labelled), reverse=True)[:neighbours]
    return 1 - sum(nearest) / len(nearest)


def centre_cosine(f: Vector, centres: Table) -> float:
    return 1 - max(cosine(f, c) for c in centres)


def relative_mahalanobis(f: Vector, centres: Table, pool_mean: Vector) -> float:
    return min(d(f, c) ** 2 for c in centres) - d(f, pool_mean) ** 2


def solve(matrix: Table, right: Vector) -> list[float]:
    """The x of matrix x = right, by Gauss' elimination."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    n = len(rows)
    for i in range(n):
        pivot = max(range(i, n), key=lambda r: abs(rows[r][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for r in range(n):
            if r != i:
                factor = rows[r][i] / rows[i][i]
                rows[r] = [a - factor * b for a, b in zip(rows[r], rows[i], strict=True)]
    return [rows[i][n] / rows[i][i] for i in range(n)]


def pool_direction(centres: Table, pool_mean: Vector, cov: Table, ridge: float) -> list[float]:
    size = range(len(cov))
    regular = [[cov[i][j] + (ridge if i == j else 0.0) for j in size] for i in size]
    known = mean(centres)
    return solve(regular, [p - k for p, k in zip(pool_mean, known, strict=True)])


def log_density_ratio(
    f: Vector, known: Table, known_weights: Vector, outlier: Table, outlier_weights: Vector
) -> float:
    def density(centres: Table, weights: Vector) -> float:
        return sum(w * math.exp(-0.5 * d(f, c) ** 2) for c, w in zip(centres, weights, strict=True))

    return math.log(density(outlier, outlier_weights)) - math.log(density(known, known_weights))


def auroc(known: Vector, outlier: Vector) -> float:
    """How often an outlier is higher; equal counts half."""
    won = 0.0
    for o in outlier:
        for k in known:
            won += 1.0 if o > k else 0.5 if o == k else 0.0
    return won / (len(known) * len(outlier))


def quantile(values: Vector, part: float) -> float:
    ordered = sorted(values)
    place = part * (len(ordered) - 1)
    low = min(int(place), len(ordered) - 2) if len(ordered) > 1 else 0
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def variance(values: Vector, unbiased: bool) -> float:
    middle = sum(values) / len(values)
    return sum((v - middle) ** 2 for v in values) / (len(values) - (1 if unbiased else 0))


def anchored_mixture(pool: Vector, known: Vector, steps: int) -> list[float]:
    """P(outlier) by expectation-maximisation of two Gaussians, the first held by known scores."""
    if len(known) > 1:
        n, mean_l, var_l = len(known), sum(known) / len(known), variance(known, True) + 1e-4
    else:
        low = [p for p in pool if p <= quantile(pool, 0.5)]
        n, mean_l, var_l = 1, sum(low) / len(low), variance(low, False) + 1e-4
    high = [p for p in pool if p >= quantile(pool, 0.7)]
    mean_k, var_k = mean_l, var_l
    mean_o, var_o, share = sum(high) / len(high), variance(high, False) + 1e-3, 0.5
    outlier: list[float] = []
    for _ in range(steps):
        outlier = []
        for p in pool:
            log_o = math.log(share) - 0.5 * math.log(var_o) - 0.5 * (p - mean_o) ** 2 / var_o
            log_k = math.log(1 - share) - 0.5 * math.log(var_k) - 0.5 * (p - mean_k) ** 2 / var_k
            outlier.append(1 / (1 + math.exp(min(700.0, log_k - log_o))))
        inlier = [1 - o for o in outlier]
        mass = sum(inlier) + n
        mean_k = (dot(inlier, pool) + n * mean_l) / mass
        spread = sum(i * (p - mean_k) ** 2 for i, p in zip(inlier, pool, strict=True))
        var_k = (spread + n * (var_l + (mean_l - mean_k) ** 2)) / mass + 1e-6
        all_o = max(sum(outlier), 1e-6)
        mean_o = dot(outlier, pool) / all_o
        var_o = sum(o * (p - mean_o) ** 2 for o, p in zip(outlier, pool, strict=True)) / all_o
        var_o = max(var_o, 0.05 * var_k)
        share = min(max(sum(outlier) / len(outlier), 1e-3), 1 - 1e-3)
    return outlier


def outlier_share(hidden: Vector, pool: Vector, caution: float, least: int, part: float) -> float:
    """1 minus the least cautious ratio of pool to hidden pictures below a hidden score."""
    ordered = sorted(hidden)
    n, m = len(hidden), len(pool)
    found: list[tuple[float, float]] = []
    for place in range(max(least, int(part * n)), n + 1):
        known = place / n
        below = sum(1 for p in pool if p <= ordered[place - 1]) / m
        highest = below + caution * math.sqrt(below * (1 - below) / m)
        lowest = known - caution * math.sqrt(known * (1 - known) / n)
        found.append((highest / lowest, below / known))
    return min(max(1 - min(found, key=lambda pair: pair[0])[1], 0.0), 1.0)


def logistic(
    rows: Table, target: Vector, balance: Vector, start: Vector, pull: Vector, sweeps: int = 150
) -> list[float]:
    """The non-negative coefficients of a weighted logistic regression, one coordinate at a time."""
    weights, bias = list(start), 0.0

    def chances() -> list[float]:
        return [1 / (1 + math.exp(-dot(row, weights) - bias)) for row in rows]

    for _ in range(sweeps):
        p = chances()
        slope = sum(b * (c - t) for b, c, t in zip(balance, p, target, strict=True))
        curve = sum(b * c * (1 - c) for b, c in zip(balance, p, strict=True))
        bias -= slope / max(curve, 0.02)
        for j in range(len(weights)):
            p = chances()
            slope = pull[j] * (weights[j] - start[j])
            curve = pull[j]
            for row, b, c, t in zip(rows, balance, p, target, strict=True):
                slope += b * (c - t) * row[j]
                curve += b * c * (1 - c) * row[j] ** 2
            weights[j] = max(0.0, weights[j] - slope / max(curve, 0.02))
    return weights


def weigh(hidden: Table, pool: Table, prior: Vector, penalty: float) -> list[float]:
    n, m = len(hidden), len(pool)
    rows = [*hidden, *pool]
    target = [0.0] * n + [1.0] * m
    balance = [0.5 / n] * n + [0.5 / m] * m
    scale = logistic([[dot(row, prior)] for row in rows], target, balance, [1.0], [0.0])[0]
    expected = [max(scale, 1e-3) * max(p, 1e-3 / len(prior)) for p in prior]
    weights = logistic(rows, target, balance, expected, [penalty / n / e**2 for e in expected])
    return [w / sum(weights) for w in weights]


def look(
    f: Vector, reference: Table, known: Sequence[bool], neighbours: int, same: float
) -> tuple[float, list[int]]:
    """1 - mean cosine to the nearest known others, and the places of the nearest others."""
    near = [(cosine(f, r), place) for place, r in enumerate(reference)]
    others = sorted((pair for pair in near if pair[0] <= same), reverse=True)
    of_known = [c for c, place in others if known[place]][:neighbours]
    distance = 1 - sum(of_known) / len(of_known) if of_known else 0.0
    return distance, [place for _, place in others[:neighbours]]


def centres_by_em(
    labelled: Table,
    labels: Sequence[int],
    pool: Table,
    outlier: Table,
    share: float,
    steps: int,
) -> tuple[list[list[float]], list[float], list[list[float]], list[float]]:
    """Known centres, their weights, outlier centres, their weights."""
    classes, count = max(labels) + 1, len(outlier)
    own = [[f for f, y in zip(labelled, labels, strict=True) if y == k] for k in range(classes)]
    known = [mean(features) for features in own]
    moved = [list(c) for c in outlier]
    weights = [(1 - share) / classes] * classes + [share / count] * count
    for _ in range(steps):
        parts = []
        for p in pool:
            near = [
                w * math.exp(-0.5 * d(p, c) ** 2)
                for w, c in zip(weights, [*known, *moved], strict=True)
            ]
            parts.append([x / sum(near) for x in near])
        mass = [sum(part[k] for part in parts) for k in range(classes + count)]
        size = range(len(pool[0]))
        for k in range(classes + count):
            pulled = [
                sum(part[k] * p[i] for part, p in zip(parts, pool, strict=True)) for i in size
            ]
            if k < classes:
                trust = min(len(own[k]) / max(mass[k], 1e-6), 1.0)
                known[k] = [
                    (sum(f[i] for f in own[k]) + trust * pulled[i])
                    / (len(own[k]) + trust * mass[k])
                    for i in size
                ]
            else:
                moved[k - classes] = [pulled[i] / max(mass[k], 1e-6) for i in size]
        total = sum(mass) + classes + count
        weights = [(m + 1) / total for m in mass]
    return known, weights[:classes], moved, weights[classes:]
