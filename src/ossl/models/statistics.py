"""BatchNorm's running statistics, taken anew instead of averaged slowly while weights moved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm


@contextmanager
def estimating_statistics(net: nn.Module) -> Iterator[None]:
    """A block in which what passes through `net` makes up its BatchNorm statistics, equally.

    FixMatch's networks average with 0.999 a step: after a short training a third of the statistics
    is still their start, and a network that is then frozen computes something it never learnt.
    """
    norms = [module for module in net.modules() if isinstance(module, _BatchNorm)]
    before = [(norm.momentum, norm.training) for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # torch's word for a plain average over batches
        norm.train()
    try:
        yield
    finally:
        for norm, (momentum, training) in zip(norms, before, strict=True):
            norm.momentum = momentum
            norm.train(training)
