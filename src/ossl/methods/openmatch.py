"""OpenMatch (Saito, Kim and Saenko): one-vs-all classifiers find the pool's outliers.

A classifier and a one-vs-all detector learn from labelled pictures; on the whole pool the
detector's entropy falls and its two views agree; and FixMatch's loss is on what the averaged
network takes for known, selected anew before every epoch from `pseudo_from_epoch` on.
All views pass the network at once. The authors' code takes two passes, of 384 pictures and of
256, which differ in BatchNorm's batch alone; and it selects by a randomly flipped view of the pool
where this takes the picture itself.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from ossl.data.batches import Batch, Plan
from ossl.methods.base import LogValues, MethodInfo, Phase, Scan
from ossl.methods.baseline import CLASSIFIER, DETECTOR
from ossl.methods.fixmatch import pseudo_label_loss
from ossl.methods.labeled_only import LabeledOnly
from ossl.methods.one_vs_all import open_entropy, soft_consistency


class OpenMatch(LabeledOnly):
    """Open-set entropy minimisation, soft consistency, and FixMatch on pseudo-inliers."""

    info: ClassVar[MethodInfo] = MethodInfo(
        name="openmatch",
        title="OpenMatch",
        paper="OpenMatch: Open-set Consistency Regularization for Semi-supe"
        "rvised Learning with Outliers",
        year=2021,
        trains="the encoder, a classifier and a one-vs-all detector",
    )
    known: Tensor  # pool indices of the pseudo-inliers

    def plan(self) -> Plan:
        """Labelled pictures in two views, the pool in two weak ones, pseudo-inliers as FixMatch."""
        size = self.settings.pool_batch
        return Plan(
            labelled=self.settings.labelled_batch,
            pool=size,
            labelled_views=(
                "flip",
                "weak",
            ),  # the code's `weak2` and `strong` of TransformOpenMatch
            pool_views=("weak", "weak"),
            flip=self.settings.flip,
            selected=size,
            selected_views=("weak", "strong"),
        )

    def selected(self, phase: Phase) -> Tensor | None:
        """The pseudo-inliers; none before `pseudo_from_epoch`, and none where none was found."""
        del phase
        return getattr(self, "known", None)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return L_cls + L_ova + λ_em L_em + λ_oc L_oc + λ_fm L_fm."""
        own = [batch.labelled["flip"], batch.labelled["weak"]]
        pool = [batch.pool["weak"], batch.pool["weak2"]]
        chosen = [batch.selected[view] for view in ("weak", "strong") if batch.selected]
        features = self.features(*own, *pool, *chosen)
        labels = batch.labels.repeat(2)
        parts = self.labelled_losses(torch.cat(features[:2]), labels)
        first, second = self.heads[DETECTOR](torch.cat(features[2:4])).chunk(2)
        entropy = (open_entropy(first) + open_entropy(second)) / 2
        parts["entropy_loss"] = self.settings.entropy_weight * entropy
        agreement = soft_consistency(first, second)
        parts["consistency_loss"] = self.settings.consistency_weight * agreement
        if chosen:
            logits = self.heads[CLASSIFIER](torch.cat(features[4:]))
            weak, strong = logits.chunk(2)
            loss, used = pseudo_label_loss(weak, strong, self.settings.pseudo_threshold)
        else:
            loss, used = labels.new_zeros((), dtype=torch.float32), labels.new_zeros(())
        parts["pseudo_loss"] = self.settings.pseudo_weight * loss
        parts["pseudo_labelled_share"] = used
        return parts

    def before_training(self, scan: Scan) -> LogValues:
        """The share selected, where FixMatch's loss is to begin at once."""
        return self._select(scan) if self.settings.pseudo_from_epoch == 0 else {}

    def after_epoch(self, scan: Scan, last: bool) -> LogValues:
        """The share selected for the next epoch; after the last one also the pool's outliers."""
        if last or self.epochs_done >= self.settings.pseudo_from_epoch:
            return self._select(scan)
        return {}

    def state(self) -> dict[str, Tensor]:
        """The pseudo-inliers too."""
        known = self.selected(self.stages[0].phases[0])
        return super().state() | ({} if known is None else {"known": known})

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        """Take back what `state` gave."""
        super().load_state(tensors)
        if "known" in tensors:
            self.known = tensors["known"].cpu()

    def _select(self, scan: Scan) -> LogValues:
        """Take what the averaged network takes for known: p(inlier) of its class above ½."""
        scores = self.pool_scores(scan)[1]
        self.known = (scores <= self.threshold).nonzero().squeeze(1).cpu()
        return self.measure_share(scores)
