"""The principal directions of labelled and pool features."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ossl.jointspace.principal import StackSettings, fit_principal_space
from tests.jointspace.drawn import close, examples, normal, rotation, scales, seeds
from tests.reference import jointspace as slow

SETTINGS = StackSettings()


@examples
@given(seeds, st.integers(1, 5))
def test_directions_are_those_of_the_loops_covariance(seed: int, size: int) -> None:
    labelled, pool = normal(8, size, seed=seed), 2 * normal(12, size, seed=seed + 1) + 1
    space = fit_principal_space(labelled, pool, SETTINGS)
    rows = torch.cat([labelled, pool])
    cov = torch.tensor(slow.scatter(rows.tolist()), dtype=torch.float64) / len(rows)
    close(space.mean, slow.mean(rows.tolist()))
    close(cov @ space.directions, space.directions * space.variance, 1e-7)
    close(space.directions.T @ space.directions, torch.eye(size), 1e-7)
    assert (space.variance.diff() <= 0).all()
    close(space.floor, SETTINGS.ridge * float(cov.diagonal().mean()), 1e-7)
    x = space.project(rows)
    close(x.square().mean(0), space.variance, 1e-7)
    close(space.scale(size), 1 / (space.variance + space.floor).sqrt(), 1e-7)


@examples
@given(seeds, st.integers(2, 5), scales)
def test_whitened_distances_do_not_see_scale_rotation_or_shift(
    seed: int, size: int, scale: float
) -> None:
    labelled, pool = normal(9, size, seed=seed), normal(12, size, seed=seed + 1)
    turn, shift = scale * rotation(size, seed + 2), scale * normal(size, seed=seed + 3)

    def distances(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        space = fit_principal_space(one, other, SETTINGS)
        white = space.project(other) * space.scale(size)
        return torch.cdist(white, white)

    close(distances(labelled @ turn + shift, pool @ turn + shift), distances(labelled, pool), 1e-4)


@pytest.mark.parametrize(("n", "pool", "size"), [(2, 1, 5), (4, 3, 300), (300, 300, 300)])
def test_fewer_pictures_than_dimensions_leave_as_many_directions(
    n: int, pool: int, size: int
) -> None:
    space = fit_principal_space(
        normal(n, size, seed=0).float(), normal(pool, size, seed=1).float(), SETTINGS
    )
    top = min(256, size, n + pool - 1)
    assert space.directions.shape == (size, top)
    assert space.scale(top).isfinite().all()


def test_dimensions_without_spread_stay_finite() -> None:
    labelled = normal(5, 4, seed=0).float()
    labelled[:, 2:] = 3
    space = fit_principal_space(labelled, labelled, SETTINGS)
    assert (space.project(labelled) * space.scale(4)).abs().max() < 10
    assert space.project(labelled.double()).dtype == torch.float32
