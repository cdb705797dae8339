"""What a method is to the loop: stages of phases, named losses, and a pass over the data.

A method never touches an optimiser, a device or a file; the loop never knows a method's name.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, Self

import torch
from torch import Tensor, nn

from ossl.config import RunConfig
from ossl.data.batches import Batch, Plan
from ossl.jointspace.marks import Marks
from ossl.jointspace.simple import logit_scores
from ossl.models.backbone import Backbone
from ossl.models.memory import FeatureMemory

LogValues = dict[str, float | str]
"""what a method has to say for the journal: figures, and remarks as text"""


@dataclass(frozen=True)
class MethodInfo:
    """Where a method comes from and what it trains; feeds `ossl list methods` and the docs."""

    name: str
    title: str
    paper: str
    year: int
    trains: str


@dataclass(frozen=True)
class Phase:
    """Steps of one kind within an epoch, with an optimiser of their own."""

    name: str
    steps: int
    plan: Plan  # what a batch holds
    learning_rate: float
    momentum: float = 0.9
    weight_decay: float = 0.0
    nesterov: bool = False
    decays_all: bool = True  # the weight decay; else biases and normalisations are spared
    optimiser: Literal["sgd", "adamw"] = "sgd"  # AdamW has no momentum of its own to set
    gradient: Literal["plain", "normalised"] = "plain"  # normalised: of length 1 in every step


@dataclass(frozen=True)
class Stage:
    """Epochs of the same phases; the learning rate falls to a tenth after `decay_at` of them.

    With `cosine_cycles` it falls step by step instead: cos(π · cosine_cycles · part done). With
    `hill` the stage is the part from … to of a longer way, on which the rate rises evenly for the
    part `warm-up` and then falls to zero along half a cosine.
    """

    name: str
    title: str  # for people, beside the progress bar
    epochs: int
    phases: tuple[Phase, ...]
    decay_at: float = 1.0
    mixed_precision: bool = False  # whether a trained network runs under autocast
    cosine_cycles: float | None = None
    hill: tuple[float, float, float] | None = None  # from, to, warm-up: parts of the whole way

    def rate_factor(self, epoch: int, part: float = 0.0) -> float:
        """The factor on every learning rate when `part` of an epoch, counted from zero, is done."""
        if self.hill is not None:
            start, end, warm_up = self.hill
            way = start + (end - start) * (epoch + part) / self.epochs
            if way < warm_up:
                return min(1.0, way / warm_up + 0.02)
            return 0.5 * (1 + math.cos(math.pi * (way - warm_up) / (1 - warm_up)))
        if self.cosine_cycles is not None:
            return max(0.0, math.cos(math.pi * self.cosine_cycles * (epoch + part) / self.epochs))
        return 0.1 if epoch >= self.decay_at * self.epochs else 1.0


class Scan(Protocol):
    """One pass over all labelled or all pool pictures, unaugmented and in order."""

    @property
    def labels(self) -> Tensor:
        """The classes of the labelled pictures, in the same order, on the device."""

    @property
    def pool_count(self) -> int:
        """The number of pictures in the pool."""

    def labelled_batches(self) -> Iterator[Tensor]:
        """All labelled pictures in batches of nearly one size, the same ones in every process."""

    def mixed_batches(self, count: int) -> Iterator[Tensor]:
        """Up to `count` pictures of labelled and pool in a random order, the same everywhere."""

    def __call__(
        self, which: Literal["labelled", "pool"], encode: Callable[[Tensor], Tensor]
    ) -> Tensor: ...


@dataclass(frozen=True)
class Predictions:
    """What a method says of pictures; a higher outlier score is more outlying."""

    logits: Tensor  # [n, K] over the known classes
    outlier_score: Tensor  # [n]

    @staticmethod
    def joined(parts: list[Predictions]) -> Predictions:
        """The predictions of consecutive batches as one."""
        return Predictions(
            torch.cat([part.logits for part in parts]),
            torch.cat([part.outlier_score for part in parts]),
        )


class Method(nn.Module, ABC):
    """A way of learning from labelled pictures and a pool with outliers in it."""

    info: ClassVar[MethodInfo]
    rate_setting: ClassVar[str] = "schedule.learning_rate"  # where a person lowers it
    learns_from_truth: ClassVar[bool] = False  # every known picture of the pool with its label
    stages: tuple[Stage, ...]

    @classmethod
    @abstractmethod
    def create(cls, config: RunConfig, encoder: Backbone, classes: int, dtype: torch.dtype) -> Self:
        """The method of a run on its encoder."""

    @abstractmethod
    def enter(self, stage: Stage) -> None:
        """Decide what is frozen and what learns in a stage; called again when a run resumes."""

    def begin(self, stage: Stage, scan: Scan) -> LogValues:
        """The values to log after measuring what a stage starts from; not called on resuming."""
        del stage, scan
        return {}

    @abstractmethod
    def trained(self, phase: Phase) -> dict[str, nn.Parameter]:
        """The parameters that a phase learns, by name."""

    def pool_choice(self, phase: Phase) -> Tensor | None:
        """The pool pictures a phase draws from, by index; None is the whole pool."""
        del phase
        return None

    def selected(self, phase: Phase) -> Tensor | None:
        """The pool pictures for the third side of a phase's batches; without any it is absent."""
        del phase
        return None

    @abstractmethod
    def forward(self, batch: Batch, phase: Phase) -> dict[str, Tensor]:
        """Named parts; the loop sums those whose name ends in `_loss` and logs them all."""

    def after_step(self, phase: Phase) -> None:
        """Follow an optimiser's step, as a moving average does."""
        del phase

    def end_phase(self, phase: Phase, scan: Scan) -> LogValues:
        """The values to log after what a phase does once at the end of each epoch."""
        del phase, scan
        return {}

    @abstractmethod
    def predict(self, pictures: Tensor) -> Predictions:
        """The predictions for uint8 pictures, no gradient."""

    def predict_with_simple(self, pictures: Tensor) -> tuple[Predictions, dict[str, Tensor]]:
        """The predictions, and beside them the simple outlier scores to compare with, by name."""
        predictions = self.predict(pictures)
        return predictions, logit_scores(predictions.logits)

    @abstractmethod
    def penultimate(self, pictures: Tensor) -> Tensor:
        """The features [B, D] of uint8 pictures that `classify` takes, as in `predict`."""

    @abstractmethod
    def classify(self, features: Tensor) -> Tensor:
        """The logits [B, K] over the known classes that `predict` makes of such features."""

    @property
    def last_layer(self) -> nn.Linear | None:
        """The linear layer that `classify` is; None where it is something else."""
        return None

    def remember(self, memory: FeatureMemory) -> None:
        """Take from a memory the features that stay the same; a method without any ignores it."""
        del memory

    def heed(self, marks: Marks) -> None:
        """Learn from what a person said of pool pictures, those called outliers too.

        The known among them are the last labelled pictures anyway, and so for every method.
        """
        del marks

    @property
    @abstractmethod
    def image_size(self) -> int:
        """The side in pixels of the pictures it takes."""

    @property
    @abstractmethod
    def threshold(self) -> float:
        """The outlier score above which a picture is put aside."""

    @property
    @abstractmethod
    def outlier_share(self) -> float | None:
        """The estimated share of outliers in the pool; None before there is one."""

    @property
    def closed_form_parameters(self) -> int:
        """How many numbers were solved for instead of learnt step by step."""
        return 0

    @property
    def held_out_accuracy(self) -> float | None:
        """How often labelled pictures that were held out got their class; None where none were."""
        return None

    @property
    def remark(self) -> str | None:
        """What it decided by the data and why, one line for people; None where nothing was."""
        return None

    @property
    def outlier_share_interval(self) -> tuple[float, float] | None:
        """Where that share lies in nine cases of ten; None for a method that cannot say."""
        return None

    @abstractmethod
    def joint_space(self) -> dict[str, Tensor]:
        """Everything that `jointspace.safetensors` holds."""

    @abstractmethod
    def load_joint_space(self, tensors: dict[str, Tensor]) -> None:
        """Take back what `joint_space` gave."""
