"""Moments that stream and add up, and the spaces that are fitted from them."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from ossl.jointspace import Moments, Space, SpaceKind, fit_space, known_centre, radius
from ossl.jointspace.numerics import ROWS_AT_A_TIME
from ossl.jointspace.spaces import whitening
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

kinds = get_args(SpaceKind)


@examples
@given(seeds, sizes, dimensions)
def test_moments_are_the_loops(seed: int, n: int, size: int) -> None:
    features = normal(n, size, seed=seed) + 100
    moments = Moments.of(features)
    assert moments.count == n
    assert moments.mean.dtype == moments.scatter.dtype == torch.float64
    close(moments.mean, slow.mean(features.tolist()))
    close(moments.scatter, slow.scatter(features.tolist()))
    if n > 1:
        close(moments.covariance(), torch.cov(features.T).reshape(size, size))


@examples
@given(seeds, dimensions, st.lists(st.integers(0, 5), min_size=1, max_size=5))
def test_moments_of_any_partition_are_those_of_the_whole(
    seed: int, size: int, parts: list[int]
) -> None:
    features = normal(sum(parts), size, seed=seed) + 10
    whole = Moments.of(features[shuffled(len(features), seed)])
    chunks = torch.split(features, parts)
    added = Moments.of(chunks[0])
    merged = Moments.of(chunks[-1])
    for chunk in chunks[1:]:
        added = added.add(chunk)
    for chunk in chunks[:-1]:
        merged = Moments.of(chunk).merge(merged)
    for moments in (added, merged):
        assert moments.count == whole.count
        close(moments.mean, whole.mean)
        close(moments.scatter, whole.scatter)


def test_moments_of_more_rows_than_are_copied_at_a_time() -> None:
    features = normal(2 * ROWS_AT_A_TIME + 5, 3, seed=0)
    moments = Moments.of(features.float())
    close(moments.covariance(), torch.cov(features.float().double().T))
    assert moments.count == len(features)


def test_moments_of_nothing_and_of_what_does_not_add_up() -> None:
    nothing = Moments.of(torch.empty(0, 3))
    assert nothing.count == 0
    assert nothing.merge(nothing).count == 0
    assert (nothing.covariance() == 0).all()
    with pytest.raises(ValueError, match="3 and of 2 dimensions"):
        nothing.merge(Moments.of(torch.empty(0, 2)))
    with pytest.raises(ValueError, match=r"\[n, D\]"):
        Moments.of(torch.zeros(3))


@examples
@given(seeds, sizes, dimensions, st.sampled_from(kinds))
def test_every_space_is_the_loop(seed: int, n: int, size: int, kind: SpaceKind) -> None:
    labelled, features = normal(6, size, seed=seed), normal(n, size, seed=seed + 1)
    space = fit_space(kind, labelled, Moments.of(labelled))
    r = slow.radius(labelled.tolist(), slow.mean(labelled.tolist()))
    centre, matrix = space.mean.tolist(), space.matrix.tolist()
    rows = features.tolist()
    if kind == "scaled":
        rows = [[x / r for x in f] for f in rows]
    if kind in ("whitened", "whitened_unit"):
        rows = [slow.whitened(f, centre, matrix) for f in rows]
    if kind in ("unit", "whitened_unit"):
        rows = [slow.unit(f) for f in rows]
    close(space(features), rows)
    assert space(features[0]).shape == (size,)
    assert space(features[:0]).shape == (0, size)


@examples
@given(seeds, st.integers(2, 5), scales)
def test_without_a_ridge_whitened_features_have_identity_covariance(
    seed: int, size: int, scale: float
) -> None:
    features = scale * normal(40, size, seed=seed) @ normal(size, size, seed=seed + 1) + 3
    moments = Moments.of(features)
    assume(torch.linalg.cond(moments.covariance()) < 1e6)
    root = whitening(moments.covariance(), 0.0)
    identity = torch.eye(size, dtype=torch.float64)
    close(torch.cov(((features - moments.mean) @ root).T), identity, 1e-6)
    close(root, root.T.clone(), 1e-6 * float(root.abs().max()))
    in_space = fit_space("whitened", features, moments, ridge=1e-6)(features)
    close(torch.cov(in_space.T), identity, 5e-2)


@examples
@given(seeds, st.integers(2, 5), scales, st.floats(0.05, 1.0))
def test_whitened_distances_do_not_see_rotation_scale_or_shift(
    seed: int, size: int, scale: float, ridge: float
) -> None:
    features = normal(20, size, seed=seed) @ normal(size, size, seed=seed + 1)
    moved = scale * features @ rotation(size, seed + 2) + scale * normal(size, seed=seed + 3)

    def distances(f: torch.Tensor) -> torch.Tensor:
        white = fit_space("whitened", f, Moments.of(f), ridge)(f)
        return torch.cdist(white, white)

    close(distances(moved), distances(features), 1e-4)


@examples
@given(seeds, st.integers(2, 5), st.floats(0.0, 1.0))
def test_the_ridge_shrinks_towards_the_mean_variance(seed: int, size: int, ridge: float) -> None:
    covariance = Moments.of(normal(30, size, seed=seed)).covariance()
    root = whitening(covariance, ridge)
    mean_variance = covariance.diagonal().mean()
    shrunk = (1 - ridge) * covariance + ridge * mean_variance * torch.eye(size)
    close(root @ shrunk @ root, torch.eye(size, dtype=torch.float64), 1e-7)


def test_a_direction_without_variance_is_left_out_not_blown_up() -> None:
    features = normal(3, 6, seed=0)  # three points span a plane
    white = fit_space("whitened", features, Moments.of(features), ridge=0.0)(features)
    assert white.abs().max() < 10


@pytest.mark.parametrize("kind", kinds)
def test_gradients_flow_and_are_finite_also_at_the_centre_and_at_zero(kind: SpaceKind) -> None:
    labelled = normal(8, 3, seed=0).float()
    space = fit_space(kind, labelled, Moments.of(labelled))
    features = torch.stack([labelled[0], torch.zeros(3), labelled.mean(dim=0)]).requires_grad_()
    mapped = space(features)
    assert torch.isfinite(mapped).all()
    torch.autograd.backward((mapped * torch.arange(3)).sum())
    assert features.grad is not None
    assert torch.isfinite(features.grad).all()
    assert features.grad[0].abs().sum() > 0


@pytest.mark.parametrize("kind", kinds)
def test_a_space_comes_back_from_its_file(kind: SpaceKind, tmp_path: Path) -> None:
    labelled = normal(8, 3, seed=0).float()
    space = fit_space(kind, labelled, Moments.of(labelled))
    save_file(space.tensors(), tmp_path / "jointspace.safetensors")
    again = Space.from_tensors(kind, load_file(tmp_path / "jointspace.safetensors"))
    assert torch.equal(again.to("cpu")(labelled), space(labelled))
    assert again.scale == space.scale


def test_half_precision_and_autocast_keep_float32() -> None:
    labelled = normal(50, 4, seed=0).half()
    space = fit_space("whitened", labelled, Moments.of(labelled))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mapped = space(labelled)
    assert mapped.dtype == torch.float32
    close(mapped, space(labelled.double()), 1e-4)


def test_scaled_divides_by_the_labelled_radius() -> None:
    labelled = torch.tensor([[1.0, 0.0], [5.0, 0.0]])
    space = fit_space("scaled", labelled, Moments.of(labelled))
    assert space.scale == radius(labelled, known_centre(labelled)) == 2.0


def test_what_cannot_be_fitted_says_how_to_mend_it() -> None:
    same = torch.ones(3, 2)
    with pytest.raises(ValueError, match="at least two different pictures"):
        fit_space("scaled", same, Moments.of(same))
    with pytest.raises(ValueError, match="do not vary"):
        fit_space("whitened", same, Moments.of(same))
    varied = normal(5, 2, seed=0)
    with pytest.raises(ValueError, match="between 0 and 1"):
        fit_space("whitened", varied, Moments.of(varied), ridge=1.5)
    with pytest.raises(ValueError, match="no space is called 'white'"):
        fit_space("white", varied, Moments.of(varied))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="matrix"):
        Space.from_tensors("raw", {"mean": torch.empty(0), "scale": torch.ones(())})
