"""MTC (Yu, Ikami, Irie and Aizawa, ECCV 2020): a multi-task curriculum.

One head tells outliers apart, with targets that are learnt together with it: the labelled pictures
are known, every pool picture starts as an outlier, and after each epoch its target becomes what the
network said of it lately. Otsu's threshold on these targets chooses the pool pictures of the next
epoch, from which the classifier learns by MixMatch. Numbers are the official code's, whose soft
label is one minus the outlier score of the paper and of this library.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ossl.data.batches import Batch, Plan
from ossl.errors import InputError
from ossl.method_config import MTCConfig
from ossl.methods.base import LogValues, MethodInfo, Phase, Scan
from ossl.methods.baseline import Baseline
from ossl.models.head import Head
from ossl.processes import from_all_processes

OTSU_BINS = 256  # skimage's `threshold_otsu`, which the official code calls


def sharpen(probabilities: Tensor, temperature: float) -> Tensor:
    """p_k^(1/T) / Σ_j p_j^(1/T) of each row [B, K]; T → 0 is the arg max, T = 1 leaves p."""
    # In logarithms: a power of a small probability would be zero, and zero over zero no number.
    logs = probabilities.clamp_min(torch.finfo(probabilities.dtype).tiny).log()
    return (logs / temperature).softmax(dim=1)


def mixed(values: Tensor, order: Tensor, part: float) -> Tensor:
    """λ x_i + (1 − λ) x_{order(i)} of each row: MixUp's convex combination."""
    return part * values + (1 - part) * values[order]


def mixed_labelled_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """L_x = −1/B Σ_b Σ_k t_bk log softmax(z_b)_k of logits and mixed targets [B, K]."""
    return -(targets * logits.float().log_softmax(dim=1)).sum(dim=1).mean()


def mixed_pool_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """L_u = 1/(B K) Σ_b Σ_k (softmax(z_b)_k − t_bk)² of logits and mixed targets [B, K]."""
    return (logits.float().softmax(dim=1) - targets).square().mean()


def outlier_loss(
    labelled: Tensor, pool: Tensor, pool_targets: Tensor, labelled_share: float
) -> Tensor:
    """L_d, the binary cross-entropy of outlier logits, each picture counted once.

    a · mean_l BCE(z_l, 0) + (1 − a) · mean_u BCE(z_u, y_u), with a the labelled pictures' share of
    all: what batches drawn from labelled pictures and pool together would come to on average.
    """
    known = F.binary_cross_entropy_with_logits(labelled.float(), torch.zeros_like(labelled).float())
    rest = F.binary_cross_entropy_with_logits(pool.float(), pool_targets.float())
    return labelled_share * known + (1 - labelled_share) * rest


def otsu_threshold(scores: Tensor, bins: int = OTSU_BINS) -> Tensor:
    """The score [] that splits a histogram of `scores` [N] with the most variance between sides.

    argmax_t ω₁(t) ω₂(t) (μ₁(t) − μ₂(t))² over bins; at and below it is the lower side, and where
    nothing lies around it, it is in the middle of that gap. Where all scores are the same there is
    nothing to split: it is that score, and everything is below.
    """
    scores = scores.double()
    low, high = scores.min(), scores.max()
    width = (high - low) / bins
    place = ((scores - low) / width.clamp_min(torch.finfo(scores.dtype).tiny)).long()
    counts = torch.zeros(bins, dtype=scores.dtype, device=scores.device)
    counts.index_add_(0, place.clamp(0, bins - 1), torch.ones_like(scores))
    edges = torch.arange(1, bins, device=scores.device)  # as bins below
    values = counts * torch.arange(bins, device=scores.device)
    below, sum_below = counts.cumsum(0)[:-1], values.cumsum(0)[:-1]
    above, sum_above = counts.sum() - below, values.sum() - sum_below
    apart = sum_below / below - sum_above / above  # no side is empty: lowest and highest count
    first = edges[(below * above * apart.square()).argmax()]
    last = torch.where((edges >= first) & (counts[1:] > 0), edges, bins).min()
    return torch.where(high > low, low + (first + last) / 2 * width, high)


