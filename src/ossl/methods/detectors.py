"""What decides whether a feature is of a known picture: the joint space, or a discriminator.

Both keep the same few methods, so that the paper's ablation "w/o joint space" (DESIGN row 17)
exchanges one for the other and nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ossl.config import RecipeConfig
from ossl.errors import InputError
from ossl.jointspace.apollonius import (
    Centres,
    apollonius_ratio,
    is_outlier,
    update_centres,
)
from ossl.jointspace.losses import consistency
from ossl.jointspace.marks import Marks
from ossl.jointspace.mixture import fit_two_gaussians
from ossl.jointspace.spaces import Moments, Space, fit_space
from ossl.jointspace.tangents import (
    choose_candidate,
    known_centre,
    outliers_by_tangent,
    radius,
    tangent_directions,
    tangent_values,
)
from ossl.methods.base import LogValues
from ossl.models.parameters import seeded


class Detector(nn.Module, ABC):
    """Tells known features from outlying ones; a higher score is more outlying."""

    limit: float
    share: float | None = None
    interval: tuple[float, float] | None = None  # of the share; None where it has none

    @abstractmethod
    def initialise(
        self, labelled: Tensor, pool: Tensor, labels: Tensor, marks: Marks | None = None
    ) -> LogValues:
        """The values to log after a first boundary is drawn from stage 1's features.

        The last of ``labelled`` are the known pictures among ``marks``, pool pictures that a person
        has named; who cannot learn from an outlier among them leaves it alone.
        """

    @abstractmethod
    def update(self, labelled: Tensor, pool: Tensor) -> LogValues:
        """The values to log after the boundary follows the features of a whole pass."""

    @abstractmethod
    def score(self, features: Tensor) -> Tensor:
        """The outlier score of each feature."""

    @abstractmethod
    def consistency(self, student: Tensor, teacher: Tensor) -> Tensor:
        """L_C between two views' features."""

    def detector_loss(self, labelled: Tensor, pool: Tensor) -> Tensor | None:
        """The loss that trains the detector itself, or None when nothing of it learns."""
        del labelled, pool
        return None

    def simple_scores(self, features: Tensor) -> dict[str, Tensor]:
        """The simple outlier scores of each feature, by name, where they were fitted beside it."""
        del features
        return {}

    def detect(self, features: Tensor) -> Tensor:
        """Whether each feature is an outlier's."""
        return is_outlier(self.score(features), self.limit)

    def known_probability(self, features: Tensor) -> Tensor:
        """How likely each feature is a known picture's; 0 or 1 for a detector that says no more."""
        return (~self.detect(features)).float()

    def fresh_auroc(self, labelled: Tensor, labels: Tensor, pool: Tensor, fresh: Tensor) -> float:
        """AUROC of fresh known features against the pool, by a fit without them; NaN: unknown."""
        del labelled, labels, pool, fresh
        return float("nan")

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """What has to be kept to score again."""

    @abstractmethod
    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Take back what `tensors` gave."""


class CircleDetector(Detector):
    """The joint space with its two centres and the Apollonius circle (rows 5–10)."""

    def __init__(self, recipe: RecipeConfig) -> None:
        super().__init__()
        self.recipe = recipe
        self.limit = recipe.circle_limit
        self.space: Space | None = None
        self.centres: Centres | None = None

    def initialise(
        self, labelled: Tensor, pool: Tensor, labels: Tensor, marks: Marks | None = None
    ) -> LogValues:
        """The values to log after the paper's start: cluster, tangents, candidate, two centres."""
        del labels, marks  # to the paper's joint space, all known classes are one cluster
        recipe = self.recipe
        refuse_without_spread(labelled)
        # 1. The joint space, and the labelled pictures as one cluster in it (row 5).
        moments = Moments.of(labelled).add(pool)
        self.space = fit_space(recipe.space, labelled, moments, recipe.ridge)
        labelled_points, pool_points = self.space(labelled), self.space(pool)
        centre = known_centre(labelled_points)
        r = radius(labelled_points, centre)
        # 2. A tangent at each of the N furthest labelled points (row 6).
        directions = tangent_directions(labelled_points, centre, recipe.candidates)
        # 3. The tangent that calls most of the pool outliers (rows 7, 8).
        outliers = outliers_by_tangent(
            tangent_values(pool_points, directions, centre, r),
            tangent_values(labelled_points, directions, centre, r),
            recipe.tangent_tolerance,
        )
        candidate, rate = choose_candidate(outliers)
        mask = outliers[:, candidate]
        # 4. The outliers' centre; with no outlier at all, the tangent point stands in for it. The
        #    known centre is still the labelled pictures' alone (rows 5, 10).
        start = Centres(known=centre, outlier=centre + r * directions[candidate])
        found, _ = update_centres(start, labelled_points, pool_points, mask)
        self.centres = Centres(known=centre, outlier=found.outlier)
        # 5. The same pool once more, by the circle around the two (rows 9, 10).
        values: LogValues = {"radius": float(r), "tangent": candidate, "tangent_outlier_rate": rate}
        return values | self.update(labelled, pool)

    def update(self, labelled: Tensor, pool: Tensor) -> LogValues:
        """The values to log after detecting with the circle and moving both centres (row 10)."""
        labelled_points, pool_points = self._placed(labelled), self._placed(pool)
        notes: dict[str, None] = {}
        for _ in range(self.recipe.centre_rounds):
            self._draw_circle(pool_points)
            mask = self._outlying(pool_points)
            self.centres, said = update_centres(self._centres, labelled_points, pool_points, mask)
            notes |= dict.fromkeys(said)
        self._draw_circle(pool_points)
        detected = float(self._outlying(pool_points).float().mean())
        if self.recipe.threshold == "circle":
            self.share = detected
        values: LogValues = {
            "limit": self.limit,
            "detected_outlier_share": detected,
            "centre_distance": float((self._centres.known - self._centres.outlier).norm()),
        }
        return values | ({"note": "; ".join(notes)} if notes else {})

    def score(self, features: Tensor) -> Tensor:
        """The ratio d1/d2 of equation (9) for each feature."""
        return self._ratio(self._placed(features))

    def consistency(self, student: Tensor, teacher: Tensor) -> Tensor:
        """L_C (row 12) in the joint space."""
        return consistency(
            self._placed(student), self._placed(teacher), self._centres, self.recipe.consistency
        )

    def tensors(self) -> dict[str, Tensor]:
        """The space, the centres and λ."""
        if self.space is None:
            return {}
        share = float("nan") if self.share is None else self.share
        return {
            **{f"space.{name}": value for name, value in self.space.tensors().items()},
            "centre.known": self._centres.known,
            "centre.outlier": self._centres.outlier,
            "limit": torch.tensor(self.limit, dtype=torch.float64),
            "outlier_share": torch.tensor(share, dtype=torch.float64),
        }

    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Take back the space, the centres and λ."""
        if not tensors:
            return
        prefix = "space."
        space = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        self.space = Space.from_tensors(self.recipe.space, space)
        self.centres = Centres(known=tensors["centre.known"], outlier=tensors["centre.outlier"])
        self.limit = float(tensors["limit"])
        share = float(tensors["outlier_share"])
        self.share = None if share != share else share

    @property
    def _centres(self) -> Centres:
        if self.centres is None:
            raise RuntimeError("the joint space has no centres yet; stage 2 draws them first")
        return self.centres

    def _placed(self, features: Tensor) -> Tensor:
        if self.space is None:
            raise RuntimeError("the joint space is not fitted yet; stage 2 fits it first")
        return self.space(features)

    def _ratio(self, points: Tensor) -> Tensor:
        return apollonius_ratio(points, self._centres.known, self._centres.outlier)

    def _outlying(self, points: Tensor) -> Tensor:
        return is_outlier(self._ratio(points), self.limit)

    def _draw_circle(self, pool_points: Tensor) -> None:
        """Set λ: given, or where the two components of the pool's log-ratios are as likely."""
        if self.recipe.threshold == "mixture":
            mixture = fit_two_gaussians(self._ratio(pool_points).clamp(1e-6, 1e6).log())
            self.limit = float(torch.tensor(mixture.threshold()).exp())
            self.share = mixture.outlier_share


