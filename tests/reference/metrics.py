"""The figures by their definitions, in plain loops."""

from __future__ import annotations

from collections.abc import Sequence


def auroc(outlier: Sequence[bool], score: Sequence[float]) -> float:
    """The share of pairs of an outlier and a known picture in the right order; ties count half."""
    won = pairs = 0.0
    for is_out, high in zip(outlier, score, strict=True):
        for is_other, low in zip(outlier, score, strict=True):
            if is_out and not is_other:
                pairs += 1
                won += 1.0 if high > low else 0.5 if high == low else 0.0
    return won / pairs


def fpr_at_95(outlier: Sequence[bool], score: Sequence[float]) -> float:
    """The smallest share of known pictures put aside by a threshold that catches 95 % outliers."""
    shares = []
    for limit in score:
        caught = sum(o and s >= limit for o, s in zip(outlier, score, strict=True))
        alarms = sum((not o) and s >= limit for o, s in zip(outlier, score, strict=True))
        if 100 * caught >= 95 * sum(outlier):
            shares.append(alarms / (len(outlier) - sum(outlier)))
    return min(shares)


def aupr(outlier: Sequence[bool], score: Sequence[float]) -> float:
    """The precision at each threshold, weighed by the recall that the threshold adds."""
    area, before = 0.0, 0.0
    for limit in sorted(set(score), reverse=True):
        said = [o for o, s in zip(outlier, score, strict=True) if s >= limit]
        recall = sum(said) / sum(outlier)
        area += (recall - before) * sum(said) / len(said)
        before = recall
    return area


def open_accuracy(truth: Sequence[int], label: Sequence[int], aside: Sequence[bool]) -> float:
    """The mean over the classes that occur, the outliers (-1) one of them, of what is right."""
    recalls = []
    for wanted in sorted(set(truth)):
        right = count = 0
        for true, said, out in zip(truth, label, aside, strict=True):
            if true == wanted:
                count += 1
                right += (-1 if out else said) == wanted
        recalls.append(right / count)
    return sum(recalls) / len(recalls)


def known_accuracy(truth: Sequence[int], label: Sequence[int]) -> float:
    """The share of known pictures given their class."""
    hits = [said == true for true, said in zip(truth, label, strict=True) if true >= 0]
    return sum(hits) / len(hits)
