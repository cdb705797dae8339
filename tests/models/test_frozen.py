"""Freezing: the same features, cheaper, and nothing in it ever learns."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from ossl.models.backbone import Backbone, create_backbone
from ossl.models.folding import ScaleShift, fold
from ossl.models.frozen import StridedDepthwise, freeze
from ossl.models.head import Head
from ossl.models.prompt import VisualPrompt

SIZES = {"wrn-28-2": 32, "resnet18": 64, "lite0": 64, "mobilenetv3_small_050": 64}


def _trained_looking(name: str) -> Backbone:
    """A backbone whose BatchNorms have statistics of every size and gains of both signs."""
    backbone = create_backbone(name, pretrained=False, image_size=SIZES[name])
    generator = torch.Generator().manual_seed(1)
    for norm in backbone.modules():
        if isinstance(norm, nn.BatchNorm2d):
            assert norm.running_mean is not None
            assert norm.running_var is not None
            norm.running_mean.normal_(0, 0.3, generator=generator)
            norm.running_var.uniform_(0.3, 3, generator=generator)
            with torch.no_grad():
                norm.weight.normal_(1, 0.5, generator=generator)
                norm.bias.normal_(0, 0.3, generator=generator)
    return backbone.eval()


def _pictures(size: int, batch: int = 3) -> Tensor:
    return torch.randn(batch, 3, size, size, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("name", SIZES)
def test_folded_features_are_the_same(name: str) -> None:
    backbone = _trained_looking(name)
    frozen = freeze(backbone, example_size=SIZES[name])
    assert frozen.folded
    assert not backbone.training
    with torch.no_grad():
        before, after = (net(_pictures(SIZES[name])) for net in (backbone, frozen))
    scale = float(before.abs().max().clamp(min=1))
    torch.testing.assert_close(after, before, rtol=0, atol=1e-4 * scale)


@pytest.mark.parametrize("name", SIZES)
def test_folded_gradients_are_the_same(name: str) -> None:
    # In float64: in float32 rounding alone moves activations over their kink, and one such move
    # changes a gradient in the third digit.
    net = _trained_looking(name).net.double()
    one, two = (_pictures(SIZES[name]).double().requires_grad_() for _ in range(2))
    (gradient,) = torch.autograd.grad(net(one).square().sum(), one)
    (folded,) = torch.autograd.grad(fold(net, one.detach())(two).square().sum(), two)
    torch.testing.assert_close(folded, gradient, rtol=0, atol=1e-10 * float(gradient.abs().max()))


def _prompt_gradient(net: nn.Module, size: int) -> Tensor:
    prompt = VisualPrompt(size, size // 6, start="zero")
    net(prompt(_pictures(size, 8))).square().sum().backward()
    assert prompt.values.grad is not None
    return prompt.values.grad


def test_bf16_is_close_and_its_gradient_too() -> None:
    backbone = create_backbone("wrn-28-2").eval()
    frozen = freeze(backbone, dtype=torch.bfloat16)
    with torch.no_grad():
        before, after = (net(_pictures(32)) for net in (backbone, frozen))
    assert after.dtype == torch.float32
    assert float(torch.cosine_similarity(before, after).min()) > 0.999
    exact, rounded = (_prompt_gradient(net, 32) for net in (backbone, frozen))
    assert float(torch.cosine_similarity(exact, rounded, dim=0)) > 0.95


def test_bf16_of_the_bundled_backbone_mends_its_strided_layers() -> None:
    frozen = freeze(create_backbone("lite0", image_size=64), dtype=torch.bfloat16)
    mended = [layer for layer in frozen.modules() if isinstance(layer, StridedDepthwise)]
    assert len(mended) == 4
    channels = mended[0].conv.in_channels
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, channels, 12, 12, generator=generator).bfloat16()
    with torch.no_grad():
        plain = mended[0](x)
    learning = mended[0](x.requires_grad_())
    assert plain.dtype == learning.dtype == torch.bfloat16
    torch.testing.assert_close(plain, learning.detach(), rtol=0.02, atol=0.02)
    (gradient,) = torch.autograd.grad(learning.sum(), x)
    reference = x.detach().float().requires_grad_()
    (exact,) = torch.autograd.grad(mended[0].conv_with_gradient(reference).sum(), reference)
    torch.testing.assert_close(gradient.float(), exact, rtol=0.02, atol=0.02)


def test_training_a_parent_leaves_it_frozen() -> None:
    backbone = create_backbone("wrn-28-2")
    frozen = freeze(backbone)
    parent = nn.Sequential(frozen, Head(128, 3))
    parent.train()
    assert parent.training
    assert not any(module.training for module in frozen.modules())
    state = {key: value.clone() for key, value in frozen.state_dict().items()}
    parent(_pictures(32)).sum().backward()
    assert all(torch.equal(value, state[key]) for key, value in frozen.state_dict().items())
    assert all(parameter.requires_grad for parameter in backbone.parameters())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_gradient_reaches_the_prompt_alone(dtype: torch.dtype) -> None:
    frozen = freeze(create_backbone("wrn-28-2"), dtype=dtype)
    prompt = VisualPrompt(32, 6)
    frozen(prompt(_pictures(32))).square().sum().backward()
    assert prompt.values.grad is not None
    assert bool((prompt.values.grad != 0).any())
    assert all(p.grad is None and not p.requires_grad for p in frozen.parameters())


def test_the_teachers_pass_keeps_no_graph() -> None:
    frozen = freeze(create_backbone("wrn-28-2"))
    # Without anything to learn before it, nothing is remembered even outside no_grad.
    assert frozen(_pictures(32)).grad_fn is None


def test_true_count_survives_folding() -> None:
    frozen = freeze(create_backbone("wrn-28-2"))
    assert frozen.parameter_count == 1_466_320
    assert sum(p.numel() for p in frozen.parameters()) < 1_466_320
    with pytest.raises(ValueError, match="frozen already"):
        freeze(frozen)


class _Awkward(nn.Module):
    """What must not be folded: a convolution read twice, and one called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.read_twice = nn.Conv2d(3, 3, 1)
        self.called_twice = nn.Conv2d(3, 3, 1)
        self.bn1, self.bn2 = nn.BatchNorm2d(3), nn.BatchNorm2d(3, affine=False)
        self.act = nn.ReLU(inplace=True)
        self.bare = nn.BatchNorm2d(3, track_running_stats=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.read_twice(x)
        z = self.bn2(self.called_twice(self.called_twice(y)))
        out: Tensor = self.bare(self.act(self.bn1(y) + y) + z)
        return out.mean((2, 3))


def test_only_what_may_be_folded_is() -> None:
    net = _Awkward().eval()
    net.bn1.running_mean = torch.tensor([0.5, -1.0, 2.0])
    net.bn2.running_var = torch.tensor([0.5, 4.0, 2.0])
    pictures = _pictures(5)
    folded = fold(net, pictures)
    torch.testing.assert_close(folded(pictures), net(pictures))
    assert sum(isinstance(m, ScaleShift) for m in folded.modules()) == 2
    assert sum(isinstance(m, nn.BatchNorm2d) for m in folded.modules()) == 1


class _Untraceable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bn = nn.BatchNorm2d(3)

    def forward(self, x: Tensor) -> Tensor:
        return self.bn(x).mean((2, 3)) if x.sum() > 0 else x.mean((2, 3))


def test_what_cannot_be_traced_is_frozen_as_it_is() -> None:
    net = _Untraceable()
    plain = fold(net, _pictures(4))
    assert isinstance(plain, _Untraceable)
    assert not plain.training
    assert not any(p.requires_grad for p in plain.parameters())
    assert net.training
