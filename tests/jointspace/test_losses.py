"""Rows 12 and 13, and the gap: value, gradient, and what must not learn."""

from __future__ import annotations

import math
from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ossl.jointspace import Centres, ConsistencyForm, consistency, gap, prompt_contrast
from tests.jointspace.drawn import (
    close,
    dimensions,
    examples,
    normal,
    rotation,
    scales,
    seeds,
    shuffled,
    sizes,
)
from tests.reference import jointspace as slow

forms = st.sampled_from(get_args(ConsistencyForm))


@examples
@given(seeds, sizes, dimensions, forms)
def test_consistency_is_the_loop(seed: int, n: int, size: int, form: ConsistencyForm) -> None:
    student, teacher = normal(n, size, seed=seed), normal(n, size, seed=seed + 1)
    centres = Centres(*normal(2, size, seed=seed + 2))
    expected = slow.consistency(
        student.tolist(), teacher.tolist(), centres.known.tolist(), centres.outlier.tolist(), form
    )
    close(consistency(student, teacher, centres, form), expected)


@examples
@given(seeds, sizes, dimensions, forms, scales)
def test_consistency_under_rotation_scale_and_order(
    seed: int, n: int, size: int, form: ConsistencyForm, scale: float
) -> None:
    student, teacher = normal(n, size, seed=seed), normal(n, size, seed=seed + 1)
    known, outlier = normal(2, size, seed=seed + 2)
    turn, order = scale * rotation(size, seed), shuffled(n, seed)
    moved = consistency(
        student[order] @ turn, teacher[order] @ turn, Centres(known @ turn, outlier @ turn), form
    )
    close(moved / scale, consistency(student, teacher, Centres(known, outlier), form), 1e-7)
    assert consistency(student, student, Centres(known, outlier), form) == 0


@pytest.mark.parametrize("form", get_args(ConsistencyForm))
def test_consistency_moves_the_student_alone_and_is_safe_at_a_centre(
    form: ConsistencyForm,
) -> None:
    known, outlier = torch.zeros(3, requires_grad=True), torch.ones(3, requires_grad=True)
    student = torch.stack([torch.zeros(3), torch.ones(3), torch.full((3,), 2.0)]).requires_grad_()
    teacher = torch.randn(3, 3, requires_grad=True)
    torch.autograd.backward(consistency(student, teacher, Centres(known, outlier), form))
    assert student.grad is not None
    assert torch.isfinite(student.grad).all()
    assert student.grad.abs().sum() > 0
    assert known.grad is None
    assert outlier.grad is None
    assert teacher.grad is None


def test_an_empty_batch_is_a_zero_with_a_graph() -> None:
    student = torch.empty(0, 3, requires_grad=True)
    centres = Centres(torch.zeros(3), torch.ones(3))
    nobody = torch.empty(0, dtype=torch.bool)
    for loss in (
        consistency(student, torch.empty(0, 3), centres, "signed"),
        gap(student, centres, 0.5, nobody, nobody, 1.0),
    ):
        assert loss == 0
        torch.autograd.backward(loss)


def test_consistency_refuses_what_it_does_not_know() -> None:
    centres = Centres(torch.zeros(3), torch.ones(3))
    with pytest.raises(ValueError, match="no consistency is called"):
        consistency(torch.zeros(1, 3), torch.zeros(1, 3), centres, "squared")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="same pictures"):
        consistency(torch.zeros(2, 3), torch.zeros(1, 3), centres, "signed")


@examples
@given(seeds, dimensions, st.floats(-0.9, 0.9), scales)
def test_prompt_contrast_is_the_hinged_cosine(
    seed: int, size: int, margin: float, scale: float
) -> None:
    v, v_bar = normal(size, seed=seed), normal(size, seed=seed + 1)
    expected = slow.prompt_contrast(v.tolist(), v_bar.tolist(), margin)
    close(prompt_contrast(v, v_bar, margin), expected)
    close(prompt_contrast(scale * v, v_bar / scale, margin), expected, 1e-7)
    turn = rotation(size, seed)
    close(prompt_contrast(v @ turn, v_bar @ turn, margin), expected, 1e-7)


