"""Post-hoc scores as formulas: pure functions on features and logits, torch only.

They stand in where pytorch-ood's detectors cannot be fitted, and check them where they can. Every
score is higher for outliers. `labelled` are the known features [n, D] with `labels` 0…K−1.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ossl.jointspace.evidence import class_means, energy


def mahalanobis(features: Tensor, labelled: Tensor, labels: Tensor, ridge: float) -> Tensor:
    """min_k (f − μ_k)ᵀ Σ⁻¹ (f − μ_k) of each feature [N, D] (Lee et al. 2018), [N].

    Σ is the covariance within classes, shrunk by `ridge` of its mean variance: with fewer labelled
    pictures than dimensions it has no inverse otherwise.
    """
    features, labelled = features.double(), labelled.double()
    centres = class_means(labelled, labels, int(labels.max()) + 1)
    root = _root(labelled - centres[labels], ridge)
    present = labels.bincount().nonzero().squeeze(1).tolist()
    distances = [_squared(features - centres[k], root) for k in present]
    return torch.stack(distances).amin(dim=0)


def relative_mahalanobis(
    features: Tensor, labelled: Tensor, labels: Tensor, ridge: float
) -> Tensor:
    """The same minus (f − μ₀)ᵀ Σ₀⁻¹ (f − μ₀), of one Gaussian on all labelled (Ren et al. 2021)."""
    centre = labelled.double().mean(dim=0)
    root = _root(labelled.double() - centre, ridge)
    background = _squared(features.double() - centre, root)
    return mahalanobis(features, labelled, labels, ridge) - background


def vim(
    features: Tensor,
    logits: Tensor,
    labelled: Tensor,
    labelled_logits: Tensor,
    origin: Tensor,
    principal: int,
) -> Tensor:
    """α ‖P⊥ (f − u)‖ − log Σ_k exp z_k (Wang et al. 2022), [N].

    P⊥ projects out the `principal` directions of most variance of the labelled features around the
    origin u, and α makes the residual's mean on them their mean largest logit.
    """
    seen = labelled.double() - origin.double()
    _, directions = torch.linalg.eigh(seen.T @ seen / len(seen))  # from least to most variance
    rest = directions[:, : directions.shape[1] - principal]
    spread: Tensor = (seen @ rest).norm(dim=1)
    scale = labelled_logits.double().amax(dim=1).mean() / spread.mean()
    residual: Tensor = ((features.double() - origin.double()) @ rest).norm(dim=1)
    return scale * residual + energy(logits.double())


def vim_origin(weight: Tensor, bias: Tensor) -> Tensor:
    """u = −W⁺ b [D], where a linear classifier's logits are zero."""
    # What float32 weights cannot tell from zero is zero: one row may be minus the sum of the rest.
    smallest = max(weight.shape) * torch.finfo(torch.float32).eps
    origin: Tensor = -(torch.linalg.pinv(weight.double(), rtol=smallest) @ bias.double())
    return origin


def react(
    features: Tensor, labelled: Tensor, classify: Callable[[Tensor], Tensor], part: float
) -> Tensor:
    """The energy of C(min(f, c)), c a quantile of all labelled values (Sun et al. 2021), [N]."""
    values = labelled.double().flatten().sort().values
    place = part * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    limit = values[low] + (place - low) * (values[high] - values[low])
    return energy(classify(features.clamp(max=float(limit))).double())


def invertible(labelled: Tensor, labels: Tensor) -> bool:
    """Whether the scatter within classes can be inverted in float32, as pytorch-ood does."""
    labelled = labelled.double()
    within = labelled - class_means(labelled, labels, int(labels.max()) + 1)[labels]
    values = torch.linalg.eigvalsh(within.T @ within)
    limit = labelled.shape[1] * torch.finfo(torch.float32).eps
    return bool(values[0] > limit * values[-1])


def _root(offsets: Tensor, ridge: float) -> Tensor:
    """The Cholesky factor of the covariance of offsets [n, D], shrunk."""
    covariance = offsets.T @ offsets / len(offsets)
    variance = covariance.diagonal().mean().clamp_min(torch.finfo(torch.float32).tiny)
    covariance.diagonal().add_(ridge * variance)
    root: Tensor = torch.linalg.cholesky(covariance)
    return root


def _squared(offsets: Tensor, root: Tensor) -> Tensor:
    """oᵀ (L Lᵀ)⁻¹ o of each offset [N, D]."""
    white: Tensor = torch.linalg.solve_triangular(root, offsets.T, upper=False)
    return white.square().sum(dim=0)
