"""Stage 1 from nothing: what is hidden, what is lost, how the rate goes, and whole tiny runs."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator
from torch import Tensor

from ossl.data.batches import Batch
from ossl.methods.base import Stage
from ossl.methods.openprompt import OpenPrompt
from ossl.methods.rounds import (
    KNOWN,
    ROUND,
    Rounds,
    fair_sharpness,
    hidden_labels,
    mean_where,
    soft_cross_entropy,
)
from ossl.presets import RECIPES
from ossl.train.distributed import DataScan
from tests.methods import tiny
from tests.train.runs import InterruptedRunError, journal, run, same

SCHEDULE = replace(
    tiny.SCHEDULE, labelled_epochs=2, rounds=2, round_steps=3, pool_epochs=0, weight_decay=1e-3
)


def method(seed: int = 0) -> OpenPrompt:
    """The default recipe on the tiny encoder, which has no pretrained weights."""
    return tiny.method(RECIPES["default"], SCHEDULE, seed=seed)


def rounds(made: OpenPrompt) -> Rounds:
    """Its first stage."""
    assert made.rounds is not None
    return made.rounds


# --- what is hidden -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "each"), [(2, 0), (3, 1), (6, 2), (12, 4), (25, 4), (50, 5), (100, 10), (400, 40)]
)
def test_a_tenth_is_hidden_and_of_few_labels_up_to_a_third(labels: int, each: int) -> None:
    classes = torch.arange(3).repeat(labels)
    hidden = hidden_labels(classes)
    assert torch.bincount(classes[hidden], minlength=3).tolist() == [each] * 3
    assert len(set(hidden.tolist())) == len(hidden)


def test_one_class_of_two_labels_hides_none() -> None:
    assert not len(hidden_labels(torch.tensor([0] * 50 + [1] * 2)))


def test_hidden_pictures_leave_later_ones_alone() -> None:
    assert int(hidden_labels(torch.tensor([0, 1] * 10 + [0] * 40)).max()) < 20


# --- what is lost ---------------------------------------------------------------------------------


def test_soft_cross_entropy_is_the_sum_over_classes() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(5, 4, generator=generator)
    targets = torch.rand(5, 4, generator=generator).softmax(dim=1)
    for row in range(5):
        total = sum(math.exp(float(z)) for z in logits[row])
        wanted = -sum(
            float(t) * math.log(math.exp(float(z)) / total)
            for t, z in zip(targets[row], logits[row], strict=True)
        )
        assert float(soft_cross_entropy(logits, targets)[row]) == pytest.approx(wanted, rel=1e-5)


def test_a_mean_of_nothing_is_zero() -> None:
    values = torch.tensor([1.0, 2.0, 6.0])
    assert float(mean_where(values, torch.tensor([True, False, True]))) == 3.5
    assert float(mean_where(values, torch.zeros(3, dtype=torch.bool))) == 0.0


def test_sharpness_is_what_makes_the_labels_likeliest() -> None:
    logits = torch.tensor([[4.0, 0.0], [0.0, 4.0], [4.0, 0.0], [4.0, 0.0]])
    labels = torch.tensor([0, 1, 0, 1])  # three in four are right: p = 3/4 means logits of log 3
    assert fair_sharpness(logits, labels) == pytest.approx(math.log(3) / 4, rel=0.1)
    assert fair_sharpness(logits[:0], labels[:0]) == 1.0


def in_rounds(made: OpenPrompt) -> tuple[Rounds, Batch]:
    """The method at the first round's start, and a batch of it."""
    for index in (0, 1):
        made.enter(made.stages[index])
        made.eval()
        made.begin(made.stages[index], tiny.scan())
    return rounds(made), tiny.batch_of(made, ROUND)


def by_hand(logits: Tensor, target: int | list[float]) -> float:
    """A picture's cross-entropy, in plain numbers."""
    exps = [math.exp(float(z)) for z in logits]
    logs = [math.log(e / sum(exps)) for e in exps]
    if isinstance(target, int):
        return -logs[target]
    return -sum(t * log for t, log in zip(target, logs, strict=True))


def test_a_rounds_losses_picture_by_picture() -> None:
    learner, batch = in_rounds(method())
    learner.eval()  # statistics of their own would differ between the one pass and the other
    learner.encoder.eval()
    parts = learner.round_losses(batch)
    labelled = learner.head(learner._features(batch.labelled["strong"]))
    pool = learner.head(learner._features(batch.pool["strong"]))
    hidden = set(learner.hidden.tolist())
    shown, mixed, weights = [], [], []
    for place, index in enumerate(batch.labelled_index.tolist()):
        if index not in hidden:
            shown.append(by_hand(labelled[place], int(batch.labels[place])))
            continue
        row = learner.pool_count + learner.hidden.tolist().index(index)
        mixed.append(by_hand(labelled[place], learner.targets[row].tolist()))
        weights.append((len(batch.pool_index) / 31) / (len(batch.labels) / 12))
    assert weights, "the batch has a hidden picture"
    for place, index in enumerate(batch.pool_index.tolist()):
        mixed.append(by_hand(pool[place], learner.targets[index].tolist()))
        weights.append(1.0)
    assert float(parts["labelled_loss"]) == pytest.approx(sum(shown) / len(shown), rel=1e-4)
    wanted = sum(w * m for w, m in zip(weights, mixed, strict=True)) / sum(weights)
    assert float(parts["pool_loss"]) == pytest.approx(wanted, rel=1e-4)


