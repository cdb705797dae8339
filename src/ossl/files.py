"""Files that are either whole or not there: written to a temporary name, then moved."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import safetensors.torch
from torch import Tensor

from ossl.errors import InputError


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Write a file by `write(temporary_path)` and move it into place."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(temporary)
        temporary.replace(path)
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {error.strerror or error}; make room or choose another folder "
            "(what was written before is untouched)."
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def check_writable(folder: Path, option: str = "--out") -> None:
    """Refuse in one line a folder that cannot be made or written to; nothing is touched."""
    place = folder.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise InputError(f"{option} {folder}: {place} is a file; name another folder.")
    if not os.access(place, os.W_OK | os.X_OK):
        raise InputError(f"{option} {folder}: {place} cannot be written to; name another folder.")


def make_folder(folder: Path) -> None:
    """Make a folder and those above it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"--out {folder} cannot be made: {error.strerror}; name another folder."
        ) from error


def write_text(path: Path, text: str) -> None:
    """Write a text file whole."""

    def write(temporary: Path) -> None:
        temporary.write_text(text, encoding="utf-8")

    write_whole(path, write)


def write_tensors(
    path: Path, tensors: dict[str, Tensor], metadata: dict[str, str] | None = None
) -> None:
    """Write a safetensors file whole."""
    ready = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}

    def write(temporary: Path) -> None:
        try:
            safetensors.torch.save_file(ready, temporary, metadata=metadata)
        except safetensors.SafetensorError as error:  # a full disk arrives as this
            raise OSError(str(error)) from error

    write_whole(path, write)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, on the CPU."""
    try:
        return safetensors.torch.load_file(path)
    except FileNotFoundError as error:
        raise InputError(f"{path} is missing: is {path.parent} a run of `ossl fit`?") from error
    except (OSError, safetensors.SafetensorError) as error:
        raise InputError(f"{path} cannot be read: {error}; fit the run again.") from error
