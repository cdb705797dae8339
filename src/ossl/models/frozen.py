"""Freezing that is real: no gradient memory, BatchNorm folded away, evaluation for good."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from ossl.models.backbone import Backbone
from ossl.models.folding import fold


class StridedDepthwise(nn.Module):
    """A strided depthwise convolution in bf16 on a CPU, whose backward is not thirty times slower.

    oneDNN has no kernel for that backward in bf16 and falls back to its reference. Where a gradient
    is wanted the layer is computed in float32 instead, with the same (rounded) weights.
    """

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        self.conv = conv
        self.conv_with_gradient = copy.deepcopy(conv).float()

    def forward(self, x: Tensor) -> Tensor:
        """The convolution of x in x's precision."""
        if torch.is_grad_enabled() and x.requires_grad:
            with_gradient: Tensor = self.conv_with_gradient(x.float())
            return with_gradient.to(x.dtype)
        plain: Tensor = self.conv(x)
        return plain


def _mend_depthwise(net: nn.Module) -> None:
    """Nothing; puts a StridedDepthwise around every layer that needs one."""
    for parent in list(net.modules()):
        for name, layer in list(parent.named_children()):
            if (
                isinstance(layer, nn.Conv2d)
                and 1 < layer.groups == layer.in_channels
                and max(layer.stride) > 1
            ):
                setattr(parent, name, StridedDepthwise(layer))


class FrozenBackbone(Backbone):
    """A backbone that cannot learn: gradients pass through it to the pictures alone.

    It stays in evaluation mode when a parent is put into training, computes channels-last in
    `dtype`, and takes and gives float32 features like any other.
    """

    def __init__(self, backbone: Backbone, net: nn.Module, dtype: torch.dtype) -> None:
        super().__init__(
            net,
            name=backbone.name,
            width=backbone.width,
            image_size=backbone.image_size,
            mean=tuple(backbone.mean.tolist()),
            std=tuple(backbone.std.tolist()),
            pretrained=backbone.pretrained,
            parameter_count=backbone.parameter_count,
        )
        self.to(device=backbone.mean.device)
        self.dtype = dtype
        self.train(False)

    @property
    def folded(self) -> bool:
        """Whether no BatchNorm is left."""
        return not any(isinstance(layer, nn.BatchNorm2d) for layer in self.net.modules())

    def forward(self, pictures_normalised: Tensor) -> Tensor:
        """Features [B, D] in float32."""
        # Autocast would cast the folded weights anew in every call.
        with torch.autocast(pictures_normalised.device.type, enabled=False):
            pictures = pictures_normalised.to(self.dtype, memory_format=torch.channels_last)
            return super().forward(pictures)

    def train(self, mode: bool = True) -> FrozenBackbone:  # noqa: ARG002 - it never trains
        """The backbone, in evaluation mode whatever its parent is put into."""
        return super().train(False)


def freeze(
    backbone: Backbone, *, example_size: int | None = None, dtype: torch.dtype = torch.float32
) -> FrozenBackbone:
    """A frozen copy of `backbone`: folded, channels-last, in `dtype`, on the same device.

    The original is left as it is, for its weights are the ones to save. `example_size` is the side
    in pixels of the pictures on which the folded copy is compared with it (its own by default).
    """
    if isinstance(backbone, FrozenBackbone):
        raise ValueError(f"backbone {backbone.name!r} is frozen already")
    size = example_size or backbone.image_size
    generator = torch.Generator().manual_seed(0)
    example = torch.randn(2, 3, size, size, generator=generator).to(backbone.mean.device)
    # Folded in float32 and cast then: products of rounded numbers would be rounded twice.
    net = fold(copy.deepcopy(backbone.net).float(), example)
    net = net.to(dtype=dtype, memory_format=torch.channels_last)  # type: ignore[call-overload]
    if dtype == torch.bfloat16 and backbone.mean.device.type == "cpu":
        _mend_depthwise(net)
    return FrozenBackbone(backbone, net.requires_grad_(False), dtype)
