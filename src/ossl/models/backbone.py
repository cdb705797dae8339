"""The encoder E: the house's networks and any of timm's, with their normalisation and width."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ossl.errors import InputError, nearest, unknown_name
from ossl.models.parameters import count_parameters, seeded
from ossl.models.weights import hub_overlay, load_bundled, load_weights, unreachable
from ossl.models.wide_resnet import WideResNet

# timm takes two seconds to import: it is imported where a network is built, not here, so that
# `ossl --help` and `ossl evaluate` need not wait for it.

Channels = tuple[float, float, float]
IMAGENET_MEAN: Channels = (0.485, 0.456, 0.406)
IMAGENET_STD: Channels = (0.229, 0.224, 0.225)
CIFAR_MEAN: Channels = (0.4914, 0.4822, 0.4465)
CIFAR_STD: Channels = (0.2471, 0.2435, 0.2616)
HALF: Channels = (0.5, 0.5, 0.5)
ANY_TIMM = "any other timm model by its name, with its published weights or --weights"


@dataclass(frozen=True)
class BackboneSpec:
    """What is known of a backbone before it is built."""

    name: str
    default_image_size: int  # pixels
    size_multiple: int  # picture sizes are multiples of this many pixels
    pretrained: bool  # starts from published weights unless told otherwise
    mean: Channels
    std: Channels
    description: str
    timm_name: str | None = None  # None: one of this house's own networks
    widen: int = 0  # Wide ResNet only


_HOUSE = (
    BackboneSpec(
        "lite0", 128, 1, True, HALF, HALF,
        "EfficientNet-Lite0, ImageNet weights that come with the install; needs no network",
        "tf_efficientnet_lite0",
    ),
    BackboneSpec(
        "dinov2-s", 112, 14, True, IMAGENET_MEAN, IMAGENET_STD,
        "DINOv2 ViT-S/14, from the hub or --weights; the most accurate here",
        "vit_small_patch14_dinov2",
    ),
    BackboneSpec(
        "wrn-28-2", 32, 1, False, CIFAR_MEAN, CIFAR_STD,
        "Wide ResNet 28-2 from scratch, FixMatch's; small pictures",
        widen=2,
    ),
    BackboneSpec(
        "wrn-28-8", 32, 1, False, CIFAR_MEAN, CIFAR_STD,
        "Wide ResNet 28-8 from scratch, FixMatch's; small pictures, sixteen times the size",
        widen=8,
    ),
    BackboneSpec(
        "resnet18", 224, 1, False, IMAGENET_MEAN, IMAGENET_STD,
        "ResNet-18 from scratch, the paper's on ImageNet-30 (resnet18.a1_in1k is the trained one)",
        "resnet18",
    ),
)  # fmt: skip
HOUSE_BACKBONES = {spec.name: spec for spec in _HOUSE}


def list_backbones() -> tuple[BackboneSpec, ...]:
    """The house's backbones; beside them there is `ANY_TIMM`."""
    return _HOUSE


class Backbone(nn.Module):
    """Features [B, D] in float32 of normalised pictures: a network with what belongs to it."""

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        net: nn.Module,
        *,
        name: str,
        width: int,
        image_size: int,
        mean: Channels,
        std: Channels,
        pretrained: bool,
        parameter_count: int | None = None,
    ) -> None:
        super().__init__()
        self.net = net
        self.name = name
        self.width = width
        self.image_size = image_size
        self.pretrained = pretrained
        # Of the network as it was built: folding merges some of its parameters away.
        self.parameter_count = parameter_count or count_parameters(net)[1]
        # On the module's device, but no part of the weights.
        self.register_buffer("mean", torch.tensor(mean), persistent=False)
        self.register_buffer("std", torch.tensor(std), persistent=False)

    def normalise(self, pictures: Tensor) -> Tensor:
        """(x − mean) / std in float32, of uint8 pictures or of floats from 0 to 1."""
        scale = 255.0 if pictures.dtype == torch.uint8 else 1.0
        weight = (1.0 / (scale * self.std)).view(-1, 1, 1)
        shift = (-self.mean / self.std).view(-1, 1, 1)
        return torch.addcmul(shift, pictures.float(), weight)

    def forward(self, pictures_normalised: Tensor) -> Tensor:
        """Features [B, D], float32 also under autocast: distances are taken between them."""
        features: Tensor = self.net(pictures_normalised)
        return features.float()

    def extra_repr(self) -> str:
        """Name and sizes, for `print(backbone)`."""
        return f"{self.name}, width={self.width}, image_size={self.image_size}"


