"""The two detectors on features given outright: rows 5 to 10 and 17."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from ossl.config import RecipeConfig
from ossl.errors import InputError
from ossl.methods.detectors import CircleDetector, DiscriminatorDetector
from tests.reference import jointspace as slow


def features(seed: int = 0, outliers: int = 12) -> tuple[Tensor, Tensor]:
    """Labelled features around one direction, and a pool with a second one in it."""
    generator = torch.Generator().manual_seed(seed)

    def around(centre: list[float], count: int) -> Tensor:
        return torch.tensor(centre) + 0.25 * torch.randn(count, 4, generator=generator)

    known = [3.0, 1.0, 0.0, 0.5]
    labelled = around(known, 9)
    pool = torch.cat([around(known, 20), around([-1.0, 2.0, 2.0, 0.0], outliers)])
    return labelled, pool


def circle(**changes: Any) -> CircleDetector:
    return CircleDetector(replace(RecipeConfig(), **changes))


@pytest.mark.parametrize("space", ["unit", "raw", "scaled"])
@pytest.mark.parametrize("rounds", [1, 3])
def test_the_start_is_the_papers_by_hand(space: str, rounds: int) -> None:
    labelled, pool = features()
    detector = circle(space=space, centre_rounds=rounds, circle_limit=0.7)
    values = detector.initialise(labelled, pool, torch.zeros(0))
    assert detector.centres is not None

    # 1. one cluster of the labelled, 2. its tangents, 3. the one that finds most, 4. two centres
    reach = slow.radius(labelled.tolist(), slow.mean(labelled.tolist()))

    def place(f: list[float]) -> list[float]:
        if space == "unit":
            return slow.unit(f)
        return [x / reach for x in f] if space == "scaled" else f

    near, far = [place(f) for f in labelled.tolist()], [place(f) for f in pool.tolist()]
    k_ic = slow.mean(near)
    r = slow.radius(near, k_ic)
    directions = slow.tangent_directions(near, k_ic, 5)

    def by_tangent(fs: list[list[float]]) -> list[list[float]]:
        return [[slow.tangent_value(f, u, k_ic, r) for u in directions] for f in fs]

    found = slow.outliers_by_tangent(by_tangent(far), by_tangent(near), 0.1)
    best, rate = slow.choose_candidate(found)
    k_oc = slow.mean([f for f, row in zip(far, found, strict=True) if row[best]])
    # 5. the circle between them, and both centres after each detection
    for _ in range(rounds):
        mask = [slow.apollonius_ratio(f, k_ic, k_oc) > 0.7 for f in far]
        k_ic, k_oc = slow.update_centres(k_ic, k_oc, near, far, mask)
    torch.testing.assert_close(detector.centres.known, torch.tensor(k_ic), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(detector.centres.outlier, torch.tensor(k_oc), rtol=1e-4, atol=1e-5)
    assert values["tangent"] == best
    assert values["tangent_outlier_rate"] == pytest.approx(rate)
    assert values["radius"] == pytest.approx(r, rel=1e-4)
    ratios = [slow.apollonius_ratio(f, k_ic, k_oc) for f in far]
    torch.testing.assert_close(detector.score(pool), torch.tensor(ratios), rtol=1e-3, atol=1e-4)
    assert detector.share == pytest.approx(sum(x > 0.7 for x in ratios) / len(ratios))
    assert "note" not in values


def test_without_an_outlier_its_centre_is_the_tangent_point_and_the_log_says_so() -> None:
    labelled, pool = features()
    detector = circle(tangent_tolerance=10.0, circle_limit=100.0)
    values = detector.initialise(labelled, pool[:20], torch.zeros(0))
    assert values["tangent_outlier_rate"] == 0
    assert values["note"] == "no outlier was detected: the outlier centre stays"
    assert detector.centres is not None
    points = torch.nn.functional.normalize(labelled)
    away = (detector.centres.outlier - points.mean(dim=0)).norm()
    assert float(away) == pytest.approx(float(values["radius"]), rel=1e-4)
    assert detector.share == 0


def test_an_empty_side_keeps_its_centre_and_the_log_says_so() -> None:
    labelled, pool = features()
    detector = circle()
    detector.initialise(labelled, pool, torch.zeros(0))
    before = detector.centres
    assert before is not None
    detector.limit = 1e9
    values = detector.update(labelled, pool)
    assert detector.centres is not None
    assert torch.equal(detector.centres.outlier, before.outlier)
    assert not torch.equal(detector.centres.known, before.known)
    assert values["note"] == "no outlier was detected: the outlier centre stays"


def test_lambda_from_the_pool_finds_the_outliers_by_itself() -> None:
    labelled, pool = features(outliers=20)
    detector = circle(space="whitened_unit", threshold="mixture", centre_rounds=3)
    detector.initialise(labelled, pool, torch.zeros(0))
    assert detector.detect(pool).tolist() == [False] * 20 + [True] * 20
    assert detector.share == pytest.approx(0.5, abs=0.05)
    assert not detector.detect(labelled).any()


@pytest.mark.parametrize("bad", [0.0, math.nan])
def test_features_without_any_spread_are_refused(bad: float) -> None:
    with pytest.raises(InputError, match="same or no finite feature"):
        circle().initialise(torch.full((4, 3), bad), torch.randn(5, 3), torch.zeros(0))


def test_what_is_kept_scores_the_same() -> None:
    labelled, pool = features()
    for settings in ({}, {"space": "whitened_unit", "threshold": "mixture"}):
        detector, other = circle(**settings), circle(**settings)
        other.load_tensors(detector.tensors())  # nothing to keep yet
        assert other.share is None
        detector.initialise(labelled, pool, torch.zeros(0))
        other.load_tensors(detector.tensors())
        assert torch.equal(other.score(pool), detector.score(pool))
        assert (other.limit, other.share) == (detector.limit, detector.share)
    with pytest.raises(RuntimeError, match="not fitted yet"):
        circle().score(pool)


# --- the ablation without a joint space, row 17 -----------------------------------------------


def discriminator(width: int = 4) -> DiscriminatorDetector:
    return DiscriminatorDetector(width, seed=0)


def test_the_discriminator_has_two_layers_and_draws_from_its_seed() -> None:
    torch.manual_seed(5)
    state = torch.random.get_rng_state()
    one, two = discriminator(), discriminator()
    assert torch.equal(state, torch.random.get_rng_state())
    assert [tuple(p.shape) for p in one.parameters()] == [(128, 4), (128,), (1, 128), (1,)]
    for mine, yours in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.equal(mine, yours)


def test_the_discriminators_loss_is_the_loop() -> None:
    labelled, pool = features()
    detector = discriminator()
    labelled.requires_grad_()

    def expected(targets: list[float]) -> float:
        logits = detector.net(torch.cat([labelled, pool])).squeeze(1).tolist()
        total = 0.0
        for logit, target in zip(logits, targets, strict=True):
            p = 1 / (1 + math.exp(-logit))
            total -= target * math.log(p) + (1 - target) * math.log(1 - p)
        return total / len(targets)

    first = detector.detector_loss(labelled, pool)
    assert first is not None
    assert float(first.detach()) == pytest.approx(expected([0.0] * 9 + [1.0] * 32), rel=1e-4)
    detector.update(labelled, pool)
    said = detector.detect(pool).float().tolist()
    second = detector.detector_loss(labelled, pool)
    assert second is not None
    assert float(second.detach()) == pytest.approx(expected([0.0] * 9 + said), rel=1e-4)
    torch.autograd.backward(second)
    assert labelled.grad is None  # it learns on the features; they do not learn from it
    assert all(p.grad is not None for p in detector.parameters())


def test_the_discriminator_learns_to_tell_them_apart() -> None:
    labelled, pool = features(outliers=30)
    detector = discriminator()
    optimiser = torch.optim.SGD(detector.parameters(), lr=0.3)
    for step in range(200):
        if step == 40:
            detector.update(labelled, pool)
        loss = detector.detector_loss(labelled, pool)
        assert loss is not None
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
    values = detector.update(labelled, pool)
    assert bool(detector.detect(pool)[20:].all())
    assert detector.share == values["detected_outlier_share"]
    other = discriminator()
    other.load_state_dict(detector.state_dict())
    other.load_tensors(detector.tensors())
    assert torch.equal(other.score(pool), detector.score(pool))
    assert (other.passes, other.share) == (2, detector.share)


def test_the_discriminators_consistency_is_the_difference_of_its_answers() -> None:
    labelled, pool = features()
    detector = discriminator()
    student, teacher = labelled, pool[:9].requires_grad_()
    loss = detector.consistency(student, teacher)
    pairs = zip(detector.score(student).tolist(), detector.score(teacher).tolist(), strict=True)
    assert float(loss.detach()) == pytest.approx(sum(abs(a - b) for a, b in pairs) / 9, rel=1e-4)
    torch.autograd.backward(loss)
    assert teacher.grad is None
