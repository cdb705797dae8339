"""Counting parameters, and starting them from a seed without touching the global one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


def count_parameters(module: nn.Module) -> tuple[int, int]:
    """(trained, total) numbers in `module`, each parameter counted once even where shared."""
    # parameters() already skips duplicates; a parametrised or tied weight is therefore one.
    sizes = [(parameter.numel(), parameter.requires_grad) for parameter in module.parameters()]
    return sum(n for n, trained in sizes if trained), sum(n for n, _ in sizes)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """A block in which layers start from `seed`, with the caller's random state left as it was.

    torch's layers and timm's networks draw their start from the CPU's default generator and take
    no other; only that one is forked, because `torch.manual_seed` would also reseed every device.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
