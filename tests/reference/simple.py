"""The simple outlier scores by hand: plain loops over plain numbers, written from their papers."""

from __future__ import annotations

import math
from collections.abc import Sequence

Vector = Sequence[float]
Matrix = Sequence[Sequence[float]]


def dot(a: Vector, b: Vector) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def minus(a: Vector, b: Vector) -> list[float]:
    return [x - y for x, y in zip(a, b, strict=True)]


def mean(features: Matrix) -> list[float]:
    return [sum(f[i] for f in features) / len(features) for i in range(len(features[0]))]


def ridged_covariance(features: Matrix, ridge: float) -> list[list[float]]:
    """C + ridge · (mean variance) · I."""
    centre, size = mean(features), len(features[0])
    covariance = [
        [
            sum((f[i] - centre[i]) * (f[j] - centre[j]) for f in features) / len(features)
            for j in range(size)
        ]
        for i in range(size)
    ]
    floor = ridge * sum(covariance[i][i] for i in range(size)) / size
    for i in range(size):
        covariance[i][i] += floor
    return covariance


def solved(matrix: Matrix, right: Vector) -> list[float]:
    """matrix⁻¹ right, by elimination."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for i in range(len(rows)):
        pivot = max(range(i, len(rows)), key=lambda j: abs(rows[j][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [value / rows[i][i] for value in rows[i]]
        for j in range(len(rows)):
            if j != i:
                factor = rows[j][i]
                rows[j] = [a - factor * b for a, b in zip(rows[j], rows[i], strict=True)]
    return [row[-1] for row in rows]


def class_means(features: Matrix, labels: Sequence[int]) -> list[list[float]]:
    classes = range(max(labels) + 1)
    return [mean([f for f, y in zip(features, labels, strict=True) if y == c]) for c in classes]


def knn(x: Vector, labelled: Matrix, neighbours: int) -> float:
    """1 − the mean cosine to the nearest labelled features."""
    cosines = sorted((dot(x, f) / math.sqrt(dot(x, x) * dot(f, f)) for f in labelled), reverse=True)
    nearest = cosines[:neighbours]
    return 1 - sum(nearest) / len(nearest)


def direction(
    x: Vector, labelled: Matrix, labels: Sequence[int], pool: Matrix, ridge: float
) -> float:
    """(C_pool + ridge I)⁻¹ (m_pool − m_known) · (x − m_pool)."""
    step = minus(mean(pool), mean(class_means(labelled, labels)))
    return dot(solved(ridged_covariance(pool, ridge), step), minus(x, mean(pool)))


def relative_mahalanobis(
    x: Vector, labelled: Matrix, labels: Sequence[int], pool: Matrix, ridge: float
) -> float:
    """The squared Mahalanobis distance to the nearest class less that to the pool's mean."""
    covariance = ridged_covariance(pool, ridge)

    def squared(centre: Vector) -> float:
        offset = minus(x, centre)
        return dot(offset, solved(covariance, offset))

    return min(squared(centre) for centre in class_means(labelled, labels)) - squared(mean(pool))


def max_softmax(logits: Vector) -> float:
    """The largest softmax probability."""
    return max(math.exp(z) for z in logits) / sum(math.exp(z) for z in logits)


def energy(logits: Vector) -> float:
    return -math.log(sum(math.exp(z) for z in logits))
