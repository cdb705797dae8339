"""The settings of the baselines, one frozen class a method; the defaults are the published ones.

`RUN/config.json` holds one of them under `baseline`, told apart by `kind`, the method's name.
"""

from __future__ import annotations

from typing import Annotated, Literal

from annotated_types import Gt
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)

Fraction = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(ge=0)]  # of a loss
Positive = Annotated[float, Gt(0)]
Count = Annotated[int, Field(ge=0)]
Batch = Annotated[int, Field(ge=1, le=65_536)]
Optimiser = Literal["sgd", "adamw"]


@dataclass(frozen=True, config=STRICT)
class BaselineConfig:
    """What all baselines share: FixMatch's schedule and optimiser (arXiv:2001.07685, table 4).

    OpenMatch took them over, with a pool batch of twice the labelled one (its `utils/parser.py`).
    """

    epochs: Annotated[int, Field(ge=1)] = 512
    epoch_steps: Annotated[int, Field(ge=1)] = 1024  # 2^19 steps in all
    labelled_batch: Batch = 64  # pictures
    pool_batch: Batch = 128  # pictures; μ = 2
    optimiser: Optimiser = "sgd"  # with Nesterov momentum; AdamW is MTC's
    learning_rate: Positive = 0.03
    momentum: Fraction = 0.9
    weight_decay: Weight = 5e-4  # not of biases and normalisations
    # the rate is cos(π · cosine_cycles · done) times the first one; 0 leaves it
    cosine_cycles: Annotated[float, Field(ge=0, le=0.5)] = 7 / 16
    ema_decay: Fraction = 0.999  # of the averaged network, which predicts
    ema_warm_up: bool = False  # average over fewer steps at first: short runs need it
    # how fast BatchNorm's statistics follow; None: the backbone's own, 0.001 in Wide ResNets
    norm_momentum: Annotated[float, Field(gt=0, le=1)] | None = None
    # "auto" trains the encoder when it has no pretrained weights, else the heads alone
    train_encoder: Literal["always", "auto", "never"] = "auto"
    flip: bool = True  # whether a mirrored picture is still of its class


@dataclass(frozen=True, config=STRICT)
class LabeledOnlyConfig(BaselineConfig):
    """The labelled pictures alone, with OpenMatch's one-vs-all detector."""

    kind: Literal["labeled_only"] = "labeled_only"


@dataclass(frozen=True, config=STRICT)
class SupervisedConfig(BaselineConfig):
    """Every known training picture labelled: what better use of the pool could reach at most."""

    kind: Literal["supervised"] = "supervised"


@dataclass(frozen=True, config=STRICT)
class FixMatchConfig(BaselineConfig):
    """FixMatch (arXiv:2001.07685, table 4), with OpenMatch's one-vs-all detector."""

    kind: Literal["fixmatch"] = "fixmatch"
    pseudo_threshold: Fraction = 0.95  # τ, smallest confidence of a pseudo-label
    pseudo_weight: Weight = 1.0  # λ_u


@dataclass(frozen=True, config=STRICT)
class OpenMatchConfig(BaselineConfig):
    """OpenMatch (arXiv:2105.14148, and `utils/parser.py` of its code)."""

    kind: Literal["openmatch"] = "openmatch"
    entropy_weight: Weight = 0.1  # λ_em
    consistency_weight: Weight = 0.5  # λ_oc; 1.0 on CIFAR-100
    pseudo_weight: Weight = 1.0  # λ_fm
    # FixMatch's loss on the pool's likely known pictures begins after so many epochs
    pseudo_from_epoch: Count = 10
    pseudo_threshold: Fraction = 0.0  # the code's default; FixMatch's own is 0.95


@dataclass(frozen=True, config=STRICT)
class MTCConfig(BaselineConfig):
    """MTC (arXiv:2007.11330; numbers from `train_multi.py` of its code).

    Its optimiser is Adam with a decay of its own, w ← w − 0.02 · rate · w, which is AdamW's.
    """

    kind: Literal["mtc"] = "mtc"
    epochs: Annotated[int, Field(ge=1)] = 1124  # 1,024 and those of the outlier head alone
    pool_batch: Batch = 64  # pictures; of the whole pool, and as many of the chosen ones
    optimiser: Optimiser = "adamw"
    learning_rate: Positive = 0.002
    weight_decay: Weight = 0.02
    cosine_cycles: Annotated[float, Field(ge=0, le=0.5)] = 0.0  # the rate stays
    outlier_epochs: Count = 100  # at first, of the outlier head alone
    window: Annotated[int, Field(ge=1)] = 10  # epochs whose outputs make up a picture's target
    start_score: Fraction = 1.0  # a pool picture's first target: an outlier
    temperature: Positive = 0.5  # T, of sharpening
    alpha: Positive = 0.75  # of MixUp's Beta distribution
    pool_weight: Weight = 75.0  # λ_u
    ramp_epochs: Count = 16  # over which λ_u rises from zero


@dataclass(frozen=True, config=STRICT)
class IOMatchConfig(BaselineConfig):
    """IOMatch (arXiv:2308.13168; numbers from `config/openset_cv/iomatch` of its code)."""

    kind: Literal["iomatch"] = "iomatch"
    epochs: Annotated[int, Field(ge=1)] = 256  # of 1,024 steps: 2^18
    pool_batch: Batch = 448  # pictures; μ = 7
    weight_decay: Weight = 5e-4  # 1e-3 on CIFAR-100
    pseudo_threshold: Fraction = 0.95  # τ_p, smallest confidence of the closed-set head
    open_threshold: Fraction = 0.5  # τ_q, smallest confidence of the joint target
    binary_weight: Weight = 1.0  # λ_mb
    inlier_weight: Weight = 1.0  # λ_ui
    open_weight: Weight = 1.0  # λ_op
    projection: Annotated[int, Field(ge=1)] = 128  # numbers, under the open-set heads
    align: bool = False  # distribution alignment: off on CIFAR-10, on for CIFAR-100
    align_steps: Annotated[int, Field(ge=1)] = 128  # whose batch means it goes by


@dataclass(frozen=True, config=STRICT)
class SSBConfig(BaselineConfig):
    """SSB on FixMatch (arXiv:2311.10572; numbers from `fix_ssb.sh` and `utils/parser.py`)."""

    kind: Literal["ssb"] = "ssb"
    hidden: Annotated[int, Field(ge=1)] = 1024  # width of both projections; 4,096 on ImageNet-30
    pseudo_threshold: Fraction = 0.95  # smallest confidence of a pseudo-label
    detector_from: Fraction = 475 / 512  # part of the epochs after which the detectors join
    negative_threshold: Fraction = 0.01  # largest inlier probability of a mined negative
    negative_weight: Weight = 1.0
    entropy_weight: Weight = 0.1  # OpenMatch's λ_em
    consistency_weight: Weight = 0.5  # OpenMatch's λ_oc; 1.0 on CIFAR-100


BASELINES: dict[str, type[BaselineConfig]] = {
    "labeled_only": LabeledOnlyConfig,
    "supervised": SupervisedConfig,
    "fixmatch": FixMatchConfig,
    "openmatch": OpenMatchConfig,
    "mtc": MTCConfig,
    "iomatch": IOMatchConfig,
    "ssb": SSBConfig,
}
AnyBaseline = Annotated[
    LabeledOnlyConfig
    | SupervisedConfig
    | FixMatchConfig
    | OpenMatchConfig
    | MTCConfig
    | IOMatchConfig
    | SSBConfig,
    Field(discriminator="kind"),
]
