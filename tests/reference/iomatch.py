"""IOMatch's formulas by hand: plain loops over plain numbers, slow on purpose."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tests.reference.mtc import softmax

Vector = Sequence[float]
Table = Sequence[Vector]


def open_set_targets(p: Vector, o: Vector) -> list[float]:
    joint = [a * b for a, b in zip(p, o, strict=True)]
    return [*joint, sum(a * (1 - b) for a, b in zip(p, o, strict=True))]


def cross_entropy(z: Vector, t: Vector) -> float:
    return -sum(y * math.log(p) for y, p in zip(t, softmax(z), strict=True))


def inlier_loss(strong: Table, closed: Table, inlier: Table, threshold: float) -> float:
    total = 0.0
    for z, p, o in zip(strong, closed, inlier, strict=True):
        if max(p) >= threshold and open_set_targets(p, o)[-1] < 0.5:
            total += cross_entropy(z, p)
    return total / len(strong)


def open_set_loss(strong: Table, targets: Table, threshold: float) -> float:
    used = [
        cross_entropy(z, q) for z, q in zip(strong, targets, strict=True) if max(q) >= threshold
    ]
    return sum(used) / len(strong)


def aligned(p: Vector, recent: Table) -> list[float]:
    count = len(p)
    mean = [sum(row[k] for row in recent) / len(recent) for k in range(count)]
    moved = [p[k] * (1 / count + 1e-6) / (mean[k] + 1e-6) for k in range(count)]
    return [x / sum(moved) for x in moved]


def open_set_score(z: Vector) -> float:
    q = softmax(z)
    return q[-1] / (q[-1] + max(q[:-1]))
