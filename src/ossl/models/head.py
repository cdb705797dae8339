"""The linear classifier C on top of the features."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Head(nn.Linear):
    """A linear classifier in float32, whatever precision the features come in."""

    def __init__(self, width: int, classes: int, *, seed: int = 0) -> None:
        super().__init__(width, classes)
        nn.init.xavier_normal_(self.weight, generator=torch.Generator().manual_seed(seed))
        nn.init.zeros_(self.bias)

    def reset_parameters(self) -> None:
        """Nothing: nn.Linear's own start would draw from the global generator; see `__init__`."""

    def forward(self, input: Tensor) -> Tensor:
        """Logits [B, K] of features [B, D]; autocast is off, since it would round them to bf16."""
        with torch.autocast(input.device.type, enabled=False):
            return super().forward(input.float())
