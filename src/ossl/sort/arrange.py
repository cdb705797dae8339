"""Where every picture of a sorted pool goes: known/CLASS, outliers or unsure.

OUT/known/CLASS/…   pictures taken for one of the classes
OUT/outliers/…      pictures put aside
OUT/unsure/…        pictures worth a look: near the boundary, or of no class that is likely

Below these a picture keeps its path in the pool. A file that cannot be read stays where it is.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ossl.errors import InputError
from ossl.sort.names import clash_free, folder_names

KNOWN, OUTLIERS, UNSURE = "known", "outliers", "unsure"
FOLDERS = (KNOWN, OUTLIERS, UNSURE)
UNSURE_SHARE = 0.05  # of the pool, nearest to the boundary
EVEN_CHANCE = 0.5  # a class less likely than this is no answer


@dataclass(frozen=True)
class Step:
    """One file's way; `destination` is below OUT, with /."""

    source: str
    destination: str


@dataclass(frozen=True)
class Scores:
    """What was predicted for each picture."""

    label: Sequence[str]
    confidence: NDArray[np.floating]
    outlier_score: NDArray[np.floating]
    threshold: float


def groups(scores: Scores, unsure_share: float = UNSURE_SHARE) -> list[str]:
    """known, outliers or unsure for each picture.

    Unsure is the share of the pictures whose score is nearest to the boundary, and a known picture
    whose most likely class has less than an even chance; with a share of 0 there are none.
    """
    group = np.where(scores.outlier_score > scores.threshold, OUTLIERS, KNOWN).astype(object)
    if unsure_share > 0:
        group[(group == KNOWN) & (scores.confidence < EVEN_CHANCE)] = UNSURE
        near = np.argsort(np.abs(scores.outlier_score - scores.threshold), kind="stable")
        group[near[: round(unsure_share * len(near))]] = UNSURE
    return [str(one) for one in group]


def plan(
    root: Path, files: Sequence[Path], group: Sequence[str], label: Sequence[str]
) -> list[Step]:
    """The way of each file; no two destinations meet on any file system."""
    folder = folder_names(sorted(set(label)))
    wanted = []
    for file, where, name in zip(files, group, label, strict=True):
        below = file.relative_to(root).as_posix()
        top = f"{KNOWN}/{folder[name]}" if where == KNOWN else where
        wanted.append(f"{top}/{below}")
    sources = [str(file.absolute()) for file in files]
    return [Step(*pair) for pair in zip(sources, clash_free(wanted), strict=True)]


def counts(group: Sequence[str]) -> dict[str, int]:
    """How many pictures go to each of the three folders."""
    found = Counter(group)
    return {name: found[name] for name in FOLDERS}


def check_places(images: Path, out: Path) -> None:
    """None when a pool can be arranged there, else an InputError; nothing is touched."""
    pool, place = images.resolve(), out.resolve()
    if place == pool or place.is_relative_to(pool):
        raise InputError(
            f"--out {out} lies inside --images {images}: the next time, what was arranged would be "
            "taken for pictures of the pool; name a folder outside of it."
        )
    for name in FOLDERS:
        if pool.is_relative_to(place / name):
            raise InputError(
                f"--images {images} lies inside {out / name}, where the pictures would go; "
                "name another --out."
            )
        if os.path.lexists(out / name):
            raise InputError(
                f"--out {out} already holds {name}/, and nothing there is overwritten; "
                "name another folder."
            )
