"""IOMatch's losses and score against loops in plain Python, and their limits."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ossl.methods.iomatch import (
    aligned,
    inlier_loss,
    open_set_loss,
    open_set_score,
    open_set_targets,
)
from tests.reference import iomatch as slow

SEEDS = st.integers(0, 10_000)


def drawn(seed: int, *shape: int) -> torch.Tensor:
    return 3 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@given(SEEDS, st.integers(1, 8), st.integers(2, 5), st.sampled_from([0.0, 0.4, 0.8]))
@settings(max_examples=50, deadline=None)
def test_losses_are_the_loops(seed: int, count: int, classes: int, threshold: float) -> None:
    closed = drawn(seed, count, classes).softmax(1)
    inlier = drawn(seed + 1, count, classes).sigmoid()
    strong, strong_open = drawn(seed + 2, count, classes), drawn(seed + 3, count, classes + 1)
    targets = open_set_targets(closed, inlier)
    for row, p, o in zip(targets.tolist(), closed.tolist(), inlier.tolist(), strict=True):
        assert row == pytest.approx(slow.open_set_targets(p, o), abs=1e-6)
        assert sum(row) == pytest.approx(1, abs=1e-5)
    found = float(inlier_loss(strong, closed, inlier, threshold))
    expected = slow.inlier_loss(strong.tolist(), closed.tolist(), inlier.tolist(), threshold)
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-6)
    found = float(open_set_loss(strong_open, targets, threshold))
    expected = slow.open_set_loss(strong_open.tolist(), targets.tolist(), threshold)
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-6)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    again = float(open_set_loss(strong_open[order], targets[order], threshold))
    assert again == pytest.approx(found, rel=1e-5, abs=1e-7)


def test_nothing_selected_is_no_loss() -> None:
    closed = torch.full((4, 3), 1 / 3)
    logits = drawn(0, 4, 3).requires_grad_()
    nothing = inlier_loss(logits, closed, torch.full((4, 3), 0.9), 0.95)  # unsure
    outlying = inlier_loss(logits, torch.eye(4, 3), torch.full((4, 3), 0.1), 0.95)
    assert float(nothing.detach()) == 0 and float(outlying.detach()) == 0
    (nothing + outlying).backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None and not logits.grad.any()


@given(SEEDS, st.integers(1, 4), st.integers(2, 5))
@settings(max_examples=40, deadline=None)
def test_alignment_is_the_loop(seed: int, steps: int, classes: int) -> None:
    closed, recent = drawn(seed, 3, classes).softmax(1), drawn(seed + 1, steps, classes).softmax(1)
    moved = aligned(closed, recent)
    for row, p in zip(moved.tolist(), closed.tolist(), strict=True):
        assert row == pytest.approx(slow.aligned(p, recent.tolist()), rel=1e-4)
    even = torch.full((steps, classes), 1 / classes)
    assert torch.allclose(aligned(closed, even), closed, atol=1e-6)  # nothing to move


@given(SEEDS, st.integers(2, 5))
@settings(max_examples=40, deadline=None)
def test_the_score_is_above_a_half_where_the_head_says_outlier(seed: int, classes: int) -> None:
    logits = drawn(seed, 6, classes + 1)
    score = open_set_score(logits)
    assert score.tolist() == pytest.approx(
        [slow.open_set_score(z) for z in logits.tolist()], rel=1e-4
    )
    assert torch.equal(score > 0.5, logits.argmax(1) == classes)


def test_a_surer_outlier_scores_higher() -> None:
    logits = torch.zeros(3, 4)
    logits[:, -1] = torch.tensor([-40.0, 0.0, 40.0])
    score = open_set_score(logits)
    assert score[0] < score[1] == 0.5 < score[2]
