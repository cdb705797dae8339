"""Rows 5 to 8: the first circle, its tangents, and the one that is chosen."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ossl.jointspace import (
    choose_candidate,
    known_centre,
    outliers_by_tangent,
    radius,
    tangent_directions,
    tangent_values,
)
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
    source,
)
from tests.reference import jointspace as slow


@examples
@given(seeds, sizes, dimensions, st.integers(1, 8))
def test_every_step_is_what_the_equations_say(seed: int, n: int, size: int, count: int) -> None:
    labelled, pool = normal(n, size, seed=seed), normal(5, size, seed=seed + 1)
    centre = known_centre(labelled)
    close(centre, slow.mean(labelled.tolist()))
    r = radius(labelled, centre)
    close(r, slow.radius(labelled.tolist(), centre.tolist()))
    directions = tangent_directions(labelled, centre, count)
    expected = slow.tangent_directions(labelled.tolist(), centre.tolist(), count)
    close(directions, torch.tensor(expected, dtype=torch.float64).reshape(-1, size))
    values = tangent_values(pool, directions, centre, r)
    rows = [
        [slow.tangent_value(f, u, centre.tolist(), float(r)) for u in directions.tolist()]
        for f in pool.tolist()
    ]
    close(values, torch.tensor(rows, dtype=torch.float64).reshape(5, -1))


@examples
@given(seeds, sizes, sizes, st.integers(1, 5), st.floats(0.01, 2.0))
def test_detection_and_choice_are_the_loops(
    seed: int, n: int, m: int, tangents: int, tolerance: float
) -> None:
    pool, labelled = normal(m, tangents, seed=seed), normal(n, tangents, seed=seed + 1)
    outliers = outliers_by_tangent(pool, labelled, tolerance)
    assert outliers.tolist() == slow.outliers_by_tangent(
        pool.tolist(), labelled.tolist(), tolerance
    )
    assert choose_candidate(outliers) == slow.choose_candidate(outliers.tolist())


@examples
@given(seeds, st.integers(2, 12), dimensions)
def test_all_known_are_inside_the_first_tangent_and_its_sample_lies_on_it(
    seed: int, n: int, size: int
) -> None:
    labelled = normal(n, size, seed=seed)
    centre = known_centre(labelled)
    r = radius(labelled, centre)
    values = tangent_values(labelled, tangent_directions(labelled, centre, 3), centre, r)
    assert (values > -1e-9).all()
    close(values[:, 0].min(), 0.0)


@examples
@given(seeds, st.integers(2, 12), dimensions, scales)
def test_rotation_scale_and_order(seed: int, n: int, size: int, scale: float) -> None:
    labelled, pool = normal(n, size, seed=seed), normal(4, size, seed=seed + 1)

    def values(labelled: torch.Tensor, pool: torch.Tensor) -> torch.Tensor:
        centre = known_centre(labelled)
        directions = tangent_directions(labelled, centre, 3)
        return tangent_values(pool, directions, centre, radius(labelled, centre))

    # Two samples mirror each other about their centre: equally far, and so in either order.
    expected = values(labelled, pool).sort(dim=1).values if n == 2 else values(labelled, pool)

    def same(found: torch.Tensor, wanted: torch.Tensor) -> None:
        close(found.sort(dim=1).values if n == 2 else found, wanted, 1e-7)

    turn = rotation(size, seed + 2)
    same(values(labelled @ turn, pool @ turn), expected)
    same(values(labelled * scale, pool * scale) / scale, expected)
    same(values(labelled[shuffled(n, seed)], pool), expected)
    order = shuffled(4, seed)
    same(values(labelled, pool[order]), expected[order])


def test_fewer_samples_than_tangents_and_samples_without_a_direction() -> None:
    features = torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 0.0]])
    directions = tangent_directions(features, torch.zeros(2), 5)
    close(directions, [[0.6, 0.8]], 1e-6)
    assert tangent_directions(torch.zeros(3, 2), torch.zeros(2), 5).shape == (0, 2)
    assert tangent_values(features, torch.empty(0, 2), torch.zeros(2), 1.0).shape == (3, 0)


def test_equals_go_to_the_first_and_an_empty_pool_has_no_outliers() -> None:
    assert choose_candidate(torch.tensor([[True, False, True], [False, True, True]])) == (2, 1.0)
    assert choose_candidate(torch.tensor([[True, True]])) == (0, 1.0)
    assert choose_candidate(torch.empty(0, 3, dtype=torch.bool)) == (0, 0.0)


def test_nothing_labelled_is_an_error_that_says_so() -> None:
    empty = torch.empty(0, 2)
    with pytest.raises(ValueError, match="no features"):
        known_centre(empty)
    with pytest.raises(ValueError, match="no features"):
        radius(empty, torch.zeros(2))
    with pytest.raises(ValueError, match="no labelled values"):
        outliers_by_tangent(torch.zeros(2, 1), torch.empty(0, 1))
    with pytest.raises(ValueError, match="at least one tangent"):
        choose_candidate(torch.empty(3, 0, dtype=torch.bool))
    with pytest.raises(ValueError, match="at least 1"):
        tangent_directions(torch.zeros(2, 2), torch.zeros(2), 0)


def test_half_precision_features_and_autocast_keep_float32() -> None:
    features = torch.randn(6, 4, generator=source(0)).half()
    centre = known_centre(features)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        directions = tangent_directions(features, centre, 3)
        values = tangent_values(features, directions, centre, 1.0)
    assert centre.dtype == directions.dtype == values.dtype == torch.float32
    exact = tangent_values(features.double(), directions.double(), centre.double(), 1.0)
    close(values, exact, 1e-5)
