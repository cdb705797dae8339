"""MTC's formulas by hand: plain loops over plain numbers, slow on purpose."""

from __future__ import annotations

import math
from collections.abc import Sequence

Vector = Sequence[float]
Table = Sequence[Vector]


def softmax(z: Vector) -> list[float]:
    top = max(z)
    powers = [math.exp(x - top) for x in z]
    return [p / sum(powers) for p in powers]


def sharpen(p: Vector, temperature: float) -> list[float]:
    powers = [x ** (1 / temperature) for x in p]
    return [x / sum(powers) for x in powers]


def mixed(values: Table, order: Sequence[int], part: float) -> list[list[float]]:
    return [
        [part * a + (1 - part) * b for a, b in zip(values[i], values[j], strict=True)]
        for i, j in enumerate(order)
    ]


def mixed_labelled_loss(logits: Table, targets: Table) -> float:
    total = 0.0
    for z, t in zip(logits, targets, strict=True):
        for p, y in zip(softmax(z), t, strict=True):
            total -= y * math.log(p)
    return total / len(logits)


def mixed_pool_loss(logits: Table, targets: Table) -> float:
    total = 0.0
    for z, t in zip(logits, targets, strict=True):
        for p, y in zip(softmax(z), t, strict=True):
            total += (p - y) ** 2
    return total / (len(logits) * len(logits[0]))


def outlier_loss(labelled: Vector, pool: Vector, targets: Vector, share: float) -> float:
    def entropy(z: float, y: float) -> float:
        p = 1 / (1 + math.exp(-z))
        return -y * math.log(p) - (1 - y) * math.log(1 - p)

    known = sum(entropy(z, 0.0) for z in labelled) / len(labelled)
    rest = sum(entropy(z, y) for z, y in zip(pool, targets, strict=True)) / len(pool)
    return share * known + (1 - share) * rest


def between_variance(scores: Vector, limit: float, low: float, width: float) -> float:
    """ω₁ ω₂ (μ₁ − μ₂)² of the scores at bins' centres, below and above a limit."""
    centre = [low + (min(int((s - low) / width), 255) + 0.5) * width for s in scores]
    below = [c for c in centre if c <= limit]
    above = [c for c in centre if c > limit]
    if not below or not above:
        return 0.0
    gap = sum(below) / len(below) - sum(above) / len(above)
    return len(below) * len(above) * gap**2


def otsu_variance(scores: Vector) -> float:
    """The largest variance between two sides that any of 256 bins' edges gives."""
    low, width = min(scores), (max(scores) - min(scores)) / 256
    return max(between_variance(scores, low + k * width, low, width) for k in range(1, 256))


def soft_targets(outputs: Sequence[dict[int, float]], count: int, window: int) -> list[float]:
    """The targets after epochs in which some pictures got an output; all start as outliers."""
    latest, history = [1.0] * count, []
    for epoch in outputs:
        for index, output in epoch.items():
            latest[index] = output
        history.append(list(latest))
    if len(history) < window:
        return [1.0] * count
    return [sum(h[i] for h in history[-window:]) / window for i in range(count)]
