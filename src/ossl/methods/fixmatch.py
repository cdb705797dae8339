"""FixMatch (Sohn et al.): a confident pseudo-label of the weak view is the strong view's target.

It knows no outliers. As in OpenMatch's comparison a one-vs-all detector learns beside it from the
labelled pictures, on the same features.
"""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from ossl.data.batches import Batch, Plan
from ossl.methods.base import MethodInfo
from ossl.methods.baseline import CLASSIFIER
from ossl.methods.labeled_only import LabeledOnly


def pseudo_label_loss(
    weak_logits: Tensor, strong_logits: Tensor, threshold: float
) -> tuple[Tensor, Tensor]:
    """Return L_u (FixMatch, eq. 4) and the share of pictures that were sure enough for it.

    mean over x of 1[max_k q_k(x_w) ≥ τ] · H(argmax_k q_k(x_w), p(x_s)); no gradient passes q.
    """
    confidence, pseudo = weak_logits.detach().float().softmax(dim=1).max(dim=1)
    used = (confidence >= threshold).float()
    each = F.cross_entropy(strong_logits.float(), pseudo, reduction="none")
    return (each * used).mean(), used.mean()


class FixMatch(LabeledOnly):
    """Labelled losses and FixMatch's on the whole pool."""

    info: ClassVar[MethodInfo] = MethodInfo(
        name="fixmatch",
        title="FixMatch",
        paper="FixMatch: Simplifying Semi-Supervised Learning with Consistency and Confidence",
        year=2020,
        trains="the encoder, a classifier and a one-vs-all detector",
    )

    def plan(self) -> Plan:
        """Labelled pictures once, pool pictures in a weak and a strong view."""
        return Plan(
            labelled=self.settings.labelled_batch,
            pool=self.settings.pool_batch,
            flip=self.settings.flip,
        )

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return L_cls + L_ova + λ_u L_u."""
        views = (batch.labelled["weak"], batch.pool["weak"], batch.pool["strong"])
        labelled, weak, strong = self.features(*views)
        logits = self.heads[CLASSIFIER](torch.cat([weak, strong]))
        first, second = logits.chunk(2)
        loss, used = pseudo_label_loss(first, second, self.settings.pseudo_threshold)
        return {
            **self.labelled_losses(labelled, batch.labels),
            "pseudo_loss": self.settings.pseudo_weight * loss,
            "pseudo_labelled_share": used,
        }
