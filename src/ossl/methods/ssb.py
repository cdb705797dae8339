"""SSB (Fan, Kukleva, Dai and Schiele, ICCV 2023): a simple but strong baseline.

The classifier and the one-vs-all outlier detectors each see the features through a projection of
their own. The classifier learns from every confident pool picture, inlier or not (FixMatch); the
detectors join late, and mine negatives of which they are sure from the pool. Numbers and readings
are the official code's.
"""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ossl.data.batches import Batch, Plan
from ossl.errors import InputError
from ossl.method_config import SSBConfig
from ossl.methods.base import MethodInfo
from ossl.methods.baseline import Baseline
from ossl.methods.fixmatch import pseudo_label_loss
from ossl.methods.one_vs_all import inlier_probability, open_entropy, soft_consistency
from ossl.models.mlp import MLP


def detector_loss(weak: Tensor, strong: Tensor, labels: Tensor) -> Tensor:
    """L_ova of one-vs-all logits [B, 2, K] of weak and strong views, with every negative.

    mean_b −log o_{b,y_b}  +  mean_{b,k} [k ≠ y_b] −log (1 − o_{bk}): the positives come from the
    weak views, the negatives from both. OpenMatch takes the hardest negative alone, SSB all.
    """
    negatives = torch.cat([weak, strong]).float().log_softmax(dim=1)[:, 0]
    others = 1 - F.one_hot(torch.cat([labels, labels]), weak.shape[2])
    inlying = weak.float().log_softmax(dim=1)[:, 1].gather(1, labels[:, None])
    return -inlying.mean() - (negatives * others).mean()


def pseudo_negative_loss(weak: Tensor, strong: Tensor, threshold: float) -> Tensor:
    """L_pn, mean_b Σ_k [o_bk(weak) ≤ ε] −log (1 − o_bk(strong)) of logits [B, 2, K].

    Where a detector is sure that a pool picture is not of its class, it learns so from the strong
    view; whether the picture is an outlier or of another class does not matter.
    """
    sure = inlier_probability(weak.detach()) <= threshold
    return -(strong.float().log_softmax(dim=1)[:, 0] * sure).sum(dim=1).mean()


class Detectors(MLP):
    """One-vs-all logits [B, 2, K] through a projection; 0 says outlier and 1 inlier."""

    def forward(self, features: Tensor) -> Tensor:
        """The logits of features [B, D]."""
        logits = super().forward(features)
        return logits.view(len(logits), 2, -1)


class SSB(Baseline):
    """See the module's docstring."""

    info: ClassVar[MethodInfo] = MethodInfo(
        name="ssb",
        title="SSB",
        paper="SSB: Simple but Strong Baseline for Boosting Performance of Open-Set "
        "Semi-Supervised Learning",
        year=2023,
        trains="the encoder, a classifier and K outlier detectors, each with a projection",
    )
    settings: SSBConfig

    def new_heads(self, width: int, classes: int, seed: int) -> dict[str, nn.Module]:
        """Two projections of two hidden layers, one to the classes and one to the detectors."""
        part, hidden = self.settings.detector_from, self.settings.hidden
        if part == 1:
            raise InputError(
                "baseline.detector_from = 1 leaves the outlier detectors no epoch to learn in; "
                "give less, such as --set baseline.detector_from=0.7."
            )
        return {
            "classifier": MLP((width, hidden, hidden, classes), seed=seed),
            "detector": Detectors((width, hidden, hidden, 2 * classes), seed=seed + 1),
        }

    @property
    def detects(self) -> bool:
        """Whether the detectors learn by now: they join for the last part of the epochs."""
        return self.epochs_done >= int(self.settings.detector_from * self.settings.epochs)

    def plan(self) -> Plan:
        """The views of both parts: the classifier alone needs the first ones of each side."""
        settings = self.settings
        return Plan(
            labelled=settings.labelled_batch,
            pool=settings.pool_batch,
            labelled_views=("weak", "flip", "strong", "strong"),
            pool_views=("weak", "strong", "flip"),
            selected=0,
            flip=settings.flip,
        )

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """L = L_x + L_u, and once the detectors join, + L_ova + L_pn + λ_em L_em + λ_oc L_oc."""
        return self._all_losses(batch) if self.detects else self._classifier_losses(batch)

    def _classifier_losses(self, batch: Batch) -> dict[str, Tensor]:
        """FixMatch through the classifier's projection, on the whole pool."""
        classify = self.heads["classifier"]
        known, weak, strong = self.features(
            batch.labelled["weak"], batch.pool["weak"], batch.pool["strong"]
        )
        pseudo, used = pseudo_label_loss(
            classify(weak), classify(strong), self.settings.pseudo_threshold
        )
        return {
            "labelled_loss": F.cross_entropy(classify(known), batch.labels),
            "pseudo_loss": pseudo,
            "pseudo_labelled_share": used,
        }

    def _all_losses(self, batch: Batch) -> dict[str, Tensor]:
        """The classifier's losses, and those of the detectors."""
        settings = self.settings
        classify, detect = self.heads["classifier"], self.heads["detector"]
        labelled = [batch.labelled[name] for name in ("weak", "flip", "strong", "strong2")]
        pool = [batch.pool[name] for name in ("weak", "strong", "flip")]
        *known, weak, strong, flipped = self.features(*labelled, *pool)
        twice = torch.cat([batch.labels, batch.labels])
        known_weak, known_strong = torch.cat(known[:2]), torch.cat(known[2:])
        first, second, hard = (detect(features) for features in (weak, flipped, strong))
        entropy = (open_entropy(first) + open_entropy(second)) / 2
        mined = inlier_probability(first) <= settings.negative_threshold
        pseudo, used = pseudo_label_loss(
            classify(weak), classify(strong), settings.pseudo_threshold
        )
        return {
            "labelled_loss": F.cross_entropy(classify(known_weak), twice),
            "pseudo_loss": pseudo,
            "detector_loss": detector_loss(detect(known_weak), detect(known_strong), twice),
            "pseudo_negative_loss": settings.negative_weight
            * pseudo_negative_loss(first, hard, settings.negative_threshold),
            "entropy_loss": settings.entropy_weight * entropy,
            "consistency_loss": settings.consistency_weight * soft_consistency(first, second),
            "pseudo_labelled_share": used,
            "mined_negative_share": mined.float().mean(),
        }

    @torch.no_grad()
    def penultimate(self, pictures: Tensor) -> Tensor:
        """What the last layer of the averaged classifier sees of uint8 pictures."""
        return self._classifier.hidden(self.averaged_features(pictures))

    def classify(self, features: Tensor) -> Tensor:
        """The logits of such features by that layer."""
        logits: Tensor = self.last_layer(features)
        return logits

    @property
    def last_layer(self) -> nn.Linear:
        """The averaged classifier's last layer, behind its projection."""
        return self._classifier.last

    @property
    def _classifier(self) -> MLP:
        made = self.averaged_heads["classifier"]
        assert isinstance(made, MLP)
        return made
