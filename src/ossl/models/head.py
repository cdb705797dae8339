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


class OneVsAllHead(nn.Linear):
    """K linear classifiers of two classes each, without bias; float32 as `Head` is.

    As in OpenMatch's code (`models/wideresnet.py`): 2K rows, the first K for outlying.
    """

    def __init__(self, width: int, classes: int, *, seed: int = 0) -> None:
        super().__init__(width, 2 * classes, bias=False)
        nn.init.xavier_normal_(self.weight, generator=torch.Generator().manual_seed(seed))

    def reset_parameters(self) -> None:
        """Nothing, as in `Head`."""

    def forward(self, input: Tensor) -> Tensor:
        """Logits [B, 2, K] of features [B, D]: outlying at 0, of the class at 1."""
        with torch.autocast(input.device.type, enabled=False):
            logits = super().forward(input.float())
            return logits.view(len(logits), 2, self.out_features // 2)