@dataclass
class SoftTargets:
    """What the pool pictures' outlier targets are, and what the network said of them lately.

    y_i ← the mean of the outputs of the last `window` epochs; before there were so many, y_i stays
    at its start (joint optimisation, equation 3). In the official code an epoch comes to every
    picture. Where it is shorter, a picture keeps what was said of it last, and one of which nothing
    was said yet is left out of the choice.
    """

    targets: Tensor  # [N], 0 known … 1 outlier
    latest: Tensor  # [N], the newest output
    recent: Tensor  # [N, window], one column an epoch
    seen: Tensor  # [N], whether there is any output
    epochs: int = 0

    @staticmethod
    def start(count: int, window: int, score: float, device: torch.device) -> SoftTargets:
        """The targets before any epoch: `score` for all."""
        full = torch.full((count,), score, device=device)
        unseen = torch.zeros(count, dtype=torch.bool, device=device)
        return SoftTargets(full, full.clone(), full[:, None].repeat(1, window), unseen)

    def note(self, index: Tensor, outputs: Tensor) -> None:
        """Remember what the network says of some pictures."""
        self.latest[index] = outputs.detach().to(self.latest)
        self.seen[index] = True

    def turn(self) -> None:
        """Take an epoch's outputs into the targets."""
        window = self.recent.shape[1]
        self.recent[:, self.epochs % window] = self.latest
        self.epochs += 1
        if self.epochs >= window:
            self.targets = self.recent.mean(dim=1)

    def choose(self) -> tuple[Tensor, float]:
        """The pictures [n] below Otsu's threshold on the targets, by index, and that threshold."""
        seen = self.seen if bool(self.seen.any()) else torch.ones_like(self.seen)
        limit = otsu_threshold(self.targets[seen])
        return (seen & (self.targets <= limit)).nonzero().squeeze(1), float(limit)


