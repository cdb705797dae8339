"""The distance to the nearest class, where there is no pool."""

from __future__ import annotations

import torch

from ossl.jointspace.class_distance import BEYOND, fit_class_distance
from tests.jointspace.drawn import close, normal


def two_classes() -> tuple[torch.Tensor, torch.Tensor]:
    """Twenty features of each of two classes far apart, wider one way than the other."""
    labels = torch.arange(40) % 2
    wide = normal(40, 2, seed=0) * torch.tensor([5.0, 0.5])
    return wide + 100.0 * labels[:, None], labels


def test_distances_are_the_loop() -> None:
    features, labels = two_classes()
    space = fit_class_distance(features, labels)
    placed = (features - features.mean(0)) @ space.transform
    centres = [placed[labels == k].mean(0) for k in (0, 1)]
    by_hand = [min(float((p - c).norm()) for c in centres) for p in placed]
    close(space.outlier_score(features), by_hand, 1e-3)
    assert torch.equal(space.known_scores, space.outlier_score(features).sort().values)


def test_a_step_counts_by_how_far_classes_reach_that_way() -> None:
    features, labels = two_classes()
    space = fit_class_distance(features.double(), labels)
    middle = features[labels == 0].mean(0).double()
    along, across = middle + torch.tensor([4.0, 0.0]), middle + torch.tensor([0.0, 4.0])
    assert space.outlier_score(across[None]) > 3 * space.outlier_score(along[None])


def test_the_boundary() -> None:
    features, labels = two_classes()
    space = fit_class_distance(features, labels)
    scores = space.outlier_score(features)
    assert space.threshold() == BEYOND * float(scores.max())
    assert space.threshold(share=0.5) == space.threshold()  # of no pool there is no half
    assert int((scores > space.threshold(max_false_rejects=0.1)).sum()) == 4
    assert not (scores > space.threshold(max_false_rejects=0.0)).any()
    assert space.share == 0.0
