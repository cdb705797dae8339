"""Heads that judge the half they have not seen: sides, temperature and losses, by slow loops."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from ossl.jointspace.cross_heads import (
    LEAST_REFEREES,
    REFEREE,
    CrossHeads,
    draw_sides,
    fit_cross_heads,
    tuning_losses,
)
from ossl.jointspace.linear_head import fit_linear_head

CLASSES, WIDTH = 3, 6


def drawn(each: int = 28, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(CLASSES).repeat(each)
    centres = torch.randn(CLASSES, WIDTH, generator=generator)
    return centres[labels] + torch.randn(len(labels), WIDTH, generator=generator), labels


def fitted() -> tuple[CrossHeads, Tensor, Tensor]:
    features, labels = drawn()
    side = draw_sides(labels, CLASSES, seed=0)
    assert side is not None
    return fit_cross_heads(features, labels, CLASSES, side), features, labels


def cross_entropy(logits: list[float], label: int) -> float:
    return math.log(sum(math.exp(value) for value in logits)) - logits[label]


def logits_of(heads: CrossHeads, head: int, feature: Tensor) -> list[float]:
    return [float(heads.weight[head, k] @ feature + heads.bias[head, k]) for k in range(CLASSES)]


def test_sides_are_even_over_classes_and_of_the_seed() -> None:
    _, labels = drawn(each=30)
    side = draw_sides(labels, CLASSES, seed=3)
    assert side is not None
    for k in range(CLASSES):
        referees = int((side[labels == k] == REFEREE).sum())
        assert referees in (7, 8)  # a quarter
        for half in (0, 1):
            assert abs(int((side[labels == k] == half).sum()) - (30 - referees) / 2) <= 1
    assert int((side == REFEREE).sum()) >= LEAST_REFEREES
    assert torch.equal(side, draw_sides(labels, CLASSES, seed=3))  # type: ignore[arg-type]
    assert not torch.equal(side, draw_sides(labels, CLASSES, seed=4))  # type: ignore[arg-type]


def test_what_a_person_picked_is_no_referee() -> None:
    labels = torch.arange(120) % CLASSES
    side = draw_sides(labels, CLASSES, seed=3, picked=30)
    assert side is not None
    assert int((side[:90] == REFEREE).sum()) in range(20, 26)
    assert not (side[90:] == REFEREE).any()


@pytest.mark.parametrize("labels", [[0, 1, 2] * 20, [0, 1] * 100 + [2], [0, 1] * 100])
def test_too_few_labels_have_no_sides(labels: list[int]) -> None:
    assert draw_sides(torch.tensor(labels), CLASSES, seed=0) is None


def test_a_picture_is_judged_by_the_head_that_has_not_seen_it() -> None:
    heads, features, labels = fitted()
    said = heads.unseen(features, torch.arange(len(features)))
    for row in (heads.side != REFEREE).nonzero().squeeze(1).tolist():
        other = 1 - int(heads.side[row])
        expected = logits_of(heads, other, features[row])
        torch.testing.assert_close(said[row], torch.tensor(expected), rtol=1e-4, atol=1e-5)
        # That head is the fit of the other half alone, but for the temperature.
        half = fit_linear_head(features[heads.side == other], labels[heads.side == other], CLASSES)
        ratio = heads.weight[other] / half.weight
        torch.testing.assert_close(ratio, ratio[0, 0].expand_as(ratio), rtol=1e-4, atol=1e-5)


def test_the_temperature_is_the_likeliest() -> None:
    heads, features, labels = fitted()
    judged = (heads.side != REFEREE).nonzero().squeeze(1)
    said = heads.unseen(features[judged], judged)

    def loss(factor: float) -> float:
        return float(torch.nn.functional.cross_entropy(said * factor, labels[judged]))

    assert loss(1.0) <= min(loss(10**0.1), loss(10**-0.1))


def test_a_shrinkage_once_chosen_stays() -> None:
    heads, features, labels = fitted()
    again = fit_cross_heads(features + 1, labels, CLASSES, heads.side, (0.9, 0.01))
    assert again.shrinkage == (0.9, 0.01)


def test_the_losses_are_those_of_a_loop() -> None:
    heads, features, labels = fitted()
    index = torch.tensor([5, 0, 9, 9, 23, *range(30, 50)])
    counting = [place for place in index.tolist() if heads.side[place] != REFEREE]
    assert 0 < len(counting) < len(index)
    pool, pseudo = features[:4] + 0.3, torch.tensor([2, 0, 1, 1])
    found = tuning_losses(heads, features[index], labels[index], index, pool, pseudo)
    labelled = pooled = right = 0.0
    for place in counting:
        said = logits_of(heads, 1 - int(heads.side[place]), features[place])
        labelled += cross_entropy(said, int(labels[place])) / len(counting)
        right += (said.index(max(said)) == int(labels[place])) / len(counting)
    for feature, label in zip(pool, pseudo.tolist(), strict=True):
        both = [logits_of(heads, head, feature) for head in (0, 1)]
        mean = [(a + b) / 2 for a, b in zip(*both, strict=True)]
        pooled += cross_entropy(mean, label) / len(pool)
    assert found["labelled_loss"].item() == pytest.approx(labelled, rel=1e-4)
    assert found["pseudo_loss"].item() == pytest.approx(pooled, rel=1e-4)
    assert found["labelled_accuracy"].item() == pytest.approx(right)
