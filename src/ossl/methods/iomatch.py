"""IOMatch (Li, Qi, Shi and Gao, ICCV 2023): inliers and outliers of the pool are used together.

A closed-set head says which class, one-vs-all heads on a projection say whether it is that class,
and both make a joint target over the K classes and the outliers. The closed-set head learns from
pool pictures that look like inliers, a (K+1)-way open-set head from inliers and outliers alike.
Equations are the paper's; what it leaves open is read from the official code.
"""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ossl.data.batches import Batch, Plan
from ossl.method_config import IOMatchConfig
from ossl.methods.base import LogValues, MethodInfo, Scan
from ossl.methods.baseline import Baseline
from ossl.methods.one_vs_all import inlier_probability, one_vs_all_loss
from ossl.models.head import Head, OneVsAllHead
from ossl.models.mlp import MLP
from ossl.processes import from_all_processes

RECENT = "recent_batch_means"  # the name of what distribution alignment has to remember


def open_set_targets(closed: Tensor, inlier: Tensor) -> Tensor:
    """q̃ [B, K+1], the joint target over the known classes and, last, the outliers.

    q̃_k = p_k o_k and q̃_{K+1} = Σ_k p_k (1 − o_k) for closed-set probabilities p [B, K] and
    one-vs-all inlier probabilities o [B, K] (equation 6 of the paper); it sums to one.
    """
    joint = closed * inlier
    return torch.cat([joint, (closed * (1 - inlier)).sum(dim=1, keepdim=True)], dim=1)


def inlier_loss(strong_logits: Tensor, closed: Tensor, inlier: Tensor, threshold: float) -> Tensor:
    """L_ui, cross-entropy with p [B, K] where it is sure and the picture looks like an inlier.

    L_ui = 1/B Σ_b [max p_b ≥ τ_p] [Σ_k p_bk (1 − o_bk) < 0.5] H(p_b, softmax(strong logits)_b).
    """
    outlying = (closed * (1 - inlier)).sum(dim=1)
    used = (closed.amax(dim=1) >= threshold) & (outlying < 0.5)
    return (soft_cross_entropy(strong_logits, closed) * used).mean()


def open_set_loss(strong_open: Tensor, targets: Tensor, threshold: float) -> Tensor:
    """L_op, cross-entropy of the open-set head with q̃ [B, K+1] where it is sure.

    L_op = 1/B Σ_b [max q̃_b ≥ τ_q] H(q̃_b, softmax(strong open logits)_b); inliers and outliers.
    """
    used = targets.amax(dim=1) >= threshold
    return (soft_cross_entropy(strong_open, targets) * used).mean()


def soft_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """H(t, softmax(z)) = −Σ_k t_k log softmax(z)_k of each row, [B], in float32."""
    return -(targets * logits.float().log_softmax(dim=1)).sum(dim=1)


def aligned(closed: Tensor, recent: Tensor) -> Tensor:
    """p [B, K] moved towards equally many of each class: p_k / (K m_k), scaled to sum to one.

    m is the mean of `recent` [n, K], the batch means of the last steps (ReMixMatch's distribution
    alignment with a uniform target).
    """
    small = 1e-6  # as published: a class that never comes divides by no zero
    ratio = (1 / closed.shape[1] + small) / (recent.mean(dim=0) + small)
    moved = closed * ratio
    return moved / moved.sum(dim=1, keepdim=True)


def open_set_score(open_logits: Tensor) -> Tensor:
    """q_{K+1} / (q_{K+1} + max_k q_k) = σ(z_{K+1} − max_k z_k) of logits [B, K+1]."""
    logits = open_logits.float()
    return torch.sigmoid(logits[:, -1] - logits[:, :-1].amax(dim=1))


