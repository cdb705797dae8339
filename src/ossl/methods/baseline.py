"""What all baselines share: one network with its heads, its slow average, one stage of epochs.

A baseline says what a batch holds (`plan`), what is lost on it (`losses`) and how outlying a
picture is (`outlier_score`); whatever else differs is a hook below. The average of the network
over the last steps (EMA) is what chooses from the pool and what predicts.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ossl.config import RunConfig
from ossl.data.batches import Batch, Plan
from ossl.errors import InputError
from ossl.methods.base import LogValues, Method, Phase, Predictions, Scan, Stage
from ossl.methods.one_vs_all import one_vs_all_score
from ossl.models.backbone import Backbone
from ossl.models.frozen import FrozenBackbone, freeze
from ossl.models.head import Head, OneVsAllHead
from ossl.models.memory import FeatureMemory
from ossl.models.teacher import Ema

CLASSIFIER, DETECTOR = "classifier", "detector"
LEARNING = "learning"  # the one phase of most baselines
Heads = nn.ModuleDict


class Baseline(Method):
    """A network with heads, learning from labelled pictures and, most of them, a pool."""

    rate_setting: ClassVar[str] = "baseline.learning_rate"

    def __init__(
        self,
        encoder: Backbone,
        classes: int,
        settings: Any,  # the method's own class of `BaselineConfig`
        seed: int,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        if classes < 2:
            raise InputError(
                f"method {self.info.name}: {classes} known class leaves nothing to tell apart; "
                "give labelled pictures of at least two."
            )
        self.settings = settings
        self.classes = classes
        self.seed = seed
        self.dtype = dtype
        self.encoder = encoder
        self.trains_encoder = settings.train_encoder == "always" or (
            settings.train_encoder == "auto" and not encoder.pretrained
        )
        self.heads = Heads(self.new_heads(encoder.width, classes, seed))
        if self.trains_encoder and settings.norm_momentum is not None:
            for module in encoder.modules():
                if isinstance(module, _BatchNorm):
                    module.momentum = settings.norm_momentum
        averaged: dict[str, nn.Module] = {"heads": self.heads}
        if self.trains_encoder:
            averaged["encoder"] = encoder
        self.average = Ema(averaged, decay=settings.ema_decay, warm_up=settings.ema_warm_up)
        self.epochs_done = 0
        self.phase = ""  # the name of the running one
        self._share: float | None = None
        self._frozen: tuple[FrozenBackbone, ...] = ()  # worked out from others: not registered
        self._memory: FeatureMemory | None = None
        self.stages = (
            Stage(
                LEARNING,
                f"learning by {self.info.title}",
                settings.epochs,
                self.phases(),
                mixed_precision=self.trains_encoder and dtype != torch.float32,
                cosine_cycles=settings.cosine_cycles,
            ),
        )

    @classmethod
    def create(cls, config: RunConfig, encoder: Backbone, classes: int, dtype: torch.dtype) -> Self:
        """The method of a run on its encoder."""
        return cls(encoder, classes, config.baseline, config.seed, dtype)

    # --- what a baseline says of itself -------------------------------------------------------

    def new_heads(self, width: int, classes: int, seed: int) -> dict[str, nn.Module]:
        """The heads by name; a classifier and OpenMatch's one-vs-all detector unless overridden."""
        return {
            CLASSIFIER: Head(width, classes, seed=seed),
            DETECTOR: OneVsAllHead(width, classes, seed=seed + 1),
        }

    def plan(self) -> Plan:
        """What a batch holds."""
        raise NotImplementedError

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """The named parts of one batch; what ends in `_loss` is summed."""
        raise NotImplementedError

    def phases(self) -> tuple[Phase, ...]:
        """The phases of an epoch: one of `plan` unless overridden."""
        return (self.phase_of(LEARNING, self.settings.epoch_steps, self.plan()),)

    def known_logits(self, features: Tensor, heads: Heads) -> Tensor:
        """Logits [B, K] over the known classes."""
        logits: Tensor = heads[CLASSIFIER](features)
        return logits

    def outlier_score(self, features: Tensor, logits: Tensor, heads: Heads) -> Tensor:
        """Outlier scores [B], higher for outliers: 1 − p(inlier) of the most likely class."""
        return one_vs_all_score(heads[DETECTOR](features), logits)

    def before_training(self, scan: Scan) -> LogValues:
        """The values to log after measuring what training starts from; not called on resuming."""
        del scan
        return {}

    def after_epoch(self, scan: Scan, last: bool) -> LogValues:
        """The values to log after an epoch; the last one estimates the pool's outlier share."""
        return self.measure_share(self.pool_scores(scan)[1]) if last else {}

    def state(self) -> dict[str, Tensor]:
        """What belongs to a checkpoint beside the parameters."""
        share = float("nan") if self._share is None else self._share
        return {"epochs_done": torch.tensor(self.epochs_done), "share": torch.tensor(share)}

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        """Take back what `state` gave."""
        self.epochs_done = int(tensors["epochs_done"])
        share = float(tensors["share"])
        self._share = None if share != share else share

    def extra_trained(self) -> dict[str, nn.Parameter]:
        """What learns beside the encoder and the heads."""
        return {}

    # --- what a baseline calls ----------------------------------------------------------------

    def phase_of(self, name: str, steps: int, plan: Plan) -> Phase:
        """A phase with this method's optimiser and rate; biases and norms are not decayed."""
        made = self.settings
        return Phase(
            name,
            steps,
            plan,
            made.learning_rate,
            made.momentum,
            made.weight_decay,
            nesterov=made.momentum > 0,
            decays_all=False,
            optimiser=made.optimiser,
        )

    def features(self, *views: Tensor) -> list[Tensor]:
        """The student's features of each of several uint8 views, by one forward pass over all."""
        found = self.encode_floats(self.encoder.normalise(torch.cat(views)))
        return list(torch.split(found, [len(view) for view in views]))

    def encode_floats(self, pictures: Tensor) -> Tensor:
        """The student's features [B, D] of normalised pictures; none learns in a frozen encoder."""
        if self._frozen:
            with torch.no_grad():
                frozen: Tensor = self._frozen[0](pictures)
                return frozen
        features: Tensor = self.encoder(pictures.to(memory_format=torch.channels_last))
        return features

    @property
    def averaged_heads(self) -> Heads:
        """The slow average of the heads."""
        heads = self.average["heads"]
        assert isinstance(heads, Heads)
        return heads

    @torch.no_grad()
    def averaged_features(self, pictures: Tensor) -> Tensor:
        """Features [B, D] of uint8 pictures by the averaged network, in evaluation mode."""
        if self.training and self.trains_encoder:
            net = self.average["encoder"]
            return torch.as_tensor(net(self.encoder.normalise(pictures)))
        if not self._frozen:  # of the average as it is now, until training goes on
            averaged = self.average["encoder"]
            assert isinstance(averaged, Backbone)
            self._frozen = (freeze(averaged, dtype=self.dtype),)
        net = self._frozen[0]

        def encode(some: Tensor) -> Tensor:
            features: Tensor = net(self.encoder.normalise(some))
            return features

        if self._memory is None or self.trains_encoder or self.training:
            return encode(pictures)
        return self._memory.features(net, pictures, encode)

    @torch.no_grad()
    def averaged_outputs(self, pictures: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [B, K] and outlier scores [B] of uint8 pictures by the averaged network."""
        features, heads = self.averaged_features(pictures), self.averaged_heads
        logits = self.known_logits(features, heads)
        return logits, self.outlier_score(features, logits, heads)

    def pool_scores(self, scan: Scan) -> tuple[Tensor, Tensor]:
        """Logits [N, K] and outlier scores [N] of the whole pool by the averaged network."""

        def encode(pictures: Tensor) -> Tensor:
            logits, score = self.averaged_outputs(pictures)
            return torch.cat([logits, score[:, None]], dim=1)

        both = scan("pool", encode)
        return both[:, :-1], both[:, -1]

    def measure_share(self, scores: Tensor) -> LogValues:
        """The value to log after taking the pool's outlier share from its scores."""
        self._share = float((scores > self.threshold).float().mean())
        return {"outlier_share": self._share}

    # --- what the loop calls ------------------------------------------------------------------

    def enter(self, stage: Stage) -> None:
        """Freeze the encoder unless it learns."""
        del stage
        self.encoder.requires_grad_(self.trains_encoder)
        self.encoder.to(memory_format=torch.channels_last)
        if self.trains_encoder:
            self.average["encoder"].to(memory_format=torch.channels_last)
        self._frozen = () if self.trains_encoder else (freeze(self.encoder, dtype=self.dtype),)

    def train(self, mode: bool = True) -> Self:
        """The method in training or evaluation mode; what was worked out of its average is not."""
        if mode and self.trains_encoder:
            self._frozen = ()
        return super().train(mode)

    def begin(self, stage: Stage, scan: Scan) -> LogValues:
        """The values to log after the start."""
        del stage
        self.average.restart()
        return self.before_training(scan)

    def trained(self, phase: Phase) -> dict[str, nn.Parameter]:
        """The parameters that learn, by name."""
        del phase
        parts: dict[str, nn.Module] = {"heads": self.heads}
        if self.trains_encoder:
            parts["backbone"] = self.encoder
        named = {
            f"{part}.{name}": parameter
            for part, module in parts.items()
            for name, parameter in module.named_parameters()
        }
        return named | self.extra_trained()

    def forward(self, batch: Batch, phase: Phase) -> dict[str, Tensor]:
        """The named losses of one batch."""
        self.phase = phase.name
        return self.losses(batch)

    def after_step(self, phase: Phase) -> None:
        """Move the average."""
        del phase
        self.average.update()

    def end_phase(self, phase: Phase, scan: Scan) -> LogValues:
        """The values to log after an epoch's last phase."""
        if phase.name != self.stages[0].phases[-1].name:
            return {}
        self.epochs_done += 1
        return self.after_epoch(scan, self.epochs_done == self.stages[0].epochs)

    # --- predictions --------------------------------------------------------------------------

    @torch.no_grad()
    def predict(self, pictures: Tensor) -> Predictions:
        """The predictions for uint8 pictures by the averaged network."""
        return Predictions(*self.averaged_outputs(pictures))

    def penultimate(self, pictures: Tensor) -> Tensor:
        """The averaged network's features [B, D] of uint8 pictures."""
        return self.averaged_features(pictures)

    def classify(self, features: Tensor) -> Tensor:
        """The logits of such features by the averaged classifier."""
        return self.known_logits(features, self.averaged_heads)

    @property
    def last_layer(self) -> nn.Linear | None:
        """The averaged classifier, where it is linear."""
        head = self.averaged_heads[CLASSIFIER]
        return head if isinstance(head, nn.Linear) else None

    def remember(self, memory: FeatureMemory) -> None:
        """Take a frozen encoder's features of unaugmented pictures from a memory."""
        self._memory = memory

    @property
    def image_size(self) -> int:
        """The side in pixels of the pictures it takes."""
        return self.encoder.image_size

    @property
    def threshold(self) -> float:
        """The outlier score above which a picture is put aside: where both are as likely."""
        return 0.5

    @property
    def outlier_share(self) -> float | None:
        """The share of the pool above the threshold after the last epoch."""
        return self._share

    def joint_space(self) -> dict[str, Tensor]:
        """What is kept beside the networks."""
        return self.state()

    def load_joint_space(self, tensors: dict[str, Tensor]) -> None:
        """Take back what `joint_space` gave."""
        self.load_state(tensors)
