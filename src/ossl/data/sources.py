"""A choice from a source, and the check every source's labels pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from ossl.data.pictures import UNLABELLED, Source
from ossl.errors import InputError


class Names(Sequence[str]):
    """Names made when they are asked for: a million rows need no million strings."""

    def __init__(self, count: int, name: Callable[[int], str]) -> None:
        self._count = count
        self._name = name

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self._name(i) for i in range(*index.indices(self._count))]
        return self._name(range(self._count)[index])

    def __iter__(self) -> Iterator[str]:
        return (self._name(i) for i in range(self._count))


def checked_labels(
    labels: ArrayLike | None, count: int, classes: Sequence[str], where: str
) -> NDArray[np.int64]:
    """The labels as int64, -1 for all when None; a wrong number, kind or value is an InputError."""
    if labels is None:
        return np.full(count, UNLABELLED, dtype=np.int64)
    given = np.asarray(labels)
    if given.shape != (count,):
        raise InputError(
            f"labels: {where}: {count} pictures but labels of shape {given.shape}: "
            "give one label per picture, -1 for an unlabelled one"
        )
    if count and given.dtype.kind not in "iu":
        raise InputError(
            f"labels: {where}: {given.dtype} where whole numbers are wanted: "
            "number the classes from 0, -1 for an unlabelled picture"
        )
    result = given.astype(np.int64)
    if count and result.min() < UNLABELLED:
        raise InputError(
            f"labels: {where}: label {result.min()} is below -1: "
            "number the classes from 0, -1 for an unlabelled picture"
        )
    if count and classes and result.max() >= len(classes):
        raise InputError(
            f"labels: {where}: label {result.max()} but {len(classes)} class names: "
            "name every class, in the order of the labels"
        )
    return result


class Selection:
    """Some pictures of a source, in the order of `indices`, under other labels when given."""

    def __init__(
        self,
        source: Source,
        indices: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        classes: tuple[str, ...] | None = None,
        where: str | None = None,
    ) -> None:
        chosen = np.arange(len(source)) if indices is None else np.asarray(indices, dtype=np.int64)
        if len(chosen) and not (chosen.min() >= 0 and chosen.max() < len(source)):
            raise IndexError(f"a selection from {len(source)} pictures goes beyond them")
        self.source = source
        self.indices: NDArray[np.int64] = chosen.astype(np.int64)
        self.classes = source.classes if classes is None else tuple(classes)
        self.where = where or source.where
        self.names = Names(len(chosen), lambda i: source.names[int(self.indices[i])])
        self.labels = (
            source.labels[self.indices]
            if labels is None
            else checked_labels(labels, len(chosen), self.classes, self.where)
        )

    def __len__(self) -> int:
        return len(self.indices)

    def open(self, index: int) -> Image.Image:
        """The picture at this place of the selection, not decoded yet."""
        return self.source.open(int(self.indices[index]))
