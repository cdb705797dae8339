"""How far features lie from every class: the outlier score where there is no pool to learn from."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ossl.jointspace.centre_sets import round_classes
from ossl.jointspace.evidence import class_means, squared_distances

BEYOND = 2.0
"""times the distance of the furthest labelled feature; what lies further is of no class"""


@dataclass
class ClassDistance:
    """The distance to the nearest class centre, in a space where the classes are round."""

    mean: Tensor  # (D,)
    transform: Tensor  # (D, D)
    centres: Tensor  # (K, D)
    known_scores: Tensor  # sorted, of the labelled features

    def outlier_score(self, features: Tensor) -> Tensor:
        """Return the distance of features (N, D) to the nearest class, (N,)."""
        placed = (features - self.mean) @ self.transform
        nearest: Tensor = squared_distances(placed, self.centres).amin(1).sqrt()
        return nearest

    def threshold(
        self, share: float | None = None, max_false_rejects: float | None = None
    ) -> float:
        """Return the distance above which ``max_false_rejects`` of the labelled features lie.

        Without it, `BEYOND` times the distance of the furthest of them; a share of outliers is no
        boundary where there is no pool.
        """
        del share
        kept = self.known_scores
        if max_false_rejects is None:
            return BEYOND * float(kept[-1])
        return float(kept[max(0, round(len(kept) * (1 - max_false_rejects)) - 1)])

    @property
    def share(self) -> float:
        """Return the estimated share of outliers among unlabelled features: there are none."""
        return 0.0


def fit_class_distance(labelled: Tensor, labels: Tensor) -> ClassDistance:
    """Return the distances of labelled features (n, D), labels 0..K-1."""
    mean = labelled.mean(0)
    centred = labelled - mean
    transform = round_classes(centred, labels, centred.shape[1]).to(centred)
    centres = class_means(centred @ transform, labels, int(labels.max()) + 1)
    fitted = ClassDistance(mean, transform, centres, torch.empty(0))
    fitted.known_scores = fitted.outlier_score(labelled).sort().values
    return fitted
