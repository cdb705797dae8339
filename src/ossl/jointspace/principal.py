"""The principal directions of labelled and pool features, and the settings built on them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class StackSettings:
    """Settings of the joint space; none needs tuning to a data set."""

    dims: tuple[int, ...] = (32, 64, 128, 256)  # principal directions that evidence is taken in
    knn_dims: tuple[int, ...] = (64,)  # of these, the ones in which neighbours are looked for too
    ridge: float = 0.1  # added to the pool's covariance, in units of its mean variance
    folds: int = 3  # labelled pictures are held out in this many turns
    fold_pool: int = 6000  # pool pictures a fold sees (and the centres are fitted on)
    neighbours: int = 5
    references: int = 4000  # pool pictures that others are compared with
    around: int = 8  # nearest of those that count
    anchor: float = -1.0  # score of a labelled picture, in spreads of the known
    novelty_trust: float = 0.33  # before the pool is asked
    steps: int = 8  # of self-training
    keep: float = 0.5  # part of the starting score that self-training keeps
    centre_steps: int = 12  # of expectation-maximisation over the centres
    start_trust: float = 0.3  # in the simple evidence, before the learned
    trust_power: float = 4.0  # of the AUROC above chance, on classes left out
    stack_penalty: float = 4.0  # how strongly weights of the evidence are pulled to their prior
    seed: int = 0


@dataclass
class PrincipalSpace:
    """Principal directions of labelled + pool features."""

    mean: Tensor
    directions: Tensor  # (D, d)
    variance: Tensor  # (d,)
    floor: Tensor  # ridge x mean variance

    def project(self, features: Tensor) -> Tensor:
        """Return coordinates along the principal directions, (N, d), not yet whitened."""
        return (features.to(self.mean.dtype) - self.mean) @ self.directions

    def scale(self, dim: int) -> Tensor:
        """Return the factors that whiten the first ``dim`` coordinates."""
        return (self.variance[:dim] + self.floor).rsqrt()


def fit_principal_space(labelled: Tensor, pool: Tensor, settings: StackSettings) -> PrincipalSpace:
    """Return the principal directions of labelled + pool features (a sum of moments)."""
    n = len(labelled) + len(pool)
    mean = (labelled.sum(0) + pool.sum(0)) / n
    cov = (labelled.T @ labelled + pool.T @ pool) / n - torch.outer(mean, mean)
    # Fewer pictures than dimensions leave most variances at zero, where float32 does not converge.
    exact_variance, exact_directions = torch.linalg.eigh(cov.double())
    variance, directions = exact_variance.to(cov), exact_directions.to(cov)
    top = min(max(settings.dims), cov.shape[0], n - 1)
    floor = settings.ridge * variance.clamp_min(0).mean() + 1e-12
    return PrincipalSpace(
        mean, directions.flip(1)[:, :top].contiguous(), variance.flip(0)[:top].clamp_min(0), floor
    )
