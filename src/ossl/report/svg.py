"""Small drawings as SVG text; their colours come from the page's style, by class."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from ossl.report.plane import ASPECT, Plane, Points

CHART = (320, 150)  # units of the view box
MARGIN = (56, 10, 12, 26)  # left, right, top, bottom
SCATTER = (760, round(760 / ASPECT))


def line_chart(xs: Sequence[float], ys: Sequence[float], said: str, x_name: str = "step") -> Markup:
    """One line over steps or epochs; `said` is read aloud in its place."""
    (width, height), (left, right, top, bottom) = CHART, MARGIN
    low, high = min(ys), max(ys)
    marked = (low, (low + high) / 2, high) if low < high else (low,)
    if low == high:  # a level line, in the middle
        low, high = low - 0.5, high + 0.5
    first, last = min(xs), max(xs)
    span = (last - first) or 1

    def at(x: float, y: float) -> str:
        across = left + (x - first) / span * (width - left - right)
        down = top + (high - y) / (high - low) * (height - top - bottom)
        return f"{across:.1f} {down:.1f}"

    line = "M" + "L".join(at(x, y) for x, y in zip(xs, ys, strict=True))
    end = at(xs[-1], ys[-1]).split()
    ticks = []
    for value in marked:
        y = float(at(first, value).split()[1])
        ticks.append(f'<path class="grid" d="M{left} {y:.1f}H{width - right}"/>')
        ticks.append(
            f'<text x="{left - 6}" y="{y + 3.5:.1f}" class="end">{escape(short(value))}</text>'
        )
    base = height - 8
    parts = [
        *ticks,
        f'<path class="curve" d="{line}"/>',
        f'<circle class="tip" cx="{end[0]}" cy="{end[1]}" r="3"/>',
        f'<text x="{left}" y="{base}">{escape(short(first))}</text>',
        f'<text x="{width - right}" y="{base}" class="end">{escape(x_name)} {short(last)}</text>',
    ]
    return _svg(width, height, said, parts)


def histogram(
    known: NDArray[np.floating], outlier: NDArray[np.floating], limit: float, said: str
) -> Markup:
    """How many truly known and truly outlying pictures there are by score, and the boundary."""
    width, height = 760, 220
    left, right, top, bottom = 10, 10, 8, 24
    both = np.concatenate([known, outlier])
    both = both[np.isfinite(both)]
    low, high = np.quantile(both, [0.002, 0.998])
    low, high = min(float(low), limit), max(float(high), limit)
    room = 0.02 * ((high - low) or 1)
    edges = np.linspace(low - room, high + room, 61)
    counts = [
        np.histogram(np.clip(side, edges[0], edges[-1]), edges)[0] for side in (known, outlier)
    ]
    tallest = max(1, *(int(count.max()) for count in counts))
    step = (width - left - right) / 60
    parts = []
    for name, count in zip(("known", "outlier"), counts, strict=True):
        bars = ""
        for place, value in enumerate(count.tolist()):
            if value:
                tall = value / tallest * (height - top - bottom)
                x = left + place * step
                bars += f"M{x + 0.5:.1f} {height - bottom}v{-tall:.1f}h{step - 1:.1f}v{tall:.1f}z"
        parts.append(f'<path class="{name} bars" d="{bars}"/>')
    x = left + (limit - edges[0]) / (edges[-1] - edges[0]) * (width - left - right)
    parts += [
        f'<path class="boundary" d="M{x:.1f} {top}V{height - bottom}"/>',
        f'<path class="axis" d="M{left} {height - bottom}H{width - right}"/>',
        f'<text x="{left}" y="{height - 7}">{escape(short(edges[0]))}</text>',
        f'<text x="{width / 2}" y="{height - 7}" class="mid">outlier score</text>',
        f'<text x="{width - right}" y="{height - 7}" class="end">{escape(short(edges[-1]))}</text>',
    ]
    return _svg(width, height, said, parts)


def scatter(plane: Plane, aside: NDArray[np.bool_], said: str) -> Markup:
    """The plane: labelled pictures, the pool by its verdict, centres, and the boundary."""
    width, height = SCATTER
    x0, x1, y0, y1 = plane.extent
    scale = min(width / (x1 - x0), height / (y1 - y0))  # one for both, or a circle is none
    shift = ((width - scale * (x1 - x0)) / 2, (height - scale * (y1 - y0)) / 2)

    def at(points: Points) -> Points:
        placed: Points = np.stack(
            [shift[0] + scale * (points[:, 0] - x0), shift[1] + scale * (y1 - points[:, 1])], 1
        )
        return placed

    known, outlying = at(plane.pool[~aside]), at(plane.pool[aside])
    parts = [
        f'<path class="outlier dots" d="{_triangles(outlying)}"/>',
        f'<path class="known dots" d="{_dots(known)}"/>',
        f'<path class="labelled dots" d="{_dots(at(plane.labelled))}"/>',
    ]
    if plane.circle is not None:
        centre = at(np.array([[plane.circle[0], 0.0]]))[0]
        radius = plane.circle[1] * scale
        parts.append(
            f'<circle class="boundary" cx="{centre[0]:.1f}" cy="{centre[1]:.1f}" r="{radius:.1f}"/>'
        )
    if plane.line is not None:
        x = at(np.array([[plane.line, 0.0]]))[0, 0]
        parts.append(f'<path class="boundary" d="M{x:.1f} 0V{height}"/>')
    if plane.curves:
        lines = "".join(
            f"M{a[0]:.1f} {a[1]:.1f}L{b[0]:.1f} {b[1]:.1f}" for a, b in map(at, plane.curves)
        )
        parts.append(f'<path class="boundary" d="{lines}"/>')
    for name, centres, weights in (
        ("known", plane.known, plane.known_weights),
        ("outlier", plane.outlier, plane.outlier_weights),
    ):
        size = 5 + 5 * np.sqrt(weights / max(float(weights.max()), 1e-12))
        for (x, y), r in zip(at(centres).tolist(), size.tolist(), strict=True):
            parts.append(f'<path class="{name} centre" d="{_cross(x, y, r)}"/>')
    return _svg(width, height, said, parts)


def heat(counts: NDArray[np.integer], said: str) -> Markup:
    """A matrix of many classes as shades, each row as parts of itself."""
    rows, columns = counts.shape
    side = 520 / max(rows, columns)
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    parts = []
    for row in range(rows):
        for column in np.flatnonzero(counts[row]).tolist():
            kind = "outlier" if column == columns - 1 else "known"
            shade = max(0.08, float(share[row, column]))
            parts.append(
                f'<rect class="{kind}" x="{column * side:.2f}" y="{row * side:.2f}" '
                f'width="{side:.2f}" height="{side:.2f}" fill-opacity="{shade:.2f}"/>'
            )
    size = f"{columns * side:.0f}", f"{rows * side:.0f}"
    parts.append(f'<rect class="edge" x="0" y="0" width="{size[0]}" height="{size[1]}"/>')
    return _svg(int(columns * side) + 1, int(rows * side) + 1, said, parts)


def short(value: float) -> str:
    """A number in three digits or so."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _dots(points: Points) -> str:
    return "".join(f"M{x:.1f} {y:.1f}h0" for x, y in points.tolist())


def _triangles(points: Points) -> str:
    return "".join(f"M{x:.1f} {y - 3:.1f}l3 5h-6z" for x, y in points.tolist())


def _cross(x: float, y: float, r: float) -> str:
    return f"M{x - r:.1f} {y:.1f}H{x + r:.1f}M{x:.1f} {y - r:.1f}V{y + r:.1f}"


def _svg(width: int, height: int, said: str, parts: Iterable[str]) -> Markup:
    head = f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(said)}">'
    return Markup(head + "".join(parts) + "</svg>")
