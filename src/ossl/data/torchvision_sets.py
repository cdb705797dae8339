"""CIFAR-10, CIFAR-100 and SVHN as torchvision keeps them, from disk or by download."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from ossl.data.arrays import ArrayPictures
from ossl.errors import InputError, unknown_name

# What torchvision puts below the root, by set; {part} is train or test.
LAYOUTS = {
    "cifar10": "cifar-10-batches-py",
    "cifar100": "cifar-100-python",
    "svhn": "{part}_32x32.mat",
}


class TorchvisionSet(ArrayPictures):
    """One part of CIFAR-10, CIFAR-100 or SVHN as a source."""

    def __init__(self, name: str, root: str | Path, train: bool, download: bool = False) -> None:
        if name not in LAYOUTS:
            raise unknown_name("torchvision set", name, LAYOUTS)
        part = "train" if train else "test"
        place = Path(root) / LAYOUTS[name].format(part=part)
        data = _load(name, Path(root), part, place, download)
        if name == "svhn":  # [N, 3, H, W], and no names
            labels, classes = data.labels, tuple(str(digit) for digit in range(10))
        else:
            labels, classes = data.targets, tuple(data.classes)
        super().__init__(
            data.data, np.asarray(labels, dtype=np.int64), classes, f"torchvision's {name} {part}"
        )
        self.where = f"torchvision's {name} {part}: {place} ({len(self):,} pictures)"


def _load(name: str, root: Path, part: str, place: Path, download: bool) -> Any:
    """torchvision's data set, or an InputError that says what to do."""
    import torchvision.datasets  # takes seconds, which only its own layouts are worth

    try:
        if name == "svhn":
            return torchvision.datasets.SVHN(root, split=part, download=download)
        kind = {"cifar10": torchvision.datasets.CIFAR10, "cifar100": torchvision.datasets.CIFAR100}
        return kind[name](root, train=part == "train", download=download)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as problem:
        if download:
            mend = f"check the network and the disk, or put the set there ({problem})"
        elif place.exists():
            mend = "it is incomplete or damaged (a checksum differs): delete it and download again"
        else:
            mend = "not there: download it (download=True), or name the folder that holds it"
        raise InputError(f"{name}: {place}: {mend}") from None
