"""What lies in a person's folders, before anything is learnt from it: sizes and copies.

It is noted while the pictures are read for the run, so that no file is read twice: the BLAKE2b hash
of its bytes, and its width and height.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from statistics import median

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ossl.data.folders import ClassFolders, FlatFolder
from ossl.data.pictures import Rejected, open_bytes
from ossl.errors import InputError

SMALL = 64  # pixels; of pictures with a shorter side little can be seen
SHOWN = 3  # examples on the screen


class Noting:
    """A folder's pictures as they are, each noted when it is opened for the first time."""

    def __init__(self, folder: ClassFolders | FlatFolder) -> None:
        self.folder = folder
        self.names: Sequence[str] = folder.names
        self.labels: NDArray[np.int64] = folder.labels
        self.classes: tuple[str, ...] = folder.classes
        self.where = folder.where
        self.hashes: dict[int, bytes] = {}
        self.sides: dict[int, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self.folder)

    def open(self, index: int) -> Image.Image:
        """The picture in this file, not decoded yet; raises UnreadablePicture."""
        data = self.folder.read(index)
        image = open_bytes(data)
        if index not in self.hashes:  # threads have an index each
            self.sides[index] = image.size
            self.hashes[index] = blake2b(data, digest_size=16).digest()
        return image

    def forget(self, unreadable: Iterable[Rejected]) -> None:
        """Leave out what was opened and then could not be decoded."""
        names = {entry.path for entry in unreadable}
        for index in [i for i in self.hashes if self.names[i] in names]:
            del self.hashes[index], self.sides[index]


@dataclass(frozen=True)
class Survey:
    """The findings; paths are as below their folder, indices those of readable pictures."""

    classes: dict[str, int]  # labelled pictures of each
    pool: int
    usual: tuple[int, int]  # median width and height
    smallest: tuple[int, int]
    small: int  # pictures with a side below SMALL
    pool_copies: int  # pool pictures that are the same as an earlier one
    labelled_copies: list[tuple[str, str]] = field(default_factory=list)
    contradictions: list[tuple[str, str]] = field(default_factory=list)  # same, other class
    in_both: list[tuple[str, str]] = field(default_factory=list)  # labelled path, pool path

    def report(self) -> list[str]:
        """What is to be said, in plain words; nothing of what is as it should be."""
        counts = list(self.classes.values())
        each = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
        named = [f"{name} {count}" for name, count in self.classes.items()]
        shown = ", ".join(named[:20]) + (f", … {len(named) - 20} more" if len(named) > 20 else "")
        width, height = self.usual
        lines = [
            f"found {sum(counts):,} labelled pictures of {len(counts)} classes, {each} each "
            f"({shown})",
            f"found {self.pool:,} pictures in the pool",
            f"pictures are mostly {width} × {height} pixels, the smallest "
            f"{self.smallest[0]} × {self.smallest[1]}",
        ]
        if self.small:
            lines.append(
                f"note: {_count(self.small, 'picture')} under {SMALL} pixels on a side: "
                "little can be seen there"
            )
        if self.pool_copies:
            lines.append(
                f"note: {_count(self.pool_copies, 'picture')} of the pool "
                f"{_are(self.pool_copies)} a copy of another one there; each is sorted all the same"
            )
        if self.labelled_copies:
            first, second = self.labelled_copies[0]
            lines.append(
                f"warning: {_count(len(self.labelled_copies), 'labelled picture')} "
                f"{_are(len(self.labelled_copies))} a copy of another of the class, such as "
                f"{second} of {first}: copies teach nothing and make the run look surer than it is"
            )
        if self.in_both:
            labelled, pool = self.in_both[0]
            lines.append(
                f"note: {_count(len(self.in_both), 'picture')} of the pool "
                f"{_are(len(self.in_both))} labelled too, such as {pool} ({labelled}): "
                "fine, but nothing new is learnt from them"
            )
        return lines + self._few_labels()

    def _few_labels(self) -> list[str]:
        counts = self.classes
        total, least = sum(counts.values()), min(counts, key=lambda name: counts[name])
        lines = []
        if counts[least] < 5:
            lines.append(
                f"warning: {least!r} has only {counts[least]} labelled pictures; "
                "its pictures are easily taken for another class or for outliers: "
                "5 to 10 a class help most"
            )
        if total < 100:
            lines.append(
                f"warning: with {total} labelled pictures in all, the share of outliers is a rough "
                "guess; 100 or more make it steadier"
            )
        return lines


def survey(labelled: Noting, pool: Noting) -> Survey:
    """The findings, after both have been read."""
    counts = np.bincount(
        labelled.labels[sorted(labelled.hashes)], minlength=len(labelled.classes)
    ).tolist()
    sides = [*labelled.sides.values(), *pool.sides.values()]
    same = _by_hash(labelled)
    copies: list[tuple[str, str]] = []
    contradictions: list[tuple[str, str]] = []
    for indices in same.values():
        names, labels = [labelled.names[i] for i in indices], labelled.labels[indices]
        for name, label in zip(names[1:], labels[1:], strict=True):
            other = contradictions if label != labels[0] else copies
            other.append((names[0], name))
    in_pool = _by_hash(pool)
    both = [
        (labelled.names[indices[0]], pool.names[place])
        for key, indices in same.items()
        for place in in_pool.get(key, [])
    ]
    return Survey(
        classes=dict(zip(labelled.classes, counts, strict=True)),
        pool=len(pool.hashes),
        usual=(round(median(w for w, _ in sides)), round(median(h for _, h in sides))),
        smallest=min(sides, key=lambda side: side[0] * side[1]),
        small=sum(min(side) < SMALL for side in sides),
        pool_copies=sum(len(indices) - 1 for indices in in_pool.values()),
        labelled_copies=copies,
        contradictions=contradictions,
        in_both=both,
    )


def check_contradictions(found: Survey) -> None:
    """None when no picture is labelled as two classes; otherwise an InputError with examples."""
    if not found.contradictions:
        return
    pairs = "; ".join(f"{one} and {other}" for one, other in found.contradictions[:SHOWN])
    more = len(found.contradictions) - SHOWN
    raise InputError(
        f"labelled pictures: the same picture has two classes: {pairs}"
        f"{f' and {more:,} more' if more > 0 else ''}: remove it from the class it is not of, or "
        "from both"
    )


def _by_hash(source: Noting) -> dict[bytes, list[int]]:
    """The indices of the pictures with each content, in order."""
    found: defaultdict[bytes, list[int]] = defaultdict(list)
    for index in sorted(source.hashes):
        found[source.hashes[index]].append(index)
    return found


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number:,} {what}s"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"
