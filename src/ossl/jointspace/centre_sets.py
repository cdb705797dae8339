"""Several known and outlier centres: the circle of Apollonius in its power form."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from ossl.jointspace import evidence
from ossl.jointspace.principal import StackSettings

LEAST_VARIANCE = 1e-6
"""of whitened features within classes; labelled pictures that are all alike have none"""


@dataclass
class CentreSets:
    """Several known and outlier centres in a space where classes are round."""

    transform: Tensor  # (d, d')
    known: Tensor
    known_weights: Tensor
    outlier: Tensor
    outlier_weights: Tensor

    def __call__(self, white: Tensor) -> Tensor:
        """Return log p_outlier - log p_known, (N,)."""
        return evidence.log_density_ratio(
            white @ self.transform,
            self.known,
            self.known_weights,
            self.outlier,
            self.outlier_weights,
        )


def round_classes(white: Tensor, labels: Tensor, keep: int) -> Tensor:
    """Return the map to the ``keep`` directions in which classes differ most, made round.

    The within-class covariance of labelled features is shrunk towards a multiple of the identity
    as if that had been seen in as many pictures as there are dimensions.
    """
    dim = white.shape[1]
    classes = int(labels.max()) + 1
    residual = white - evidence.class_means(white, labels, classes)[labels]
    seen = max(len(white) - classes, 0)
    if seen < 2:
        return torch.eye(dim)[:, :keep]
    cov = residual.T @ residual / seen
    part = dim / (dim + seen)
    cov = (1 - part) * cov + part * cov.diagonal().mean() * torch.eye(dim)
    variance, directions = torch.linalg.eigh(cov)
    scaled: Tensor = directions[:, :keep] * variance[:keep].clamp_min(LEAST_VARIANCE).rsqrt()
    return scaled


def fit_centres(
    white: Tensor,
    labels: Tensor,
    pool: Tensor,
    start: Tensor,
    share: float,
    count: int,
    keep: int,
    settings: StackSettings,
    outliers: Tensor | None = None,
) -> CentreSets:
    """Return ``count`` outlier centres beside one centre per known class, by EM over the pool.

    The pool may move a class centre only as much as its own labelled pictures do, which is what
    keeps the known centres from drifting to other clusters. ``outliers`` are pictures that a person
    has marked: they belong to outlier centres alone.
    """
    generator = torch.Generator().manual_seed(settings.seed)
    transform = round_classes(white, labels, keep)
    x, p = white @ transform, pool @ transform
    classes = int(labels.max()) + 1
    one_hot = functional.one_hot(labels, classes).to(x.dtype)
    per_class = one_hot.sum(0).clamp_min(1.0)
    sums = one_hot.T @ x
    known = sums / per_class[:, None]
    marked = p[:0] if outliers is None else outliers @ transform
    start_points = torch.cat([marked, p[start >= start.quantile(1 - share)]])
    outlier = _spread_out(start_points, count, generator)
    count = len(outlier)
    known_weights = torch.full((classes,), (1 - share) / classes)
    outlier_weights = torch.full((count,), share / count)
    for _ in range(settings.centre_steps):
        logits = -0.5 * torch.cdist(p, torch.cat([known, outlier])).square()
        part = (logits + torch.cat([known_weights, outlier_weights]).log()).softmax(1)
        own = (-0.5 * torch.cdist(marked, outlier).square() + outlier_weights.log()).softmax(1)
        mass = part.sum(0)
        mass[classes:] += own.sum(0)
        trust = (per_class / mass[:classes].clamp_min(1e-6)).clamp_max(1.0)
        pulled = trust[:, None] * (part[:, :classes].T @ p)
        known = (sums + pulled) / (per_class + trust * mass[:classes])[:, None]
        outlier = (part[:, classes:].T @ p + own.T @ marked) / mass[classes:, None].clamp_min(1e-6)
        total = mass.sum() + classes + count
        known_weights, outlier_weights = (mass[:classes] + 1) / total, (mass[classes:] + 1) / total
    return CentreSets(transform, known, known_weights, outlier, outlier_weights)


def _spread_out(points: Tensor, count: int, generator: torch.Generator, steps: int = 8) -> Tensor:
    """Return k-means centres, started by k-means++."""
    count = max(1, min(count, len(points) // 2))
    chosen = [points[int(torch.randint(len(points), (1,), generator=generator))]]
    nearest = (points - chosen[0]).square().sum(1)
    for _ in range(count - 1):
        index = int(torch.multinomial(nearest.clamp_min(1e-12), 1, generator=generator))
        chosen.append(points[index])
        nearest = torch.minimum(nearest, (points - chosen[-1]).square().sum(1))
    centres = torch.stack(chosen)
    for _ in range(steps):
        member = functional.one_hot(torch.cdist(points, centres).argmin(1), count).to(points.dtype)
        size = member.sum(0)
        centres = torch.where(
            size[:, None] > 0, member.T @ points / size.clamp_min(1.0)[:, None], centres
        )
    return centres
