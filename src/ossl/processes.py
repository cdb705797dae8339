"""What the processes of a run tell each other, for whoever needs it beside the training loop."""

from __future__ import annotations

import torch.distributed as dist
from accelerate.utils import gather
from torch import Tensor


def from_all_processes(values: Tensor) -> Tensor:
    """The rows of all processes, one process after another; every process has as many."""
    if not (dist.is_available() and dist.is_initialized()):
        return values
    together: Tensor = gather(values.contiguous())
    return together
