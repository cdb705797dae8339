"""Wide ResNet as FixMatch uses it: pre-activation, LeakyReLU 0.1, slow BatchNorm, no dropout."""

from __future__ import annotations

import torch
from torch import Tensor, nn

# FixMatch's TensorFlow code averages with 0.999, which torch writes as a momentum of 0.001.
BATCH_NORM_MOMENTUM = 0.001
NEGATIVE_SLOPE = 0.1


def _conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False)


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, momentum=BATCH_NORM_MOMENTUM)


def _activation() -> nn.LeakyReLU:
    # In place: BatchNorm's backward does not need its output, so one copy of it can go.
    return nn.LeakyReLU(NEGATIVE_SLOPE, inplace=True)


class PreActivationBlock(nn.Module):
    """x + conv(act(bn(conv(act(bn(x)))))), with a 1×1 convolution where the shape changes.

    `activate_before_residual` makes the shortcut start from act(bn(x)) too, as FixMatch does where
    the first group widens the stem. Elsewhere the shortcut takes x itself. (A widely copied PyTorch
    port feeds the raw x also to the first convolution of groups two and three, leaving that block's
    first BatchNorm without any use; FixMatch's own code does not, and neither does this.)
    """

    def __init__(
        self, inputs: int, outputs: int, stride: int, *, activate_before_residual: bool
    ) -> None:
        super().__init__()
        self.bn1 = _norm(inputs)
        self.act1 = _activation()
        self.conv1 = _conv(inputs, outputs, 3, stride)
        self.bn2 = _norm(outputs)
        self.act2 = _activation()
        self.conv2 = _conv(outputs, outputs, 3)
        self.shortcut = _conv(inputs, outputs, 1, stride) if inputs != outputs else None
        self.activate_before_residual = activate_before_residual and self.shortcut is not None

    def forward(self, x: Tensor) -> Tensor:
        activated = self.act1(self.bn1(x))
        residual: Tensor = self.conv2(self.act2(self.bn2(self.conv1(activated))))
        if self.shortcut is None:
            return x + residual
        shortcut: Tensor = self.shortcut(activated if self.activate_before_residual else x)
        return shortcut + residual


class WideResNet(nn.Module):
    """Features [B, 64 · widen] of pictures [B, 3, H, W]: three groups, then a mean over pixels."""

    def __init__(self, depth: int = 28, widen: int = 2, *, generator: torch.Generator) -> None:
        super().__init__()
        if (depth - 4) % 6:
            raise ValueError(f"a Wide ResNet's depth is 6n + 4, and {depth} is not")
        blocks = (depth - 4) // 6
        widths = (16, 16 * widen, 32 * widen, 64 * widen)
        self.num_features = widths[-1]
        self.conv1 = _conv(3, widths[0], 3)
        self.group1 = self._group(widths[0], widths[1], blocks, 1, activate_before_residual=True)
        self.group2 = self._group(widths[1], widths[2], blocks, 2)
        self.group3 = self._group(widths[2], widths[3], blocks, 2)
        self.bn = _norm(widths[3])
        self.act = _activation()
        self._start(generator)

    @staticmethod
    def _group(
        inputs: int,
        outputs: int,
        blocks: int,
        stride: int,
        *,
        activate_before_residual: bool = False,
    ) -> nn.Sequential:
        first = PreActivationBlock(
            inputs, outputs, stride, activate_before_residual=activate_before_residual
        )
        rest = [
            PreActivationBlock(outputs, outputs, 1, activate_before_residual=False)
            for _ in range(blocks - 1)
        ]
        return nn.Sequential(first, *rest)

    def _start(self, generator: torch.Generator) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(
                    module.weight, mode="fan_out", nonlinearity="leaky_relu", generator=generator
                )

    def forward(self, x: Tensor) -> Tensor:
        x = self.group3(self.group2(self.group1(self.conv1(x))))
        activated: Tensor = self.act(self.bn(x))
        return activated.mean(dim=(2, 3))
