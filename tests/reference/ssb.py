"""SSB's formulas by hand: plain loops over plain numbers, slow on purpose."""

from __future__ import annotations

import math
from collections.abc import Sequence

Logits = Sequence[Sequence[Sequence[float]]]  # [B][2][K]: 0 outlying, 1 of the class


def inlier(z: Sequence[Sequence[float]], k: int) -> float:
    return 1 / (1 + math.exp(z[0][k] - z[1][k]))


def detector_loss(weak: Logits, strong: Logits, labels: Sequence[int]) -> float:
    positive = [-math.log(inlier(z, y)) for z, y in zip(weak, labels, strict=True)]
    negative = []
    for views in (weak, strong):
        for z, y in zip(views, labels, strict=True):
            negative += [-math.log(1 - inlier(z, k)) if k != y else 0.0 for k in range(len(z[0]))]
    return sum(positive) / len(positive) + sum(negative) / len(negative)


def pseudo_negative_loss(weak: Logits, strong: Logits, threshold: float) -> float:
    total = 0.0
    for w, s in zip(weak, strong, strict=True):
        for k in range(len(w[0])):
            if inlier(w, k) <= threshold:
                total -= math.log(1 - inlier(s, k))
    return total / len(weak)
