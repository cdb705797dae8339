"""The simple outlier scores that anyone gets from the same features: what a joint space must beat.

Every one of them is higher for outliers and stands as a formula in `evidence`; this is what they
are fitted on, and kept small enough to lie beside the joint space.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ossl.jointspace.evidence import (
    class_means,
    energy,
    knn_distance,
    pool_direction,
    relative_mahalanobis,
)
from ossl.jointspace.numerics import ROWS_AT_A_TIME, at_least_float32
from ossl.jointspace.spaces import unit

NEIGHBOURS = 5
DIRECTION_RIDGE = 0.1  # of the pool's mean variance, added to its covariance
MAHALANOBIS_RIDGE = 0.3  # the same
SMALLEST_VARIANCE = 1e-12  # of a pool whose features are all the same
LOGIT_SCORES = ("max_softmax", "energy")
FEATURE_SCORES = ("knn", "pool_direction", "relative_mahalanobis")
SIMPLE_SCORES = (*LOGIT_SCORES, *FEATURE_SCORES)


def logit_scores(logits: Tensor) -> dict[str, Tensor]:
    """Return the scores of the classifier's logits [N, K] alone, by name.

    Maximum softmax is given as log((1 − p) / p) of the largest probability p. That orders pictures
    as −p does, but keeps them apart where p rounds to 1, as it does for nearly all of them under a
    classifier whose logits are large.
    """
    logits = at_least_float32(logits)
    best = logits.argmax(dim=1, keepdim=True)
    others = logits.scatter(1, best, -torch.inf).logsumexp(dim=1)
    return {"max_softmax": others - logits.gather(1, best).squeeze(1), "energy": energy(logits)}


@dataclass(frozen=True)
class SimpleScores:
    """What the scores of features need of the labelled pictures and the pool."""

    labelled: Tensor  # [n, D], of length one; float16 keeps a cosine to 1e-4 at half the size
    mean: Tensor  # [D] of the pool
    direction: Tensor  # [D] from known to pool
    plane: Tensor  # [D, d]: whitens by the pool's covariance, within the span of the class centres
    centres: Tensor  # [K, d] of the classes in that plane, seen from the pool's mean

    def __call__(self, features: Tensor) -> dict[str, Tensor]:
        """Return the scores of features [N, D], by name."""
        features = at_least_float32(features)
        offset = features - self.mean.to(features.dtype)
        placed = offset @ self.plane.to(features.dtype)
        centres = self.centres.to(features.dtype)
        return {
            "knn": knn_distance(features, self.labelled.to(features.dtype), NEIGHBOURS),
            "pool_direction": offset @ self.direction.to(features.dtype),
            "relative_mahalanobis": relative_mahalanobis(
                placed, centres, torch.zeros_like(centres[0])
            ),
        }


def fit_simple_scores(labelled: Tensor, labels: Tensor, pool: Tensor, classes: int) -> SimpleScores:
    """Return the scores of labelled features [n, D], labels 0…K−1, against a pool [N, D].

    Relative Mahalanobis compares two distances under one covariance Σ = L Lᵀ, so what lies outside
    the span of the whitened class centres L⁻¹(m_k − m) = Q R is in both of them and cancels: the
    d ≤ K coordinates Qᵀ L⁻¹ (x − m) are all that is kept of a whitening of D × D.
    """
    labelled, pool = at_least_float32(labelled), at_least_float32(pool)
    mean, covariance = _moments(pool)
    variance = float(covariance.diagonal().mean().clamp(min=SMALLEST_VARIANCE))
    centres = class_means(labelled, labels, classes)
    shrunk = covariance.clone()
    shrunk.diagonal().add_(MAHALANOBIS_RIDGE * variance)
    root = torch.linalg.cholesky(shrunk)
    white = torch.linalg.solve_triangular(root, (centres - mean).T, upper=False)
    basis, placed = torch.linalg.qr(white)
    return SimpleScores(
        labelled=unit(labelled).half(),
        mean=mean,
        direction=pool_direction(centres, mean, covariance, DIRECTION_RIDGE * variance),
        plane=torch.linalg.solve_triangular(root.T, basis, upper=True),
        centres=placed.T.contiguous(),
    )


def _moments(features: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean [D] and covariance [D, D], centred first so that the features' own type will do.

    `spaces.Moments` takes twice as long in float64, which a comparison is not worth.
    """
    mean = features.mean(dim=0)
    total = torch.zeros(len(mean), len(mean), dtype=features.dtype, device=features.device)
    for some in torch.split(features, ROWS_AT_A_TIME):
        offset = some - mean
        total += offset.T @ offset
    return mean, total / len(features)
