"""The methods by name, and how one is built from a run's configuration."""

from __future__ import annotations

from pathlib import Path

import torch

from ossl.config import RunConfig
from ossl.errors import InputError, unknown_name
from ossl.methods.base import Method
from ossl.methods.fixmatch import FixMatch
from ossl.methods.iomatch import IOMatch
from ossl.methods.labeled_only import LabeledOnly
from ossl.methods.mtc import MTC
from ossl.methods.openmatch import OpenMatch
from ossl.methods.openprompt import OpenPrompt
from ossl.methods.ssb import SSB
from ossl.methods.supervised import Supervised
from ossl.models.backbone import HOUSE_BACKBONES, Backbone, create_backbone

METHODS: dict[str, type[Method]] = {
    "openprompt": OpenPrompt,
    "labeled_only": LabeledOnly,
    "supervised": Supervised,
    "fixmatch": FixMatch,
    "openmatch": OpenMatch,
    "mtc": MTC,
    "iomatch": IOMatch,
    "ssb": SSB,
}


def create_encoder(config: RunConfig, *, for_training: bool = True) -> Backbone:
    """The run's encoder; not for training, its weights are left to be loaded from the run.

    `pretrained` then still says what the run started from: what learns in stage 1 (row 4) and so
    what is counted depends on it.
    """
    backbone = config.backbone
    encoder = create_backbone(
        backbone.name,
        image_size=backbone.image_size,
        weights=Path(backbone.weights) if backbone.weights and for_training else None,
        seed=config.seed,
        pretrained=for_training,
    )
    if not for_training:
        # Every timm network has published weights; the house's own say whether they have.
        spec = HOUSE_BACKBONES.get(backbone.name)
        encoder.pretrained = bool(backbone.weights) or spec is None or spec.pretrained
    if for_training and config.train_encoder == "never" and not encoder.pretrained:
        who, part = ("recipe", "recipe") if config.baseline is None else ("method", "baseline")
        raise InputError(
            f"--backbone {backbone.name} has no pretrained weights and the {who} never trains it: "
            f"pass --weights, take --backbone lite0, or --set {part}.train_encoder=auto."
        )
    return encoder


def create_method(config: RunConfig, encoder: Backbone, classes: int, dtype: torch.dtype) -> Method:
    """The method of a run on its encoder."""
    if config.method not in METHODS:
        raise unknown_name("method", config.method, METHODS)
    own = "openprompt" if config.baseline is None else config.baseline.kind
    if own != config.method:
        raise InputError(
            f"method {config.method!r} with the settings of {own!r}: baseline.kind and method name "
            "the same one; give --method instead of changing either."
        )
    return METHODS[config.method].create(config, encoder, classes, dtype)