def test_prompt_contrast_pushes_apart_only_the_prompt_and_only_to_the_margin() -> None:
    v = torch.tensor([[1.0, 0.5], [0.0, 0.2]], requires_grad=True)
    v_bar = torch.tensor([[1.0, 0.0], [0.0, 0.0]], requires_grad=True)
    loss = prompt_contrast(v, v_bar)
    torch.autograd.backward(loss)
    assert v_bar.grad is None
    assert v.grad is not None
    with torch.no_grad():
        assert prompt_contrast(v - 0.01 * v.grad, v_bar) < loss
    opposite = (-v_bar).detach().requires_grad_()
    hinged = prompt_contrast(opposite, v_bar)
    torch.autograd.backward(hinged)
    assert hinged == 0
    assert opposite.grad is not None
    assert (opposite.grad == 0).all()


@pytest.mark.parametrize("margin", [0.0, -0.5])
def test_a_prompt_that_starts_at_zero_has_no_direction_and_no_gradient(margin: float) -> None:
    v = torch.zeros(4, requires_grad=True)
    loss = prompt_contrast(v, torch.ones(4), margin)
    torch.autograd.backward(loss)
    assert loss.item() == -margin
    assert v.grad is not None
    assert (v.grad == 0).all()


def test_prompts_of_different_sizes_are_an_error() -> None:
    with pytest.raises(ValueError, match="4 and 3 parameters"):
        prompt_contrast(torch.ones(4), torch.ones(3))


@examples
@given(seeds, sizes, dimensions, st.floats(0.1, 3.0), st.floats(0.0, 2.0))
def test_gap_is_the_loop(seed: int, n: int, size: int, limit: float, margin: float) -> None:
    features, sure = normal(n, size, seed=seed), normal(n, seed=seed + 1)
    centres = Centres(*normal(2, size, seed=seed + 2))
    known, outlier = sure < -0.3, sure > 0.3
    expected = slow.gap(
        features.tolist(),
        centres.known.tolist(),
        centres.outlier.tolist(),
        limit,
        known.tolist(),
        outlier.tolist(),
        margin,
    )
    # The library rounds the logarithm off within 1e-4 of a centre; the loop does not.
    close(gap(features, centres, limit, known, outlier, margin), expected, 1e-3)


@examples
@given(seeds, sizes, dimensions, scales)
def test_gap_under_rotation_scale_and_order(seed: int, n: int, size: int, scale: float) -> None:
    features, sure = normal(n, size, seed=seed), normal(n, seed=seed + 1)
    known, outlier = normal(2, size, seed=seed + 2)
    turn, order = scale * rotation(size, seed), shuffled(n, seed)
    moved = gap(
        features[order] @ turn,
        Centres(known @ turn, outlier @ turn),
        0.7,
        sure[order] < 0,
        sure[order] >= 0,
        0.5,
    )
    close(moved, gap(features, Centres(known, outlier), 0.7, sure < 0, sure >= 0, 0.5), 1e-7)


def test_gap_pulls_each_side_away_from_the_circle_and_leaves_the_rest() -> None:
    centres = Centres(torch.tensor([0.0, 0.0]), torch.tensor([4.0, 0.0]))
    features = torch.tensor([[1.0, 1.0], [3.0, 1.0], [2.0, 2.0]], requires_grad=True)
    known, outlier = torch.tensor([True, False, False]), torch.tensor([False, True, False])
    torch.autograd.backward(gap(features, centres, 1.0, known, outlier, 1.0))
    assert features.grad is not None
    moved = (features - 0.1 * features.grad).detach()

    def ratios(f: torch.Tensor) -> torch.Tensor:
        return (f - centres.known).square().sum(dim=1) / (f - centres.outlier).square().sum(dim=1)

    assert ratios(moved)[0] < ratios(features)[0]
    assert ratios(moved)[1] > ratios(features)[1]
    assert (features.grad[2] == 0).all()


@pytest.mark.parametrize("apart", [1.0, 1e-3, 0.0])
def test_gap_has_a_finite_gradient_at_the_centres(apart: float) -> None:
    known = torch.zeros(3)
    outlier = torch.full((3,), apart)
    features = torch.stack([known, outlier, torch.full((3,), 1e-20)]).requires_grad_()
    everyone = torch.ones(3, dtype=torch.bool)
    loss = gap(features, Centres(known, outlier), 0.5, everyone, everyone, 1.0)
    torch.autograd.backward(loss)
    assert math.isfinite(loss.item())
    assert features.grad is not None
    assert torch.isfinite(features.grad).all()


def test_gap_needs_a_positive_limit() -> None:
    nobody = torch.zeros(1, dtype=torch.bool)
    with pytest.raises(ValueError, match="λ must be positive"):
        gap(torch.zeros(1, 2), Centres(torch.zeros(2), torch.ones(2)), 0.0, nobody, nobody, 1.0)
