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
from ossl.jointspace.folds import by_other_folds, compact, hide_in_turn, weigh_evidence
from ossl.jointspace.judge import Judge, weigh
from ossl.jointspace.marks import Marks, Pull, fit_pull
from ossl.jointspace.neighbourhood import Neighbourhood, fit_neighbourhood
from ossl.jointspace.principal import StackSettings, fit_principal_space
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
    pull: Pull | None = None  # of pictures that a person has marked

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
        score = self.smoothed(self.fused(self.evidence(features), novelty), places)
        return score if self.pull is None else score + self.pull(features.float())

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


def fit_stacked_space(
    labelled: Tensor,
    labels: Tensor,
    pool: Tensor,
    settings: StackSettings | None = None,
    marks: Marks | None = None,
) -> StackedSpace:
    """Return the joint space of labelled features (n, D), labels (0..K-1) and a pool (N, D)."""
    settings, marks = settings or StackSettings(), marks or Marks.none()
    generator = torch.Generator().manual_seed(settings.seed)
    labelled, labels, pool = labelled.float(), compact(labels), pool.float()
    space = fit_principal_space(labelled, pool, settings)
    x, p = space.project(labelled), space.project(pool)
    order = torch.randperm(len(p), generator=generator)
    few = order[~torch.isin(order, marks.rows)][: settings.fold_pool]

    # 1. Simple evidence, weighed by what sees new classes and by what tells hidden from pool.
    folds = hide_in_turn(space, x, labels, p[few], settings, generator, marks, p[marks.rows])
    trust = trust_by_class_folds(space, x, labels, p[few], settings)
    weights = weigh_evidence(folds, trust, settings)
    # 2. From there self-trained directions and centres, weighed in the same way.
    for fold in folds:
        fold.finish(weights, settings)
    learned = folds[0].evidence.shape[1]
    prior = torch.full((learned,), (1 - settings.start_trust) / (learned - 1))
    prior[0] = settings.start_trust
    weights = weigh_evidence(folds, prior, settings)
    judges = [fold.judge for fold in folds]
    hidden, others, asked = by_other_folds(folds, prior, settings)
    # 3. What that calls known is what novelty is measured from; the pool says what it is worth.
    said = torch.stack([judge.learned(p) @ weights for judge in judges]).mean(0)
    known = said <= said.quantile(1 - _share(torch.cat(hidden), torch.cat(others)))
    known[marks.rows] = ~marks.outlying
    around, own, chosen = fit_neighbourhood(
        labelled, pool, known, few, settings.references, settings.around, generator, marks
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
    score = joint.fused(said, strange)
    anchors = torch.full((len(own) + len(marks.rows),), settings.anchor)
    anchors[len(own) :][marks.outlying] = score[~known].median() if (~known).any() else 0.0
    for place, fold in enumerate(folds):
        others[place] = joint.fused(others[place], strange[few])
        around.score = torch.cat([anchors, others[place][: len(chosen)]])
        hidden[place] = joint.fused(hidden[place], novelty[fold.rows])
        hidden[place] = joint.smoothed(hidden[place], places[fold.rows])
        others[place] = joint.smoothed(others[place], beside[few])
        rows = marks.rows[fold.asked]
        asked[place] = joint.smoothed(joint.fused(asked[place], strange[rows]), beside[rows])
    around.score = torch.cat([anchors, score[chosen]])
    final = joint.smoothed(score, beside)
    # 5. Marked pictures that their judge would have put on the wrong side pull the scores over.
    shown, mixed = torch.cat(hidden), torch.cat(others)
    rows = marks.rows[torch.cat([fold.asked for fold in folds])]
    share = _share(shown, mixed)
    low, high = share_interval(shown, mixed, share)
    share, low, high = (_whole(part, marks, len(p)) for part in (share, low, high))
    limit = float(final.quantile(1 - share))
    outlying = torch.cat([fold.outlying for fold in folds])
    joint.pull = fit_pull(pool[rows], torch.cat(asked), outlying, limit, pool)
    if joint.pull is not None:
        moved = joint.pull(pool)
        shown = shown + joint.pull(labelled[torch.cat([fold.rows for fold in folds])])
        final = final + moved
        flow = float((final > limit).float().mean()) - share
        share, low, high = (min(max(part + flow, 0), 1) for part in (share, low, high))
    # 6. The share of outliers, and the scores that boundaries are read from.
    joint.share, joint.interval = share, (low, high)
    joint.known_scores = shown.sort().values
    kept = final.sort().values
    joint.pool_scores = kept[torch.linspace(0, len(kept) - 1, min(len(kept), KEPT)).long()]
    return joint


def _share(hidden: Tensor, pool: Tensor) -> float:
    """Return the share of outliers; with fewer than ``ENOUGH`` hidden pictures a mixture has a say.

    Its two Gaussians are the wrong shape, but a ratio of few pictures is mostly noise.
    """
    trust = min(1.0, len(hidden) / ENOUGH) if len(hidden) >= LEAST_HIDDEN else 0.0
    mixed = float(anchored_mixture(pool, hidden).mean()) if trust < 1 else 0.0
    return trust * outlier_share(hidden, pool) + (1 - trust) * mixed


def _whole(share: float, marks: Marks, pool: int) -> float:
    """Return the share of outliers in the whole pool, from that of the pictures without a mark."""
    return (share * (pool - len(marks.rows)) + int(marks.outlying.sum())) / pool


def _middle_and_spread(scores: Tensor) -> Tensor:
    """Return the median and half the distance of the quantiles a deviation away, (2,)."""
    low, middle, high = scores.quantile(torch.tensor([0.16, 0.5, 0.84]))
    return torch.stack([middle, (high - low) / 2 + 1e-6])
