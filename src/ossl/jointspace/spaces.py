"""The joint space S: where features are put before any circle is drawn (rows 5 and 7).

Where the circle is drawn decides everything: in raw features the known lie further from their own
centre than the outliers do. Whitening by the pool's covariance is closed form and a sum of moments,
so that it streams over any number of features and adds up across machines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from torch import Tensor

from ossl.jointspace.numerics import (
    ROWS_AT_A_TIME,
    as_float64,
    at_least_float32,
    without_autocast,
)
from ossl.jointspace.tangents import known_centre, radius

SpaceKind = Literal["raw", "unit", "scaled", "whitened", "whitened_unit"]


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean and scatter of features seen so far: all that whitening needs of them."""

    count: int
    mean: Tensor
    """[D], float64"""
    scatter: Tensor
    """[D, D], float64: the sum of (f − mean)(f − mean)ᵀ"""

    @classmethod
    def of(cls, features: Tensor) -> Moments:
        """Return the moments of `features` [n, D]; n may be 0."""
        if features.ndim != 2:
            raise ValueError(f"features must be [n, D], not {list(features.shape)}")
        total = cls._of_few(features[:ROWS_AT_A_TIME])
        for start in range(ROWS_AT_A_TIME, len(features), ROWS_AT_A_TIME):
            total = total.merge(cls._of_few(features[start : start + ROWS_AT_A_TIME]))
        return total

    @classmethod
    def _of_few(cls, features: Tensor) -> Moments:
        exact = as_float64(features)
        mean = exact.sum(dim=0) / max(len(exact), 1)
        with without_autocast(exact):
            centred = exact - mean
            return cls(len(exact), mean, centred.T @ centred)

    def add(self, features: Tensor) -> Moments:
        """Return the moments of what was seen before and `features` together."""
        return self.merge(Moments.of(features))

    def merge(self, other: Moments) -> Moments:
        """Return the moments of both sets together (the parallel update of Chan et al., 1979).

        mean = mean_a + δ n_b / n and scatter = scatter_a + scatter_b + δδᵀ n_a n_b / n,
        with δ = mean_b − mean_a and n = n_a + n_b.
        """
        if self.mean.shape != other.mean.shape:
            raise ValueError(
                f"moments of {len(self.mean)} and of {len(other.mean)} dimensions do not add up"
            )
        count = self.count + other.count
        if count == 0:
            return self
        step = other.mean - self.mean
        mean = self.mean + step * (other.count / count)
        between = torch.outer(step, step) * (self.count * other.count / count)
        return Moments(count, mean, self.scatter + other.scatter + between)

    def covariance(self) -> Tensor:
        """Return the unbiased covariance [D, D] in float64; zero for fewer than two features."""
        return self.scatter / max(self.count - 1, 1)


@dataclass(frozen=True, eq=False)
class Space:
    """The map from raw features into the joint space S, with the numbers that it needs.

    raw: f · unit: f / ‖f‖ · scaled: f / r (row 7) · whitened: (f − mean) @ matrix ·
    whitened_unit: the whitened feature divided by its norm.
    """

    kind: SpaceKind
    mean: Tensor
    """[D] for the whitened kinds, else empty"""
    matrix: Tensor
    """[D, D'] for the whitened kinds, else empty"""
    scale: float = 1.0
    """the radius r of the labelled features for `scaled`, else 1"""

    def __call__(self, features: Tensor) -> Tensor:
        """Return S(f) for features [..., D], float32 or better and differentiable."""
        features = at_least_float32(features)
        if self.kind == "raw":
            return features
        if self.kind == "unit":
            return unit(features)
        if self.kind == "scaled":
            return features / self.scale
        with without_autocast(features):
            white = (features - self.mean.to(features.dtype)) @ self.matrix.to(features.dtype)
        return unit(white) if self.kind == "whitened_unit" else white

    def tensors(self) -> dict[str, Tensor]:
        """Return everything but the kind as named tensors, ready for a safetensors file."""
        return {
            "mean": self.mean.contiguous(),
            "matrix": self.matrix.contiguous(),
            "scale": torch.tensor(self.scale, dtype=torch.float64),
        }

    @classmethod
    def from_tensors(cls, kind: SpaceKind, tensors: Mapping[str, Tensor]) -> Space:
        """Return the space that `tensors()` wrote; other names beside its own are left alone."""
        _check_kind(kind)
        missing = [name for name in ("mean", "matrix", "scale") if name not in tensors]
        if missing:
            raise ValueError(f"a joint space needs the tensors mean, matrix, scale: no {missing}")
        return cls(kind, tensors["mean"], tensors["matrix"], float(tensors["scale"]))

    def to(self, device: torch.device | str) -> Space:
        """Return the same space on `device`."""
        return replace(self, mean=self.mean.to(device), matrix=self.matrix.to(device))


def unit(features: Tensor) -> Tensor:
    """Return f / ‖f‖; a zero vector has no direction and stays zero, with a finite gradient."""
    norm = torch.linalg.vector_norm(features, dim=-1, keepdim=True)
    return features / torch.where(norm > 0, norm, torch.ones_like(norm))


def whitening(covariance: Tensor, ridge: float) -> Tensor:
    """Return ((1 − ridge) Σ + ridge σ̄² I)^(−1/2) in float64, σ̄² being the mean variance.

    A direction without any variance (possible with ridge = 0 alone) is left out, as the
    pseudo-inverse does, rather than blown up.
    """
    if not 0.0 <= ridge <= 1.0:
        raise ValueError(f"ridge is a share between 0 and 1, not {ridge}")
    exact = as_float64(covariance)
    mean_variance = exact.diagonal().mean()
    if not bool(mean_variance > 0):
        raise ValueError(
            "the features do not vary, so they cannot be whitened: "
            "give more than one picture, or a backbone whose features are not all the same"
        )
    identity = torch.eye(len(exact), dtype=exact.dtype, device=exact.device)
    shrunk = (1.0 - ridge) * exact + ridge * mean_variance * identity
    values, vectors = torch.linalg.eigh(shrunk)
    smallest = values.max() * len(values) * torch.finfo(values.dtype).eps
    inverse_root = torch.where(values > smallest, values.clamp(min=smallest).rsqrt(), 0.0)
    root: Tensor = (vectors * inverse_root) @ vectors.T
    return root


def fit_space(kind: SpaceKind, labelled: Tensor, moments: Moments, ridge: float = 0.2) -> Space:
    """Return the joint space of this kind for `labelled` features and the moments of the pool.

    `labelled` [n, D] gives the radius of `scaled`, `moments` (pool and labelled together) the
    whitening; a kind that needs neither looks at neither. Rows 5 and 7.
    """
    _check_kind(kind)
    device = labelled.device
    nothing = torch.empty(0, device=device)
    if kind == "scaled":
        reach = float(radius(labelled.detach(), known_centre(labelled.detach())))
        if not reach > 0:
            raise ValueError(
                "the labelled features all lie on their centre, so S = f / r has no radius r: "
                "label at least two different pictures, or choose another space"
            )
        return Space(kind, nothing, nothing, reach)
    if kind in ("whitened", "whitened_unit"):
        matrix = whitening(moments.covariance(), ridge)
        return Space(kind, moments.mean.float().to(device), matrix.float().to(device))
    return Space(kind, nothing, nothing)


def _check_kind(kind: str) -> None:
    if kind not in get_args(SpaceKind):
        raise ValueError(f"no space is called {kind!r}: choose one of {get_args(SpaceKind)}")
