"""Simple evidence in several depths of the whitened space, made comparable by ranks."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from ossl.jointspace import evidence
from ossl.jointspace.numerics import ROWS_AT_A_TIME
from ossl.jointspace.principal import PrincipalSpace, StackSettings


@dataclass
class Ranks:
    """Maps a score to the normal quantile of its rank in the pool."""

    knots: Tensor

    @classmethod
    def of(cls, pool: Tensor, size: int = 2001) -> Ranks:
        """Return the ranks of a pool's scores."""
        grid = torch.linspace(0, len(pool) - 1, min(size, len(pool))).round().long()
        return cls(pool.sort().values[grid])

    def __call__(self, score: Tensor) -> Tensor:
        """Return the normal quantile of the rank, (N,)."""
        rank = torch.searchsorted(self.knots, score.contiguous()).to(score.dtype)
        share = ((rank + 0.5) / (len(self.knots) + 1)).clamp(5e-4, 1 - 5e-4)
        quantile: Tensor = torch.special.ndtri(share)
        return quantile


@dataclass
class Bank:
    """Simple evidence from labelled pictures, in several depths of the whitened space."""

    space: PrincipalSpace
    labelled: Tensor
    dims: list[int]
    neighbours: int
    knn_dims: list[int]
    directions: list[Tensor] = field(default_factory=list)
    centres: list[Tensor] = field(default_factory=list)
    pool_means: list[Tensor] = field(default_factory=list)

    def __call__(self, x: Tensor) -> Tensor:
        """Return every evidence of projected features, (N, E)."""
        starts = range(0, max(len(x), 1), ROWS_AT_A_TIME)
        parts = [self._columns(x[i : i + ROWS_AT_A_TIME]) for i in starts]
        return torch.cat(parts)

    def _columns(self, x: Tensor) -> Tensor:
        columns = [evidence.knn_distance(x, self.labelled, self.neighbours)]
        for i, dim in enumerate(self.dims):
            scale = self.space.scale(dim)
            white = x[:, :dim] * scale
            columns += [
                white @ self.directions[i],
                evidence.relative_mahalanobis(white, self.centres[i], self.pool_means[i]),
                evidence.centre_cosine(white, self.centres[i]),
            ]
            if dim in self.knn_dims:
                reference = self.labelled[:, :dim] * scale
                columns.append(evidence.knn_distance(white, reference, self.neighbours))
        return torch.stack(columns, 1)


def fit_bank(
    space: PrincipalSpace, x: Tensor, y: Tensor, pool: Tensor, settings: StackSettings
) -> Bank:
    """Return the evidence bank of labelled (x, y) against a pool, all projected."""
    dims = [d for d in settings.dims if d <= x.shape[1]] or [x.shape[1]]
    knn_dims = [d for d in settings.knn_dims if d in dims]
    bank = Bank(space, x, dims, settings.neighbours, knn_dims)
    for dim in bank.dims:
        scale = space.scale(dim)
        white, white_pool = x[:, :dim] * scale, pool[:, :dim] * scale
        centres = evidence.class_means(white, y, int(y.max()) + 1)
        mean = white_pool.mean(0)
        cov = white_pool.T @ white_pool / len(white_pool) - torch.outer(mean, mean)
        bank.directions.append(evidence.pool_direction(centres, mean, cov, settings.ridge))
        bank.centres.append(centres)
        bank.pool_means.append(mean)
    return bank
