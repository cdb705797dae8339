"""The default recipe's detector: the evidence's joint space behind the detectors' interface."""

from __future__ import annotations

import pytest
import torch

from ossl.config import RecipeConfig
from ossl.errors import InputError
from ossl.jointspace.stacking import fit_stacked_space
from ossl.methods.evidence_detector import EvidenceDetector
from tests.jointspace.clusters import clusters

MADE = clusters(3, 8, 90, 0.3, seed=0, size=6)


def fitted(recipe: RecipeConfig | None = None) -> EvidenceDetector:
    detector = EvidenceDetector(recipe or RecipeConfig(), seed=0)
    detector.initialise(MADE.labelled, MADE.pool, MADE.labels)
    return detector


def test_it_is_the_joint_space() -> None:
    detector = EvidenceDetector(RecipeConfig(), seed=0)
    values = detector.initialise(MADE.labelled, MADE.pool, MADE.labels)
    space = fit_stacked_space(MADE.labelled, MADE.labels, MADE.pool)
    assert torch.equal(detector.score(MADE.pool), space.outlier_score(MADE.pool))
    assert (detector.share, detector.limit) == (space.share, space.threshold())
    assert values["outlier_share"] == space.share
    assert (values["outlier_share_low"], values["outlier_share_high"]) == space.interval
    assert detector.update(MADE.labelled, MADE.pool) == {}
    assert set(detector.simple_scores(MADE.pool)) >= {"knn", "pool_direction"}


def test_a_saved_detector_scores_the_same() -> None:
    detector, other = fitted(), EvidenceDetector(RecipeConfig(), seed=1)
    kept = {name: tensor.clone() for name, tensor in detector.tensors().items()}
    other.load_tensors(kept)
    assert torch.equal(other.score(MADE.pool), detector.score(MADE.pool))
    assert (other.limit, other.share) == (detector.limit, detector.share)
    ours, theirs = other.simple_scores(MADE.pool), detector.simple_scores(MADE.pool)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    older = EvidenceDetector(RecipeConfig(), seed=0)
    older.load_tensors({n: t for n, t in kept.items() if not n.startswith("simple.")})
    assert older.simple_scores(MADE.pool) == {}
    assert torch.equal(older.score(MADE.pool), detector.score(MADE.pool))


def test_views_apart_cost_their_distance_and_teach_the_student_alone() -> None:
    detector = fitted()
    student = MADE.pool.clone().requires_grad_()
    teacher = (MADE.pool + torch.ones(6)).requires_grad_()
    loss = detector.consistency(student, teacher)
    # The six principal directions of six dimensions keep every distance.
    assert loss.item() == pytest.approx(6**0.5, rel=1e-4)
    torch.autograd.backward(loss)
    assert student.grad is not None
    assert student.grad.isfinite().all()
    assert teacher.grad is None


def test_before_the_fit_it_says_what_is_missing() -> None:
    detector = EvidenceDetector(RecipeConfig(), seed=0)
    with pytest.raises(RuntimeError, match="not fitted yet"):
        detector.score(MADE.pool)
    with pytest.raises(RuntimeError, match="not fitted yet"):
        detector.consistency(MADE.pool, MADE.pool)
    assert detector.simple_scores(MADE.pool) == {}
    detector.load_tensors({})
    assert detector.space is None


def test_labelled_pictures_without_spread_are_refused() -> None:
    detector = EvidenceDetector(RecipeConfig(), seed=0)
    with pytest.raises(InputError, match="same or no finite feature"):
        detector.initialise(torch.ones(6, 3), MADE.pool[:, :3], torch.arange(6) % 2)
