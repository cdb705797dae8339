"""The views of a picture whose features are averaged: as it is, in the mirror, with the prompt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor, nn

from ossl.config import View
from ossl.errors import InputError
from ossl.models.backbone import Backbone
from ossl.models.frozen import FrozenBackbone
from ossl.models.memory import FeatureMemory
from ossl.models.prompt import VisualPrompt

VIEWS: tuple[View, ...] = ("bare", "mirrored", "prompted", "prompted_mirrored")
MIRRORED: tuple[View, ...] = ("mirrored", "prompted_mirrored")
PROMPTED: tuple[View, ...] = ("prompted", "prompted_mirrored")


def allowed_views(views: Sequence[View], flip: bool) -> tuple[View, ...]:
    """`views`, each once and in one order, without the mirrored ones where nothing may be."""
    left = tuple(v for v in VIEWS if v in views and (flip or v not in MIRRORED))
    if not left:
        raise InputError(
            "recipe.views has mirrored pictures alone, and schedule.flip is false: set one of them."
        )
    return left


def in_view(pictures: Tensor, view: View) -> Tensor:
    """The uint8 pictures, in the mirror for a view that is; the prompt comes later."""
    return pictures.flip(3) if view in MIRRORED else pictures


def view_features(
    net: Backbone,
    prompt: nn.Module,
    pictures: Tensor,
    view: View,
    memory: FeatureMemory | None = None,
    *,
    settled: bool = False,
) -> Tensor:
    """Features [B, D] of uint8 pictures in one view, from the memory where it has them.

    It keeps those of a frozen encoder, and with a prompt only where the prompt is `settled`.
    """
    pixels = prompt if isinstance(prompt, VisualPrompt) else None
    prompted = view in PROMPTED and not (pixels is not None and pixels.size == 0)

    def encode(some: Tensor) -> Tensor:
        normalised = net.normalise(some)
        features: Tensor = net(prompt(normalised) if prompted else normalised)
        return features

    seen = in_view(pictures, view)
    if (
        memory is None
        or not isinstance(net, FrozenBackbone)
        or (prompted and not (settled and pixels))
    ):
        return encode(seen)
    return memory.features(net, seen, encode, pixels if prompted else None)


def mean_of(parts: Iterable[Tensor]) -> Tensor:
    """The mean of tensors of one shape; a single one is given back as it is, to the bit."""
    total, *rest = parts
    for part in rest:
        total = total + part
    return total / (len(rest) + 1) if rest else total
