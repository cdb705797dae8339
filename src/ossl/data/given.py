"""Pictures that a program hands over: arrays, pictures of Pillow's, or the paths of files."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ossl.data.arrays import ArrayPictures
from ossl.data.folders import FlatFolder
from ossl.data.pictures import UNLABELLED, Source, UnreadablePicture, open_bytes
from ossl.data.sources import Names, checked_labels
from ossl.errors import InputError


class PillowPictures:
    """Pictures of Pillow's, of any sizes and modes, as a source."""

    def __init__(
        self, pictures: Sequence[Image.Image], labels: Any, classes: tuple[str, ...], where: str
    ) -> None:
        self._pictures = pictures
        self.classes = classes
        self.labels = checked_labels(labels, len(pictures), classes, where)
        self.names = Names(len(pictures), lambda i: f"picture {i}")
        self.where = f"{where} ({len(pictures):,} pictures)"

    def __len__(self) -> int:
        return len(self._pictures)

    def open(self, index: int) -> Image.Image:
        """The picture at this index; a copy, for decoding changes what it is given."""
        try:
            return self._pictures[index].copy()
        except Exception as problem:  # a lazy picture reads its file here; see `decode`
            raise UnreadablePicture(f"cannot be read: {problem}") from None


class PathPictures:
    """The pictures in files anywhere, named by their paths as they were given."""

    def __init__(self, paths: Sequence[str], labels: Any, classes: tuple[str, ...], where: str):
        self.names: Sequence[str] = list(paths)
        self.classes = classes
        self.labels = checked_labels(labels, len(paths), classes, where)
        self.where = f"{where} ({len(paths):,} files)"

    def __len__(self) -> int:
        return len(self.names)

    def open(self, index: int) -> Image.Image:
        """The picture in this file, not decoded yet; raises UnreadablePicture."""
        try:
            return open_bytes(Path(self.names[index]).expanduser().read_bytes())
        except FileNotFoundError:
            raise UnreadablePicture("no such file") from None
        except OSError as problem:
            raise UnreadablePicture(f"cannot be read: {problem.strerror}") from None


def given_pictures(pictures: Any, where: str, labels: Any = None) -> Source:
    """A source of a folder, paths, Pillow's pictures or uint8 arrays; `where` is for errors.

    `labels` names the class of each picture, by text or number; without any they are unlabelled.
    """
    if isinstance(pictures, str | PathLike):
        return FlatFolder(fspath(pictures))
    numbers, classes = (None, ()) if labels is None else named_classes(labels, where)
    if not hasattr(pictures, "shape"):  # neither an array nor a tensor
        items = list(pictures)
        if items and all(isinstance(item, str | PathLike) for item in items):
            return PathPictures([fspath(item) for item in items], numbers, classes, where)
        if items and all(isinstance(item, Image.Image) for item in items):
            return PillowPictures(items, numbers, classes, where)
        if not items:
            raise InputError(f"pictures: {where}: there are none: give at least one")
        if len({np.shape(item) for item in items}) > 1:
            pictures = [_as_pillow(item, where) for item in items]
            return PillowPictures(pictures, numbers, classes, where)
    return ArrayPictures(pictures, numbers, classes, where)


def named_classes(labels: Any, where: str) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Labels as numbers from 0, and the classes' names in order; every picture has a label."""
    given = np.asarray(labels)
    if given.ndim != 1:
        raise InputError(f"labels: {where}: shape {given.shape}: give one label for each picture")
    if given.dtype.kind not in "iuUO" or any(label is None for label in given.tolist()):
        raise InputError(f"labels: {where}: give text or whole numbers, one for each picture")
    if UNLABELLED in given.tolist() or str(UNLABELLED) in given.tolist():
        raise InputError(
            f"labels: {where}: {UNLABELLED} means unlabelled: put those pictures into the pool"
        )
    names, numbers = np.unique(given, return_inverse=True)
    return numbers.astype(np.int64), tuple(str(name) for name in names.tolist())


def _as_pillow(item: Any, where: str) -> Image.Image:
    values = np.asarray(item)
    grey_or_colour = values.ndim == 2 or (values.ndim == 3 and values.shape[2] in (3, 4))
    if values.dtype != np.uint8 or not grey_or_colour:
        raise InputError(
            f"pictures: {where}: {values.dtype} of shape {values.shape}: give uint8, H×W or H×W×3, "
            "paths, or Pillow's pictures"
        )
    return Image.fromarray(np.ascontiguousarray(values))
