"""Weighing the evidence without outlier labels, and the joint space that comes of it.

Hide some labelled pictures in the pool, score everything, and ask how well a score tells the
hidden ones from the pool. A pool with a share a of outliers obeys

    AUROC(hidden labelled, pool) = (1 - a) / 2 + a * AUROC(known, outlier)

so whatever tells labelled from pool best also tells known from outlier best: no outlier label is
needed, only that the labelled pictures are a fair draw of their classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ossl.jointspace.anchored import anchored_mixture
from ossl.jointspace.class_folds import trust_by_class_folds
from ossl.jointspace.judge import Judge, finish_judge, start_judge, weigh
from ossl.jointspace.neighbourhood import Neighbourhood, fit_neighbourhood
from ossl.jointspace.principal import PrincipalSpace, StackSettings, fit_principal_space
from ossl.jointspace.share import LEAST_HIDDEN, outlier_share, share_interval

ENOUGH = 100
"""hidden pictures; from so many on they alone say how large the share of outliers is"""
KEPT = 20_001
"""scores of the pool; so many evenly spaced ones stand for all"""


@dataclass
class StackedSpace:
    """The fitted joint space: one judge per fold, what lies around, a share and a threshold."""

    judges: list[Judge]
    weights: Tensor
    neighbourhood: Neighbourhood
    scales: Tensor  # (2, 2): median and spread of known pictures' evidence and novelty
    novelty_weight: float  # evidence has a weight of 1
    share: float
    interval: tuple[float, float]
    known_scores: Tensor  # sorted, of labelled pictures while they were hidden
    pool_scores: Tensor  # sorted; evenly spaced ones of a large pool

    def threshold(
        self, share: float | None = None, max_false_rejects: float | None = None
    ) -> float:
        """Return the score above which ``share`` of the pool lies (None: the estimated share).

        With ``max_false_rejects`` it is the score above which so much of the hidden labelled
        pictures lies.
        """
        if max_false_rejects is not None and len(self.known_scores):
            kept, part = self.known_scores, max_false_rejects
        else:
            kept, part = self.pool_scores, self.share if share is None else share
        return float(kept[min(len(kept) - 1, max(0, round(len(kept) * (1 - part)) - 1))])

    def outlier_score(self, features: Tensor) -> Tensor:
        """Return the outlier score of features, (N,), higher for outliers."""
        novelty, places = self.neighbourhood.look(features)
        return self.smoothed(self.fused(self.evidence(features), novelty), places)

    def evidence(self, features: Tensor) -> Tensor:
        """Return the mean of the judges' weighed evidence, (N,)."""
        x = self.judges[0].space.project(features)
        said: Tensor = torch.stack([judge.learned(x) @ self.weights for judge in self.judges])
        return said.mean(0)

    def fused(self, evidence: Tensor, novelty: Tensor) -> Tensor:
        """Return evidence and weighed novelty, added in units of known pictures' spread, (N,)."""
        columns = self.in_known_spreads(evidence, novelty)
        score: Tensor = columns[:, 0] + self.novelty_weight * columns[:, 1]
        return score

    def in_known_spreads(self, evidence: Tensor, novelty: Tensor) -> Tensor:
        """Return both as spreads of known pictures away from their middle, (N, 2)."""
        columns = torch.stack([evidence, novelty], 1)
        return (columns - self.scales[:, 0]) / self.scales[:, 1]

    def smoothed(self, score: Tensor, places: Tensor) -> Tensor:
        """Return the mean of a picture's score and of those around it, (N,)."""
        return (score + self.neighbourhood.around(places)) / 2


def assign_folds(labels: Tensor, folds: int, generator: torch.Generator) -> Tensor:
    """Return a fold for every labelled picture, even over classes."""
    fold = torch.zeros_like(labels)
    offset = 0
    for k in range(int(labels.max()) + 1):
        rows = (labels == k).nonzero().flatten()
        rows = rows[torch.randperm(len(rows), generator=generator)]
        fold[rows] = (torch.arange(len(rows)) + offset) % folds
        offset += len(rows)
    return fold


@dataclass
class _Fold:
    """A judge, what it was fitted on, and the evidence of the pictures that it can be asked."""

    judge: Judge
    x: Tensor
    y: Tensor
    pool: Tensor  # the labelled pictures hidden from it, then some of the pool
    rows: Tensor  # which labelled pictures those are
    evidence: Tensor  # of `pool`, by column

    @property
    def known(self) -> Tensor:
        return self.evidence[: len(self.rows)]

    @property
    def others(self) -> Tensor:
        return self.evidence[len(self.rows) :]


