"""The losses of FixMatch and OpenMatch from their formulas, one number at a time."""

from __future__ import annotations

import math

Pairs = list[list[list[float]]]  # [x][t][k]: one-vs-all logits, outlying at t = 0, inlying at 1


def softmax(values: list[float]) -> list[float]:
    """e^v / Σ e^v."""
    powers = [math.exp(value) for value in values]
    return [power / sum(powers) for power in powers]


def two_way(logits: list[list[float]], k: int) -> tuple[float, float]:
    """p_k(outlier | x), p_k(inlier | x)."""
    outlying, inlying = softmax([logits[0][k], logits[1][k]])
    return outlying, inlying


def one_vs_all(batch: Pairs, labels: list[int]) -> float:
    """Mean of −log p_y(inlier) − min over k ≠ y of log p_k(outlier)."""
    total = 0.0
    for logits, label in zip(batch, labels, strict=True):
        total -= math.log(two_way(logits, label)[1])
        wrong = [k for k in range(len(logits[0])) if k != label]
        total += max(-math.log(two_way(logits, k)[0]) for k in wrong)
    return total / len(batch)


def entropy(batch: Pairs) -> float:
    """Mean over pictures and classes of −Σ_t p log p."""
    found = [
        -sum(p * math.log(p) for p in two_way(logits, k))
        for logits in batch
        for k in range(len(logits[0]))
    ]
    return sum(found) / len(found)


def consistency(first: Pairs, second: Pairs) -> float:
    """Mean over pictures of Σ_k Σ_t (p − p')²."""
    total = 0.0
    for one, other in zip(first, second, strict=True):
        for k in range(len(one[0])):
            for p, q in zip(two_way(one, k), two_way(other, k), strict=True):
                total += (p - q) ** 2
    return total / len(first)


def score(batch: Pairs, class_logits: list[list[float]]) -> list[float]:
    """p(outlier) by the classifier of the most likely class."""
    return [
        two_way(logits, known.index(max(known)))[0]
        for logits, known in zip(batch, class_logits, strict=True)
    ]


def pseudo_label(
    weak: list[list[float]], strong: list[list[float]], threshold: float
) -> tuple[float, float]:
    """Mean of 1[max q ≥ τ] · −log p_argmax(q), and the mean of that indicator."""
    total, used = 0.0, 0
    for w, s in zip(weak, strong, strict=True):
        q = softmax(w)
        if max(q) >= threshold:
            used += 1
            total -= math.log(softmax(s)[q.index(max(q))])
    return total / len(weak), used / len(weak)
