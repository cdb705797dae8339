"""Batched augmentation, random per picture: draw on the CPU, apply wherever the pictures are.

Drawing is apart from applying so that every process of a run can draw for the global batch from
the same generator and apply only its own rows: the stream does not depend on how many there are.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from ossl.data.randaugment import CODE, OPERATIONS, STRENGTH_MAX, randaugment

View = Literal["plain", "flip", "weak", "strong"]
VIEWS: tuple[View, ...] = get_args(View)

_PAD_SHARE = 8  # the crop moves by up to an eighth of the side: 4 of 32 pixels
_CUTOUT_GREY = 127
_SMALL = 2_000_000  # values in a batch: 650 pictures of 32 × 32, 40 of 128 × 128


@dataclass(frozen=True)
class Draws:
    """All random numbers for one view of a batch; every tensor is on the CPU, first dimension B."""

    view: View
    flip: Tensor  # bool [B]
    crop: Tensor  # float64 [B,2] in [0,1): the window's place down and across the padded picture
    operations: Tensor  # int64 [B,n]: RandAugment's operations, in order; codes of OPERATIONS
    strengths: Tensor  # int64 [B,n]: ±1 … ±(m−1), tenths of the operation's range
    cutout: Tensor  # float64 [B,2] in [0,1): the grey square's centre, down and across

    def __len__(self) -> int:
        """Return the number of pictures drawn for."""
        return len(self.flip)

    def __getitem__(self, rows: slice) -> "Draws":
        """Return the draws of some of the pictures: one process's share of a global batch."""
        parts = (self.flip, self.crop, self.operations, self.strengths, self.cutout)
        return Draws(self.view, *(part[rows] for part in parts))


def draw(
    view: View,
    count: int,
    generator: torch.Generator,
    *,
    flip: bool = True,
    picks: int = 2,
    strongest: int = STRENGTH_MAX,
) -> Draws:
    """Return the random numbers for one view of `count` pictures, from a CPU generator.

    `picks` and `strongest` are n and m of RandAugment(n, m) as FixMatch's PyTorch code reads them:
    a strength is uniform in 1 … m−1, and each pick is applied with probability ½. `flip=False` is
    for pictures with a reading direction, such as digits.
    Every view takes the same amount from the generator, so changing one leaves later draws alone.
    """
    if view not in VIEWS:
        raise ValueError(f"view {view!r} is not one of {', '.join(VIEWS)}")
    if not 2 <= strongest <= STRENGTH_MAX:
        raise ValueError(f"strongest is {strongest}, it must be in 2 … {STRENGTH_MAX}")
    uniform = torch.rand((count, 5 + 4 * picks), dtype=torch.float64, generator=generator)
    which, level, applied, sign = uniform[:, 5:].view(count, 4, picks).unbind(1)
    operations = torch.where(applied < 0.5, (which * len(OPERATIONS)).long(), CODE["identity"])
    strengths = 1 + (level * (strongest - 1)).long()
    return Draws(
        view=view,
        flip=(uniform[:, 0] < 0.5) & flip,
        crop=torch.full((count, 2), 0.5, dtype=torch.float64)
        if view == "flip"
        else uniform[:, 1:3],
        operations=operations,
        strengths=torch.where(sign < 0.5, -strengths, strengths),
        cutout=uniform[:, 3:5],
    )


def apply(pictures: Tensor, draws: Draws) -> Tensor:
    """Return the drawn view of `pictures`, uint8 [B,3,H,W] on the pictures' own device.

    flip: horizontal flip alone; weak: flip and a crop from the reflect-padded picture; strong:
    weak, then RandAugment, then Cutout. The plain view is the very tensor that came in.
    """
    if pictures.dtype != torch.uint8 or pictures.dim() != 4 or pictures.shape[1] != 3:
        raise ValueError(
            f"pictures must be uint8 [B,3,H,W], not {pictures.dtype} {list(pictures.shape)}"
        )
    if len(pictures) != len(draws):
        raise ValueError(f"{len(pictures)} pictures, but draws for {len(draws)}")
    if draws.view == "plain" or not len(pictures):
        return pictures
    with _one_thread_if_small(pictures):
        moved = _flip_and_crop(pictures, draws.flip, draws.crop)
        if draws.view != "strong":
            return moved
        return _cutout(randaugment(moved, draws.operations, draws.strengths), draws.cutout)


def _flip_and_crop(pictures: Tensor, flip: Tensor, crop: Tensor) -> Tensor:
    """Return each picture flipped or not, padded by reflection and cropped back to its size."""
    height, width = pictures.shape[2:]
    down, across = _offsets(height, crop[:, 0]), _offsets(width, crop[:, 1])
    if pictures.device.type == "cpu":
        return _by_rows(pictures, flip, down, across)
    return _by_pixels(pictures, flip, down, across)


def _by_pixels(pictures: Tensor, flip: Tensor, down: Tensor, across: Tensor) -> Tensor:
    """Return the moved pictures by one gather over pixels: a single launch on a GPU."""
    height, width = pictures.shape[2:]
    columns = _reflected(width, across)
    columns = torch.where(flip[:, None], width - 1 - columns, columns).to(pictures.device)
    rows = (_reflected(height, down) * width).to(pictures.device)
    source = (rows[:, :, None] + columns[:, None, :]).flatten(1)
    return pictures.flatten(2).gather(2, source[:, None].expand(-1, 3, -1)).view(pictures.shape)


