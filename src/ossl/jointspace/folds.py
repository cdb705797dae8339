"""Hiding labelled pictures in the pool in turns, and asking about those that were hidden."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ossl.jointspace.judge import Judge, finish_judge, start_judge, weigh
from ossl.jointspace.marks import Marks
from ossl.jointspace.principal import PrincipalSpace, StackSettings


@dataclass
class Fold:
    """A judge, what it was fitted on, and the evidence of the pictures that it can be asked."""

    judge: Judge
    x: Tensor
    y: Tensor
    outliers: Tensor  # marked ones that it was shown
    pool: Tensor  # the labelled pictures hidden from it, then some of the pool
    rows: Tensor  # which labelled pictures those are
    evidence: Tensor  # of `pool`, by column
    asked: Tensor  # which marks it was not shown
    marked: Tensor  # those, projected
    answers: Tensor  # the evidence of those, by column
    outlying: Tensor  # whether a person calls them outliers

    @property
    def known(self) -> Tensor:
        return self.evidence[: len(self.rows)]

    @property
    def others(self) -> Tensor:
        return self.evidence[len(self.rows) :]

    def finish(self, weights: Tensor, settings: StackSettings) -> None:
        """Fit the learned evidence from the simple one, weighed so."""
        self.evidence = finish_judge(
            self.judge,
            self.x,
            self.y,
            self.pool,
            len(self.rows),
            self.evidence,
            weights,
            settings,
            self.outliers,
        )
        self.answers = self.judge.learned(self.marked)


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


def hide_in_turn(
    space: PrincipalSpace,
    x: Tensor,
    labels: Tensor,
    pool: Tensor,
    settings: StackSettings,
    generator: torch.Generator,
    marks: Marks,
    marked: Tensor,
) -> list[Fold]:
    """Return a fold with its simple evidence for every part of the labelled pictures.

    With one picture a class nothing can be hidden: one fold then knows all. Of the ``marked``
    pictures a judge is shown two thirds as well; but a person has picked them, so that they are
    no fair draw of their classes and never hidden in the pool.
    """
    parts = assign_folds(labels, settings.folds, generator)
    turns = torch.empty(0, dtype=torch.int64)
    if len(marked):
        turns = assign_folds(marks.outlying.long(), settings.folds, generator)
    if int(torch.bincount(labels).max()) < 2:
        parts[:] = turns[:] = -1
    folds: list[Fold] = []
    for part in range(settings.folds):
        out = parts == part
        if not out.any() and folds:
            continue
        told = ~marks.outlying & (turns != part)
        shown = torch.cat([x[~out], marked[told]])
        y = compact(torch.cat([labels[~out], marks.labels[told]]))
        mixed = torch.cat([x[out], pool])
        judge, evidence = start_judge(space, shown, y, mixed, settings)
        asked = (turns == part).nonzero().squeeze(1)
        folds.append(
            Fold(
                judge,
                shown,
                y,
                marked[marks.outlying & (turns != part)],
                mixed,
                out.nonzero().squeeze(1),
                evidence,
                asked,
                marked[asked],
                judge.simple(marked[asked]),
                marks.outlying[asked],
            )
        )
    return folds


def weigh_evidence(folds: list[Fold], prior: Tensor, settings: StackSettings) -> Tensor:
    """Return one set of weights from the hidden, the pool and the marked pictures of all folds."""
    known = [f.known for f in folds] + [f.answers[~f.outlying] for f in folds]
    outliers = torch.cat([f.answers[f.outlying] for f in folds])
    pool = torch.cat([f.others for f in folds])
    return weigh(torch.cat(known), pool, prior, settings.stack_penalty, outliers)


def by_other_folds(
    folds: list[Fold], prior: Tensor, settings: StackSettings
) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """Return the scores of hidden, pool and marked pictures, by weights that other folds chose.

    A hidden picture that helped to choose the weights looks more known than it is.
    """
    known, pool, marked = [], [], []
    for fold in folds:
        weights = weigh_evidence([f for f in folds if f is not fold] or [fold], prior, settings)
        known.append(fold.known @ weights)
        pool.append(fold.others @ weights)
        marked.append(fold.answers @ weights)
    return known, pool, marked


def compact(labels: Tensor) -> Tensor:
    """Return labels renumbered 0.. without gaps."""
    numbered: Tensor = torch.unique(labels, return_inverse=True)[1]
    return numbered
