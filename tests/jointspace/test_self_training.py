"""Positive-unlabelled self-training of one direction."""

from __future__ import annotations

import dataclasses

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ossl.jointspace.anchored import anchored_mixture
from ossl.jointspace.principal import StackSettings
from ossl.jointspace.self_training import _standard, self_train
from tests.jointspace.clusters import auroc, clusters
from tests.jointspace.drawn import close, examples, normal, rotation, scales, seeds
from tests.reference import evidence as slow
from tests.reference import jointspace as plain

SETTINGS = StackSettings()


@examples
@given(seeds, st.integers(1, 4))
def test_one_step_is_the_loops_least_squares(seed: int, size: int) -> None:
    labelled, white = normal(5, size, seed=seed).float(), normal(16, size, seed=seed + 1).float()
    start = normal(16, seed=seed + 2).float()
    one = dataclasses.replace(SETTINGS, steps=1)
    first = _standard(start, start)
    target = [0.0] * 5 + anchored_mixture(first, first[:4]).tolist()
    rows = [*labelled.tolist(), *white.tolist()]
    n, middle, centre = len(rows), sum(target) / len(target), plain.mean(rows)
    ridge = SETTINGS.ridge + size / n
    cov = [
        [value / n + (ridge if i == j else 0.0) for j, value in enumerate(line)]
        for i, line in enumerate(plain.scatter(rows))
    ]
    pull = [
        sum((t - middle) * (f[i] - centre[i]) for t, f in zip(target, rows, strict=True)) / n
        for i in range(size)
    ]
    close(self_train(labelled, white, start, 4, one), slow.solve(cov, pull), 1e-4)


@settings(examples, max_examples=5)
@given(seeds)
def test_the_direction_turns_with_the_features(seed: int) -> None:
    labelled, white = normal(6, 3, seed=seed).float(), normal(30, 3, seed=seed + 1).float()
    white[15:] += 2
    start, turn = white.sum(1) + normal(30, seed=seed + 2).float(), rotation(3, seed + 3).float()
    found = self_train(labelled, white, start, 5, SETTINGS)
    close(self_train(labelled @ turn, white @ turn, start, 5, SETTINGS), found @ turn, 1e-2)


@examples
@given(seeds, scales)
def test_standard_scores_do_not_see_scale_or_shift(seed: int, scale: float) -> None:
    score = normal(9, seed=seed)
    found = _standard(score, score)
    close(_standard(scale * score + 3, scale * score + 3), found, 1e-4)
    assert float(found.median()) == 0


def test_training_betters_a_start_that_knows_a_little() -> None:
    made = clusters(3, 10, 300, 0.3, seed=0)
    start = 0.7 * made.outlier.float() + normal(300, seed=1).float()
    found = self_train(made.labelled, made.pool, start, 0, SETTINGS)
    assert auroc(made.pool @ found, made.outlier) > auroc(start, made.outlier) + 0.1


def test_equal_scores_and_equal_features_are_finite() -> None:
    labelled, white = normal(4, 3, seed=0).float(), normal(9, 3, seed=1).float()
    assert self_train(labelled, white, torch.zeros(9), 2, SETTINGS).isfinite().all()
    assert self_train(labelled, white[:1], torch.zeros(1), 0, SETTINGS).isfinite().all()
    same = torch.ones(9, 3)
    assert self_train(labelled, same, white[:, 0], 2, SETTINGS).isfinite().all()
