"""One step of training, and what is logged of several."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from ossl.data.batches import Batch
from ossl.methods.base import Method, Phase, Stage
from ossl.train.distributed import mean_over_processes, sync_gradients
from ossl.train.journal import Journal


def train_step(
    method: Method,
    batch: Batch,
    phase: Phase,
    optimiser: torch.optim.Optimizer,
    accelerator: Accelerator,
    stage: Stage,
    statistics: Sequence[Tensor] = (),
) -> tuple[dict[str, Tensor], bool]:
    """The named parts of one step, and whether it was finite and so taken.

    A step that is not taken leaves `statistics` as they were, too.
    """
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    before = [statistic.clone() for statistic in statistics]
    with torch.autocast(
        accelerator.device.type, dtype=torch.bfloat16, enabled=stage.mixed_precision
    ):
        parts = method(batch, phase)
    loss = torch.stack([part for name, part in parts.items() if name.endswith("_loss")]).sum()
    optimiser.zero_grad(set_to_none=True)
    if loss.requires_grad:  # a prompt of no pixels leaves nothing to learn
        loss.backward()  # type: ignore[no-untyped-call]
    loss = sync_gradients(parameters, loss, accelerator.num_processes)
    gradients = [p.grad for p in parameters if p.grad is not None]
    size = torch.nn.utils.get_total_norm(gradients).to(loss) if gradients else 0.0
    finite = math.isfinite(float(loss + size))  # both are the same in every process
    if finite:
        if phase.gradient == "normalised" and float(size) > 0:
            torch._foreach_div_(gradients, float(size))
        optimiser.step()
        method.after_step(phase)
    else:
        for statistic, old in zip(statistics, before, strict=True):
            statistic.copy_(old)
    return {name: part.detach() for name, part in parts.items()}, finite


def running_statistics(method: Method) -> list[Tensor]:
    """What the normalisations that learn have gathered so far; a forward already moves it."""
    return [
        buffer
        for module in method.modules()
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.training
        if any(parameter.requires_grad for parameter in module.parameters())
        for buffer in module.buffers()
    ]


def log_step(
    journal: Journal | None,
    values: Mapping[str, object],
    step: int,
    logged: Sequence[Mapping[str, Tensor]],
    accelerator: Accelerator,
) -> float:
    """The summed loss, after writing the means over the last few steps and all processes."""
    table = torch.stack([torch.stack([*entry.values()]).float() for entry in logged])
    means = mean_over_processes(table.mean(dim=0), accelerator.num_processes).tolist()
    named: dict[str, float] = dict(zip(logged[0], means, strict=True))
    if journal is not None:
        journal.write("step", {**values, **named}, step)
    return sum(value for name, value in named.items() if name.endswith("_loss"))