def fit_stacked_space(
    labelled: Tensor, labels: Tensor, pool: Tensor, settings: StackSettings | None = None
) -> StackedSpace:
    """Return the joint space of labelled features (n, D), labels (0..K-1) and a pool (N, D)."""
    settings = settings or StackSettings()
    generator = torch.Generator().manual_seed(settings.seed)
    labelled, labels, pool = labelled.float(), _compact(labels), pool.float()
    space = fit_principal_space(labelled, pool, settings)
    x, p = space.project(labelled), space.project(pool)
    few = torch.randperm(len(p), generator=generator)[: settings.fold_pool]

    # 1. Simple evidence, weighed by what sees new classes and by what tells hidden from pool.
    folds = _hide_in_turn(space, x, labels, p[few], settings, generator)
    trust = trust_by_class_folds(space, x, labels, p[few], settings)
    weights = _weigh(folds, trust, settings)
    # 2. From there self-trained directions and centres, weighed in the same way.
    for fold in folds:
        fold.evidence = finish_judge(
            fold.judge,
            fold.x,
            fold.y,
            fold.pool,
            len(fold.rows),
            fold.evidence,
            weights,
            settings,
        )
    learned = folds[0].evidence.shape[1]
    prior = torch.full((learned,), (1 - settings.start_trust) / (learned - 1))
    prior[0] = settings.start_trust
    weights = _weigh(folds, prior, settings)
    judges = [fold.judge for fold in folds]
    hidden, others = _by_other_folds(folds, prior, settings)
    # 3. What that calls known is what novelty is measured from; the pool says what it is worth.
    said = torch.stack([judge.learned(p) @ weights for judge in judges]).mean(0)
    known = said <= said.quantile(1 - _share(torch.cat(hidden), torch.cat(others)))
    around, own, chosen = fit_neighbourhood(
        labelled, pool, known, few, settings.references, settings.around, generator
    )
    (novelty, places), (strange, beside) = around.look(labelled), around.look(pool)
    scales = torch.stack([_middle_and_spread(said[known]), _middle_and_spread(strange[known])])
    none = torch.empty(0)
    joint = StackedSpace(judges, weights, around, scales, 1.0, 0.0, (0.0, 0.0), none, none)
    ours, theirs = weigh(
        joint.in_known_spreads(
            torch.cat(hidden), torch.cat([novelty[fold.rows] for fold in folds])
        ),
        joint.in_known_spreads(torch.cat(others), strange[few].repeat(len(folds))),
        torch.tensor([1 - settings.novelty_trust, settings.novelty_trust]),
        settings.stack_penalty,
    ).tolist()
    joint.novelty_weight = min(theirs / max(ours, 1e-6), 1.0)
    # 4. Neighbours agree. Labelled pictures are known for certain; the pool's neighbours of a
    #    hidden picture are scored by the judge that it was hidden from, for its label drew them in.
    anchors = torch.full((len(own),), settings.anchor)
    for place, fold in enumerate(folds):
        others[place] = joint.fused(others[place], strange[few])
        around.score = torch.cat([anchors, others[place][: len(chosen)]])
        hidden[place] = joint.fused(hidden[place], novelty[fold.rows])
        hidden[place] = joint.smoothed(hidden[place], places[fold.rows])
        others[place] = joint.smoothed(others[place], beside[few])
    score = joint.fused(said, strange)
    around.score = torch.cat([anchors, score[chosen]])
    # 5. The share of outliers, and the scores that boundaries are read from.
    shown, mixed = torch.cat(hidden), torch.cat(others)
    joint.share = _share(shown, mixed)
    joint.interval = share_interval(shown, mixed, joint.share)
    joint.known_scores = shown.sort().values
    final = joint.smoothed(score, beside).sort().values
    joint.pool_scores = final[torch.linspace(0, len(final) - 1, min(len(final), KEPT)).long()]
    return joint


def _hide_in_turn(
    space: PrincipalSpace,
    x: Tensor,
    labels: Tensor,
    pool: Tensor,
    settings: StackSettings,
    generator: torch.Generator,
) -> list[_Fold]:
    """Return a fold with its simple evidence for every part of the labelled pictures.

    With one picture a class nothing can be hidden: one fold then knows all.
    """
    parts = assign_folds(labels, settings.folds, generator)
    if int(torch.bincount(labels).max()) < 2:
        parts[:] = -1
    folds: list[_Fold] = []
    for part in range(settings.folds):
        out = parts == part
        if not out.any() and folds:
            continue
        y = _compact(labels[~out])
        mixed = torch.cat([x[out], pool])
        judge, evidence = start_judge(space, x[~out], y, mixed, settings)
        folds.append(_Fold(judge, x[~out], y, mixed, out.nonzero().squeeze(1), evidence))
    return folds


def _share(hidden: Tensor, pool: Tensor) -> float:
    """Return the share of outliers; with fewer than ``ENOUGH`` hidden pictures a mixture has a say.

    Its two Gaussians are the wrong shape, but a ratio of few pictures is mostly noise.
    """
    trust = min(1.0, len(hidden) / ENOUGH) if len(hidden) >= LEAST_HIDDEN else 0.0
    mixed = float(anchored_mixture(pool, hidden).mean()) if trust < 1 else 0.0
    return trust * outlier_share(hidden, pool) + (1 - trust) * mixed


def _middle_and_spread(scores: Tensor) -> Tensor:
    """Return the median and half the distance of the quantiles a deviation away, (2,)."""
    low, middle, high = scores.quantile(torch.tensor([0.16, 0.5, 0.84]))
    return torch.stack([middle, (high - low) / 2 + 1e-6])


def _compact(labels: Tensor) -> Tensor:
    """Return labels renumbered 0.. without gaps."""
    compact: Tensor = torch.unique(labels, return_inverse=True)[1]
    return compact


def _weigh(folds: list[_Fold], prior: Tensor, settings: StackSettings) -> Tensor:
    """Return one set of weights from the hidden and pool pictures of all folds."""
    known, pool = torch.cat([f.known for f in folds]), torch.cat([f.others for f in folds])
    return weigh(known, pool, prior, settings.stack_penalty)


def _by_other_folds(
    folds: list[_Fold], prior: Tensor, settings: StackSettings
) -> tuple[list[Tensor], list[Tensor]]:
    """Return the scores of hidden and of pool pictures, by fold, by weights that others chose.

    A hidden picture that helped to choose the weights looks more known than it is.
    """
    known, pool = [], []
    for fold in folds:
        weights = _weigh([f for f in folds if f is not fold] or [fold], prior, settings)
        known.append(fold.known @ weights)
        pool.append(fold.others @ weights)
    return known, pool
