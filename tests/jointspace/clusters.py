"""Labelled pictures and a pool drawn from Gaussian clusters, some of which have no label."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tests.jointspace.drawn import source


@dataclass(frozen=True)
class Clusters:
    labelled: Tensor
    labels: Tensor
    pool: Tensor
    outlier: Tensor  # (N,) bool, of the pool


def clusters(
    classes: int,
    per_class: int,
    pool: int,
    share: float,
    seed: int,
    size: int = 24,
    apart: float = 8.0,
) -> Clusters:
    """Return clusters ``apart`` away from zero, of unit spread; three more hold the outliers."""
    draw = source(seed)
    directions = torch.randn(classes + 3, size, generator=draw)
    centres = apart * directions / directions.norm(dim=1, keepdim=True)
    labels = torch.arange(classes).repeat_interleave(per_class)
    labelled = centres[labels] + torch.randn(len(labels), size, generator=draw)
    strange = round(share * pool)
    truth = torch.cat([torch.arange(pool - strange) % classes, classes + torch.arange(strange) % 3])
    features = centres[truth] + torch.randn(pool, size, generator=draw)
    mixed = torch.randperm(pool, generator=draw)
    return Clusters(labelled, labels, features[mixed], (truth >= classes)[mixed])


def auroc(score: Tensor, outlier: Tensor) -> float:
    """Return how often an outlier is scored higher than a known picture."""
    wins = score[outlier][:, None] > score[~outlier][None]
    return float(wins.double().mean())
