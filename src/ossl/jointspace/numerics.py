"""The few numerical habits that every formula of the joint space shares."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

ROWS_AT_A_TIME = 8192
"""rows; a float64 working copy is made of so many features at a time, never of all"""


def pieces(values: Tensor, rows: int = ROWS_AT_A_TIME) -> Iterator[Tensor]:
    """Return `values` so many rows at a time, which bounds the memory of what is made of them.

    In a graph that is being exported the number of rows is not known: there it is one piece. What
    has no rows is one piece too, so that its columns are known.
    """
    if torch.compiler.is_compiling() or not len(values):
        yield values
        return
    for low in range(0, max(len(values), 1), rows):  # of nothing, one piece with nothing
        yield values[low : low + rows]


def at_least_float32(values: Tensor) -> Tensor:
    """Return `values` in float32, or unchanged where they are float32 or float64 already."""
    if values.dtype in (torch.float32, torch.float64):
        return values
    return values.float()


def as_float64(values: Tensor) -> Tensor:
    """Return `values` in float64, detached, where they lie (on the CPU for a device without it)."""
    values = values.detach()
    if values.device.type == "mps":
        values = values.cpu()
    return values.double()


def without_autocast(values: Tensor) -> torch.autocast:
    """Return a context in which a product of `values` keeps their precision.

    Autocast would round a distance to a few bits exactly where the two centres are close together.
    """
    return torch.autocast(device_type=values.device.type, enabled=False)


def distance(features: Tensor, centre: Tensor) -> Tensor:
    """Return d(f, k) = ‖f − k‖ for every feature [..., D], as [...].

    The gradient at f = k is zero (torch's subgradient of the norm), never NaN.
    """
    offset = at_least_float32(features) - centre
    norm: Tensor = torch.linalg.vector_norm(offset, dim=-1)
    return norm
