"""Labeled Only: the labelled pictures and nothing else, with OpenMatch's one-vs-all detector.

The pool is looked at once at the end, to say how much of it would be put aside.
"""

from __future__ import annotations

from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor

from ossl.data.batches import Batch, Plan
from ossl.methods.base import MethodInfo
from ossl.methods.baseline import CLASSIFIER, DETECTOR, Baseline
from ossl.methods.one_vs_all import one_vs_all_loss


class LabeledOnly(Baseline):
    """Cross-entropy and the one-vs-all loss on labelled pictures."""

    info: ClassVar[MethodInfo] = MethodInfo(
        name="labeled_only",
        title="Labeled Only",
        paper="OpenMatch: Open-set Consistency Regularization for Semi-supe"
        "rvised Learning with Outliers (its lower bound)",
        year=2021,
        trains="the encoder, a classifier and a one-vs-all detector",
    )

    def plan(self) -> Plan:
        """Labelled pictures only."""
        return Plan(labelled=self.settings.labelled_batch, pool=0, flip=self.settings.flip)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return L_cls + L_ova of the weak view."""
        (features,) = self.features(batch.labelled["weak"])
        return self.labelled_losses(features, batch.labels)

    def labelled_losses(self, features: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Return L_cls and L_ova, and the share of hits."""
        logits = self.heads[CLASSIFIER](features)
        return {
            "labelled_loss": F.cross_entropy(logits, labels),
            "one_vs_all_loss": one_vs_all_loss(self.heads[DETECTOR](features), labels),
            "labelled_accuracy": (logits.argmax(dim=1) == labels).float().mean(),
        }