class DiscriminatorDetector(Detector):
    """A two-layer discriminator on the raw features in place of the joint space (row 17).

    The paper gives no objective for it. Reading: labelled pictures are known (0); in the first
    epoch every pool picture counts as an outlier (1), from then on as what the discriminator
    itself says of the teacher's view.
    """

    def __init__(self, width: int, seed: int, hidden: int = 128) -> None:
        super().__init__()
        with seeded(seed):
            self.net = nn.Sequential(
                nn.Linear(width, hidden), nn.ReLU(inplace=True), nn.Linear(hidden, 1)
            )
        self.limit = 0.5
        self.passes = 0

    def initialise(
        self, labelled: Tensor, pool: Tensor, labels: Tensor, marks: Marks | None = None
    ) -> LogValues:
        """The values to log of the discriminator as it was drawn at random."""
        del labelled, labels, marks
        return {"detected_outlier_share": float(self.detect(pool).float().mean())}

    def update(self, labelled: Tensor, pool: Tensor) -> LogValues:
        """The values to log of the discriminator after an epoch."""
        self.passes += 1
        self.share = float(self.detect(pool).float().mean())
        known = float((~self.detect(labelled)).float().mean())
        return {"detected_outlier_share": self.share, "labelled_known_share": known}

    def score(self, features: Tensor) -> Tensor:
        """The discriminator's probability of an outlier for each feature."""
        return torch.sigmoid(self._logit(features))

    def consistency(self, student: Tensor, teacher: Tensor) -> Tensor:
        """The absolute difference of the two views' outlier probabilities."""
        return (self.score(student) - self.score(teacher).detach()).abs().mean()

    def detector_loss(self, labelled: Tensor, pool: Tensor) -> Tensor | None:
        """The binary cross-entropy of labelled pictures against the pool."""
        logits = torch.cat([self._logit(labelled.detach()), self._logit(pool.detach())])
        targets = torch.zeros_like(logits)
        targets[len(labelled) :] = self.detect(pool).to(targets) if self.passes else 1.0
        return F.binary_cross_entropy_with_logits(logits, targets)

    def tensors(self) -> dict[str, Tensor]:
        """What is not in the discriminator's own weights."""
        share = float("nan") if self.share is None else self.share
        return {
            "passes": torch.tensor(self.passes),
            "outlier_share": torch.tensor(share, dtype=torch.float64),
        }

    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Take back what `tensors` gave."""
        self.passes = int(tensors["passes"])
        share = float(tensors["outlier_share"])
        self.share = None if share != share else share

    def _logit(self, features: Tensor) -> Tensor:
        logit: Tensor = self.net(features.float()).squeeze(1)
        return logit


def refuse_without_spread(labelled: Tensor) -> None:
    """None where labelled features differ from each other; around a point there is no circle."""
    if bool(torch.isfinite(labelled).all()) and bool((labelled != labelled[0]).any()):
        return
    raise InputError(
        "stage 1 ended with the same or no finite feature for every labelled picture, so no circle "
        "can be drawn around them: fit again with a smaller --set schedule.learning_rate, or "
        "another --backbone."
    )
