"""What the training sees: decoded pictures at one size, in memory or streamed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from ossl.data.folders import ClassFolders, check_separate
from ossl.data.pictures import Rejected, Source
from ossl.data.reading import CHUNK, available_memory, thread_count
from ossl.data.reading import pieces as read_pieces
from ossl.data.sources import Names, Selection, checked_labels
from ossl.errors import InputError

__all__ = [
    "MemoryPictures",
    "Pictures",
    "SelectedPictures",
    "StreamedPictures",
    "check_labelled",
    "check_separate",
    "labelled_from_folder",
    "load",
    "stream",
]

Progress = Callable[[int, int], None]


class Pictures(Protocol):
    """Decoded RGB pictures at one size, by index."""

    @property
    def size(self) -> int:
        """The side of every picture, in pixels."""

    @property
    def names(self) -> Sequence[str]:
        """A unique name per picture."""

    @property
    def labels(self) -> NDArray[np.int64]:
        """The class of each picture, -1 = unlabelled."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names by label, () when there are none."""

    @property
    def where(self) -> str:
        """One line for people: what it is and where it lies."""

    @property
    def rejected(self) -> tuple[Rejected, ...]:
        """The files that could not be read; they have no index here."""

    def __len__(self) -> int:
        """The number of readable pictures."""

    def take(self, indices: Tensor | Sequence[int]) -> Tensor:
        """uint8 [B, 3, size, size] of these pictures, in any order, repeats allowed."""


class _Readable:
    """What is known of the readable pictures of a source, wherever their pixels are."""

    def __init__(
        self, source: Source, size: int, kept: Sequence[int], rejected: tuple[Rejected, ...]
    ) -> None:
        selection = Selection(source, kept)
        self.size = size
        self.names: Sequence[str] = selection.names
        self.labels = selection.labels
        self.classes = source.classes
        self.where = source.where
        self.rejected = rejected
        self.kept = selection.indices  # the index in the source of each picture here

    def __len__(self) -> int:
        return len(self.kept)


class MemoryPictures(_Readable):
    """All pictures of a source, decoded once into one tensor."""

    def __init__(
        self,
        source: Source,
        kept: Sequence[int],
        rejected: tuple[Rejected, ...],
        data: Tensor,
    ) -> None:
        super().__init__(source, data.shape[-1], kept, rejected)
        self.data = data

    def take(self, indices: Tensor | Sequence[int]) -> Tensor:
        """uint8 [B, 3, size, size] of these pictures."""
        return self.data.index_select(0, _index(indices, len(self)))


