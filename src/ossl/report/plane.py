"""The joint space drawn flat: features, centres and the boundary in two dimensions."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ossl.jointspace.apollonius import apollonius_circle
from ossl.jointspace.evidence import log_density_ratio
from ossl.jointspace.stacking import StackedSpace
from ossl.methods.base import Method
from ossl.methods.detectors import CircleDetector
from ossl.methods.evidence_detector import EvidenceDetector
from ossl.methods.openprompt import OpenPrompt

ASPECT = 760 / 520  # of the drawing
GRID = 96  # places along each side where a boundary that is no circle is worked out

Points = NDArray[np.float64]


@dataclass(frozen=True)
class Plane:
    """Points of labelled and pool pictures, centres, and one of three kinds of boundary."""

    labelled: Points
    pool: Points
    known: Points  # centres
    outlier: Points
    known_weights: NDArray[np.float64]
    outlier_weights: NDArray[np.float64]
    words: str  # what the axes are, and what can be read off
    circle: tuple[float, float] | None = None  # its centre on the first axis, and its radius
    line: float | None = None  # a boundary across the first axis
    curves: list[Points] = field(default_factory=list)
    extent: tuple[float, float, float, float] = (0.0, 1.0, 0.0, 1.0)  # x from, to; y from, to


def plane_of(method: Method, labelled: Tensor, pool: Tensor) -> Plane | None:
    """The plane of features that `method.embed` gave; None for a method without such a space."""
    if not isinstance(method, OpenPrompt):
        return None
    detector = method.detector
    labelled, pool = labelled.float().cpu(), pool.float().cpu()
    if isinstance(detector, CircleDetector) and detector.space and detector.centres:
        space = detector.space
        centres = detector.centres
        return circle_plane(
            space(labelled).cpu(),
            space(pool).cpu(),
            centres.known.cpu(),
            centres.outlier.cpu(),
            detector.limit,
        )
    if isinstance(detector, EvidenceDetector) and detector.space is not None:
        return centre_plane(detector.space, labelled, pool)
    return None


def circle_plane(
    labelled: Tensor, pool: Tensor, known: Tensor, outlier: Tensor, limit: float
) -> Plane:
    """The half planes around the axis through both centres, unfolded: no distance is distorted.

    A point's place is how far along the axis it lies, and how far from it, so that its distances
    to both centres, and with them d1/d2 and the side of the circle, are exactly the true ones.
    The sign says on which side it lies in the direction in which the pool varies most.
    """
    axis = _unit(outlier - known)
    across = _main_direction(pool - known, axis)

    def place(points: Tensor) -> Points:
        away = (points - known).double()
        along = away @ axis.double()
        rest = away - along[:, None] * axis.double()
        sign = torch.where(rest @ across.double() < 0, -1.0, 1.0)
        flat: Points = torch.stack([along, sign * rest.norm(dim=1)], 1).numpy()
        return flat

    circle = line = None
    apart = float((outlier - known).norm())
    if limit == 1:
        line = apart / 2
    else:
        middle, radius = apollonius_circle(known, outlier, limit)
        circle = (float((middle - known) @ axis), float(radius))
    inside = "inside the circle it is known" if limit < 1 else "inside the circle it is an outlier"
    words = (
        "Across: how far a picture lies along the line through the two centres. Up and down: how "
        "far it lies from that line, so both distances d1 and d2 are the true ones, and "
        f"{'left of the line it is known' if limit == 1 else inside} (d1/d2 against "
        f"λ = {limit:.4g})."
    )
    one = np.ones(1)
    flat_known, flat_outlier = place(known[None]), place(outlier[None])
    points = (place(labelled), place(pool))
    shown = [*points, flat_known, flat_outlier]
    if circle is not None and circle[1] < 2 * float(np.ptp(np.concatenate(shown), axis=0).max()):
        x, r = circle
        shown += [np.array([[x - r, -r], [x + r, r]])] * 10
    extent = _extent(np.concatenate(shown))
    return Plane(*points, flat_known, flat_outlier, one, one, words, circle, line, extent=extent)


def centre_plane(space: StackedSpace, labelled: Tensor, pool: Tensor) -> Plane | None:
    """The plane through the centres of the first judge that weigh most in the score.

    The boundary is where both mixtures of round clouds, seen on this plane alone, are as likely:
    the power form of the circle for several centres.
    """
    judge = space.judges[0]
    if not judge.centres:
        return None
    first = len(space.weights) - len(judge.centres)  # their columns come last in the evidence
    dim, centres = judge.centres[int(space.weights[first:].argmax())]

    def place(features: Tensor) -> Tensor:
        white = judge.space.project(features)[:, :dim] * judge.space.scale(dim)
        return white @ centres.transform

    points, others = place(labelled), place(pool)
    parts = (centres.known_weights, centres.outlier_weights)
    middle = (parts[0] / parts[0].sum()) @ centres.known
    axis = _unit((parts[1] / parts[1].sum()) @ centres.outlier - middle)
    across = _main_direction(centres.known - middle, axis)
    basis = torch.stack([axis, across], 1)

    def flat(some: Tensor) -> Tensor:
        return (some - middle) @ basis

    known, outlier = flat(centres.known), flat(centres.outlier)
    drawn = [some.double().numpy() for some in (flat(points), flat(others), known, outlier)]
    extent = _widened(_extent(np.concatenate(drawn)))
    xs, ys = (np.linspace(low, high, GRID) for low, high in (extent[:2], extent[2:]))
    mesh = torch.tensor(np.stack(np.meshgrid(xs, ys), -1).reshape(-1, 2), dtype=known.dtype)
    ratio = log_density_ratio(mesh, known, parts[0], outlier, parts[1]).reshape(GRID, GRID)
    words = (
        "Of the views that the score is made of, the one with centres that weighs most: "
        f"{len(known)} known centres, one a class, and {len(outlier)} of outliers. Across: from "
        "the middle of the known centres to that of the outliers. Up and down: where the known "
        "centres differ most. On the line, a picture of which only this plane were seen would be "
        "as likely known as outlying; the verdict itself weighs all views, so colours and line may "
        "differ."
    )
    weights = (parts[0].double().numpy(), parts[1].double().numpy())
    curves = contour(ratio.double().numpy(), xs, ys)
    return Plane(
        drawn[0], drawn[1], drawn[2], drawn[3], *weights, words, curves=curves, extent=extent
    )


def contour(values: Points, xs: Points, ys: Points) -> list[Points]:
    """The line along which a grid of values (row by row of `ys`) is zero, in short pieces.

    Marching squares: in each square of the grid, the places on its edges where the value changes
    its sign are joined two by two.
    """
    pieces = []
    for row in range(len(ys) - 1):
        for column in range(len(xs) - 1):
            corners = [
                (xs[column + dx], ys[row + dy], values[row + dy, column + dx])
                for dx, dy in ((0, 0), (1, 0), (1, 1), (0, 1))
            ]
            crossed = []
            for (x0, y0, a), (x1, y1, b) in zip(corners, corners[1:] + corners[:1], strict=True):
                if (a > 0) != (b > 0):
                    part = a / (a - b)
                    crossed.append((x0 + part * (x1 - x0), y0 + part * (y1 - y0)))
            pieces += [
                np.asarray(crossed[place : place + 2]) for place in range(0, len(crossed) - 1, 2)
            ]
    return pieces


def _unit(direction: Tensor) -> Tensor:
    length: Tensor = direction.norm()
    if float(length) == 0:  # both centres are one point; any direction is as good
        direction = torch.zeros_like(direction)
        direction[0] = 1
        return direction
    return direction / length


def _main_direction(points: Tensor, axis: Tensor) -> Tensor:
    """The direction across the axis in which the points vary most."""
    rest = points.double() - (points.double() @ axis.double())[:, None] * axis.double()
    centred = rest - rest.mean(0)
    direction = torch.linalg.svd(centred, full_matrices=False).Vh[0]
    same_every_time: Tensor = direction * torch.sign(direction[direction.abs().argmax()])
    return same_every_time.to(points)


def _widened(extent: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    """The extent, made as wide for its height as the drawing is, or as high for its width."""
    x0, x1, y0, y1 = extent
    width, height = max(x1 - x0, ASPECT * (y1 - y0)), max(y1 - y0, (x1 - x0) / ASPECT)
    x, y = (x0 + x1) / 2, (y0 + y1) / 2
    return x - width / 2, x + width / 2, y - height / 2, y + height / 2


def _extent(points: Points) -> tuple[float, float, float, float]:
    """What to show: all but the farthest few points, with some room around."""
    low, high = np.quantile(points, [0.002, 0.998], axis=0)
    room = 0.06 * np.maximum(high - low, 1e-9)
    return (
        float(low[0] - room[0]),
        float(high[0] + room[0]),
        float(low[1] - room[1]),
        float(high[1] + room[1]),
    )
