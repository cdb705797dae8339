"""The default recipe's joint space: evidence weighed without outlier labels, in closed form.

Nothing of it is learnt by gradient through the network, so it needs one pass over the pool.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ossl.config import RecipeConfig
from ossl.jointspace.anchored import anchored_mixture
from ossl.jointspace.marks import Marks
from ossl.jointspace.principal import StackSettings
from ossl.jointspace.share import hidden_auroc
from ossl.jointspace.simple import SimpleScores, fit_simple_scores
from ossl.jointspace.stacking import StackedSpace, fit_stacked_space
from ossl.jointspace.state import from_tensors, to_tensors
from ossl.methods.base import LogValues
from ossl.methods.detectors import Detector, refuse_without_spread

SIMPLE = "simple"  # before the names of the simple scores' tensors


class EvidenceDetector(Detector):
    """Known and outlier centres, self-trained directions and simple evidence, as one score."""

    def __init__(self, recipe: RecipeConfig, seed: int) -> None:
        super().__init__()
        self.recipe = recipe
        self.settings = StackSettings(seed=seed)
        self.limit = 0.0
        self.space: StackedSpace | None = None
        self.simple: SimpleScores | None = None  # beside the joint space, for comparison alone

    def initialise(
        self, labelled: Tensor, pool: Tensor, labels: Tensor, marks: Marks | None = None
    ) -> LogValues:
        """The values to log after the space, the evidence's weights, the share and the boundary."""
        refuse_without_spread(labelled)
        device = labelled.device
        # The fits are small and many: on the CPU they take seconds, on a GPU mostly launches.
        labelled, labels, pool = labelled.cpu(), labels.cpu(), pool.cpu()
        fair = len(labelled) - (0 if marks is None else marks.known_count)
        labelled, labels = labelled[:fair], labels[:fair]  # the marked are no fair draw
        fitted = fit_stacked_space(labelled, labels, pool, self.settings, marks)
        simple = fit_simple_scores(labelled, labels, pool, int(labels.max()) + 1)
        kept = to_tensors(fitted) | to_tensors(simple, SIMPLE)
        self.load_tensors({name: tensor.to(device) for name, tensor in kept.items()})
        low, high = fitted.interval
        values: LogValues = {"outlier_share_low": low, "outlier_share_high": high}
        if self.recipe.max_false_rejects is not None and not len(fitted.known_scores):
            values["note"] = "too few labels to measure false rejects by; the share rules instead"
        return {"outlier_share": fitted.share, "limit": self.limit, **values}

    def update(self, labelled: Tensor, pool: Tensor) -> LogValues:
        """Nothing to log: the features do not change under a frozen encoder without a prompt."""
        del labelled, pool
        return {}

    def score(self, features: Tensor) -> Tensor:
        """The weighed evidence of each feature."""
        if self.space is None:
            raise RuntimeError("the joint space is not fitted yet; stage 2 fits it first")
        return self.space.outlier_score(features.float())

    def known_probability(self, features: Tensor) -> Tensor:
        """How likely each feature is a known picture's, by a mixture that hidden labels anchor."""
        if self.space is None:
            raise RuntimeError("the joint space is not fitted yet; stage 2 fits it first")
        return 1 - anchored_mixture(self.score(features), self.space.known_scores)

    def consistency(self, student: Tensor, teacher: Tensor) -> Tensor:
        """The mean Euclidean distance of the two views along the pool's principal directions."""
        if self.space is None:
            raise RuntimeError("the joint space is not fitted yet; stage 2 fits it first")
        place = self.space.judges[0].space.project
        apart: Tensor = torch.linalg.vector_norm(place(student) - place(teacher).detach(), dim=1)
        return apart.mean()

    def simple_scores(self, features: Tensor) -> dict[str, Tensor]:
        """The scores of raw features that were fitted on the same labelled pictures and pool."""
        return {} if self.simple is None else self.simple(features)

    def fresh_auroc(self, labelled: Tensor, labels: Tensor, pool: Tensor, fresh: Tensor) -> float:
        """AUROC of fresh known features against the pool, by a space fitted without them."""
        labelled, labels, pool, fresh = (t.cpu() for t in (labelled, labels, pool, fresh))
        space = fit_stacked_space(labelled, labels, pool, self.settings)
        return hidden_auroc(space.outlier_score(fresh.float()), space.pool_scores)

    def tensors(self) -> dict[str, Tensor]:
        """The whole joint space, and the simple scores."""
        return to_tensors(self.space) | to_tensors(self.simple, SIMPLE)

    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Take back what `tensors` gave."""
        if tensors:
            self.space = from_tensors(StackedSpace, tensors)
            self.limit = self.space.threshold(
                self.recipe.outlier_share, self.recipe.max_false_rejects
            )
            self.share, self.interval = self.space.share, self.space.interval
        if any(name.startswith(f"{SIMPLE}.") for name in tensors):  # older runs have none
            self.simple = from_tensors(SimpleScores, tensors, SIMPLE)
