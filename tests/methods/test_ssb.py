"""SSB's losses against loops in plain Python, and their limits."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ossl.methods.ssb import Detectors, detector_loss, pseudo_negative_loss
from tests.reference import ssb as slow

SEEDS = st.integers(0, 10_000)


def drawn(seed: int, *shape: int) -> torch.Tensor:
    return 2 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@given(SEEDS, st.integers(1, 6), st.integers(2, 5))
@settings(max_examples=50, deadline=None)
def test_the_detector_loss_is_the_loop(seed: int, count: int, classes: int) -> None:
    weak, strong = drawn(seed, count, 2, classes), drawn(seed + 1, count, 2, classes)
    labels = torch.arange(count) % classes
    found = float(detector_loss(weak, strong, labels))
    expected = slow.detector_loss(weak.tolist(), strong.tolist(), labels.tolist())
    assert found == pytest.approx(expected, rel=1e-4)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    again = float(detector_loss(weak[order], strong[order], labels[order]))
    assert again == pytest.approx(found, rel=1e-5)


@given(SEEDS, st.integers(1, 6), st.integers(2, 5), st.sampled_from([0.0, 0.1, 0.5, 1.0]))
@settings(max_examples=50, deadline=None)
def test_mining_is_the_loop(seed: int, count: int, classes: int, threshold: float) -> None:
    weak, strong = drawn(seed, count, 2, classes), drawn(seed + 1, count, 2, classes)
    found = float(pseudo_negative_loss(weak, strong, threshold))
    expected = slow.pseudo_negative_loss(weak.tolist(), strong.tolist(), threshold)
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-7)


def test_mining_teaches_the_strong_view_alone() -> None:
    weak, strong = drawn(0, 4, 2, 3).requires_grad_(), drawn(1, 4, 2, 3).requires_grad_()
    pseudo_negative_loss(weak, strong, 0.5).backward()  # type: ignore[no-untyped-call]
    assert weak.grad is None and strong.grad is not None and strong.grad.any()


def test_nothing_mined_is_no_loss() -> None:
    sure_of_all = torch.zeros(4, 2, 3)
    sure_of_all[:, 1] = 30.0
    assert float(pseudo_negative_loss(sure_of_all, drawn(0, 4, 2, 3), 0.01)) == 0


def test_right_answers_leave_no_detector_loss() -> None:
    labels = torch.tensor([0, 2])
    logits = torch.zeros(2, 2, 3)
    logits[:, 0] = 60.0
    for row, label in enumerate(labels.tolist()):
        logits[row, :, label] = torch.tensor([0.0, 60.0])
    assert float(detector_loss(logits, logits, labels)) == pytest.approx(0, abs=1e-6)
    assert float(detector_loss(-logits, -logits, labels)) > 60


def test_detectors_give_two_logits_a_class() -> None:
    made = Detectors((5, 7, 8), seed=3)
    assert made(torch.randn(6, 5)).shape == (6, 2, 4)
    same = Detectors((5, 7, 8), seed=3)
    assert all(torch.equal(a, b) for a, b in zip(made.parameters(), same.parameters(), strict=True))
