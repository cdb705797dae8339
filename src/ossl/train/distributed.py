"""Several processes that train as one: the same batch, the same statistics, the same gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.distributed as dist
from accelerate import Accelerator
from accelerate.utils import gather
from torch import Tensor, nn

from ossl.data.store import Pictures


def mean_over_processes(values: Tensor, world: int) -> Tensor:
    """The mean of a tensor over all processes; each gets the same, to the last bit."""
    if world == 1:
        return values
    total = values.detach().clone()
    dist.all_reduce(total)
    return total / world


def sync_gradients(parameters: list[nn.Parameter], loss: Tensor, world: int) -> Tensor:
    """The loss averaged over processes, as the gradients then are too, in one exchange."""
    if world == 1:
        return loss.detach()
    gradients = [
        torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        for parameter in parameters
    ]
    flat = torch.cat([loss.detach().view(1), *(gradient.flatten() for gradient in gradients)])
    flat = mean_over_processes(flat, world)
    parts = torch.split(flat, [1, *(p.numel() for p in parameters)])
    for parameter, part in zip(parameters, parts[1:], strict=True):
        parameter.grad = part.view_as(parameter)
    return parts[0].squeeze()


@dataclass(frozen=True)
class DataScan:
    """The pass over all pictures of one side: each process encodes a block, all get the whole."""

    labelled: Pictures
    pool: Pictures
    accelerator: Accelerator
    batch: int  # pictures

    @property
    def labels(self) -> Tensor:
        """The classes of the labelled pictures, on the device."""
        return torch.as_tensor(self.labelled.labels).to(self.accelerator.device)

    @property
    def pool_count(self) -> int:
        """The number of pictures in the pool."""
        return len(self.pool)

    def labelled_batches(self) -> Iterator[Tensor]:
        """All labelled pictures in batches of nearly one size, the same ones in every process."""
        count = len(self.labelled)
        for indices in torch.arange(count).chunk(-(-count // self.batch)):
            yield self.labelled.take(indices).to(self.accelerator.device)

    def mixed_batches(self, count: int) -> Iterator[Tensor]:
        """Up to `count` pictures of labelled and pool in a random order, the same everywhere."""
        own = len(self.labelled)
        every = torch.randperm(own + len(self.pool), generator=torch.Generator().manual_seed(0))
        order = every[:count]
        for some in order.chunk(-(-len(order) // self.batch)):
            labelled = self.labelled.take(some[some < own])
            pool = self.pool.take(some[some >= own] - own)
            yield torch.cat([labelled, pool]).to(self.accelerator.device)

    def __call__(
        self, which: Literal["labelled", "pool"], encode: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """What `encode` makes of every picture, in order."""
        pictures = self.labelled if which == "labelled" else self.pool
        count, world = len(pictures), self.accelerator.num_processes
        block = -(-count // world)  # the last block repeats its last picture to fill up
        start = self.accelerator.process_index * block
        features: Tensor | None = None
        for low in range(0, block, self.batch):
            high = min(low + self.batch, block)
            indices = torch.arange(start + low, start + high).clamp(max=count - 1)
            part = encode(pictures.take(indices).to(self.accelerator.device))
            if features is None:  # filled as it goes: a list to join would hold everything twice
                features = part.new_empty((block, *part.shape[1:]))
            features[low:high] = part
        assert features is not None  # no source is empty
        if world > 1:
            features = gather(features)
        return features[:count]


class _GatherOverProcesses(torch.autograd.Function):
    """Every process's values, [world, …]; their gradient is what all processes made of them."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:  # noqa: ARG004 — autograd's signature
        parts = [torch.empty_like(values) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, values)
        return torch.stack(parts)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:  # noqa: ARG004 — autograd's signature
        total = gradients[0].clone()
        dist.all_reduce(total)
        mine: Tensor = total[dist.get_rank()]
        return mine


class SyncedBatchNorm2d(nn.BatchNorm2d):
    """Batch normalisation by the statistics of the global batch, on any backend.

    `torch.nn.SyncBatchNorm` runs on GPUs only, and two CPU processes are to learn what one does.
    Every process has as many pictures as any other.
    """

    def forward(self, input: Tensor) -> Tensor:
        """The normalised input."""
        if not self.training:
            return super().forward(input)
        x = input.float()
        n = x.numel() // x.shape[1]
        variance, mean = torch.var_mean(x, dim=(0, 2, 3), correction=0)
        both: Tensor = _GatherOverProcesses.apply(torch.stack([mean, variance]))
        means, variances = both.unbind(1)
        mean = means.mean(dim=0)
        # Within and between processes; E[x²] − E[x]² would cancel, below zero for a dead channel.
        variance = (variances + (means - mean).square()).mean(dim=0)
        self._follow(mean.detach(), variance.detach(), n * len(means))
        shape = (1, -1, 1, 1)
        out = (x - mean.view(shape)) * (variance + self.eps).rsqrt().view(shape)
        if self.affine:
            out = out * self.weight.view(shape) + self.bias.view(shape)
        return out.to(input.dtype)

    def _follow(self, mean: Tensor, variance: Tensor, count: int) -> None:
        """Move the running statistics towards those of a batch of `count` values."""
        if self.running_mean is None or self.running_var is None:
            return
        rate = self.momentum
        if self.num_batches_tracked is not None:
            self.num_batches_tracked += 1
            if rate is None:  # the mean over all batches so far
                rate = 1.0 / float(self.num_batches_tracked)
        assert rate is not None
        self.running_mean.lerp_(mean, rate)
        self.running_var.lerp_(variance * (count / max(count - 1, 1)), rate)


class SyncedBatchNormAct2d(SyncedBatchNorm2d):
    """The same for timm's layer that fuses a dropout and an activation into the normalisation."""

    drop: nn.Module
    act: nn.Module

    def forward(self, input: Tensor) -> Tensor:
        """The normalised input, activated."""
        activated: Tensor = self.act(self.drop(super().forward(input)))
        return activated


def sync_batch_norms(module: nn.Module) -> list[str]:
    """The names of normalisations left with each process's own statistics; others are synced."""
    left = []
    for name, child in module.named_modules():
        # Another class in place keeps weights, buffers and references as they are.
        if type(child) is nn.BatchNorm2d:
            child.__class__ = SyncedBatchNorm2d
        elif isinstance(child, nn.BatchNorm2d) and hasattr(child, "drop") and hasattr(child, "act"):
            child.__class__ = SyncedBatchNormAct2d
        elif isinstance(child, nn.modules.batchnorm._BatchNorm) and not isinstance(
            child, SyncedBatchNorm2d
        ):
            left.append(name)
    return left
