"""A data set by its name, in whichever layout it lies below the data root."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ossl.data.arrays import ArrayPictures
from ossl.data.folders import ClassFolders, FlatFolder, existing_folder
from ossl.data.parquet import ParquetPictures
from ossl.data.pictures import Source
from ossl.data.protocols import (
    CIFAR10_CLASSES,
    CIFAR100_CLASSES,
    DIGITS_CLASSES,
    IMAGENET30_CLASSES,
)
from ossl.data.sources import Selection
from ossl.data.torchvision_sets import LAYOUTS, TorchvisionSet
from ossl.errors import InputError, unknown_name

PARTS = ("train", "test")
_SHARD = re.compile(r"(.*?)-(\d+)-of-(\d+)\Z")


@dataclass(frozen=True)
class _Set:
    """What is known of a data set before it is found."""

    get: str  # how a person gets it
    classes: tuple[str, ...] = ()  # in the official order; () when the order does not matter
    ood: str = ""  # its file below ood/, as a pattern
    whole: bool = False  # may lie there without parts: other data, used for testing only
    also_test: tuple[str, ...] = ()  # what the test part may be called as well


_SETS: dict[str, _Set] = {
    "cifar10": _Set("put the hub's cifar10 parquet there, or let it download", CIFAR10_CLASSES),
    "cifar100": _Set("put the hub's cifar100 parquet there, or let it download", CIFAR100_CLASSES),
    "svhn": _Set(
        "put the hub's svhn parquet there, or let it download",
        DIGITS_CLASSES,
        ood="svhn*.parquet",
        whole=True,
    ),
    "imagenet30": _Set(
        "put its class folders there (train/CLASS and test/CLASS)",
        IMAGENET30_CLASSES,
        also_test=("val", "validation"),
    ),
    "tinyimagenet": _Set(
        "put its pictures or a parquet file there",
        ood="*tinyimagenet*.parquet",
        whole=True,
        also_test=("val", "valid", "validation"),
    ),
    "scenes": _Set(
        "put scene pictures (SUN, LSUN) or a parquet file there",
        ood="*scenes*.parquet",
        whole=True,
    ),
    "dtd": _Set(
        "put the textures' folders or a parquet file there", ood="dtd*.parquet", whole=True
    ),
}
DATASETS = tuple(_SETS)


def find_dataset(name: str, root: str | Path, part: str, download: bool = False) -> Source:
    """One part ("train" or "test") of a data set, from the first layout found below the root.

    In this order: the hub's parquet, torchvision's own files, class folders; then, when asked,
    torchvision's download. `source.where` says which it was.
    """
    if name not in _SETS:
        raise unknown_name("data set", name, _SETS)
    if part not in PARTS:
        raise unknown_name("part", part, PARTS)
    about, place = _SETS[name], Path(root).expanduser()
    if not (download and not place.exists()):  # a root that is to be filled need not be there
        existing_folder(place, "data root")
    looked: list[str] = []
    for look in (_parquet, _torchvision, _folders):
        source = look(name, about, place, part, looked)
        if source is not None:
            return _official(source, name, about)
    if download and name in LAYOUTS:
        return _official(TorchvisionSet(name, place, part == "train", download=True), name, about)
    if download:
        raise InputError(f"{name}: {place}: it cannot be downloaded: {about.get}")
    raise InputError(
        f"{name} ({part}): {place}: not there, looked for {', '.join(looked)}: {about.get}"
    )


def digits_source() -> ArrayPictures:
    """scikit-learn's digits: 1,797 grey pictures of 8 x 8, with their labels."""
    from sklearn.datasets import load_digits

    data = load_digits()
    grey = np.rint(data.images * (255 / 16)).astype(np.uint8)  # the set's values are 0 to 16
    return ArrayPictures(grey, data.target, DIGITS_CLASSES, "scikit-learn's digits")


def _part_names(about: _Set, part: str) -> tuple[str, ...]:
    return (part, *about.also_test) if part == "test" else (part,)


