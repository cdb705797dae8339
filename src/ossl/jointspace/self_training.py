"""Positive-unlabelled self-training of one direction."""

from __future__ import annotations

import torch
from torch import Tensor

from ossl.jointspace.anchored import anchored_mixture
from ossl.jointspace.principal import StackSettings


def self_train(
    labelled: Tensor,
    white: Tensor,
    start: Tensor,
    hidden: int,
    settings: StackSettings,
    outliers: Tensor | None = None,
) -> Tensor:
    """Return the direction that positive-unlabelled self-training ends at.

    ``white``: whitened pool whose first ``hidden`` rows are labelled pictures hidden in it. They
    say where known scores lie when a step splits the pool, and are otherwise pool pictures like
    any other (no target of their own: that would leak). ``labelled`` are the anchors of the
    least-squares direction, always known, and ``outliers`` those a person has marked, always
    outlying. ``start`` is the pool's score to begin with.
    """
    marked = white[:0] if outliers is None else outliers
    rows = torch.cat([labelled, marked, white])
    mean = rows.mean(0)
    cov = rows.T @ rows / len(rows) - torch.outer(mean, mean)
    ridge = settings.ridge + len(cov) / len(rows)
    factor = torch.linalg.cholesky(cov + ridge * torch.eye(len(cov)))
    first = _standard(start, start)
    score, direction = first, torch.zeros(white.shape[1])
    for _ in range(settings.steps):
        outlier = anchored_mixture(score, score[:hidden])
        target = torch.cat([torch.zeros(len(labelled)), torch.ones(len(marked)), outlier])
        pull = (target - target.mean()) @ (rows - mean) / len(rows)
        direction = torch.cholesky_solve(pull[:, None], factor)[:, 0]
        projected = white @ direction
        score = settings.keep * first + (1 - settings.keep) * _standard(projected, projected)
    return direction


def _standard(score: Tensor, reference: Tensor) -> Tensor:
    """Return (score - median) / MAD of the reference."""
    median = reference.median()
    return (score - median) / ((reference - median).abs().median() * 1.4826 + 1e-9)
