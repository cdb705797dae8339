"""Rows 9 and 10: the ratio, the rule, the circle, and the centres that move."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ossl.jointspace import (
    Centres,
    apollonius_circle,
    apollonius_ratio,
    is_outlier,
    update_centres,
)
from ossl.jointspace.numerics import ROWS_AT_A_TIME
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

limits = st.floats(0.05, 3.0).filter(lambda limit: abs(limit - 1) > 1e-2)


@examples
@given(seeds, sizes, dimensions)
def test_ratio_is_the_loop_also_at_the_centres(seed: int, n: int, size: int) -> None:
    known, outlier = normal(2, size, seed=seed + 1)
    features = torch.cat([normal(n, size, seed=seed), known[None], outlier[None]])
    ratio = apollonius_ratio(features, known, outlier)
    expected = [
        slow.apollonius_ratio(f, known.tolist(), outlier.tolist()) for f in features.tolist()
    ]
    close(ratio, expected)
    assert ratio[-2] == 0
    assert ratio[-1] == math.inf


@examples
@given(seeds, sizes, dimensions, scales)
def test_ratio_does_not_see_rotation_shift_scale_or_order(
    seed: int, n: int, size: int, scale: float
) -> None:
    features = normal(n, size, seed=seed)
    known, outlier = normal(2, size, seed=seed + 1)
    ratio = apollonius_ratio(features, known, outlier)
    turn, shift, order = rotation(size, seed), normal(size, seed=seed + 2), shuffled(n, seed)
    moved = [scale * (x @ turn) + shift for x in (features[order], known, outlier)]
    close(apollonius_ratio(*moved), ratio[order], 1e-5)
    close(apollonius_ratio(features, outlier, known), 1 / ratio)


@examples
@given(seeds, sizes, dimensions, limits)
def test_rule_and_circle_agree(seed: int, n: int, size: int, limit: float) -> None:
    features = 2 * normal(n, size, seed=seed)
    known, outlier = normal(2, size, seed=seed + 1)
    centre, reach = apollonius_circle(known, outlier, limit)
    expected_centre, expected_reach = slow.apollonius_circle(
        known.tolist(), outlier.tolist(), limit
    )
    close(centre, expected_centre, 1e-7)
    close(reach, expected_reach, 1e-7)
    ratio = apollonius_ratio(features, known, outlier)
    clear = (ratio / limit - 1).abs() > 1e-6
    inside = torch.linalg.vector_norm(features - centre, dim=-1) <= reach
    called_known = ~is_outlier(ratio, limit)
    holds_known = limit < 1  # for λ > 1 the ball lies around k_oc
    assert torch.equal(inside[clear], called_known[clear] == holds_known)


@examples
@given(seeds, sizes, dimensions, st.sampled_from([1 - 1e-7, 1.0, 1 + 1e-7]))
def test_near_one_the_rule_is_the_bisecting_plane(
    seed: int, n: int, size: int, limit: float
) -> None:
    features = normal(n, size, seed=seed)
    known, outlier = normal(2, size, seed=seed + 1)
    beyond = (features - (known + outlier) / 2) @ (outlier - known)
    ratio = apollonius_ratio(features, known, outlier)
    clear = (ratio - 1).abs() > 1e-6
    assert torch.equal(is_outlier(ratio, limit)[clear], (beyond > 0)[clear])


def test_lambda_one_and_no_lambda_at_all() -> None:
    known, outlier = torch.zeros(2), torch.tensor([2.0, 0.0])
    with pytest.raises(ValueError, match="bisecting plane"):
        apollonius_circle(known, outlier, 1.0)
    for limit in (-0.5, math.nan):
        with pytest.raises(ValueError, match="ratio of distances"):
            apollonius_circle(known, outlier, limit)
    centre, reach = apollonius_circle(known, outlier, 0.0)
    assert torch.equal(centre, known)
    assert reach == 0
    on_plane = apollonius_ratio(torch.tensor([[1.0, 5.0]]), known, outlier)
    assert not is_outlier(on_plane, 1.0).any()


@examples
@given(seeds, sizes, dimensions)
def test_coinciding_centres_tell_nothing_apart(seed: int, n: int, size: int) -> None:
    centre = normal(size, seed=seed + 1)
    features = torch.cat([normal(n, size, seed=seed), centre[None]]).requires_grad_()
    ratio = apollonius_ratio(features, centre, centre.clone())
    assert (ratio == 1).all()
    (gradient,) = torch.autograd.grad(ratio.sum(), features)
    assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradient_is_finite_everywhere_and_right(dtype: torch.dtype) -> None:
    known, outlier = torch.zeros(3, dtype=dtype), torch.ones(3, dtype=dtype)
    near = torch.full((3,), 1e-30, dtype=dtype)
    features = torch.stack([known, outlier, near, 1 + 1e-7 * outlier, 0.3 * outlier])
    features.requires_grad_()
    ratio = apollonius_ratio(features, known, outlier)
    finite = ratio[torch.isfinite(ratio)].sum()
    (gradient,) = torch.autograd.grad(finite, features)
    assert torch.isfinite(gradient).all()
    (whole,) = torch.autograd.grad(apollonius_ratio(features, known, outlier).sum(), features)
    assert torch.isfinite(whole).all()
    if dtype == torch.float64:
        ordinary = normal(4, 3, seed=3).requires_grad_()
        assert torch.autograd.gradcheck(
            lambda f: apollonius_ratio(f, known, outlier), (ordinary,), raise_exception=True
        )


def test_what_cannot_be_measured_is_not_called_known() -> None:
    assert is_outlier(torch.tensor([math.nan, math.inf, 0.5]), 0.5).tolist() == [True, True, False]


@examples
@given(seeds, st.integers(0, 6), st.integers(0, 6), dimensions)
def test_centres_are_the_loops(seed: int, n: int, m: int, size: int) -> None:
    labelled, pool = normal(n, size, seed=seed), normal(m, size, seed=seed + 1)
    old = Centres(*normal(2, size, seed=seed + 2))
    mask = normal(m, seed=seed + 3) > 0
    new, notes = update_centres(old, labelled, pool, mask)
    known, outlier = slow.update_centres(
        old.known.tolist(), old.outlier.tolist(), labelled.tolist(), pool.tolist(), mask.tolist()
    )
    close(new.known, known)
    close(new.outlier, outlier)
    no_known, no_outlier = n + int((~mask).sum()) == 0, int(mask.sum()) == 0
    assert len(notes) == no_known + no_outlier
    assert any("known centre stays" in note for note in notes) == no_known
    assert any("outlier centre stays" in note for note in notes) == no_outlier


def test_centres_over_more_rows_than_are_copied_at_a_time() -> None:
    pool = torch.randn(2 * ROWS_AT_A_TIME + 3, 2, generator=torch.Generator().manual_seed(0))
    mask = pool[:, 0] > 0
    old = Centres(torch.zeros(2), torch.zeros(2))
    new, notes = update_centres(old, torch.empty(0, 2), pool, mask)
    assert notes == ()
    assert new.known.dtype == torch.float32
    close(new.known, pool[~mask].double().mean(dim=0), 1e-6)
    close(new.outlier, pool[mask].double().mean(dim=0), 1e-6)


def test_a_mask_that_does_not_fit_is_an_error() -> None:
    old = Centres(torch.zeros(2), torch.zeros(2))
    for mask in (torch.zeros(4, dtype=torch.bool), torch.zeros(3, dtype=torch.int64)):
        with pytest.raises(ValueError, match=r"must be bool \[3\]"):
            update_centres(old, torch.zeros(1, 2), torch.zeros(3, 2), mask)


def test_centres_leave_the_graph() -> None:
    pool = torch.randn(4, 2, requires_grad=True)
    old = Centres(torch.zeros(2, requires_grad=True), torch.zeros(2, requires_grad=True))
    new, _ = update_centres(old.detach(), pool, pool, torch.tensor([True, False, True, False]))
    assert not new.known.requires_grad
    assert not new.outlier.requires_grad
