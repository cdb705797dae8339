"""How well a run tells known from outlying, and one class from another.

Everywhere the outlier is the positive class, and a higher outlier score is more outlying. All
figures are fractions. A label of -1 in the truth is an outlier. scikit-learn is imported where it
is used, for it takes a second or two that a run without truth need not wait.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Ints = NDArray[np.integer]


@dataclass(frozen=True)
class Metrics:
    """Figures on pictures whose truth is known; None where they are undefined."""

    auroc: float | None
    known_accuracy: float | None
    open_accuracy: float | None
    fpr95: float | None
    aupr: float | None
    outlier_share_true: float | None


def auroc(truth: Ints, outlier_score: Floats) -> float | None:
    """The area under the ROC curve of outlier against known; None with one side empty."""
    outlier = truth < 0
    if outlier.all() or not outlier.any():
        return None
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(outlier, _ranked(outlier_score)))


def fpr_at_95(truth: Ints, outlier_score: Floats) -> float | None:
    """The share of known pictures put aside when 95 % of the outliers are; None as above.

    At the highest threshold that puts aside at least 95 % of the outliers: the positive class is
    the outlier, as for the AUROC. Papers that take the known pictures as positive report another
    figure under this name, the share of outliers that pass when 95 % of the known do.
    """
    outlier = truth < 0
    if outlier.all() or not outlier.any():
        return None
    from sklearn.metrics import roc_curve

    # Every threshold, for scikit-learn by default drops those on straight pieces of the curve.
    curve = roc_curve(outlier, _ranked(outlier_score), drop_intermediate=False)
    false_rate, true_rate, _ = curve
    return float(false_rate[np.searchsorted(true_rate, 0.95)])


def aupr(truth: Ints, outlier_score: Floats) -> float | None:
    """The average precision of the outliers; None with one side empty."""
    outlier = truth < 0
    if outlier.all() or not outlier.any():
        return None
    from sklearn.metrics import average_precision_score

    return float(average_precision_score(outlier, _ranked(outlier_score)))


def known_accuracy(truth: Ints, label: Ints) -> float | None:
    """The share of known pictures whose most likely class is theirs, put aside or not."""
    known = truth >= 0
    return float((label[known] == truth[known]).mean()) if known.any() else None


def open_accuracy(truth: Ints, label: Ints, is_outlier: NDArray[np.bool_]) -> float | None:
    """The mean recall over the known classes and, as one class more, the outliers."""
    if len(truth) == 0:
        return None
    said = np.where(is_outlier, -1, label)
    return float(np.mean([(said[truth == c] == c).mean() for c in np.unique(truth)]))


def judge(truth: Ints, label: Ints, outlier_score: Floats, threshold: float) -> Metrics:
    """All figures of predictions against the truth."""
    return Metrics(
        auroc=auroc(truth, outlier_score),
        known_accuracy=known_accuracy(truth, label),
        open_accuracy=open_accuracy(truth, label, outlier_score > threshold),
        fpr95=fpr_at_95(truth, outlier_score),
        aupr=aupr(truth, outlier_score),
        outlier_share_true=float((truth < 0).mean()) if len(truth) else None,
    )


def _ranked(score: Floats) -> Floats:
    """The scores with infinities made finite; ranks are all that these figures look at.

    What is no number has no rank; scikit-learn refuses it.
    """
    return np.nan_to_num(np.asarray(score, dtype=np.float64), nan=np.nan)
