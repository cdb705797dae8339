"""A tree of dataclasses as named tensors and back, for safetensors files."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

Kept = TypeVar("Kept")


def to_tensors(value: Any, prefix: str = "") -> dict[str, Tensor]:
    """Every tensor and number in a dataclass, by its dotted place; None is left out."""
    if value is None:
        return {}
    if isinstance(value, Tensor):
        return {prefix: value}
    if isinstance(value, bool | int | float):
        return {prefix: torch.tensor(value, dtype=torch.float64)}
    if dataclasses.is_dataclass(value):
        named = [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    else:
        named = [(str(place), item) for place, item in enumerate(value)]
    joined: dict[str, Tensor] = {}
    for name, item in named:
        joined |= to_tensors(item, f"{prefix}.{name}" if prefix else name)
    return joined


def from_tensors(kind: type[Kept], tensors: dict[str, Tensor], prefix: str = "") -> Kept:
    """The dataclass that `to_tensors` took apart, by the types of its fields."""
    rebuilt: Kept = _rebuild(kind, tensors, prefix)
    return rebuilt


def _rebuild(kind: Any, tensors: dict[str, Tensor], prefix: str) -> Any:
    if type(None) in get_args(kind):
        kind = next(option for option in get_args(kind) if option is not type(None))
        if not any(name == prefix or name.startswith(f"{prefix}.") for name in tensors):
            return None
    if kind is Tensor:
        return tensors[prefix]
    if kind in (int, float, bool):
        return kind(tensors[prefix].item())
    if get_origin(kind) is tuple:
        items = get_args(kind)
        if items[-1] is not Ellipsis:
            return tuple(
                _rebuild(item, tensors, f"{prefix}.{place}") for place, item in enumerate(items)
            )
    if get_origin(kind) in (list, tuple):
        places = {
            int(n[len(prefix) + 1 :].split(".")[0]) for n in tensors if n.startswith(f"{prefix}.")
        }
        item = get_args(kind)[0]
        found = [_rebuild(item, tensors, f"{prefix}.{place}") for place in sorted(places)]
        return found if get_origin(kind) is list else tuple(found)
    hints = get_type_hints(kind)
    return kind(
        **{
            field.name: _rebuild(
                hints[field.name], tensors, f"{prefix}.{field.name}" if prefix else field.name
            )
            for field in dataclasses.fields(kind)
        }
    )
