"""Small pictures for the report page: which of a pool to keep, and how few bytes they may take."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ossl.data.pictures import UnreadablePicture, shrunk
from ossl.data.reading import thread_count

BUDGET = 8_000_000  # bytes of all thumbnails; a third more as text in the page
MOST = 2_400  # thumbnails, however large the pool
SIDES = ((700, 224), (1_500, 160), (MOST, 128))  # up to so many pictures: longest side in pixels
QUALITY = 72
MIME = "image/webp"
AHEAD = 64  # pictures decoded at a time

Floats = NDArray[np.floating]
Ints = NDArray[np.integer]


@dataclass
class Thumbnails:
    """The thumbnails that are kept, base64 of WebP, by the picture's place in the table."""

    side: int
    kept: dict[int, str] = field(default_factory=dict)
    unreadable: int = 0  # pictures that were wanted and are no longer there
    reused: int = 0  # of those, taken from the page that was there before


def side_for(count: int) -> int:
    """The longest side of a thumbnail in pixels, for a pool of so many pictures."""
    return next((side for most, side in SIDES if count <= most), SIDES[-1][1])


def choose(
    score: Floats, confidence: Floats, label: Ints, threshold: float, most: int = MOST
) -> list[int]:
    """The pictures to keep a thumbnail of, the most wanted first.

    The page shows the most outlying, those around the boundary wherever it is moved to, and every
    class's most and least certain of those kept. So after the extremes come, from each class,
    the most and the least certain picture in each of many steps of the outlier score.
    """
    count = len(score)
    order = np.argsort(score, kind="stable")
    wanted: list[Iterable[int]] = [order[::-1][:60].tolist()]
    place = int(np.searchsorted(score[order], np.float32(threshold), side="right"))
    wanted.append(order[max(0, place - 40) : place + 40].tolist())
    classes = [np.flatnonzero(label == c) for c in np.unique(label)]
    by_confidence = [rows[np.argsort(confidence[rows], kind="stable")] for rows in classes]
    # 1. The most and the least certain of each class, one of each class in turn.
    for turn in range(8):
        wanted += [
            [int(rows[-1 - turn % len(rows)]), int(rows[turn % len(rows)])]
            for rows in by_confidence
        ]
    # 2. Even steps of the score itself, so that its thin tails have some too.
    finite = score[np.isfinite(score)]
    if len(finite):
        grid = np.linspace(finite.min(), finite.max(), 200)
        nearest = np.searchsorted(score[order], grid).clip(0, count - 1)
        wanted.append(order[nearest].tolist())
    # 3. Even steps of the rank, class by class: from each step its most and least certain.
    steps = max(1, most // (2 * max(1, len(classes))))
    for rows in classes:
        ranked = rows[np.argsort(score[rows], kind="stable")]
        for step in np.array_split(ranked, min(steps, len(ranked))):
            sure = confidence[step]
            wanted.append([int(step[int(sure.argmax())]), int(step[int(sure.argmin())])])
    # 4. Even steps of the rank, of all that are left.
    taken = dict.fromkeys(index for some in wanted for index in some)
    if len(taken) < most:
        rest = np.setdiff1d(order, np.fromiter(taken, dtype=np.int64), assume_unique=True)
        spread = np.linspace(0, len(rest) - 1, min(len(rest), most - len(taken))).astype(int)
        taken |= dict.fromkeys(rest[spread].tolist())
    return list(taken)[:most]


def make(
    wanted: list[int],
    side: int,
    open_picture: Callable[[int], Image.Image],
    earlier: Callable[[int], str | None] = lambda _: None,
    advance: Callable[[int], None] = lambda _: None,
    budget: int = BUDGET,
) -> Thumbnails:
    """The thumbnails of the pictures, as many as fit into the budget.

    A picture that can no longer be read keeps the thumbnail it had `earlier`, if there is one.
    """
    made, spent = Thumbnails(side), 0

    def one(index: int) -> bytes | None:
        try:
            return encoded(open_picture(index), side)
        except UnreadablePicture:
            return None

    with ThreadPoolExecutor(thread_count(None)) as threads:
        for low in range(0, len(wanted), AHEAD):
            some = wanted[low : low + AHEAD]
            for index, data in zip(some, threads.map(one, some), strict=True):
                text = base64.b64encode(data).decode() if data is not None else earlier(index)
                if data is None:
                    made.unreadable += 1
                    made.reused += text is not None
                if text is None or spent + 3 * len(text) // 4 > budget:
                    continue
                spent += 3 * len(text) // 4
                made.kept[index] = text
            advance(len(some))
    return made


def encoded(image: Image.Image, side: int) -> bytes:
    """The picture as WebP, upright and no longer than `side` pixels; raises UnreadablePicture."""
    small = shrunk(image, side)
    buffer = io.BytesIO()
    small.save(buffer, "WEBP", quality=QUALITY, method=2)
    return buffer.getvalue()
