"""Backbones: their true sizes, their names, their normalisation and their start."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from ossl.errors import InputError
from ossl.models.backbone import HOUSE_BACKBONES, create_backbone, list_backbones
from ossl.models.head import Head
from ossl.models.parameters import count_parameters, seeded
from ossl.models.wide_resnet import WideResNet


@pytest.mark.parametrize(
    ("name", "width", "parameters"),
    [
        ("wrn-28-2", 128, 1_466_320),
        ("wrn-28-8", 512, 23_349_712),
        ("resnet18", 512, 11_176_512),
        ("lite0", 1280, 3_371_008),
    ],
)
def test_true_sizes(name: str, width: int, parameters: int) -> None:
    backbone = create_backbone(name, pretrained=False)
    assert (backbone.width, backbone.parameter_count) == (width, parameters)
    assert count_parameters(backbone) == (parameters, parameters)


def test_wide_resnet_with_ten_classes_is_the_published_size() -> None:
    net = nn.Sequential(create_backbone("wrn-28-2"), Head(128, 10))
    assert count_parameters(net)[1] == 1_467_610  # 1.5 M in FixMatch, not the paper's 23.4 M


def test_wide_resnet_is_as_fixmatch_has_it() -> None:
    net = WideResNet(generator=torch.Generator().manual_seed(0))
    norms = [layer for layer in net.modules() if isinstance(layer, nn.BatchNorm2d)]
    assert {(norm.momentum, norm.eps) for norm in norms} == {(0.001, 1e-5)}
    slopes = {m.negative_slope for m in net.modules() if isinstance(m, nn.LeakyReLU)}
    assert slopes == {0.1}
    net(torch.randn(2, 3, 32, 32)).sum().backward()
    # Every parameter takes part: none is dead weight.
    assert all(p.grad is not None for p in net.parameters())
    with pytest.raises(ValueError, match="6n"):
        WideResNet(27, generator=torch.Generator())


def test_counts_a_shared_parameter_once() -> None:
    layer = nn.Linear(3, 3, bias=False)
    frozen = nn.Linear(2, 2, bias=False).requires_grad_(False)
    assert count_parameters(nn.ModuleList([layer, layer, frozen])) == (9, 13)


@pytest.mark.parametrize("name", ["wrn-28-2", "resnet18"])
def test_start_follows_from_the_seed_alone(name: str) -> None:
    before = torch.get_rng_state()
    one, same, other = (create_backbone(name, seed=seed).state_dict() for seed in (3, 3, 4))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(one[key], same[key]) for key in one)
    assert any(not torch.equal(one[key], other[key]) for key in one)


def test_head_starts_from_its_seed_and_stays_in_float32() -> None:
    before = torch.get_rng_state()
    head, same, other = Head(4, 3, seed=1), Head(4, 3, seed=1), Head(4, 3, seed=2)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(head.weight, same.weight)
    assert not torch.equal(head.weight, other.weight)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = head(torch.ones(2, 4, dtype=torch.bfloat16))
    assert logits.dtype == torch.float32
    torch.testing.assert_close(logits, head.weight.sum(1).expand(2, 3))


def test_seeded_leaves_the_callers_random_state() -> None:
    before = torch.get_rng_state()
    with seeded(5):
        torch.rand(3)
    assert torch.equal(torch.get_rng_state(), before)


def test_normalise_takes_bytes_and_unit_floats() -> None:
    backbone = create_backbone("wrn-28-2")
    pictures = torch.randint(0, 256, (2, 3, 4, 4), dtype=torch.uint8)
    unit = pictures.float() / 255
    expected = (unit - backbone.mean.view(3, 1, 1)) / backbone.std.view(3, 1, 1)
    torch.testing.assert_close(backbone.normalise(pictures), expected)
    torch.testing.assert_close(backbone.normalise(unit), expected)


def test_features_are_float32_under_autocast() -> None:
    backbone = create_backbone("wrn-28-2").eval()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        features = backbone(torch.randn(2, 3, 32, 32))
    assert features.dtype == torch.float32
    assert features.shape == (2, 128)


def test_list_has_the_house_and_the_house_can_be_built() -> None:
    assert [spec.name for spec in list_backbones()] == list(HOUSE_BACKBONES)
    assert "lite0" in HOUSE_BACKBONES
    assert HOUSE_BACKBONES["dinov2-s"].size_multiple == 14
    assert all(spec.default_image_size % spec.size_multiple == 0 for spec in list_backbones())


@pytest.mark.parametrize(
    ("wrong", "offered"),
    [
        ("wrn-28-3", "wrn-28-"),
        ("lite", "lite0"),
        ("wrn", "wrn-28-2, wrn-28-8"),
        ("resnt50", "resnet50"),
        ("dinov2", "dinov2-s, "),
        ("resnet50.foo_in1k", "resnet50."),
        ("", "lite0"),
        ("zzzzqqqq", "lite0"),
    ],
)
def test_unknown_name_offers_right_ones(wrong: str, offered: str) -> None:
    with pytest.raises(InputError) as caught:
        create_backbone(wrong)
    assert offered in str(caught.value)
    assert "\n" not in str(caught.value)


def test_any_timm_model_brings_its_own_normalisation_and_width() -> None:
    backbone = create_backbone("mobilenetv3_small_050", pretrained=False, image_size=64).eval()
    torch.testing.assert_close(backbone.mean, torch.tensor([0.485, 0.456, 0.406]))
    with torch.no_grad():
        assert backbone(torch.randn(1, 3, 64, 64)).shape == (1, backbone.width)


@pytest.mark.parametrize(
    ("size", "nearest"), [(100, "98 or 112"), (5, "use 14"), (0, "use 14"), (-3, "use 14")]
)
def test_wrong_picture_size_names_the_nearest(size: int, nearest: str) -> None:
    with pytest.raises(InputError, match=nearest):
        create_backbone("dinov2-s", image_size=size)


def test_a_convolutional_network_needs_at_least_one_pixel() -> None:
    with pytest.raises(InputError, match="multiple of 1"):
        create_backbone("wrn-28-2", image_size=0)
