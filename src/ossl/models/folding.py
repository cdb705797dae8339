"""BatchNorm folded away, and what is left of the network made cheap: for frozen networks only.

The network is traced once (torch.fx), and of the trace
- a BatchNorm that alone follows a convolution goes into its weights;
- any other BatchNorm (Wide ResNet's pre-activations) becomes one scale and shift per channel;
- activations and additions write into their operand where nothing else reads it. Autograd allows
  it, because neither a convolution nor a scale's backward looks at its own output.
"""

from __future__ import annotations

import copy
import operator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

_ACTIVATIONS = (nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.Hardtanh, nn.SiLU, nn.Hardswish, nn.ELU)
# Their backward needs the input, which an activation in place would have overwritten.
_NEEDS_ITS_INPUT = (nn.SiLU, nn.Hardswish)


class ScaleShift(nn.Module):
    """x · scale + shift per channel: a BatchNorm in evaluation that follows no convolution."""

    def __init__(self, scale: Tensor, shift: Tensor) -> None:
        super().__init__()
        self.scale = nn.Parameter(scale.view(-1, 1, 1, 1), requires_grad=False)
        self.shift = nn.Parameter(shift, requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """One pass over x, and in the backward one more."""
        if x.dtype == torch.bfloat16 and x.device.type == "cpu":
            # oneDNN's 1×1 depthwise convolution takes half the time of any other way in bf16; in
            # float32 it takes twice.
            return F.conv2d(x, self.scale, self.shift, groups=len(self.scale))
        return torch.addcmul(self.shift.view(1, -1, 1, 1), x, self.scale.view(1, -1, 1, 1))


class _Tracer(fx.Tracer):
    """Stops at what folding handles, and at layers that look at sizes while they run."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        # timm's convolutions with TensorFlow's padding and its BatchNorm with an activation are
        # subclasses whose forward is Python.
        if isinstance(m, nn.Conv2d | nn.BatchNorm2d):
            return True
        return super().is_leaf_module(m, module_qualified_name)


def fold(net: nn.Module, example: Tensor, tolerance: float = 1e-4) -> nn.Module:
    """A folded copy of `net` that gives the same features, or a plain copy where that fails.

    It fails where a network's Python cannot be traced (most transformers, which have no BatchNorm
    to fold anyway), or where the copy's features of `example` differ by more than `tolerance` of
    the largest.
    """
    plain = copy.deepcopy(net).eval().requires_grad_(False)
    if not any(isinstance(module, nn.BatchNorm2d) for module in plain.modules()):
        return plain
    original = copy.deepcopy(plain)  # the trace shares the layers of what it traces
    try:
        folded = _fold_trace(fx.GraphModule(plain, _Tracer().trace(plain)))
        with torch.no_grad():
            before, after = original(example), folded(example)
    except (fx.proxy.TraceError, TypeError, NotImplementedError, RuntimeError):
        return original
    scale = before.abs().max().clamp(min=1.0)
    same = before.shape == after.shape and bool((before - after).abs().max() <= tolerance * scale)
    return folded if same else original


def _fold_trace(traced: fx.GraphModule) -> fx.GraphModule:
    layers = dict(traced.named_modules())
    for node in list(traced.graph.nodes):
        layer = _layer(node, layers)
        if isinstance(layer, nn.BatchNorm2d):
            _replace_norm(traced, node, layer, layers)
    for node in list(traced.graph.nodes):
        _work_in_place(node, layers)
    traced.graph.lint()
    traced.recompile()
    traced.delete_all_unused_submodules()
    return traced.eval().requires_grad_(False)


def _layer(node: Any, layers: dict[str, nn.Module]) -> nn.Module | None:
    if isinstance(node, fx.Node) and node.op == "call_module":
        return layers[str(node.target)]
    return None


def _replace_norm(
    traced: fx.GraphModule, node: fx.Node, norm: nn.BatchNorm2d, layers: dict[str, nn.Module]
) -> None:
    """Nothing; `norm` leaves the trace: into the convolution before it, or as a ScaleShift."""
    source = node.args[0]
    conv = _layer(source, layers)
    # timm's BatchNormAct2d also drops and activates; those two stay.
    followers = [getattr(norm, name) for name in ("drop", "act") if hasattr(norm, name)]
    followers = [layer for layer in followers if not isinstance(layer, nn.Identity)]
    mean, variance = norm.running_mean, norm.running_var
    if mean is None or variance is None:
        return  # it normalises by its own batch even in evaluation: not foldable
    calls = sum(_layer(other, layers) is conv for other in traced.graph.nodes)
    if isinstance(conv, nn.Conv2d) and calls == 1 and _read_once(source):
        conv.weight, conv.bias = fuse_conv_bn_weights(
            conv.weight, conv.bias, mean, variance, norm.eps, norm.weight, norm.bias
        )
        _put(node, followers, layers, traced)
        return
    scale = torch.rsqrt(variance + norm.eps)
    scale = scale if norm.weight is None else scale * norm.weight
    shift = -mean * scale
    shift = shift if norm.bias is None else shift + norm.bias
    _put(node, [ScaleShift(scale.detach(), shift.detach()), *followers], layers, traced)


def _put(
    node: fx.Node, chain: list[nn.Module], layers: dict[str, nn.Module], traced: fx.GraphModule
) -> None:
    """Nothing; the trace calls the layers of `chain` one after another in place of `node`."""
    last = node.args[0]
    with traced.graph.inserting_before(node):
        for position, layer in enumerate(chain):
            name = f"{str(node.target).replace('.', '_')}_{position}"
            traced.add_submodule(name, layer)
            layers[name] = layer
            last = traced.graph.call_module(name, (last,))
    node.replace_all_uses_with(last)  # type: ignore[arg-type]
    traced.graph.erase_node(node)


def _work_in_place(node: fx.Node, layers: dict[str, nn.Module]) -> None:
    """Nothing; lets `node` overwrite an operand that no other node reads."""
    layer = _layer(node, layers)
    if isinstance(layer, _ACTIVATIONS) and not isinstance(layer, _NEEDS_ITS_INPUT):
        layer.inplace = _is_fresh(node.args[0], layers)  # type: ignore[assignment,unused-ignore]
    elif isinstance(layer, _NEEDS_ITS_INPUT):
        layer.inplace = False  # type: ignore[assignment,unused-ignore]
    elif node.op == "call_function" and node.target in (operator.add, torch.add):
        if len(node.args) != 2 or node.kwargs:
            return
        left, right = node.args
        if _is_fresh(right, layers):
            node.target, node.args = operator.iadd, (right, left)
        elif _is_fresh(left, layers):
            node.target = operator.iadd


def _is_fresh(value: Any, layers: dict[str, nn.Module]) -> bool:
    """Whether `value` has one reader, and was written by what does not need it for a backward."""
    if not _read_once(value):
        return False
    if value.op == "call_function":
        if value.target is operator.iadd:  # it is its first operand, under another name
            return _read_once(value.args[0])
        return value.target in (operator.add, torch.add)
    return isinstance(_layer(value, layers), nn.Conv2d | ScaleShift)


def _read_once(value: Any) -> bool:
    return isinstance(value, fx.Node) and len(value.users) == 1
