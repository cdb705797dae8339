"""The figures of a run with a sentence for each, and what is mistaken for what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ossl.summary import encoder_learnt, percent

Figure = tuple[str, str, str]  # name, value, what it means

MEANINGS = {
    "auroc": (
        "AUROC, known against outliers",
        "how often an outlier scores higher than a known picture, of all such pairs; "
        "50 % is guessing",
    ),
    "known_accuracy": (
        "accuracy on known classes",
        "of the truly known pictures, how many get their class, put aside or not",
    ),
    "open_accuracy": (
        "balanced open accuracy",
        "the mean over the classes, outliers counting as one more, of how many are found",
    ),
    "fpr95": (
        "false alarms at 95 % caught",
        "known pictures put aside when the boundary lets 5 % of the outliers through",
    ),
    "aupr": ("average precision of outliers", "how pure the top of the ranking is, down all of it"),
}


def figures(metrics: dict[str, Any]) -> list[Figure]:
    """A row for every figure that is known."""
    rows = [
        (name, percent(metrics[key]), meaning)
        for key, (name, meaning) in MEANINGS.items()
        if metrics.get(key) is not None
    ]
    simple = {k: v for k, v in (metrics.get("simple_scores") or {}).items() if v is not None}
    if simple:
        best = max(simple, key=lambda name: simple[name])
        rows.append(
            (
                "best simple score",
                f"{percent(simple[best])} ({best.replace('_', '-')})",
                "the AUROC of the best of the scores that need no joint space, for comparison",
            )
        )
    for name, value in (metrics.get("unseen") or {}).items():
        rows.append((f"AUROC against {name}", percent(value), "another data set, as outliers"))
    if metrics.get("outlier_share") is not None:
        said = percent(metrics["outlier_share"])
        interval = metrics.get("outlier_share_interval")
        if interval:
            said += f" ({100 * interval[0]:.0f} to {100 * interval[1]:.0f} %)"
        if metrics.get("outlier_share_true") is not None:
            said += f", {percent(metrics['outlier_share_true'])} true"
        rows.append(("outliers in the pool", said, "the run's own estimate, without any truth"))
    threshold = f"{metrics['threshold']:.4g}"
    rows.append(("boundary", threshold, "a picture with a higher outlier score is put aside"))
    trained, total = metrics["trainable_parameters"], metrics["total_parameters"]
    learnt = f"{trained:,} of {total:,} ({100 * trained / max(total, 1):.2f} %)"
    beside = "beside the encoder" + (", which learnt too" if encoder_learnt(metrics) else "")
    rows.append(("numbers learnt", learnt, beside))
    if metrics.get("seconds") is not None:
        rows.append(("time", f"{metrics['seconds']:,.0f} s", "for the fit, start to end"))
    return rows


def confusion(
    truth: NDArray[np.integer], label: NDArray[np.integer], aside: NDArray[np.bool_], classes: int
) -> NDArray[np.int64]:
    """Counts [K + 1, K + 1]: truth by row, verdict by column; the last of each is the outliers."""
    rows = np.where(truth < 0, classes, truth)
    columns = np.where(aside, classes, label)
    counts = np.zeros((classes + 1, classes + 1), dtype=np.int64)
    np.add.at(counts, (rows, columns), 1)
    return counts


def mistakes(counts: NDArray[np.integer], classes: Sequence[str], most: int = 12) -> list[str]:
    """The most frequent mistakes, a sentence each."""
    wrong = counts.copy()
    np.fill_diagonal(wrong, 0)
    last = len(classes)
    said = []
    for place in np.argsort(-wrong, axis=None, kind="stable")[:most]:
        row, column = divmod(int(place), last + 1)
        count, total = int(wrong[row, column]), int(counts[row].sum())
        if not count:
            break
        what = "outliers" if row == last else f"pictures of {classes[row]}"
        verdict = "put aside" if column == last else f"taken for {classes[column]}"
        said.append(f"{count:,} of {total:,} {what} {verdict}")
    return said