class StreamedPictures(_Readable):
    """The pictures of a source too big for memory, decoded again whenever they are wanted."""

    def __init__(
        self,
        source: Source,
        size: int,
        kept: Sequence[int],
        rejected: tuple[Rejected, ...],
        workers: int | None = None,
    ) -> None:
        super().__init__(source, size, kept, rejected)
        self._source = source
        self._workers = workers

    def take(self, indices: Tensor | Sequence[int]) -> Tensor:
        """uint8 [B, 3, size, size] of these pictures."""
        # Each picture once and in the source's order: neighbours share a row group.
        wanted, place = torch.unique(_index(indices, len(self)), return_inverse=True)
        rows = [int(self.kept[i]) for i in wanted.tolist()]
        data = torch.empty((len(rows), 3, self.size, self.size), dtype=torch.uint8)
        done = 0
        workers = thread_count(self._workers)
        chunk = max(1, min(CHUNK, -(-len(rows) // workers)))
        for piece in read_pieces(self._source, rows, self.size, chunk, workers, 2 * workers):
            if piece.rejected:
                bad = piece.rejected[0]
                raise InputError(
                    f"pictures: {bad.path} could be read at the start and now cannot "
                    f"({bad.reason}): leave the files in place while this runs"
                )
            data[done : done + len(piece.kept)] = torch.from_numpy(piece.data)
            done += len(piece.kept)
        return data.index_select(0, place)


class SelectedPictures:
    """Some of the pictures, in the order of `indices`, under other labels when given."""

    def __init__(
        self,
        pictures: Pictures,
        indices: ArrayLike,
        labels: ArrayLike | None = None,
        classes: tuple[str, ...] | None = None,
    ) -> None:
        self._pictures = pictures
        self._indices = torch.as_tensor(np.asarray(indices, dtype=np.int64))
        _index(self._indices, len(pictures))
        self.size = pictures.size
        self.classes = pictures.classes if classes is None else tuple(classes)
        self.where = pictures.where
        self.rejected = pictures.rejected
        count = len(self._indices)
        self.names = Names(count, lambda i: pictures.names[int(self._indices[i])])
        self.labels = (
            pictures.labels[self._indices.numpy()]
            if labels is None
            else checked_labels(labels, count, self.classes, self.where)
        )

    def __len__(self) -> int:
        return len(self._indices)

    def take(self, indices: Tensor | Sequence[int]) -> Tensor:
        """uint8 [B, 3, size, size] of these pictures of the selection."""
        return self._pictures.take(self._indices[_index(indices, len(self))])


class JoinedPictures:
    """The pictures of two, one after the other, under the first's class names."""

    def __init__(self, first: Pictures, second: Pictures) -> None:
        self._parts = (first, second)
        self.size = first.size
        self.classes = first.classes
        self.where = first.where
        self.rejected = first.rejected
        self.names = Names(
            len(first) + len(second),
            lambda i: first.names[i] if i < len(first) else second.names[i - len(first)],
        )
        self.labels = np.concatenate([first.labels, second.labels])

    def __len__(self) -> int:
        return len(self.names)

    def take(self, indices: Tensor | Sequence[int]) -> Tensor:
        """uint8 [B, 3, size, size] of these pictures."""
        index, edge = _index(indices, len(self)), len(self._parts[0])
        taken = torch.empty((len(index), 3, self.size, self.size), dtype=torch.uint8)
        for part, start, chosen in (
            (self._parts[0], 0, index < edge),
            (self._parts[1], edge, index >= edge),
        ):
            if chosen.any():
                taken[chosen] = part.take(index[chosen] - start)
        return taken


def load(
    source: Source,
    size: int,
    *,
    memory_limit: int | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> MemoryPictures | StreamedPictures:
    """The source's readable pictures at one size: in memory when they fit, else streamed.

    Every file is decoded once here, so that both know what cannot be read. `memory_limit` is in
    bytes, half of what is available by default; `progress(done, total)` is called as it goes.
    """
    total = len(source)
    if not total:
        raise InputError(f"pictures: {source.where}: there are none: name a place with pictures")
    limit = available_memory() // 2 if memory_limit is None else memory_limit
    fits = total * 3 * size * size <= limit
    data = torch.empty((total if fits else 0, 3, size, size), dtype=torch.uint8)
    kept: list[int] = []
    rejected: list[Rejected] = []
    threads = thread_count(workers)
    done = 0
    for piece in read_pieces(source, range(total), size, CHUNK, threads, 2 * threads):
        if fits:
            data[len(kept) : len(kept) + len(piece.kept)] = torch.from_numpy(piece.data)
        kept += piece.kept
        rejected += piece.rejected
        done += piece.count
        if progress is not None:
            progress(done, total)
    if not kept:
        raise InputError(
            f"pictures: {source.where}: none of {total:,} can be read "
            f"({rejected[0].path}: {rejected[0].reason}): give JPEG, PNG, WebP, TIFF or GIF files"
        )
    if fits:
        return MemoryPictures(source, kept, tuple(rejected), data[: len(kept)])
    return StreamedPictures(source, size, kept, tuple(rejected), workers)


def stream(
    source: Source, size: int, batch_size: int, *, workers: int | None = None, prefetch: int = 2
) -> Iterator[tuple[list[int], Tensor, list[Rejected]]]:
    """Batches of (indices in the source, uint8 [B, 3, size, size], what could not be read).

    One pass in order. Threads decode up to `prefetch` batches ahead of the consumer, so memory
    is bounded. A batch has as many pictures fewer than `batch_size` as it has rejected ones.
    """
    threads = thread_count(workers)
    chunk = max(1, min(CHUNK, -(-batch_size // threads)))
    # Pieces never straddle batches, so a batch is a whole number of them.
    per_batch = -(-batch_size // chunk)
    pieces = read_pieces(
        source, range(len(source)), size, chunk, threads, prefetch * per_batch, batch_size
    )
    while batch := list(islice(pieces, per_batch)):
        data = np.concatenate([piece.data for piece in batch])
        yield (
            [index for piece in batch for index in piece.kept],
            torch.from_numpy(data),
            [bad for piece in batch for bad in piece.rejected],
        )


def check_labelled(pictures: Pictures) -> None:
    """None when there are two classes or more of two readable pictures each, else InputError."""
    names = pictures.classes or tuple(str(c) for c in range(int(pictures.labels.max()) + 1))
    if len(names) < 2:
        raise InputError(
            f"labelled pictures: {pictures.where}: only one class ({', '.join(names) or 'none'}): "
            "give at least two classes, each in a sub-folder of its own"
        )
    counts = np.bincount(pictures.labels[pictures.labels >= 0], minlength=len(names))
    few = [f"{names[c]!r} has {counts[c]}" for c in np.flatnonzero(counts < 2)]
    if few:
        unread = f" ({len(pictures.rejected)} unreadable)" if pictures.rejected else ""
        more = f" and {len(few) - 3} more classes" if len(few) > 3 else ""
        raise InputError(
            f"labelled pictures: {pictures.where}: class {', '.join(few[:3])}{more} of the "
            f"2 readable pictures each class needs{unread}: add pictures or remove the class"
        )


def labelled_from_folder(
    root: str | Path,
    size: int,
    *,
    memory_limit: int | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> MemoryPictures | StreamedPictures:
    """The pictures of class folders at one size, checked to be enough to learn from."""
    source = ClassFolders(root)
    pictures = load(source, size, memory_limit=memory_limit, workers=workers, progress=progress)
    check_labelled(pictures)
    return pictures


def _index(indices: Tensor | Sequence[int], count: int) -> Tensor:
    """The indices as an int64 tensor on the CPU; IndexError beyond 0 .. count - 1."""
    index = torch.as_tensor(indices, dtype=torch.int64, device="cpu")
    if index.numel() and (int(index.min()) < 0 or int(index.max()) >= count):
        raise IndexError(f"pictures {int(index.min())} to {int(index.max())} of {count} asked for")
    return index
