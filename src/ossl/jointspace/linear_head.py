"""The linear classifier on frozen features, in closed form: regularised discriminant analysis.

Class k has the logit w_k·f + b_k with w_k = Σ⁻¹(μ_k − μ) and b_k = −½ w_k·(μ_k + μ), where Σ is the
within-class covariance shrunk towards a multiple of the identity. The shrinkage is the one that
classifies held-out labelled pictures best.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from ossl.jointspace.evidence import class_means

SHRINKAGES = (0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
FOLDS = 5


@dataclass(frozen=True)
class LinearHead:
    """Logits `features @ weight.T + bias`, and how they were come by."""

    weight: Tensor  # [K, D]
    bias: Tensor  # [K]
    shrinkage: float
    held_out_accuracy: float | None  # fraction; None with one picture a class


@dataclass(frozen=True)
class _Analysis:
    """Class means and the eigenvectors of the within-class covariance, whatever the shrinkage."""

    means: Tensor  # [K, D]
    mean: Tensor  # [D]
    variance: Tensor  # [r]
    directions: Tensor  # [r, D]

    def head(self, shrinkage: float) -> tuple[Tensor, Tensor]:
        """Weight and bias; what lies outside the seen directions has the floor's variance alone."""
        floor = shrinkage * self.variance.sum() / self.means.shape[1]
        if float(floor) == 0:  # one picture a class: nothing but the distance to the means is known
            floor = torch.ones_like(floor)
        centred = self.means - self.mean
        seen = centred @ self.directions.T
        inverse = 1 / ((1 - shrinkage) * self.variance + floor)
        weight = centred / floor + (seen * (inverse - 1 / floor)) @ self.directions
        return weight, -0.5 * (weight * (self.means + self.mean)).sum(dim=1)


def fit_linear_head(
    features: Tensor, labels: Tensor, classes: int, shrinkage: float | None = None
) -> LinearHead:
    """The classifier of labelled features [n, D], labels 0…K−1, every class seen at least once.

    A given shrinkage is taken as it is, and no picture held out.
    """
    exact = features.double()
    accuracy = None
    given, shrinkage = shrinkage, shrinkage or SHRINKAGES[len(SHRINKAGES) // 2]
    if given is None and int(torch.bincount(labels, minlength=classes).min()) > 1:
        fold = _folds(labels, classes)
        hits = torch.zeros(len(SHRINKAGES), dtype=torch.float64)
        for held_out in range(FOLDS):
            out = fold == held_out
            if not bool(out.any()):
                continue
            analysis = _analyse(exact[~out], labels[~out], classes)
            for place, candidate in enumerate(SHRINKAGES):
                weight, bias = analysis.head(candidate)
                said = (exact[out] @ weight.T + bias).argmax(dim=1)
                hits[place] += (said == labels[out]).sum()
        shrinkage = SHRINKAGES[int(hits.argmax())]
        accuracy = float(hits.max() / len(labels))
    weight, bias = _analyse(exact, labels, classes).head(shrinkage)
    return LinearHead(weight.float(), bias.float(), shrinkage, accuracy)


def _analyse(features: Tensor, labels: Tensor, classes: int) -> _Analysis:
    means = class_means(features, labels, classes)
    residual = features - means[labels]
    _, values, directions = torch.linalg.svd(residual, full_matrices=False)
    return _Analysis(means, means.mean(dim=0), values.square() / len(features), directions)


def _folds(labels: Tensor, classes: int) -> Tensor:
    """A fold for every picture, each class spread evenly in the order it comes."""
    seen = functional.one_hot(labels, classes).cumsum(dim=0)
    return (seen.gather(1, labels[:, None]).squeeze(1) - 1) % FOLDS
