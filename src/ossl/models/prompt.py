"""The visual prompt v: a few trained pixels that are added to every picture."""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ossl.errors import InputError

Template = Literal["padding", "fixed_patch", "random_patch"]
Placement = Literal["overlay", "surround"]
Start = Literal["normal", "zero"]
Region = tuple[int, int, int, int]  # top, left, height, width in pixels


def prompt_size_for(image_size: int, size_at_224: int = 40) -> int:
    """p = H · 40 / 224, rounded half up: the paper's prompt at another picture size (row 1)."""
    return int(image_size * size_at_224 / 224 + 0.5)


def prompt_parameter_count(image_size: int, size: int, channels: int = 3) -> int:
    """2 C p (H + W − 2p): the pixels of a border p wide around a square picture (row 1)."""
    return 2 * channels * size * (2 * image_size - 2 * size)


def _paint(values: Tensor, regions: tuple[Region, ...], shape: tuple[int, int, int]) -> Tensor:
    """A canvas [C, H, W] with `values` on the regions, one after another, and zero elsewhere."""
    canvas = values.new_zeros(shape)
    offset = 0
    for top, left, height, width in regions:
        count = shape[0] * height * width
        block = values[offset : offset + count].view(shape[0], height, width)
        canvas[:, top : top + height, left : left + width] = block
        offset += count
    return canvas


class _AddOnRegions(torch.autograd.Function):
    """pictures + canvas; its gradient is summed over the batch on the regions alone."""

    @staticmethod
    def forward(ctx: Any, pictures: Tensor, values: Tensor, regions: tuple[Region, ...]) -> Tensor:
        ctx.regions, ctx.values_dtype = regions, values.dtype
        channels, height, width = pictures.shape[1:]
        canvas = _paint(values, regions, (channels, height, width)).to(pictures.dtype)
        canvas = canvas.unsqueeze(0)
        if pictures.is_contiguous(memory_format=torch.channels_last):
            canvas = canvas.contiguous(memory_format=torch.channels_last)
        return pictures + canvas

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        wanted = None
        if ctx.needs_input_grad[1]:
            wanted = torch.cat(
                [
                    gradient[:, :, top : top + height, left : left + width]
                    .sum(dim=0, dtype=ctx.values_dtype)
                    .flatten()
                    for top, left, height, width in ctx.regions
                ]
            )
        return (gradient if ctx.needs_input_grad[0] else None), wanted, None