def _parquet(name: str, about: _Set, root: Path, part: str, looked: list[str]) -> Source | None:
    """The set from parquet files with the hub's names, at the depths the hub has them."""
    for called in _part_names(about, part):
        patterns = [f"{name}/{called}*.parquet"]
        # Where a copy of the hub's repository has them.
        patterns += [
            f"{name}/{sub}/{called}*.parquet"
            for sub in ("data", "plain_text", "cropped_digits", name)
        ]
        for pattern in patterns:
            files = [p for p in sorted(root.glob(pattern)) if _is_part(p, called)]
            if files:
                return ParquetPictures(_all_shards(files))
        looked.append(patterns[0])
    if about.ood and part == "test":
        pattern = f"ood/{about.ood}"
        looked.append(pattern)
        files = sorted(root.glob(pattern))
        if files:
            return ParquetPictures(_all_shards(files))
    return None


def _is_part(path: Path, called: str) -> bool:
    """Whether the file is the part itself or a shard of it (`train-...`, not `training_extra`)."""
    return path.stem == called or path.stem.startswith(f"{called}-")


def _all_shards(files: list[Path]) -> list[Path]:
    """The files, checked to be one data set's and none missing."""
    sets: dict[str, list[Path]] = defaultdict(list)
    for file in files:
        shard = _SHARD.match(file.stem)
        sets[f"{shard[1]} of {int(shard[3])}" if shard else file.stem].append(file)
    if len(sets) > 1:
        raise InputError(
            f"parquet: {files[0].parent}: {' and '.join(f.name for f in files[:4])} could each be "
            "meant: leave one set of files there"
        )
    shard = _SHARD.match(files[0].stem)
    if shard and len(files) != int(shard[3]):
        raise InputError(
            f"parquet: {files[0].parent}: {len(files)} of {int(shard[3])} files of "
            f"{shard[1]!r} are there: get the others as well"
        )
    return files


def _torchvision(name: str, _: _Set, root: Path, part: str, looked: list[str]) -> Source | None:
    """The set from the files torchvision keeps, below the root or below the set's folder."""
    if name not in LAYOUTS:
        return None
    layout = LAYOUTS[name].format(part=part)
    for base in (root, root / name):
        if (base / layout).exists():
            return TorchvisionSet(name, base, part == "train")
    looked.append(layout)
    return None


def _folders(name: str, about: _Set, root: Path, part: str, looked: list[str]) -> Source | None:
    """The set from a folder per class, or a heap of pictures where labels do not matter."""
    for called in _part_names(about, part):
        looked.append(f"{name}/{called}/CLASS/*")
        if (root / name / called).is_dir():
            return _folder(root / name / called, about)
    if about.whole and part == "test":
        looked.append(f"{name}/*")
        # torchvision's DTD keeps the class folders in dtd/images, with lists beside them.
        for place in (root / name / name / "images", root / name / "images", root / name):
            if place.is_dir() and not (place / "train").is_dir():
                return _folder(place, about)
    return None


def _folder(place: Path, about: _Set) -> Source:
    has_folders = any(p.is_dir() and not p.name.startswith(".") for p in place.iterdir())
    return ClassFolders(place) if has_folders or not about.whole else FlatFolder(place)


def _official(source: Source, name: str, about: _Set) -> Source:
    """The source with its labels in the set's official numbers."""
    if source.classes == ("unlabelled",):  # the one class of a parquet file that has none
        return Selection(source, labels=np.full(len(source), -1), classes=())
    if not about.classes or source.classes == about.classes:
        return source
    if not source.classes:
        return Selection(source, labels=source.labels, classes=about.classes)
    number = {_plain(c): i for i, c in enumerate(about.classes)}
    unknown = [c for c in source.classes if _plain(c) not in number]
    if unknown or len(source.classes) != len(about.classes):
        missing = sorted(set(number) - {_plain(c) for c in source.classes})
        difference = [f"{len(unknown)} unknown such as {unknown[0]!r}"] if unknown else []
        difference += [f"{len(missing)} missing such as {missing[0]!r}"] if missing else []
        raise InputError(
            f"{name}: {source.where}: its classes are not the {len(about.classes)} of {name} "
            f"({', '.join(difference)}): name the class folders as the set does"
        )
    table = np.asarray([number[_plain(c)] for c in source.classes] + [-1])  # -1 stays -1
    return Selection(source, labels=table[source.labels], classes=about.classes)


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", "_", name.strip().lower())