@contextmanager
def leaving_statistics(net: nn.Module) -> Iterator[None]:
    """A block in which BatchNorm normalises by the batch and its running statistics stay."""
    norms = [module for module in net.modules() if isinstance(module, _BatchNorm)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum


class MTC(Baseline):
    """See the module's docstring."""

    info: ClassVar[MethodInfo] = MethodInfo(
        name="mtc",
        title="MTC",
        paper="Multi-Task Curriculum Framework for Open-Set Semi-Supervised Learning",
        year=2020,
        trains="the encoder, a classifier and an outlier head",
    )
    settings: MTCConfig
    scores: SoftTargets | None = None
    known: Tensor  # the pool pictures of the current epoch, by index
    limit = 0.5  # Otsu's threshold
    labelled_share = 0.0  # of all pictures
    steps = 0  # in which the classifier learnt

    def new_heads(self, width: int, classes: int, seed: int) -> dict[str, nn.Module]:
        """A classifier, and one logit for outliers."""
        first, epochs = self.settings.outlier_epochs, self.settings.epochs
        if first >= epochs:
            raise InputError(
                f"baseline.outlier_epochs = {first} of {epochs} epochs leaves the classifier none; "
                f"give --set baseline.outlier_epochs={epochs // 3}."
            )
        return {
            "classifier": Head(width, classes, seed=seed),
            "outlier": Head(width, 1, seed=seed + 1),
        }

    def plan(self) -> Plan:
        """Labelled and pool pictures for the outlier head, chosen ones twice for MixMatch."""
        settings = self.settings
        return Plan(
            labelled=settings.labelled_batch,
            pool=settings.pool_batch,
            pool_views=("weak",),
            selected=settings.pool_batch,
            selected_views=("weak", "weak"),
            flip=settings.flip,
        )

    def phases(self) -> tuple[Phase, ...]:
        """One phase; its weight decay is for every parameter, as in the official code."""
        return tuple(replace(phase, decays_all=True) for phase in super().phases())

    @property
    def warming_up(self) -> bool:
        """Whether only the outlier head learns yet."""
        return self.epochs_done < self.settings.outlier_epochs

    def before_training(self, scan: Scan) -> LogValues:
        """The values to log after every pool picture's target is put at its start."""
        values = super().before_training(scan)
        self.scores = SoftTargets.start(
            scan.pool_count, self.settings.window, self.settings.start_score, scan.labels.device
        )
        self.labelled_share = len(scan.labels) / (len(scan.labels) + scan.pool_count)
        return values | self._choose()

    def selected(self, phase: Phase) -> Tensor | None:
        """The pool pictures below Otsu's threshold; none before the classifier learns."""
        del phase
        return torch.empty(0, dtype=torch.int64) if self.warming_up else self.known

    # --- the losses ---------------------------------------------------------------------------

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """L = L_d, and once the outlier head is warm, + L_x + λ_u L_u."""
        parts = self._outlier_losses(batch)
        return parts if self.warming_up else {**parts, **self._mixmatch_losses(batch)}

    def _outlier_losses(self, batch: Batch) -> dict[str, Tensor]:
        """L_d, and the outputs noted for the next targets."""
        assert self.scores is not None
        views = (batch.labelled["weak"], batch.pool["weak"])
        if self.warming_up:
            labelled, pool = self.features(*views)
        else:  # its statistics are to be those of what the classifier learns from
            with leaving_statistics(self.encoder):
                labelled, pool = self.features(*views)
        head = self.heads["outlier"]
        logits = head(pool).squeeze(1)
        targets = self.scores.targets[batch.pool_index]
        # Of all processes' pictures, so that every process chooses the same ones.
        outputs = from_all_processes(logits.detach().float().sigmoid())
        self.scores.note(from_all_processes(batch.pool_index), outputs)
        loss = outlier_loss(head(labelled).squeeze(1), logits, targets, self.labelled_share)
        return {"outlier_loss": loss, "outlier_target": targets.mean()}

    def _mixmatch_losses(self, batch: Batch) -> dict[str, Tensor]:
        """L_x and λ_u L_u on labelled and chosen pictures, mixed with one another."""
        settings, classify = self.settings, self.heads["classifier"]
        chosen = list(batch.selected.values())  # none where Otsu left none
        labels = F.one_hot(batch.labels, self.classes).float()
        targets = [labels]
        if chosen:
            with torch.no_grad():
                said = [classify(features).softmax(dim=1) for features in self.features(*chosen)]
                guess = sharpen(torch.stack(said).mean(dim=0), settings.temperature)
            targets += [guess] * len(chosen)
        pictures = self.encoder.normalise(torch.cat([batch.labelled["weak"], *chosen]))
        part, order = self._draw_mixture(len(pictures))
        order = order.to(pictures.device)
        mixture = mixed(torch.cat(targets), order, part)
        logits = classify(self.encode_floats(mixed(pictures, order, part)))
        count = len(labels)
        parts = {"labelled_loss": mixed_labelled_loss(logits[:count], mixture[:count])}
        if chosen:
            pool_loss = mixed_pool_loss(logits[count:], mixture[count:])
            parts["pool_loss"] = settings.pool_weight * self._ramp() * pool_loss
        return parts

    def _draw_mixture(self, count: int) -> tuple[float, Tensor]:
        """λ = max(l, 1 − l) with l ~ Beta(α, α), and a permutation, drawn anew for each step."""
        generator = np.random.default_rng([self.seed, self.steps])
        self.steps += 1
        part = float(generator.beta(self.settings.alpha, self.settings.alpha))
        return max(part, 1 - part), torch.from_numpy(generator.permutation(count))

    def _ramp(self) -> float:
        """How far λ_u has risen: linearly over the first epochs in which the classifier learns."""
        length = self.settings.ramp_epochs * self.settings.epoch_steps
        return min(1.0, self.steps / length) if length else 1.0

    # --- the curriculum -----------------------------------------------------------------------

    def after_epoch(self, scan: Scan, last: bool) -> LogValues:
        """The values to log after the targets follow the outputs, and the next choice.

        After the last epoch the threshold is Otsu's on what the averaged network, which predicts,
        says of the pool.
        """
        assert self.scores is not None
        self.scores.turn()
        values = self._choose()
        if last:
            scores = self.pool_scores(scan)[1]
            self.limit = float(otsu_threshold(scores))
            values |= {"threshold": self.limit} | self.measure_share(scores)
        return values

    def _choose(self) -> LogValues:
        assert self.scores is not None
        chosen, self.limit = self.scores.choose()
        self.known = chosen.cpu()
        share = len(chosen) / len(self.scores.targets)
        return {"otsu_threshold": self.limit, "chosen_share": share}

    # --- predictions and state ----------------------------------------------------------------

    def outlier_score(self, features: Tensor, logits: Tensor, heads: nn.ModuleDict) -> Tensor:
        """The outlier head's probability."""
        del logits
        score: Tensor = heads["outlier"](features).squeeze(1).float().sigmoid()
        return score

    @property
    def threshold(self) -> float:
        """Otsu's threshold."""
        return self.limit

    def state(self) -> dict[str, Tensor]:
        """The targets and what they come from, the choice, and how long the classifier learnt."""
        kept = super().state()
        if self.scores is None:
            return kept
        return kept | {
            "targets": self.scores.targets,
            "latest": self.scores.latest,
            "recent": self.scores.recent,
            "seen": self.scores.seen,
            "chosen": self.known,
            "counts": torch.tensor([self.scores.epochs, self.steps]),
            "limit": torch.tensor([self.limit, self.labelled_share], dtype=torch.float64),
        }

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        """Take back what `state` gave."""
        super().load_state(tensors)
        epochs, self.steps = (int(number) for number in tensors["counts"])
        self.scores = SoftTargets(
            tensors["targets"], tensors["latest"], tensors["recent"], tensors["seen"], epochs
        )
        self.known = tensors["chosen"].cpu()
        self.limit, self.labelled_share = (float(number) for number in tensors["limit"])
