"""Tuning the prompt on a frozen encoder, and the rule that says whether it is used.

1. Two linear heads in closed form, each fitted on one half of the labelled features under the
   prompt as it is. Each judges the half that it has not seen; held-out pictures give a temperature.
2. The prompt learns to be judged well: cross-entropy on labelled pictures by the other half's head,
   and on the pool's likely known pictures with a sure pseudo-label by both. Every step has the same
   length but for a cosine. After each epoch the heads are fitted anew.
3. Features are then the mean over views, and everything is fitted on them again. They are taken
   where the referees, labelled pictures that the prompt has not learnt from, are named no worse by
   a classifier fitted on the others, and stand out no worse from the pool by a joint space fitted
   on the others, than with fewer views.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from ossl.config import RecipeConfig, ScheduleConfig, View
from ossl.data.batches import Batch, Plan
from ossl.errors import InputError
from ossl.jointspace.cross_heads import (
    REFEREE,
    CrossHeads,
    draw_sides,
    fit_cross_heads,
    tuning_losses,
)
from ossl.methods.base import LogValues, Phase, Scan, Stage
from ossl.models.backbone import Backbone
from ossl.models.views import MIRRORED, PROMPTED, allowed_views

TUNING = "tuning"
PAPERS_VIEWS: tuple[View, ...] = ("prompted",)
LIKELY_KNOWN = 0.7  # P(known) above which a picture of the pool is learnt from,
SURE = 0.7  # and so much confidence in its pseudo-label
QUARTER = 0.5  # cycles of the cosine: from 1 to 0


def check_views(
    recipe: RecipeConfig, schedule: ScheduleConfig, encoder: Backbone, trains_encoder: bool
) -> tuple[View, ...]:
    """The views that features are the mean of; an InputError where they or a tuning do not fit."""
    tunes = schedule.tuning_epochs > 0
    if tunes or recipe.views != PAPERS_VIEWS:
        if recipe.detector != "evidence" or recipe.head != "closed_form" or recipe.contrast:
            raise InputError(
                "recipe.views and schedule.tuning_epochs are for --recipe default; leave them away."
            )
        if trains_encoder:
            raise InputError(
                f"a budget above fast needs a pretrained encoder that stays as it is, and "
                f"{encoder.name} is trained here: pass --weights FILE, take --backbone lite0, or "
                "give --budget fast."
            )
    if tunes and recipe.prompt.size == 0:
        raise InputError(
            "schedule.tuning_epochs tunes a prompt, and recipe.prompt.size is 0: give --budget "
            "balanced or best."
        )
    return allowed_views(recipe.views, schedule.flip)


def tuning_stage(schedule: ScheduleConfig) -> Stage:
    """The stage in which the prompt alone learns."""
    plan = Plan(
        labelled=schedule.tuning_labelled,
        pool=schedule.tuning_pool,
        pool_views=("weak",),
        flip=schedule.flip,
    )
    phase = Phase(
        TUNING,
        schedule.tuning_steps,
        plan,
        schedule.tuning_rate,
        momentum=0.0,
        gradient="normalised",
    )
    return Stage(
        TUNING,
        "tuning the prompt",
        schedule.tuning_epochs,
        (phase,),
        cosine_cycles=QUARTER,
    )


@dataclass
class Choice:
    """Which views were taken, and the two figures of every candidate that it was decided by."""

    taken: int
    accuracy: list[float]  # fraction of the referees that are named rightly
    auroc: list[float]  # of the referees against the pool

    @classmethod
    def of(cls, figures: Sequence[tuple[float, float]]) -> Choice:
        """The choice among candidates in order of their passes through the encoder.

        A later one is taken where neither figure is lower than the one's taken so far, and one is
        higher. Where a figure is unknown (NaN) nothing speaks for more passes.
        """
        taken = 0
        for place, (accuracy, auroc) in enumerate(figures):
            old = figures[taken]
            if accuracy >= old[0] and auroc >= old[1] and (accuracy, auroc) != old:
                taken = place
        return cls(taken, [a for a, _ in figures], [b for _, b in figures])


@dataclass
class TuningState:
    """What a run that goes on needs of the tuning; tensors and numbers alone."""

    heads: CrossHeads | None
    pseudo: Tensor | None  # int64 [N]; -1 is not learnt from
    choice: Choice | None


class Fits(Protocol):
    """What is fitted on features: of a method, all that its choice of views needs."""

    def encode(self, pictures: Tensor, view: View) -> Tensor:
        """The features of uint8 pictures in a view."""

    def fit(self, labelled: Tensor, labels: Tensor, pool: Tensor) -> LogValues:
        """The values to log after fitting everything on these features."""

    def figures(
        self, labelled: Tensor, labels: Tensor, pool: Tensor, referees: Tensor
    ) -> tuple[float, float]:
        """The referees' accuracy, and their AUROC against the pool, by fits without them."""

    def joint_space(self) -> dict[str, Tensor]:
        """What is fitted now."""

    def load_joint_space(self, tensors: dict[str, Tensor]) -> None:
        """Take back what `joint_space` gave."""


