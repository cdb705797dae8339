"""MTC's losses, targets and threshold against loops in plain Python, and their limits."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ossl.methods.mtc import (
    SoftTargets,
    leaving_statistics,
    mixed,
    mixed_labelled_loss,
    mixed_pool_loss,
    otsu_threshold,
    outlier_loss,
    sharpen,
)
from tests.methods import tiny
from tests.reference import mtc as slow

SEEDS = st.integers(0, 10_000)


def drawn(seed: int, *shape: int) -> torch.Tensor:
    return 3 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@given(SEEDS, st.integers(1, 7), st.integers(2, 5), st.sampled_from([0.25, 0.5, 1.0]))
@settings(max_examples=40, deadline=None)
def test_mixmatch_is_the_loops(seed: int, count: int, classes: int, temperature: float) -> None:
    logits, targets = drawn(seed, count, classes), drawn(seed + 1, count, classes).softmax(1)
    assert float(mixed_labelled_loss(logits, targets)) == pytest.approx(
        slow.mixed_labelled_loss(logits.tolist(), targets.tolist()), rel=1e-4
    )
    assert float(mixed_pool_loss(logits, targets)) == pytest.approx(
        slow.mixed_pool_loss(logits.tolist(), targets.tolist()), rel=1e-4, abs=1e-7
    )
    sharp = sharpen(targets, temperature)
    for row, p in zip(sharp.tolist(), targets.tolist(), strict=True):
        assert row == pytest.approx(slow.sharpen(p, temperature), rel=1e-4, abs=1e-6)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    for row, expected in zip(
        mixed(targets, order, 0.7).tolist(),
        slow.mixed(targets.tolist(), order.tolist(), 0.7),
        strict=True,
    ):
        assert row == pytest.approx(expected, rel=1e-5)
    # the order of the batch does not matter
    assert float(mixed_labelled_loss(logits[order], targets[order])) == pytest.approx(
        float(mixed_labelled_loss(logits, targets)), rel=1e-5
    )
    assert float(mixed_pool_loss(logits[order], targets[order])) == pytest.approx(
        float(mixed_pool_loss(logits, targets)), rel=1e-5
    )


def test_sharpening_has_its_limits() -> None:
    p = torch.tensor([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0], [1e-30, 1.0, 1e-38]])
    assert torch.allclose(sharpen(p, 1.0), p)
    assert torch.allclose(sharpen(p, 1e-3), torch.tensor([[1.0, 0, 0], [1, 0, 0], [0, 1, 0]]))


def test_a_mixture_with_nothing_is_the_picture() -> None:
    x = drawn(0, 4, 3, 2, 2)
    order = torch.tensor([2, 0, 3, 1])
    assert torch.equal(mixed(x, order, 1.0), x)
    assert torch.equal(mixed(x, order, 0.0), x[order])


@given(SEEDS, st.integers(1, 5), st.integers(1, 6), st.floats(0, 1))
@settings(max_examples=40, deadline=None)
def test_the_outlier_loss_is_the_loop(seed: int, known: int, pool: int, share: float) -> None:
    a, b, targets = drawn(seed, known), drawn(seed + 1, pool), drawn(seed + 2, pool).sigmoid()
    found = float(outlier_loss(a, b, targets, share))
    expected = slow.outlier_loss(a.tolist(), b.tolist(), targets.tolist(), share)
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-6)


@given(st.lists(st.floats(0, 1, width=32), min_size=2, max_size=60))
@settings(max_examples=100, deadline=None)
def test_otsu_splits_with_the_most_variance(values: list[float]) -> None:
    scores = torch.tensor(values)
    limit = float(otsu_threshold(scores))
    numbers = scores.double().tolist()
    low, high = min(numbers), max(numbers)
    assert low <= limit <= high
    below = int((scores.double() <= limit).sum())
    if low == high:
        assert below == len(values)  # nothing to split: all are known
    else:
        assert below > 0
        width = (high - low) / 256
        found = slow.between_variance(numbers, limit, low, width)
        best = slow.otsu_variance(numbers)
        assert found == pytest.approx(best, rel=0.02, abs=1e-12) or limit == high


def test_otsu_finds_two_heaps() -> None:
    generator = torch.Generator().manual_seed(0)
    heaps = torch.cat(
        [
            0.2 + 0.03 * torch.randn(300, generator=generator),
            0.8 + 0.03 * torch.randn(100, generator=generator),
        ]
    )
    limit = float(otsu_threshold(heaps))
    assert limit == pytest.approx(float(heaps[:300].max() + heaps[300:].min()) / 2, abs=0.01)
    shuffled = heaps[torch.randperm(400, generator=generator)]
    assert float(otsu_threshold(shuffled)) == limit
    assert 1 - float(otsu_threshold(1 - heaps)) == pytest.approx(limit, abs=0.01)
    assert float(otsu_threshold(torch.tensor([0.4]))) == pytest.approx(0.4)


@given(
    st.lists(st.dictionaries(st.integers(0, 4), st.floats(0, 1, width=32)), max_size=7),
    st.integers(1, 3),
)
@settings(max_examples=60, deadline=None)
def test_targets_are_the_mean_of_the_last_epochs(
    epochs: list[dict[int, float]], window: int
) -> None:
    scores = SoftTargets.start(5, window, 1.0, torch.device("cpu"))
    for epoch in epochs:
        for index, output in epoch.items():
            scores.note(torch.tensor([index]), torch.tensor([output]))
        scores.turn()
    assert scores.targets.tolist() == pytest.approx(slow.soft_targets(epochs, 5, window), abs=1e-6)


def test_the_choice_is_of_pictures_of_which_something_was_said() -> None:
    scores = SoftTargets.start(6, 1, 1.0, torch.device("cpu"))
    everything, limit = scores.choose()
    assert everything.tolist() == list(range(6))  # nothing is said of any yet
    assert limit == 1
    scores.note(torch.tensor([4, 1, 2, 5]), torch.tensor([0.1, 0.9, 0.2, 0.8]))
    scores.turn()
    chosen, limit = scores.choose()
    assert chosen.tolist() == [2, 4]
    assert 0.2 < limit < 0.8


def test_statistics_stay_where_they_are_to() -> None:
    net = tiny.convolutional()
    pictures = torch.rand(6, 3, tiny.SIZE, tiny.SIZE)
    before = {name: value.clone() for name, value in net.named_buffers() if "running" in name}
    with leaving_statistics(net):
        inside = net(pictures)
    now = dict(net.named_buffers())
    assert before and all(torch.equal(value, now[name]) for name, value in before.items())
    assert torch.equal(inside, net(pictures))  # normalised by the batch, as outside
    assert not all(torch.equal(value, now[name]) for name, value in before.items())