class IOMatch(Baseline):
    """See the module's docstring."""

    info: ClassVar[MethodInfo] = MethodInfo(
        name="iomatch",
        title="IOMatch",
        paper="IOMatch: Simplifying Open-Set Semi-Supervised Learning with Joint Inliers and "
        "Outliers Utilization",
        year=2023,
        trains="the encoder, a classifier, a projection, K binary heads and a (K+1)-way head",
    )
    settings: IOMatchConfig
    recent: Tensor  # [n, K], mean closed-set probabilities of the last batches

    def new_heads(self, width: int, classes: int, seed: int) -> dict[str, nn.Module]:
        """The closed-set head, the projection, and on it the one-vs-all and the open-set head."""
        projected = self.settings.projection
        return {
            "classifier": Head(width, classes, seed=seed),
            "projection": MLP((width, width, projected), seed=seed + 1),
            "binary": OneVsAllHead(projected, classes, seed=seed + 2),
            "open_set": Head(projected, classes + 1, seed=seed + 3),
        }

    def plan(self) -> Plan:
        """One weak view of the labelled pictures, a weak and a strong one of the pool's."""
        settings = self.settings
        return Plan(
            labelled=settings.labelled_batch,
            pool=settings.pool_batch,
            selected=0,
            flip=settings.flip,
        )

    def before_training(self, scan: Scan) -> LogValues:
        """The values to log after forgetting all batch means."""
        values = super().before_training(scan)
        self.recent = torch.empty(0, self.classes, device=scan.labels.device)
        return values

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """L = L_s + L_mb + L_ui + L_op (equation 9)."""
        settings, heads = self.settings, self.heads
        labelled, weak, strong = self.features(
            batch.labelled["weak"], batch.pool["weak"], batch.pool["strong"]
        )
        # 1. The labelled pictures teach the closed-set head and the one-vs-all heads.
        labelled_loss = F.cross_entropy(heads["classifier"](labelled), batch.labels)
        binary = heads["binary"](heads["projection"](labelled))
        # 2. The targets of the pool, from the weak view and without gradient.
        with torch.no_grad():
            closed = heads["classifier"](weak).softmax(dim=1)
            if settings.align:
                mean = from_all_processes(closed.mean(dim=0, keepdim=True)).mean(dim=0)
                self.recent = torch.cat([self.recent, mean[None]])
                self.recent = self.recent[-settings.align_steps :]
                closed = aligned(closed, self.recent)
            inlier = inlier_probability(heads["binary"](heads["projection"](weak)))
            targets = open_set_targets(closed, inlier)
        # 3. The strong view learns them.
        strong_logits = heads["classifier"](strong)
        strong_open = heads["open_set"](heads["projection"](strong))
        # In the first epoch the targets are chance, so the open-set head waits (official code).
        open_weight = 0.0 if self.epochs_done == 0 else settings.open_weight
        sure, outlying = closed.amax(dim=1), targets[:, -1]
        return {
            "labelled_loss": labelled_loss,
            "binary_loss": settings.binary_weight * one_vs_all_loss(binary, batch.labels),
            "inlier_loss": settings.inlier_weight
            * inlier_loss(strong_logits, closed, inlier, settings.pseudo_threshold),
            "open_set_loss": open_weight
            * open_set_loss(strong_open, targets, settings.open_threshold),
            "known_share": (outlying < 0.5).float().mean(),
            "pseudo_labelled_share": ((sure >= settings.pseudo_threshold) & (outlying < 0.5))
            .float()
            .mean(),
            "open_labelled_share": (targets.amax(dim=1) >= settings.open_threshold).float().mean(),
        }

    def outlier_score(self, features: Tensor, logits: Tensor, heads: nn.ModuleDict) -> Tensor:
        """q_{K+1} / (q_{K+1} + max_k q_k) of the open-set head; above 1/2 it says outlier itself.

        The paper takes the arg max of q over K+1 classes, and this is above 1/2 exactly there.
        """
        del logits
        return open_set_score(heads["open_set"](heads["projection"](features)))

    def state(self) -> dict[str, Tensor]:
        """The batch means that distribution alignment remembers."""
        return {**super().state(), RECENT: self.recent}

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        """Take back what `state` gave."""
        super().load_state(tensors)
        self.recent = tensors[RECENT]
