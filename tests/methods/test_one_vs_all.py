"""FixMatch's and OpenMatch's losses against formulas in plain loops."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ossl.methods.fixmatch import pseudo_label_loss
from ossl.methods.one_vs_all import (
    inlier_probability,
    one_vs_all_loss,
    one_vs_all_score,
    open_entropy,
    soft_consistency,
)
from tests.reference import baselines as slow


def drawn(*shape: int, seed: int = 0, scale: float = 3.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float32) * scale


SIZES = [(1, 2), (5, 3), (16, 6), (7, 55)]


@pytest.mark.parametrize(("count", "classes"), SIZES)
def test_one_vs_all_loss(count: int, classes: int) -> None:
    logits = drawn(count, 2, classes)
    labels = torch.arange(count) % classes
    found = one_vs_all_loss(logits, labels)
    assert float(found) == pytest.approx(slow.one_vs_all(logits.tolist(), labels.tolist()), 1e-5)


@pytest.mark.parametrize(("count", "classes"), SIZES)
def test_entropy_and_consistency(count: int, classes: int) -> None:
    first, second = drawn(count, 2, classes), drawn(count, 2, classes, seed=1)
    assert float(open_entropy(first)) == pytest.approx(slow.entropy(first.tolist()), 1e-5)
    wanted = slow.consistency(first.tolist(), second.tolist())
    assert float(soft_consistency(first, second)) == pytest.approx(wanted, 1e-5)
    assert float(soft_consistency(first, first)) == 0


@pytest.mark.parametrize(("count", "classes"), SIZES)
def test_score_is_of_the_most_likely_class(count: int, classes: int) -> None:
    logits, known = drawn(count, 2, classes), drawn(count, classes, seed=2)
    found = one_vs_all_score(logits, known)
    torch.testing.assert_close(found, torch.tensor(slow.score(logits.tolist(), known.tolist())))
    best = known.argmax(dim=1)
    own = inlier_probability(logits)[torch.arange(count), best]
    torch.testing.assert_close(1 - own, found)


def test_scores_stay_apart_where_the_inlier_is_sure() -> None:
    logits = torch.tensor([[[0.0], [20.0]], [[0.0], [30.0]]])
    first, second = one_vs_all_score(logits, torch.zeros(2, 1)).tolist()
    assert first > second > 0


@pytest.mark.parametrize("threshold", [0.0, 0.6, 0.95, 1.0])
def test_pseudo_label_loss(threshold: float) -> None:
    weak, strong = drawn(40, 4, scale=2.0), drawn(40, 4, seed=1)
    loss, used = pseudo_label_loss(weak, strong, threshold)
    wanted, share = slow.pseudo_label(weak.tolist(), strong.tolist(), threshold)
    assert float(loss) == pytest.approx(wanted, 1e-5)
    assert float(used) == pytest.approx(share)


def test_pseudo_labels_pass_no_gradient() -> None:
    weak, strong = drawn(8, 3).requires_grad_(), drawn(8, 3, seed=1).requires_grad_()
    pseudo_label_loss(weak, strong, 0.0)[0].backward()  # type: ignore[no-untyped-call]
    assert weak.grad is None
    assert strong.grad is not None


def test_large_logits_stay_finite() -> None:
    logits = drawn(6, 2, 4, scale=1e4).requires_grad_()
    loss = one_vs_all_loss(logits, torch.arange(6) % 4) + open_entropy(logits)
    loss.backward()  # type: ignore[no-untyped-call]
    assert torch.isfinite(loss)
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
