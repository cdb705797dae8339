"""Evidence that a picture is an outlier: pure functions on features, torch only.

Every score here is *higher for outliers*. ``features`` is (N, D), ``labels`` holds 0..K-1, and
``pool`` are the unlabelled features. Nothing here looks at a truth.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def class_means(features: Tensor, labels: Tensor, classes: int) -> Tensor:
    """Return the mean feature of every class, (K, D)."""
    one_hot = functional.one_hot(labels, classes).to(features.dtype)
    return (one_hot.T @ features) / one_hot.sum(0).clamp_min(1.0)[:, None]


def squared_distances(features: Tensor, centres: Tensor) -> Tensor:
    """Return |x_i - c_j|^2, (N, K), by one matrix product however few rows there are.

    torch's own choice would be another formula for 25 rows or fewer, so that a picture's score
    depended on how many others are scored with it.
    """
    distances = torch.cdist(features, centres, compute_mode="use_mm_for_euclid_dist")
    squared: Tensor = distances.square()
    return squared


def max_softmax(logits: Tensor) -> Tensor:
    """Return -max softmax probability of each row (Hendrycks & Gimpel 2017)."""
    return -logits.softmax(1).amax(1)


def energy(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """Return the free energy -T log sum exp(logits / T) of each row (Liu et al. 2020)."""
    return -temperature * (logits / temperature).logsumexp(1)


def knn_distance(features: Tensor, labelled: Tensor, neighbours: int = 5) -> Tensor:
    """Return 1 - mean cosine to the nearest labelled features, (N,)."""
    reference = functional.normalize(labelled, dim=1)
    cosine = functional.normalize(features, dim=1) @ reference.T
    return 1 - cosine.topk(min(neighbours, len(reference)), dim=1).values.mean(1)


def centre_cosine(features: Tensor, centres: Tensor) -> Tensor:
    """Return 1 - cosine to the nearest class centre, (N,)."""
    cosine = functional.normalize(features, dim=1) @ functional.normalize(centres, dim=1).T
    return 1 - cosine.amax(1)


def relative_mahalanobis(whitened: Tensor, centres: Tensor, pool_mean: Tensor) -> Tensor:
    """Return min_k |x - m_k|^2 - |x - m_pool|^2 on whitened features (Ren et al. 2021), (N,)."""
    nearest = squared_distances(whitened, centres).amin(1)
    return nearest - (whitened - pool_mean).square().sum(1)


def pool_direction(centres: Tensor, pool_mean: Tensor, pool_cov: Tensor, ridge: float) -> Tensor:
    """Return the direction w = (C_pool + ridge I)^-1 (m_pool - m_known), so that x @ w is a score.

    m_known is the mean of the class centres, so that a class with many labels does not rule.
    """
    regular = pool_cov + ridge * torch.eye(len(pool_cov), dtype=pool_cov.dtype)
    direction: Tensor = torch.linalg.solve(regular, pool_mean - centres.mean(0))
    return direction


def log_density_ratio(
    features: Tensor,
    known_centres: Tensor,
    known_weights: Tensor,
    outlier_centres: Tensor,
    outlier_weights: Tensor,
) -> Tensor:
    """Return log p_outlier(x) - log p_known(x) under unit Gaussians around several centres, (N,).

    With one centre on each side this is (d1^2 - d2^2)/2 + const, the power form of the circle of
    Apollonius d1/d2 = lambda (reading 9); with several it is its smooth minimum over centres.
    """

    def side(centres: Tensor, weights: Tensor) -> Tensor:
        return (weights.log() - 0.5 * squared_distances(features, centres)).logsumexp(1)

    return side(outlier_centres, outlier_weights) - side(known_centres, known_weights)