def test_no_hidden_label_reaches_the_network() -> None:
    """Other labels of the hidden pictures give the same losses, in both stages."""
    made = method()
    learner, batch = in_rounds(made)
    learner.eval()
    learner.encoder.eval()
    place = learner.place[batch.labelled_index]
    other = torch.where(place >= 0, (batch.labels + 1) % tiny.CLASSES, batch.labels)
    assert (other != batch.labels).any()
    swapped = replace(batch, labels=other)
    for losses in (learner.known_losses, learner.round_losses):
        one, two = losses(batch), losses(swapped)
        assert all(torch.equal(one[name], two[name]) for name in one if name.endswith("_loss"))


def test_targets_are_probabilities_of_every_picture_of_the_pool_and_hidden() -> None:
    learner, _ = in_rounds(method())
    assert learner.targets.shape == (31 + len(learner.hidden), tiny.CLASSES + 1)
    torch.testing.assert_close(learner.targets.sum(dim=1), torch.ones(len(learner.targets)))
    assert (learner.targets >= 0).all()


# --- the rate, the statistics ---------------------------------------------------------------------


def test_the_rate_climbs_and_falls_over_both_stages_without_a_step() -> None:
    stages = rounds(method()).stages
    way = [
        stage.rate_factor(epoch, part / 10)
        for stage in stages
        for epoch in range(stage.epochs)
        for part in range(10)
    ]
    top = way.index(max(way))
    assert max(way) == pytest.approx(1.0, abs=0.05)
    assert way[:top] == sorted(way[:top])
    assert way[top:] == sorted(way[top:], reverse=True)
    assert way[-1] < 0.05
    assert max(abs(a - b) for a, b in itertools.pairwise(way)) < 0.2


def test_a_hill_of_one_stage_ends_at_zero() -> None:
    stage = Stage("one", "one", 4, (), hill=(0.0, 1.0, 0.25))
    assert stage.rate_factor(0) == pytest.approx(0.02)
    assert stage.rate_factor(1) == pytest.approx(1.0)
    assert stage.rate_factor(3, 1.0) == pytest.approx(0.0)


def test_mixed_batches_hold_pictures_of_both_sides_once() -> None:
    labelled, pool = tiny.labelled_pictures(), tiny.pool_pictures()
    scan = DataScan(labelled, pool, Accelerator(cpu=True), 16)
    every = torch.cat(list(scan.mixed_batches(1000)))
    assert len(every) == len(labelled) + len(pool)
    everything = torch.cat([labelled.data, pool.data])
    seen = {bytes(picture.numpy().tobytes()) for picture in every}
    assert seen == {bytes(picture.numpy().tobytes()) for picture in everything}
    assert len(torch.cat(list(scan.mixed_batches(10)))) == 10
    again = torch.cat(list(scan.mixed_batches(10)))
    assert torch.equal(again, torch.cat(list(scan.mixed_batches(10))))


# --- whole runs -----------------------------------------------------------------------------------


def test_what_is_frozen_in_the_end_is_the_average(tmp_path: Path) -> None:
    made = run(tmp_path / "run", method())
    learner = rounds(made)
    own, average = made.encoder.state_dict(), learner.average["encoder"].state_dict()
    assert all(torch.equal(own[name], average[name]) for name in own)
    assert made.fitted_head is not None
    begun = journal(tmp_path / "run", "begin")
    assert [line["stage"] for line in begun] == [KNOWN, ROUND, "labelled", "pool"]
    ends = [line for line in journal(tmp_path / "run", "epoch") if line["stage"] == ROUND]
    assert ["outlier_share" in line for line in ends] == [True, False]  # nobody needs the last


@pytest.mark.parametrize("stop_after", [1, 2, 3])
def test_resumed_it_is_the_same_to_the_last_bit(tmp_path: Path, stop_after: int) -> None:
    whole = run(tmp_path / "whole", method())
    with pytest.raises(InterruptedRunError):
        run(tmp_path / "parts", method(), stop_after=stop_after)
    resumed = run(tmp_path / "parts", method(), resume=True)
    assert same(whole, resumed)
    assert journal(tmp_path / "whole") == journal(tmp_path / "parts")


def test_it_learns(tmp_path: Path) -> None:
    schedule = replace(SCHEDULE, labelled_epochs=4, labelled_steps=20, round_steps=20)
    made = run(tmp_path / "run", tiny.method(RECIPES["default"], schedule))
    said = made.predict(tiny.pool_pictures().data)
    known = said.logits[:20].argmax(dim=1)
    assert float((known == torch.tensor([0, 1, 2, 0, 1] * 4)).float().mean()) > 0.9
    assert float(said.outlier_score[20:].median()) > float(said.outlier_score[:20].median())
