"""Simple evidence in several depths of the whitened space, made comparable by ranks."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from ossl.jointspace import evidence
from ossl.jointspace.numerics import pieces
from ossl.jointspace.principal import PrincipalSpace, StackSettings


@dataclass
class Ranks:
    """Maps a score to the normal quantile of its rank in the pool, linear between two ranks.

    A step there would be worth a tenth of a spread in the tails, and every picture of the pool lies
    on one: the last bit of a feature, which another batch or another runtime rounds otherwise,
    would decide it.
    """

    knots: Tensor

    @classmethod
    def of(cls, pool: Tensor, size: int = 2001) -> Ranks:
        """Return the ranks of a pool's scores."""
        grid = torch.linspace(0, len(pool) - 1, min(size, len(pool))).round().long()
        return cls(pool.sort().values[grid])

    def __call__(self, score: Tensor) -> Tensor:
        """Return the normal quantile of the rank, (N,); beyond the pool that of its ends."""
        return ranked(score[:, None], [self])[:, 0]

    @cached_property
    def quantiles(self) -> Tensor:
        """Return the normal quantile of every rank, (len(knots),)."""
        ranks = torch.arange(len(self.knots), device=self.knots.device)
        share = (ranks.to(self.knots.dtype) + 0.5) / (len(self.knots) + 1)
        quantiles: Tensor = torch.special.ndtri(share.clamp(5e-4, 1 - 5e-4))
        return quantiles


def ranked(columns: Tensor, ranks: list[Ranks]) -> Tensor:
    """Return columns (N, E) of scores as normal quantiles, each by its own ranks of one pool."""
    knots = torch.stack([rank.knots for rank in ranks])
    if torch.compiler.is_compiling():  # an exported graph has no binary search
        place = (columns[:, :, None] > knots).sum(2)
    else:
        place = torch.searchsorted(knots, columns.T.contiguous()).T
    below, above = (place - 1).clamp_min(0), place.clamp_max(knots.shape[1] - 1)
    # Places in the row of all knots: ONNX Runtime 1.31 miscounts a transposed table when it fuses.
    row, first = knots.flatten(), torch.arange(len(ranks), device=knots.device) * knots.shape[1]
    start, end = row[first + below], row[first + above]
    left = ((end - columns) / (end - start)).where(end > start, 0)  # 0 on a knot, to the bit
    quantiles = ranks[0].quantiles  # of a rank, whatever was ranked
    high = quantiles[above]
    return high - left * (high - quantiles[below])


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
        return torch.cat([self._columns(some) for some in pieces(x)])

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
