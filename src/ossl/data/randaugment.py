"""RandAugment as FixMatch uses it, on a batch of uint8 pictures, another draw for every picture.

Each picture has its own operation, so the batch is split by *family* and every family is computed
once for all of its pictures: point-wise operations as 256-entry tables, geometric ones as one
gather along a per-picture affine map, colour and sharpness as a blend with a degenerate picture.
The arithmetic is Pillow's own (fixed-point coordinates, truncating blends), so results agree with
the PIL code that FixMatch and OpenMatch were published with.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

_POINTWISE = ("autocontrast", "brightness", "contrast", "equalize", "posterize", "solarize")
_GEOMETRIC = ("rotate", "shear_x", "shear_y", "translate_x", "translate_y")
# one family after the other, so that a batch sorted by code is a batch sorted by family
OPERATIONS = (*_POINTWISE, *_GEOMETRIC, "colour", "sharpness", "identity")
CODE = {name: code for code, name in enumerate(OPERATIONS)}
STRENGTH_MAX = 10  # strengths count in tenths of an operation's range
_FIXED_POINT = 65536.0  # Pillow walks affine maps in 16.16 fixed point


def randaugment(pictures: Tensor, operations: Tensor, strengths: Tensor) -> Tensor:
    """Return `pictures` (uint8 [B,3,H,W]) after each picture's own operations, in their order.

    `operations` and `strengths` are int64 [B,n] on the CPU and applied column by column; the sign
    of a strength is the direction of a rotation, shear or translation.
    """
    for operation, strength in zip(operations.unbind(1), strengths.unbind(1), strict=True):
        order = operation.argsort(stable=True)
        operation, strength = operation[order], strength[order]
        counts = operation.bincount(minlength=len(OPERATIONS)).tolist()
        groups = pictures.index_select(0, order.to(pictures.device))
        changed, start = [], 0
        for names, change in _FAMILIES:
            stop = start + sum(counts[CODE[name]] for name in names)
            if stop > start:
                rows = slice(start, stop)
                changed.append(change(groups[rows], operation[rows], strength[rows]))
            start = stop
        pictures = torch.cat(changed).index_select(0, order.argsort().to(pictures.device))
    return pictures


def enhance_factor(strength: Tensor) -> Tensor:
    """Return the blend factor (0.14 to 0.86 for 1 to 9) of brightness, colour, contrast, sharpness.

    In double precision first, as Python's floats are, then in single, as Pillow's blend is.
    """
    factor = strength.abs().double() * 0.9 / STRENGTH_MAX + 0.05
    return factor.float()


def luma(pictures: Tensor) -> Tensor:
    """Return Pillow's grey value ("L") of every pixel, from float32 [B,3,H,W] to [B,1,H,W].

    (19595 R + 38470 G + 7471 B + 2¹⁵) / 2¹⁶, floored; all sums are below 2²⁴, so float32 is exact.
    """
    red, green, blue = pictures.unbind(1)
    grey = (red * 19595).add_(green, alpha=38470).add_(blue, alpha=7471)
    return grey.add_(0x8000).mul_(1 / 0x10000).floor_()[:, None]


def _unchanged(pictures: Tensor, _operation: Tensor, _strength: Tensor) -> Tensor:
    """Return the pictures themselves."""
    return pictures


# ---- point-wise: one table of 256 entries a picture and channel ------------------------------


def _pointwise(pictures: Tensor, operation: Tensor, strength: Tensor) -> Tensor:
    """Return the pictures after their brightness, contrast, … table."""
    ramp = torch.arange(256, device=pictures.device)
    counts = operation.bincount(minlength=len(_POINTWISE)).tolist()
    # [G,1,1]: one level a picture, the same for its channels and all 256 values
    levels = strength.abs()[:, None, None].to(pictures.device).split_with_sizes(counts)
    tables = [
        _TABLES[name](group, level, ramp).to(torch.uint8).expand(-1, 3, 256)
        for name, group, level in zip(
            _POINTWISE, pictures.split_with_sizes(counts), levels, strict=True
        )
        if len(group)
    ]
    return torch.cat(tables).gather(2, pictures.flatten(2).long()).view_as(pictures)


def _autocontrast(pictures: Tensor, _level: Tensor, ramp: Tensor) -> Tensor:
    """Return tables that stretch each channel's range to 0…255 (a flat channel stays)."""
    flat = pictures.flatten(2)
    low, high = (end.long()[..., None] for end in (flat.amin(2), flat.amax(2)))
    span = high - low
    stretched = ((ramp - low) * 255).div(span.clamp_min(1), rounding_mode="floor").clamp(0, 255)
    return torch.where(span > 0, stretched, ramp)


def _equalize(pictures: Tensor, _level: Tensor, ramp: Tensor) -> Tensor:
    """Return tables that make each channel's histogram as flat as whole counts allow."""
    flat = pictures.flatten(2).long()
    counts = torch.zeros((*flat.shape[:2], 256), dtype=torch.int64, device=pictures.device)
    counts.scatter_add_(2, flat, torch.ones_like(flat))
    last = counts.gather(2, flat.amax(2, keepdim=True))
    step = (flat.shape[2] - last).div(255, rounding_mode="floor")
    below = counts.cumsum(2) - counts
    divisor = step.clamp_min(1)
    levels = (step.div(2, rounding_mode="floor") + below).div(divisor, rounding_mode="floor")
    # too few pixels, or one value alone, leave nothing to level: Pillow keeps the channel
    return torch.where(step > 0, levels.clamp_max(255), ramp)


def _brightness(_pictures: Tensor, level: Tensor, ramp: Tensor) -> Tensor:
    """Return tables of the blend with black."""
    return enhance_factor(level) * ramp


