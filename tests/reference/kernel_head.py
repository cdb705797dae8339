"""Kernel ridge regression in plain loops."""

from __future__ import annotations

import math

Row = list[float]


def gaussian(a: list[Row], b: list[Row], reach: float) -> list[Row]:
    """exp(−‖a_i − b_j‖²/reach) for every pair."""
    return [
        [math.exp(-sum((x - y) ** 2 for x, y in zip(i, j, strict=True)) / reach) for j in b]
        for i in a
    ]


def logits(
    features: list[Row], points: list[Row], coefficients: list[Row], bias: Row, reach: float
) -> list[Row]:
    """bias + Σ_i kernel(f, point_i) coefficient_i."""
    found = []
    for kernel in gaussian(features, points, reach):
        row = list(bias)
        for value, coefficient in zip(kernel, coefficients, strict=True):
            row = [have + value * more for have, more in zip(row, coefficient, strict=True)]
        found.append(row)
    return found


def balanced(probabilities: list[Row], weight: Row, target: Row, power: float) -> list[Row]:
    """Class factors by proportional fitting, each taken to a power."""
    factors = [1.0] * len(target)
    for _ in range(20):
        have = [0.0] * len(target)
        for row, w in zip(probabilities, weight, strict=True):
            moved = [p * f for p, f in zip(row, factors, strict=True)]
            have = [h + w * m / sum(moved) for h, m in zip(have, moved, strict=True)]
        total = sum(weight)
        factors = [f * t / (h / total) for f, t, h in zip(factors, target, have, strict=True)]
    rows = [[p * f**power for p, f in zip(row, factors, strict=True)] for row in probabilities]
    return [[value / sum(row) for value in row] for row in rows]
