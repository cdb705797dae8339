"""The linear classifier in closed form: its equations, its shrinkage, and hardly any labels."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ossl.jointspace.linear_head import SHRINKAGES, fit_linear_head


def drawn(each: int = 20, classes: int = 3, width: int = 5, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(classes).repeat(each)
    centres = torch.randn(classes, width, generator=generator) * 2
    return centres[labels] + torch.randn(len(labels), width, generator=generator), labels


def slow(features: Tensor, labels: Tensor, shrinkage: float) -> tuple[Tensor, Tensor]:
    """Discriminant analysis by the inverse of the whole covariance."""
    x = features.double()
    classes, width = int(labels.max()) + 1, x.shape[1]
    means = torch.stack([x[labels == k].mean(0) for k in range(classes)])
    covariance = torch.zeros(width, width, dtype=torch.float64)
    for row, label in zip(x, labels.tolist(), strict=True):
        away = row - means[label]
        covariance += torch.outer(away, away) / len(x)
    floor = shrinkage * covariance.trace() / width
    inverse = torch.linalg.inv((1 - shrinkage) * covariance + floor * torch.eye(width))
    mean = means.mean(0)
    weight = torch.stack([inverse @ (m - mean) for m in means])
    bias = torch.stack([-0.5 * w @ (m + mean) for w, m in zip(weight, means, strict=True)])
    return weight.float(), bias.float()


@pytest.mark.parametrize("width", [5, 90])  # fewer and more directions than pictures
def test_it_is_discriminant_analysis(width: int) -> None:
    features, labels = drawn(width=width)
    head = fit_linear_head(features, labels, 3)
    weight, bias = slow(features, labels, head.shrinkage)
    torch.testing.assert_close(head.weight, weight, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(head.bias, bias, rtol=1e-3, atol=1e-4)


def test_the_shrinkage_is_the_best_on_held_out_pictures() -> None:
    features, labels = drawn(each=5, width=40)
    head = fit_linear_head(features, labels, 3)
    assert head.shrinkage in SHRINKAGES
    assert head.held_out_accuracy is not None
    folds = torch.arange(len(labels)) // 3 % 5
    hits = []
    for shrinkage in SHRINKAGES:
        right = 0
        for fold in range(5):
            out = folds == fold
            weight, bias = slow(features[~out], labels[~out], shrinkage)
            right += int(((features[out] @ weight.T + bias).argmax(1) == labels[out]).sum())
        hits.append(right / len(labels))
    assert head.held_out_accuracy == pytest.approx(max(hits))
    assert head.shrinkage == SHRINKAGES[hits.index(max(hits))]


def test_a_given_shrinkage_is_taken() -> None:
    features, labels = drawn()
    head = fit_linear_head(features, labels, 3, shrinkage=0.9)
    assert (head.shrinkage, head.held_out_accuracy) == (0.9, None)
    torch.testing.assert_close(head.weight, slow(features, labels, 0.9)[0], rtol=1e-3, atol=1e-4)


def test_one_picture_a_class_is_enough() -> None:
    features, labels = drawn(each=1)
    head = fit_linear_head(features, labels, 3)
    assert head.held_out_accuracy is None
    assert torch.equal((features @ head.weight.T + head.bias).argmax(1), labels)
