"""A run as one safetensors file: every tensor, and in the header all that is needed to load it."""

from __future__ import annotations

import json
from pathlib import Path

from accelerate import Accelerator
from safetensors import safe_open

from ossl.compute import create_accelerator
from ossl.config import Device, from_dict
from ossl.errors import InputError
from ossl.export.about import about, public_config_text
from ossl.files import read_tensors, write_tensors
from ossl.fit import LoadedRun, load_run, restored
from ossl.rundir import RunFolder, json_text

PARTS = ("model", "jointspace")  # before the names of the tensors
HEADER = "ossl"  # the header's one entry: several would be written in any order


def write_bundle(run: LoadedRun, path: Path) -> None:
    """Write a run as one file without a pickle; `load_any` takes it back."""
    tensors = dict(zip(PARTS, (run.method.state_dict(), run.method.joint_space()), strict=True))
    named = {f"{part}.{name}": value for part in PARTS for name, value in tensors[part].items()}
    header = {
        **about(run),
        "classes": list(run.classes),
        "config": json.loads(public_config_text(run.config)),
    }
    write_tensors(path, named, {HEADER: json_text(header)})


def load_any(path: Path, device: Device | None = None) -> LoadedRun:
    """The run in a folder, or in a file that `write_bundle` wrote."""
    if not path.exists():
        raise InputError(f"{path}: there is no such run; name a run's folder or an exported file.")
    if path.is_dir():
        return load_run(path, None if device is None else create_accelerator(device))
    tensors = read_tensors(path)
    with safe_open(path, "pt") as file:
        text = (file.metadata() or {}).get(HEADER)
    if text is None:
        raise InputError(f"{path} is no run that `ossl export --format safetensors` wrote.")
    header = json.loads(text)
    config = from_dict(header["config"], str(path))
    classes = tuple(header["classes"])
    accelerator: Accelerator = create_accelerator(device or config.device)
    model, joint_space = (
        {
            name.removeprefix(f"{part}."): value
            for name, value in tensors.items()
            if name.startswith(f"{part}.")
        }
        for part in PARTS
    )
    method = restored(config, model, joint_space, classes, accelerator, path)
    return LoadedRun(RunFolder(path), config, method, classes, accelerator)
