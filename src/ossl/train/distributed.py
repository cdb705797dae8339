"""Several processes that train as one: the same batch, the same statistics, the same gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
import torch.distributed as dist
from accelerate import Accelerator
from accelerate.utils import gather
from torch import Tensor, nn

from ossl.methods.base import Scan


def sync_gradients(parameters: list[nn.Parameter], world: int) -> None:
    """Average gradients over processes in one exchange."""
    if world == 1:
        return
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    flat = torch.cat([p.grad.flatten() for p in parameters if p.grad is not None])
    dist.all_reduce(flat)
    flat /= world
    for parameter, part in zip(
        parameters, torch.split(flat, [p.numel() for p in parameters]), strict=True
    ):
        parameter.grad = part.view_as(parameter)


def make_scan(
    labelled: Any, pool: Any, accelerator: Accelerator, batch: int
) -> Scan:
    """The pass over all pictures of one side: each process encodes a block, all get the whole."""

    def scan(which: Literal["labelled", "pool"], encode: Callable[[Tensor], Tensor]) -> Tensor:
        pictures = labelled if which == "labelled" else pool
        count, world = len(pictures), accelerator.num_processes
        block = -(-count // world)  # the last block repeats its last picture to fill up
        start = accelerator.process_index * block
        parts = []
        for low in range(start, start + block, batch):
            indices = torch.arange(low, min(low + batch, start + block)).clamp(max=count - 1)
            parts.append(encode(pictures.take(indices).to(accelerator.device)))
        features: Tensor = torch.cat(parts)
        if world > 1:
            features = gather(features)
        return features[:count]

    return scan


class _SumOverProcesses(torch.autograd.Function):
    """A sum over processes whose gradient is the sum over processes too."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:  # noqa: ARG004 — autograd's signature
        total = values.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:  # noqa: ARG004 — autograd's signature
        total = gradients[0].clone()
        dist.all_reduce(total)
        return total


class SyncedBatchNorm2d(nn.BatchNorm2d):
    """Batch normalisation by the statistics of the global batch, on any backend.

    `torch.nn.SyncBatchNorm` runs on GPUs only, and two CPU processes are to learn what one does.
    """

    def forward(self, input: Tensor) -> Tensor:
        """The normalised input."""
        if not self.training:
            return super().forward(input)
        x = input.float()
        n = x.numel() // x.shape[1]
        moments = torch.stack([x.mean(dim=(0, 2, 3)), x.square().mean(dim=(0, 2, 3))])
        world = dist.get_world_size()
        mean, square = (_SumOverProcesses.apply(moments) / world).unbind()
        variance = square - mean.square()
        if self.running_mean is not None and self.running_var is not None:
            with torch.no_grad():
                rate = self.momentum if self.momentum is not None else 0.1
                unbiased = variance * (n * world / max(n * world - 1, 1))
                self.running_mean.lerp_(mean, rate)
                self.running_var.lerp_(unbiased, rate)
                if self.num_batches_tracked is not None:
                    self.num_batches_tracked += 1
        shape = (1, -1, 1, 1)
        scale = (variance + self.eps).rsqrt().view(shape)
        out = (x - mean.view(shape)) * scale
        if self.affine:
            out = out * self.weight.view(shape) + self.bias.view(shape)
        return out.to(input.dtype)


def sync_batch_norms(module: nn.Module) -> list[str]:
    """The names of normalisations left with each process's own statistics; the others are synced.

    Layers that fuse an activation into the normalisation (timm's) are not known here.
    """
    left = []
    for name, child in module.named_modules():
        if type(child) is nn.BatchNorm2d:
            child.__class__ = SyncedBatchNorm2d  # keeps weights, buffers and references as they are
        elif isinstance(child, nn.modules.batchnorm._BatchNorm) and not isinstance(
            child, SyncedBatchNorm2d
        ):
            left.append(name)
    return left



