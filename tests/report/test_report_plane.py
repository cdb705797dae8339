"""The flat joint space: true distances, true sides of the circle, and the line of a boundary."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ossl.jointspace.apollonius import apollonius_ratio
from ossl.jointspace.stacking import fit_stacked_space
from ossl.report.plane import centre_plane, circle_plane, contour


@pytest.mark.parametrize("limit", [0.5, 0.9, 1.0, 1.4])
def test_the_circle_parts_the_drawn_points_as_the_rule_does(limit: float) -> None:
    generator = torch.Generator().manual_seed(3)
    pool = torch.randn(400, 9, generator=generator)
    labelled = torch.randn(20, 9, generator=generator)
    known, outlier = torch.randn(9, generator=generator), torch.randn(9, generator=generator)
    plane = circle_plane(labelled, pool, known, outlier, limit)
    np.testing.assert_allclose(plane.known, [[0, 0]], atol=1e-6)
    apart = float((known - outlier).norm())
    np.testing.assert_allclose(plane.outlier, [[apart, 0]], atol=1e-5)
    ratio = apollonius_ratio(pool, known, outlier).numpy()
    d1 = np.linalg.norm(plane.pool - plane.known, axis=1)
    d2 = np.linalg.norm(plane.pool - plane.outlier, axis=1)
    np.testing.assert_allclose(d1 / d2, ratio, rtol=1e-4)
    if plane.circle is None:
        assert limit == 1
        assert plane.line is not None
        outside = plane.pool[:, 0] > plane.line
    else:
        centre, radius = plane.circle
        outside = np.linalg.norm(plane.pool - [centre, 0], axis=1) > radius
        outside = outside if limit < 1 else ~outside
    np.testing.assert_array_equal(outside, ratio > limit)


def test_centres_that_coincide_are_drawn_all_the_same() -> None:
    pool = torch.randn(30, 4, generator=torch.Generator().manual_seed(0))
    plane = circle_plane(pool[:5], pool, pool[0], pool[0], 0.5)
    assert np.isfinite(plane.pool).all()
    assert np.isfinite(plane.extent).all()


def test_a_contour_lies_where_the_values_are_zero() -> None:
    xs, ys = np.linspace(-2, 2, 81), np.linspace(-1.5, 1.5, 61)
    x, y = np.meshgrid(xs, ys)
    pieces = np.concatenate(contour(x**2 + y**2 - 1, xs, ys))
    np.testing.assert_allclose(np.linalg.norm(pieces, axis=1), 1, atol=2e-3)
    angles = np.sort(np.arctan2(pieces[:, 1], pieces[:, 0]))
    assert np.diff(angles).max() < 0.2  # all around
    assert contour(np.ones((3, 3)), np.arange(3.0), np.arange(3.0)) == []


def test_the_plane_of_several_centres_parts_classes_from_a_far_cloud() -> None:
    generator = torch.Generator().manual_seed(5)
    means = 6 * torch.eye(3, 24)
    labels = torch.arange(3).repeat_interleave(30)
    labelled = means[labels] + 0.5 * torch.randn(90, 24, generator=generator)
    known = means[torch.arange(150) % 3] + 0.5 * torch.randn(150, 24, generator=generator)
    junk = 6 * torch.eye(24)[5] + 0.5 * torch.randn(100, 24, generator=generator)
    space = fit_stacked_space(labelled, labels, torch.cat([known, junk]))
    plane = centre_plane(space, labelled, torch.cat([known, junk]))
    assert plane is not None
    assert len(plane.known) == 3
    assert plane.curves
    # Along the first axis, known pictures lie to the left of outliers.
    assert np.quantile(plane.pool[:150, 0], 0.95) < np.quantile(plane.pool[150:, 0], 0.05)
    x0, x1, y0, y1 = plane.extent
    assert (x1 - x0) / (y1 - y0) == pytest.approx(760 / 520)