def _by_rows(pictures: Tensor, flip: Tensor, down: Tensor, across: Tensor) -> Tensor:
    """Return the moved pictures by copying whole rows: about four times as fast on a CPU."""
    count, channels, height, width = pictures.shape
    pad = width // _PAD_SHARE
    left, right = pictures[..., 1 : pad + 1].flip(3), pictures[..., width - 1 - pad : width - 1]
    wide = torch.cat([left, pictures, right.flip(3)], 3)
    # flipping a window is taking the window as far from the other end, and mirroring it
    across = torch.where(flip, -across, across) + pad
    order = flip.to(torch.uint8).argsort(stable=True)
    plane = torch.arange(count * channels).view(count, channels, 1) * height
    first = (plane + _reflected(height, down)[:, None]) * wide.shape[3] + across[:, None, None]
    windows = wide.flatten().unfold(0, width, 1).index_select(0, first[order].flatten())
    moved = windows.view(pictures.shape)
    straight = count - int(flip.sum())
    mirrored = torch.cat([moved[:straight], moved[straight:].flip(3)])
    return mirrored.index_select(0, order.argsort())


def _offsets(side: int, place: Tensor) -> Tensor:
    """Return how far the window lies from the middle of the padded side: −pad … pad, int64 [B]."""
    pad = side // _PAD_SHARE
    return (place * (2 * pad + 1)).long() - pad


def _reflected(side: int, offset: Tensor) -> Tensor:
    """Return the input positions [B,side] under a window moved by `offset`, reflected at edges."""
    position = (offset[:, None] + torch.arange(side)).abs()
    return (side - 1) - (side - 1 - position).abs()


def _cutout(pictures: Tensor, centre: Tensor) -> Tensor:
    """Return the pictures, changed in place, with a grey square of half the side over each.

    Pillow's rectangle holds both of its ends, so the published code greys 17 of 32 pixels a side.
    """
    height, width = pictures.shape[2:]
    side = min(height, width) // 2
    rows = _covered(height, side, centre[:, 0])[:, None, :, None].to(pictures.device)
    columns = _covered(width, side, centre[:, 1])[:, None, None, :].to(pictures.device)
    # in whole bytes: a quarter of the time of masked_fill with a broadcast mask
    covered = rows * columns
    return pictures.mul_(1 - covered).add_(covered * _CUTOUT_GREY)


def _covered(length: int, side: int, centre: Tensor) -> Tensor:
    """Return 1 where the square covers a position, else 0, uint8 [B,length]."""
    first = (centre * length - side / 2).clamp_min(0).long()[:, None]
    position = torch.arange(length)
    return ((position >= first) & (position <= first + side)).to(torch.uint8)


def to_float(
    pictures: Tensor,
    mean: tuple[float, float, float],
    std: tuple[float, float, float],
    dtype: torch.dtype = torch.float32,
    channels_last: bool = True,
) -> Tensor:
    """Return (pictures / 255 − mean) / std in `dtype`, in channels-last memory unless told not to.

    `mean` and `std` are of pictures in 0 … 1. Computed in float32, whatever `dtype` is.
    """
    scale = [1 / (255 * spread) for spread in std]
    shift = [-centre / spread for centre, spread in zip(mean, std, strict=True)]
    count, _, height, width = pictures.shape
    with _one_thread_if_small(pictures):
        if channels_last:
            # interleaved as bytes, a plane at a time: a quarter of the time of converting first
            pixels = torch.empty(
                (count, height, width, 3), dtype=torch.uint8, device=pictures.device
            )
            for channel in range(3):
                pixels[..., channel] = pictures[:, channel]
            # whole rows of width·3 values, for an inner loop long enough to be vectorised
            values = _scaled(pixels.view(count, height, width * 3), scale * width, shift * width)
            return values.to(dtype).view(count, height, width, 3).permute(0, 3, 1, 2)
        planes = _scaled(pictures.permute(0, 2, 3, 1), scale, shift).permute(0, 3, 1, 2)
        return planes.to(dtype, memory_format=torch.contiguous_format)


def _scaled(values: Tensor, scale: list[float], shift: list[float]) -> Tensor:
    """Return values · scale + shift along the last dimension, in float32."""
    return (
        values.to(torch.float32)
        .mul_(torch.tensor(scale, device=values.device))
        .add_(torch.tensor(shift, device=values.device))
    )


@contextmanager
def _one_thread_if_small(pictures: Tensor) -> Iterator[None]:
    """Return a context in which a small batch on the CPU is worked on by one thread.

    Each operation takes tens of microseconds, and there are hundreds. Sharing one out between
    threads saves little on an idle machine, and on a busy one each waits for the scheduler: a
    strong view of 128 pictures then took 40 times as long on two threads as on one.
    """
    threads = torch.get_num_threads()
    if pictures.device.type != "cpu" or pictures.numel() > _SMALL or threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