def _contrast(pictures: Tensor, level: Tensor, ramp: Tensor) -> Tensor:
    """Return tables of the blend with the picture's mean grey."""
    grey = luma(pictures.float()).flatten(1).long()
    pixels = grey.shape[1]
    # (2·sum + n) // 2n is the mean rounded half up, without leaving whole numbers
    mean = (grey.sum(1) * 2 + pixels).div(2 * pixels, rounding_mode="floor")[:, None, None]
    return mean + enhance_factor(level) * (ramp - mean)


def _posterize(_pictures: Tensor, level: Tensor, ramp: Tensor) -> Tensor:
    """Return tables that keep the upper 4 to 7 bits."""
    bits = (level * 4).div(STRENGTH_MAX, rounding_mode="floor") + 4
    dropped = 8 - bits
    return (ramp >> dropped) << dropped


def _solarize(_pictures: Tensor, level: Tensor, ramp: Tensor) -> Tensor:
    """Return tables that invert every value from 256 − strength·25.6 on."""
    threshold = 256 - (level * 256).div(STRENGTH_MAX, rounding_mode="floor")
    return torch.where(ramp < threshold, ramp, 255 - ramp)


_TABLES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "autocontrast": _autocontrast,
    "brightness": _brightness,
    "contrast": _contrast,
    "equalize": _equalize,
    "posterize": _posterize,
    "solarize": _solarize,
}


# ---- geometric: one gather along each picture's affine map -----------------------------------


def affine_maps(operation: Tensor, strength: Tensor, height: int, width: int) -> Tensor:
    """Return the maps from output to input pixels, float64 [G,2,3], as Pillow's AFFINE takes them.

    Rows are (a, b, c) with x_in = a·x + b·y + c, at pixel centres (x + ½, y + ½).
    """
    tenth = strength.double() / STRENGTH_MAX

    def only(name: str, value: Tensor) -> Tensor:
        return torch.where(operation == CODE[name], value, 0.0)

    # degrees are whole, cut towards zero before the sign: int(v · 30 / 10)
    angle = -torch.deg2rad(only("rotate", (tenth * 30).round()))
    cos, sin = angle.cos(), angle.sin()
    shift_x = only("translate_x", (tenth * 0.3 * width).trunc())
    shift_y = only("translate_y", (tenth * 0.3 * height).trunc())
    x, y = width / 2, height / 2
    across = [cos, sin + only("shear_x", tenth * 0.3), x - cos * x - sin * y + shift_x]
    down = [-sin + only("shear_y", tenth * 0.3), cos, y + sin * x - cos * y + shift_y]
    return torch.stack([torch.stack(across, 1), torch.stack(down, 1)], 1)


def _geometric(pictures: Tensor, operation: Tensor, strength: Tensor) -> Tensor:
    """Return the pictures moved along their maps: nearest pixel, black where there is none."""
    height, width = pictures.shape[2:]
    maps = affine_maps(operation, strength, height, width)
    maps[..., 2] += 0.5 * (maps[..., 0] + maps[..., 1])
    fixed = (maps * _FIXED_POINT + 0.5).floor().int().to(pictures.device)
    x = torch.arange(width, dtype=torch.int32, device=pictures.device)
    y = torch.arange(height, dtype=torch.int32, device=pictures.device)[:, None]
    step_x, step_y, start = fixed[..., None, None].unbind(2)  # each [G,2,1,1]
    across, down = (step_x * x + (step_y * y + start)).bitwise_right_shift_(16).unbind(1)
    # a black frame one pixel wide catches whatever lies outside, so nothing is left to mask
    framed = F.pad(pictures, (1, 1, 1, 1))
    source = torch.add(across.clamp_(-1, width), down.clamp_(-1, height), alpha=width + 2)
    flat = source.add_(width + 3).flatten(1).long()
    return framed.flatten(2).gather(2, flat[:, None].expand(-1, 3, -1)).view_as(pictures)


# ---- blends with a degenerate picture --------------------------------------------------------


def _colour(pictures: Tensor, _operation: Tensor, strength: Tensor) -> Tensor:
    """Return the pictures blended with their grey selves."""
    full = pictures.float()
    return _blend(luma(full), full, strength)


def _sharpness(pictures: Tensor, _operation: Tensor, strength: Tensor) -> Tensor:
    """Return the pictures blended with their smoothed selves (3×3, centre 5 of 13, edges kept)."""
    # sums stay below 13 · 255: int16 holds them, in half the memory traffic of float32
    whole = pictures.short()
    rows = (whole[:, :, :-2] + whole[:, :, 1:-1]).add_(whole[:, :, 2:])
    total = (rows[..., :-2] + rows[..., 1:-1]).add_(rows[..., 2:])
    inner = whole[:, :, 1:-1, 1:-1]
    smooth = total.add_(inner, alpha=4).float().div_(13).add_(0.5).floor_()
    sharpened = pictures.clone()
    sharpened[:, :, 1:-1, 1:-1] = _blend(smooth, inner.float(), strength)
    return sharpened


def _blend(degenerate: Tensor, pictures: Tensor, strength: Tensor) -> Tensor:
    """Return degenerate + factor · (pictures − degenerate), truncated to uint8 as Pillow does."""
    factor = enhance_factor(strength).to(pictures.device)[:, None, None, None]
    return (pictures - degenerate).mul_(factor).add_(degenerate).to(torch.uint8)


_FAMILIES: tuple[tuple[tuple[str, ...], Callable[[Tensor, Tensor, Tensor], Tensor]], ...] = (
    (_POINTWISE, _pointwise),
    (_GEOMETRIC, _geometric),
    (("colour",), _colour),
    (("sharpness",), _sharpness),
    (("identity",), _unchanged),
)
