"""Supervised: Labeled Only with every known training picture labelled, the pool's too.

What better use of the pool could reach at most. The labels come from a benchmark's truth
(`data/task.py`); on a person's folders nobody has them.
"""

from __future__ import annotations

from typing import ClassVar

from ossl.methods.base import MethodInfo
from ossl.methods.labeled_only import LabeledOnly


class Supervised(LabeledOnly):
    """Cross-entropy and the one-vs-all loss on all known training pictures."""

    info: ClassVar[MethodInfo] = MethodInfo(
        name="supervised",
        title="Supervised",
        paper="OpenMatch: Open-set Consistency Regularization for Semi-supe"
        "rvised Learning with Outliers (its upper bound)",
        year=2021,
        trains="the encoder, a classifier and a one-vs-all detector",
    )
    learns_from_truth: ClassVar[bool] = True
