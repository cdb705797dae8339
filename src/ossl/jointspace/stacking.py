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

from ossl.jointspace.class_folds import trust_by_class_folds
from ossl.jointspace.judge import Judge, finish_judge, start_judge, weigh
from ossl.jointspace.principal import StackSettings, fit_principal_space
from ossl.jointspace.share import outlier_share, share_interval


@dataclass
class StackedSpace:
    """The fitted joint space: one judge per fold, one set of weights, a share and a threshold."""

    judges: list[Judge]
    weights: Tensor
    share: float
    interval: tuple[float, float]
    threshold: float
    hidden_scores: Tensor  # of labelled pictures, each by the judge that it was hidden from
    fold_pool_scores: Tensor

    def outlier_score(self, features: Tensor) -> Tensor:
        """Return the fused outlier score of features, (N,), higher for outliers."""
        return self.score_projected(self.judges[0].space.project(features))

    def score_projected(self, x: Tensor) -> Tensor:
        """Return the fused outlier score of projected features: the mean over the judges."""
        return torch.stack([judge.learned(x) @ self.weights for judge in self.judges]).mean(0)


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


def fit_stacked_space(
    labelled: Tensor, labels: Tensor, pool: Tensor, settings: StackSettings | None = None
) -> StackedSpace:
    """Return the joint space of labelled features (n, D), labels (0..K-1) and a pool (N, D)."""
    settings = settings or StackSettings()
    generator = torch.Generator().manual_seed(settings.seed)
    labelled, pool = labelled.float(), pool.float()
    space = fit_principal_space(labelled, pool, settings)
    x, p = space.project(labelled), space.project(pool)
    order = torch.randperm(len(p), generator=generator)
    few = p[order[: settings.fold_pool]]
    fold = assign_folds(labels, settings.folds, generator)
    if int(torch.bincount(labels).max()) < 2:
        fold[:] = 1  # nothing can be hidden: one judge that knows all
    judges: list[tuple[Judge, Tensor, Tensor, Tensor, int]] = []
    parts: list[Tensor] = []
    for k in range(settings.folds):
        out = fold == k
        if out.all() or (not out.any() and judges):
            continue
        kept = _compact(labels[~out])
        fold_pool = torch.cat([x[out], few])
        judge, simple = start_judge(space, x[~out], kept, fold_pool, settings)
        judges.append((judge, x[~out], kept, fold_pool, int(out.sum())))
        parts.append(simple)
    hidden = [int(j[4]) for j in judges]
    trust = trust_by_class_folds(space, x, labels, few, settings)
    simple_weights = _weigh_folds(parts, hidden, trust, settings)
    parts = [
        finish_judge(judge, xs, ys, fold_pool, count, simple, simple_weights, settings)
        for (judge, xs, ys, fold_pool, count), simple in zip(judges, parts, strict=True)
    ]
    prior = torch.full((parts[0].shape[1],), (1 - settings.start_trust) / (parts[0].shape[1] - 1))
    prior[0] = settings.start_trust
    weights = _weigh_folds(parts, hidden, prior, settings)
    known, others = _cross_weighed(parts, hidden, prior, settings)
    share, interval = outlier_share(known, others), share_interval(known, others)
    joint = StackedSpace(
        [judge for judge, *_ in judges], weights, share, interval, 0.0, known, others
    )
    final = joint.score_projected(p).sort().values
    joint.threshold = float(final[min(len(final) - 1, int(len(final) * (1 - share)))])
    return joint


def _compact(labels: Tensor) -> Tensor:
    """Return labels renumbered 0.. without gaps."""
    compact: Tensor = torch.unique(labels, return_inverse=True)[1]
    return compact


def _weigh_folds(
    parts: list[Tensor], hidden: list[int], prior: Tensor, settings: StackSettings
) -> Tensor:
    """Return one set of weights from the hidden and pool rows of all folds."""
    known = torch.cat([part[:h] for part, h in zip(parts, hidden, strict=True)])
    pool = torch.cat([part[h:] for part, h in zip(parts, hidden, strict=True)])
    return weigh(known, pool, prior, settings.stack_penalty)


def _cross_weighed(
    parts: list[Tensor], hidden: list[int], prior: Tensor, settings: StackSettings
) -> tuple[Tensor, Tensor]:
    """Return the scores of hidden and of pool pictures by weights that other folds chose.

    A hidden picture that helped to choose the weights looks more known than it is.
    """
    known, pool = [], []
    for k, (part, count) in enumerate(zip(parts, hidden, strict=True)):
        rest = [i for i in range(len(parts)) if i != k] or [k]
        weights = _weigh_folds([parts[i] for i in rest], [hidden[i] for i in rest], prior, settings)
        scores = part @ weights
        known.append(scores[:count])
        pool.append(scores[count:])
    return torch.cat(known), torch.cat(pool)
