"""Stage 1 of the default recipe for an encoder without pretrained weights: rounds over the pool.

1. The encoder learns from strong views of the labelled pictures.
2. Round by round the joint space says how likely each picture of the pool is an outlier and the
   averaged network which class it is otherwise; from both the encoder learns K + 1 classes.
3. What is frozen in the end is the network's slow average.

A network that has learnt a picture by its label sees it unlike any other of its class, so a part
of the labelled pictures stays hidden: their labels are not learnt, they are pictures of the pool
like others. The joint space is fitted on them alone, and what it says of the pool is then fair.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ossl.config import ScheduleConfig
from ossl.data.augment import View
from ossl.data.batches import Batch, Plan
from ossl.methods.base import LogValues, Phase, Scan, Stage
from ossl.methods.detectors import Detector
from ossl.models.backbone import Backbone
from ossl.models.frozen import FrozenBackbone, freeze
from ossl.models.head import Head
from ossl.models.statistics import estimating_statistics
from ossl.models.teacher import Ema

KNOWN, ROUND = "known", "round"  # the stages, each of one phase of the same name
STRONG: tuple[View, ...] = ("strong",)
HIDDEN_PART = 0.1  # of the labelled pictures of a class
HIDDEN_LEAST = 4  # pictures of a class, where it has three times as many
WARM_UP = 0.15  # part of all pictures seen before the rate is at its height
EMA_DECAY = 0.99
STATISTICS_FROM = 4096  # pictures of labelled and pool
TARGETS = "round_targets"


class Rounds(nn.Module):
    """The two stages that an encoder learns in before it is frozen."""

    targets: Tensor  # [N + hidden, K + 1] of the pool and then the hidden labelled pictures

    def __init__(
        self,
        encoder: Backbone,
        classes: int,
        schedule: ScheduleConfig,
        seed: int,
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        self._encoder = (encoder,)  # registered by its owner
        self.classes = classes
        self.rounds = schedule.rounds
        self.dtype = dtype
        self.head = Head(encoder.width, classes + 1, seed=seed)
        self.average = Ema({"encoder": encoder, "head": self.head}, EMA_DECAY, warm_up=True)
        self.targets = torch.empty(0, classes + 1)
        self.hidden = torch.empty(0, dtype=torch.int64)
        self.place = torch.empty(0, dtype=torch.int64)  # of a labelled picture among hidden, or -1
        self.pool_count = 0
        self.done = 0  # rounds
        self.stages = _stages(schedule, mixed_precision=dtype != torch.float32)

    @property
    def encoder(self) -> Backbone:
        """The network that learns."""
        return self._encoder[0]

    def trained(self) -> dict[str, nn.Parameter]:
        """The parameters that learn, by name."""
        return {
            f"{part}.{name}": parameter
            for part, module in (("encoder", self.encoder), ("head", self.head))
            for name, parameter in module.named_parameters()
        }

    def begin(self, stage: Stage, scan: Scan, detector: Detector) -> LogValues:
        """The values to log after hiding labels, and after the first word on the pool."""
        if stage.name == ROUND:
            return self.look(scan, detector)
        self.average.restart()
        self.hide(scan)
        return {"hidden_labels": float(len(self.hidden))}

    def end_round(self, scan: Scan, detector: Detector) -> LogValues:
        """The values to log after a new word on the pool; after the last round nobody needs one."""
        self.done += 1
        return self.look(scan, detector) if self.done < self.rounds else {}

    def hide(self, scan: Scan) -> None:
        """Choose the labelled pictures whose labels are not learnt."""
        labels = scan.labels.cpu()
        self.hidden = hidden_labels(labels)
        self.place = torch.full_like(labels, -1)
        self.place[self.hidden] = torch.arange(len(self.hidden))
        self.pool_count = scan.pool_count

    def known_losses(self, batch: Batch) -> dict[str, Tensor]:
        """Cross-entropy over the known classes on strong views of the labelled pictures."""
        logits = self.head(self._features(batch.labelled["strong"]))[:, : self.classes]
        shown = self._place(batch) < 0
        hits = (logits.argmax(dim=1) == batch.labels).float()
        return {
            "labelled_loss": mean_where(
                F.cross_entropy(logits, batch.labels, reduction="none"), shown
            ),
            "labelled_accuracy": mean_where(hits, shown),
        }

    def round_losses(self, batch: Batch) -> dict[str, Tensor]:
        """Cross-entropy over K + 1 classes: labels of the labelled, the last word of the pool.

        A hidden picture comes with the labelled ones, and so more often than one of the pool; its
        weight takes that back.
        """
        count = len(batch.labels)
        views = torch.cat([batch.labelled["strong"], batch.pool["strong"]])
        labelled, pool = self.head(self._features(views)).tensor_split([count])
        place = self._place(batch)
        shown = place < 0
        targets = self.targets.to(pool.device)
        losses = soft_cross_entropy(pool, targets[batch.pool_index])
        pool_loss = losses.mean()
        if not bool(shown.all()):
            rarer = (len(losses) / self.pool_count) / (count / len(self.place))
            own = soft_cross_entropy(labelled[~shown], targets[self.pool_count + place[~shown]])
            pool_loss = (losses.sum() + rarer * own.sum()) / (len(losses) + rarer * len(own))
        labelled_losses = F.cross_entropy(labelled, batch.labels, reduction="none")
        return {
            "labelled_loss": mean_where(labelled_losses, shown),
            "pool_loss": pool_loss,
            "outlier_share": targets[batch.pool_index, -1].mean(),
        }

    @torch.no_grad()
    def look(self, scan: Scan, detector: Detector) -> LogValues:
        """The values to log after the joint space and the average have said what the pool is."""
        net = self.settled(scan)

        def encode(pictures: Tensor) -> Tensor:
            features: Tensor = net(self.encoder.normalise(pictures))
            return features

        labelled, pool = scan("labelled", encode), scan("pool", encode)
        fair = self.fair(scan.labels)
        values = detector.initialise(labelled[fair], pool, scan.labels[fair])
        hidden = labelled[self.hidden.to(labelled.device)]
        both = torch.cat([pool, hidden])
        known = detector.known_probability(both)[:, None]
        logits = self.average["head"](both)[:, : self.classes]
        own, labels = logits[len(pool) :], scan.labels[self.hidden.to(labelled.device)]
        sharpness = fair_sharpness(own, labels)
        said = (logits * sharpness).softmax(dim=1)
        self.targets = torch.cat([said * known, 1 - known], dim=1)
        values["sharpness"] = sharpness
        if len(own):
            values["held_out_accuracy"] = float((own.argmax(dim=1) == labels).float().mean())
        return values

    def fair(self, labels: Tensor) -> Tensor:
        """The labelled pictures that the encoder has not learnt by label, or all if it has all."""
        every = torch.arange(len(labels), device=labels.device)
        return self.hidden.to(labels.device) if len(self.hidden) else every

    def settled(self, scan: Scan) -> FrozenBackbone:
        """The averaged encoder, frozen with BatchNorm statistics of plain pictures."""
        average = self.average["encoder"]
        assert isinstance(average, Backbone)
        with estimating_statistics(average):
            for pictures in scan.mixed_batches(STATISTICS_FROM):
                average(self.encoder.normalise(pictures))
        return freeze(average, dtype=self.dtype)

    @torch.no_grad()
    def finish(self, scan: Scan) -> None:
        """Nothing; the encoder becomes its slow average."""
        self.settled(scan)
        self.encoder.load_state_dict(self.average["encoder"].state_dict())

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint needs beside the parameters."""
        return {
            TARGETS: self.targets,
            "round_hidden": self.hidden,
            "round_place": self.place,
            "round_pool": torch.tensor(self.pool_count),
            "rounds_done": torch.tensor(self.done),
        }

    def take_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Nothing; takes what `tensors` gave out of a dictionary."""
        if TARGETS in tensors:
            self.targets = tensors.pop(TARGETS)
            self.hidden = tensors.pop("round_hidden").cpu()
            self.place = tensors.pop("round_place").cpu()
            self.pool_count = int(tensors.pop("round_pool"))
            self.done = int(tensors.pop("rounds_done"))

    def _features(self, pictures: Tensor) -> Tensor:
        normalised = self.encoder.normalise(pictures)
        features: Tensor = self.encoder(normalised.to(memory_format=torch.channels_last))
        return features

    def _place(self, batch: Batch) -> Tensor:
        return self.place.to(batch.labels.device)[batch.labelled_index.to(batch.labels.device)]


def hidden_labels(labels: Tensor) -> Tensor:
    """The labelled pictures to hide: the first ones of every class, none with too few labels.

    What a person marked comes last: it was picked, and is no fair draw of its class.
    """
    counts = torch.bincount(labels)
    if int(counts.min()) < 3:
        return torch.empty(0, dtype=torch.int64)
    hidden = []
    for k, count in enumerate(counts.tolist()):
        of_class = (labels == k).nonzero().squeeze(1)
        most = max(round(HIDDEN_PART * count), min(HIDDEN_LEAST, count // 3))
        hidden.append(of_class[:most])
    return torch.cat(hidden).sort().values


def soft_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """−Σ_k t_k log p_k of each picture, [B]."""
    return -(targets * logits.float().log_softmax(dim=1)).sum(dim=1)


def mean_where(values: Tensor, chosen: Tensor) -> Tensor:
    """The mean of the chosen values, zero of none."""
    return (values * chosen).sum() / chosen.sum().clamp(min=1)


def fair_sharpness(logits: Tensor, labels: Tensor) -> float:
    """The factor on held-out logits under which their labels are likeliest; 1 without any."""
    if not len(logits):
        return 1.0
    tried = torch.logspace(-1, 1, 41)
    losses = [float(F.cross_entropy(logits * float(sharp), labels)) for sharp in tried]
    return float(tried[int(torch.tensor(losses).argmin())])


def _stages(schedule: ScheduleConfig, *, mixed_precision: bool) -> tuple[Stage, ...]:
    labelled, pool = schedule.labelled_batch, schedule.pool_batch
    first = schedule.labelled_epochs * schedule.labelled_steps * labelled
    rest = schedule.rounds * schedule.round_steps * (labelled + pool)
    middle = first / max(first + rest, 1)

    def phase(name: str, steps: int, pool_batch: int) -> Phase:
        plan = Plan(
            labelled=labelled,
            pool=pool_batch,
            labelled_views=STRONG,
            pool_views=STRONG,
            flip=schedule.flip,
        )
        return Phase(
            name,
            steps,
            plan,
            schedule.learning_rate,
            schedule.momentum,
            schedule.weight_decay,
            nesterov=schedule.momentum > 0,
            decays_all=False,
        )

    def stage(name: str, title: str, epochs: int, only: Phase, span: tuple[float, float]) -> Stage:
        return Stage(
            name,
            title,
            epochs,
            (only,),
            mixed_precision=mixed_precision,
            hill=(*span, WARM_UP),
        )

    return (
        stage(
            KNOWN,
            "learning from the labelled pictures",
            schedule.labelled_epochs,
            phase(KNOWN, schedule.labelled_steps, 0),
            (0.0, middle),
        ),
        stage(
            ROUND,
            "learning from the pool, round by round",
            schedule.rounds,
            phase(ROUND, schedule.round_steps, pool),
            (middle, 1.0),
        ),
    )
