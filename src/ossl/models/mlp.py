"""A small network between the encoder's features and a task of its own."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from ossl.models.parameters import seeded


class MLP(nn.Module):
    """Linear layers with ReLU between them, in float32 whatever precision the features come in.

    `widths` names every width on the way: features, hidden layers, outputs.
    """

    def __init__(self, widths: Sequence[int], *, seed: int = 0) -> None:
        super().__init__()
        with seeded(seed):
            layers = [nn.Linear(a, b) for a, b in pairwise(widths)]
            for layer in layers:
                nn.init.xavier_normal_(layer.weight)
                nn.init.zeros_(layer.bias)
        self.layers = nn.ModuleList(layers)

    def forward(self, features: Tensor) -> Tensor:
        """The outputs [B, n] of features [B, D]."""
        with torch.autocast(features.device.type, enabled=False):
            outputs: Tensor = self.last(self.hidden(features))
        return outputs

    @property
    def last(self) -> nn.Linear:
        """The layer that gives the outputs."""
        layer = self.layers[-1]
        assert isinstance(layer, nn.Linear)
        return layer

    def hidden(self, features: Tensor) -> Tensor:
        """What the last layer sees of features [B, D]."""
        with torch.autocast(features.device.type, enabled=False):
            values = features.float()
            for layer in self.layers[:-1]:
                values = layer(values).relu()
        return values