class VisualPrompt(nn.Module):
    """Prompted pictures: x + v, in normalised pixels (DESIGN.md section 2, rows 1 and 2).

    - `padding`: v is a border `size` pixels wide; its parameters are exactly the border's
      2 C p (H + W − 2p) pixels.
    - `fixed_patch`: v is a `size` × `size` patch in the top left corner.
    - `random_patch`: the same patch, in training at a place drawn anew for every picture and call;
      in evaluation at one place drawn from the seed, so that a picture's score depends neither on
      the call nor on the other pictures of its batch.
    - `overlay` adds v onto the whole picture; `surround` first shrinks the picture into the inner
      window, so that the border is the prompt alone (padding only).
    - `start`: N(0, 1) from `seed` as in the paper's source, or zero.

    `size` 0 is a prompt without parameters that changes nothing.
    """

    values: nn.Parameter
    draws: Tensor

    def __init__(
        self,
        image_size: int,
        size: int,
        *,
        template: Template = "padding",
        placement: Placement = "overlay",
        start: Start = "normal",
        channels: int = 3,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self._refuse_misfit(image_size, size, template, placement)
        self.image_size, self.size, self.channels = image_size, size, channels
        self.template: Template = template
        self.placement: Placement = placement
        self.seed = seed
        generator = torch.Generator().manual_seed(seed)
        self.regions = self._regions(generator) if size else ()
        count = sum(channels * height * width for _, _, height, width in self.regions)
        values = (
            torch.randn(count, generator=generator) if start == "normal" else torch.zeros(count)
        )
        self.values = nn.Parameter(values, requires_grad=count > 0)
        if template == "random_patch":
            # Counting the draws, and not keeping a generator, makes a resumed run draw on as if it
            # had never stopped: the count is an ordinary tensor of the state.
            self.register_buffer("draws", torch.zeros((), dtype=torch.int64))

    @staticmethod
    def _refuse_misfit(
        image_size: int, size: int, template: Template, placement: Placement
    ) -> None:
        biggest = (image_size - 1) // 2 if template == "padding" else image_size
        if size < 0 or size > biggest:
            raise InputError(
                f"a {template} prompt of {size} pixels does not fit a picture of {image_size}: "
                f"choose a prompt size (recipe.prompt.size) from 0 to {biggest}."
            )
        if placement == "surround" and template != "padding":
            raise InputError(
                f"placement 'surround' needs a border, which template {template!r} has not: "
                "use template 'padding' or placement 'overlay'."
            )

    def _regions(self, generator: torch.Generator) -> tuple[Region, ...]:
        H, p = self.image_size, self.size
        if self.template == "padding":
            # Top and bottom rows over the full width, then what is left of the two sides.
            inner = H - 2 * p
            return ((0, 0, p, H), (H - p, 0, p, H), (p, 0, inner, p), (p, H - p, inner, p))
        if self.template == "fixed_patch":
            return ((0, 0, p, p),)
        top, left = torch.randint(0, H - p + 1, (2,), generator=generator).tolist()
        return ((top, left, p, p),)

    def forward(self, pictures: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Prompted pictures [B, C, H, W] of normalised ones, in their own precision and layout.

        `generator` (on the CPU) draws the places of `random_patch` in training; without one they
        follow from the seed and the number of calls so far.
        """
        if self.size == 0:
            return pictures
        if pictures.shape[1:] != (self.channels, self.image_size, self.image_size):
            raise ValueError(
                f"the prompt is for pictures [B, {self.channels}, {self.image_size}, "
                f"{self.image_size}], and these are {list(pictures.shape)}"
            )
        if self.template == "random_patch" and self.training:
            return self._add_at_random(pictures, generator)
        if self.placement == "surround":
            pictures = self._shrink(pictures)
        prompted: Tensor = _AddOnRegions.apply(pictures, self.values, self.regions)
        return prompted

    def _shrink(self, pictures: Tensor) -> Tensor:
        inner = self.image_size - 2 * self.size
        # Antialiased resizing has no bf16 kernel everywhere, so it is done in float32.
        small = F.interpolate(
            pictures.float(), size=(inner, inner), mode="bilinear", antialias=True
        )
        return F.pad(small.to(pictures.dtype), (self.size,) * 4)

    def _add_at_random(self, pictures: Tensor, generator: torch.Generator | None) -> Tensor:
        batch, p = len(pictures), self.size
        if generator is None:
            # Steps of a large odd number keep neighbouring seeds from sharing their sequences.
            seed = (self.seed + 1) * 0x9E3779B97F4A7C15 + int(self.draws)
            generator = torch.Generator().manual_seed(seed % 2**63)
            self.draws += 1
        corners = torch.randint(0, self.image_size - p + 1, (2, batch, 1), generator=generator)
        rows, columns = (corners + torch.arange(p)).to(pictures.device)
        index = (
            torch.arange(batch, device=pictures.device)[:, None, None],
            slice(None),
            rows[:, :, None],
            columns[:, None, :],
        )
        patch = self.values.view(self.channels, p, p).permute(1, 2, 0)
        prompted = pictures.clone()
        prompted[index] = pictures[index] + patch.to(pictures.dtype)
        return prompted

    def as_image(self) -> Tensor:
        """The prompt as a picture [C, H, W], zero where there is none; where evaluation puts it."""
        shape = (self.channels, self.image_size, self.image_size)
        return _paint(self.values.detach(), self.regions, shape)

    def fingerprint(self) -> bytes:
        """All that it does to a picture, as bytes to tell one prompt from another by."""
        values = self.values.detach().cpu().contiguous().view(torch.uint8).numpy()
        return f"{self.extra_repr()} {self.regions}".encode() + values.tobytes()

    def extra_repr(self) -> str:
        """The settings, for `print(prompt)`."""
        return (
            f"{self.template}, {self.placement}, image_size={self.image_size}, "
            f"size={self.size}, parameters={self.values.numel()}"
        )