class PromptTuning:
    """The tuning of one run: its pseudo-labels and heads while it lasts, its choice of views."""

    def __init__(self, views: tuple[View, ...], classes: int, seed: int) -> None:
        unprompted = tuple(view for view in views if view not in PROMPTED)
        rivals: list[tuple[View, ...]] = [("bare",), unprompted, views]
        self.candidates = [r for n, r in enumerate(rivals) if r and r not in rivals[:n]]
        self.classes, self.seed = classes, seed
        self.state = TuningState(None, None, None)
        self.bare: tuple[Tensor, Tensor] | None = None  # features, as long as they are at hand

    @property
    def views(self) -> tuple[View, ...]:
        """The views to average: without the prompt until it is chosen."""
        choice = self.state.choice
        return self.candidates[0 if choice is None else choice.taken]

    @property
    def pool_choice(self) -> Tensor:
        """Which pictures of the pool are learnt from."""
        if self.state.pseudo is None or self.state.heads is None:
            return torch.empty(0, dtype=torch.int64)
        return (self.state.pseudo >= 0).nonzero().squeeze(1).cpu()

    def start(
        self,
        labelled: Tensor,
        labels: Tensor,
        pool: Tensor,
        known: Tensor,
        logits: Tensor,
        picked: int = 0,
    ) -> LogValues:
        """The values to log after choosing what to learn from, by fits on bare features.

        The last `picked` labelled pictures are what a person marked.
        """
        self.bare = (labelled, pool)
        confidence, pseudo = logits.softmax(dim=1).max(dim=1)
        used = (known > LIKELY_KNOWN) & (confidence > SURE)
        self.state.pseudo = torch.where(used, pseudo, -1)
        side = draw_sides(labels, self.classes, self.seed, picked)
        if side is None:
            return {"note": "too few labels to judge a prompt by; it stays as it is"}
        self.state.heads = fit_cross_heads(labelled, labels, self.classes, side)
        return {"tuning_share_of_pool": float(used.float().mean())}

    def losses(self, features: Tensor, batch: Batch) -> dict[str, Tensor]:
        """The losses of a batch by its features, the labelled pictures' first."""
        heads, pseudo = self.state.heads, self.state.pseudo
        assert heads is not None and pseudo is not None  # else there is nothing to draw from
        device, count = features.device, len(batch.labels)
        return tuning_losses(
            heads,
            features[:count],
            batch.labels,
            batch.labelled_index.to(device),
            features[count:],
            pseudo[batch.pool_index.to(device)],
        )

    def refit(self, labelled: Tensor, labels: Tensor) -> LogValues:
        """The values to log after fitting the heads anew on features under the prompt as it is."""
        heads = self.state.heads
        if heads is None:
            return {}
        heads = fit_cross_heads(labelled, labels, self.classes, heads.side, heads.shrinkage)
        self.state.heads = heads
        judged = (heads.side != REFEREE).nonzero().squeeze(1)
        said, truth = heads.unseen(labelled[judged], judged), labels[judged]
        return {
            "cross_entropy": float(F.cross_entropy(said, truth)),
            "cross_accuracy": float((said.argmax(dim=1) == truth).float().mean()),
        }

    def choose(self, made: Fits, scan: Scan) -> LogValues:
        """The values to log after fitting on every candidate's features and taking the best."""
        labels, heads = scan.labels, self.state.heads
        learnt = len(self.pool_choice) > 0
        rivals = [c for c in self.candidates if learnt or not set(c) & set(PROMPTED)]
        if heads is None:  # nobody to judge by, so not a pass more
            rivals = rivals[:1]
        figures: list[tuple[float, float]] = []
        values = LogValues()
        for place, (labelled, pool) in enumerate(self._averaged(rivals, made, scan)):
            before = made.joint_space()
            # The first is fitted already: what is learnt from was chosen by it.
            found = made.fit(labelled, labels, pool) if place else values
            unknown = (float("nan"), float("nan"))
            figures.append(
                made.figures(labelled, labels, pool, heads.side == REFEREE) if heads else unknown
            )
            if Choice.of(figures).taken == place:
                values = found
            else:
                made.load_joint_space(before)
        self.bare = None
        self.state = TuningState(None, None, Choice.of(figures))
        if heads is None:
            values["note"] = (
                "the prompt has learnt nothing: there are too few labels to judge it by"
            )
        elif not learnt:
            values["note"] = "the prompt has learnt nothing: no picture of the pool is sure enough"
        for views, (accuracy, auroc) in zip(rivals, figures, strict=True):
            if heads is None:
                break
            name = "_".join(views)
            values |= {f"referee_accuracy_{name}": accuracy, f"referee_auroc_{name}": auroc}
        return values | {"views": ", ".join(self.views)}

    def _averaged(
        self, rivals: list[tuple[View, ...]], made: Fits, scan: Scan
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """The features for every candidate; each view is worked out once."""

        def one(view: View) -> tuple[Tensor, Tensor]:
            def encode(pictures: Tensor) -> Tensor:
                return made.encode(pictures, view)

            return scan("labelled", encode), scan("pool", encode)

        seen: tuple[View, ...] = ()
        labelled = pool = torch.empty(0)
        for views in rivals:
            if not seen or not set(seen) <= set(views):
                seen = views[:1]
                bare = self.bare if seen == ("bare",) else None
                labelled, pool = bare or one(seen[0])
            for view in views:
                if view not in seen:
                    more = one(view)
                    labelled, pool = labelled + more[0], pool + more[1]
            seen = views
            yield labelled / len(views), pool / len(views)

    @property
    def remark(self) -> str | None:
        """Whether the prompt is used and why, in one line for people."""
        choice = self.state.choice
        if choice is None:
            return None
        figures = list(zip(choice.accuracy, choice.auroc, strict=True))
        tried = self.candidates[: len(figures)]
        if not set(tried[-1]) & set(PROMPTED):
            said = "not tuned: too few labelled pictures, or too few sure ones in the pool"
        else:
            other = figures[Choice.of(figures[:-1]).taken]
            said = "used" if choice.taken == len(figures) - 1 else "tuned, but not used"
            said += (
                f": labelled pictures kept from it are {100 * other[0]:.1f} % right without and "
                f"{100 * figures[-1][0]:.1f} % with it, their AUROC against the pool is "
                f"{100 * other[1]:.1f} % and {100 * figures[-1][1]:.1f} %"
            )
        also = "; pictures are seen in the mirror, too" if set(self.views) & set(MIRRORED) else ""
        return f"the prompt is {said}{also}"
