"""A run's whole state after an epoch, in one safetensors file with a small JSON in its header."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from ossl.errors import InputError
from ossl.files import read_tensors, write_tensors
from ossl.methods.base import Method

KEPT = 2  # the newest, and one before it


@dataclass(frozen=True)
class Position:
    """How far a run has come: `epoch` epochs of stage `stage` are done."""

    stage: int = 0
    epoch: int = 0
    step: int = 0  # optimiser steps of the whole run
    journal: int = 0  # bytes
    bad: dict[str, int] = field(default_factory=dict)  # by phase: last steps that were not finite


Optimisers = dict[str, tuple[torch.optim.Optimizer, dict[str, nn.Parameter]]]  # by phase
ADAM_STATE = ("step", "exp_avg", "exp_avg_sq")  # beside SGD's momentum, which has no suffix


def save_checkpoint(
    folder: Path, position: Position, method: Method, optimisers: Optimisers
) -> Path:
    """The file written; all but the newest `KEPT` checkpoints are removed."""
    tensors: dict[str, Tensor] = {f"model/{k}": v for k, v in method.state_dict().items()}
    tensors |= {f"jointspace/{k}": v for k, v in method.joint_space().items()}
    for phase, (optimiser, parameters) in optimisers.items():
        for name, parameter in parameters.items():
            state = optimiser.state[parameter]
            if state.get("momentum_buffer") is not None:
                tensors[f"optimiser/{phase}/{name}"] = state["momentum_buffer"]
            for kind in ADAM_STATE:
                if kind in state:
                    tensors[f"optimiser/{phase}/{name}/{kind}"] = state[kind]
    path = folder / f"stage{position.stage}-epoch{position.epoch:06d}.safetensors"
    write_tensors(path, tensors, {"position": json.dumps(asdict(position))})
    for old in _all(folder)[:-KEPT]:
        old.unlink()
    return path


def latest_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint of a run, or None."""
    found = _all(folder)
    return found[-1] if found else None


def read_position(path: Path) -> Position:
    """How far the run had come at a checkpoint."""
    try:
        with safe_open(path, "pt") as file:
            return Position(**json.loads(file.metadata()["position"]))
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path} cannot be read ({error}); remove it to resume from the one before."
        ) from error


def restore_model(path: Path, method: Method, device: torch.device) -> None:
    """Put a checkpoint's model and joint space into a method."""
    tensors = read_tensors(path)
    try:
        method.load_state_dict(_under(tensors, "model/"))
    except RuntimeError as error:
        raise InputError(
            f"{path} does not fit the run's config.json: was one of them changed? Fit the run "
            "again with --overwrite."
        ) from error
    joint_space = _under(tensors, "jointspace/")
    method.load_joint_space({name: tensor.to(device) for name, tensor in joint_space.items()})


def restore_optimisers(path: Path, optimisers: Optimisers) -> None:
    """Put a checkpoint's momenta into the optimisers of its stage."""
    tensors = read_tensors(path)
    for phase, (optimiser, parameters) in optimisers.items():
        momenta = _under(tensors, f"optimiser/{phase}/")
        for key, momentum in momenta.items():
            name, _, kind = key.partition("/")
            parameter = parameters[name]
            if kind == "step":
                optimiser.state[parameter]["step"] = momentum  # a number, and on the CPU
                continue
            # In the parameter's own memory format, as the optimiser would have made it: in another
            # one it may be added up by other instructions, and so not to the last bit.
            buffer = torch.empty_like(parameter, requires_grad=False)
            optimiser.state[parameter][kind or "momentum_buffer"] = buffer.copy_(momentum)


def _under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def _all(folder: Path) -> list[Path]:
    return sorted(folder.glob("stage*-epoch*.safetensors"))