def create_backbone(
    name: str,
    *,
    image_size: int | None = None,
    weights: Path | None = None,
    seed: int = 0,
    pretrained: bool = True,
) -> Backbone:
    """The encoder `name` in float32, ready to train.

    `weights` is a safetensors file; without one a network that has published weights starts from
    them, unless `pretrained` is False. Every other start is drawn from `seed`.
    """
    spec = _spec(name)
    size = spec.default_image_size if image_size is None else image_size
    _check_size(spec, size)
    fetch = pretrained and spec.pretrained and weights is None
    with seeded(seed):
        if spec.timm_name is None:
            net: nn.Module = WideResNet(
                widen=spec.widen, generator=torch.Generator().manual_seed(seed)
            )
        else:
            net = _timm_net(spec, size, fetch=fetch and spec.name != "lite0")
    if fetch and spec.name == "lite0":
        load_bundled(net)
    if weights is not None:
        load_weights(net, Path(weights), name)
    return Backbone(
        net,
        name=name,
        width=_feature_width(net),
        image_size=size,
        mean=spec.mean,
        std=spec.std,
        pretrained=fetch or weights is not None,
    )


def _spec(name: str) -> BackboneSpec:
    """The record of a house name or of any timm model; an error that offers names otherwise."""
    if name in HOUSE_BACKBONES:
        return HOUSE_BACKBONES[name]
    import timm

    plain, _, tag = name.partition(".")
    variants = timm.list_pretrained(f"{plain}.*")
    if not timm.is_model(plain):
        raise _no_such_backbone(name, [*HOUSE_BACKBONES, *timm.list_models()])
    if tag and name not in variants:
        raise unknown_name("backbone", name, variants or [plain])
    cfg = _published(name)
    size = int(cfg.input_size[-1])
    multiple = _patch_size(plain) if cfg.fixed_input_size else 1
    described = f"timm's {name}"
    return BackboneSpec(
        name, size, multiple, True, tuple(cfg.mean), tuple(cfg.std), described, name
    )


def _published(name: str) -> Any:
    """timm's record of a model's published weights: sizes, normalisation, address."""
    import timm

    cfg = timm.get_pretrained_cfg(name)
    if cfg is None:
        raise InputError(f"backbone {name!r}: timm has no record of its picture size; use another.")
    return cfg


def _patch_size(plain: str) -> int:
    """The side of a ViT's patch from its name (`…patch14…`), 1 for networks without."""
    digits = plain.partition("patch")[2].partition("_")[0]
    return int(digits) if digits.isdigit() else 1


def _no_such_backbone(name: str, options: list[str]) -> InputError:
    asked = name.lower()
    inside = [option for option in options if asked and asked in option.lower()]
    inside.sort(key=lambda option: not option.lower().startswith(asked))
    if len(inside) > 1:
        shown = ", ".join(inside[:8]) + (f", … ({len(inside)} in all)" if len(inside) > 8 else "")
        return InputError(f"backbone {name!r} is a part of several names: give one of {shown}.")
    if inside:
        return InputError(f"unknown backbone {name!r}: did you mean {inside[0]!r}?")
    # Where nothing is near, a thousand of timm's names are no help: the house's are.
    return unknown_name("backbone", name, options if nearest(name, options) else HOUSE_BACKBONES)


def _check_size(spec: BackboneSpec, size: int) -> None:
    step = spec.size_multiple
    if size >= step and size % step == 0:
        return
    below, above = size // step * step, -(-max(size, 1) // step) * step
    fitting = f"{below} or {above}" if below >= step else f"{above}"
    raise InputError(
        f"backbone {spec.name!r} takes pictures whose side is a multiple of {step} pixels, "
        f"and {size} is not: use {fitting}."
    )


def _timm_net(spec: BackboneSpec, size: int, *, fetch: bool) -> nn.Module:
    """timm's network without its classifier, made to take pictures of `size` pixels."""
    import timm

    name = str(spec.timm_name)
    cfg = _published(name)
    overlay = hub_overlay(spec.name, cfg) if fetch else {}
    # Convolutional networks take any size. A ViT resamples its positions on the way; the rest of
    # those with a fixed size are built for the size asked for.
    ways: list[dict[str, Any]] = [{}]
    if cfg.fixed_input_size:
        ways = [{"dynamic_img_size": True}, {"img_size": size}]
    for way in ways:
        try:
            net: nn.Module = timm.create_model(
                name, pretrained=fetch, pretrained_cfg_overlay=overlay, num_classes=0, **way
            )
            return net
        except TypeError:
            continue  # this family has no such argument
        except (AssertionError, ValueError) as error:
            raise InputError(
                f"backbone {spec.name!r} cannot be built for pictures of {size} pixels ({error}): "
                f"use its own size, {cfg.input_size[-1]}."
            ) from error
        except OSError as error:
            raise unreachable(spec.name, "the hub", error) from error
    raise InputError(
        f"backbone {spec.name!r} takes pictures of {cfg.input_size[-1]} pixels alone, not {size}."
    )


def _feature_width(net: nn.Module) -> int:
    # timm: what comes out of the last convolution may be wider than `num_features`
    # (MobileNetV3's head), and `head_hidden_size` then says so.
    width = getattr(net, "head_hidden_size", None) or net.num_features
    if not isinstance(width, int):
        raise TypeError(f"{type(net).__name__} does not say how wide its features are")
    return width
