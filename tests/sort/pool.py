"""A sorted folder made of drawn scores, for tests of its page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from PIL import Image

from ossl.data.pictures import Rejected
from ossl.progress import Progress
from ossl.sort.predictions import write_predictions
from ossl.sort.report import Facts, write_report

CLASSES = ("cat", "dog, or so", "heron")
EVIL = '<img src=x onerror="hacked=1">\'</script><script>window.hacked=1</script>.png'
FORMULA = "=cmd|' /C calc'!A0.png"
THRESHOLD = 0.5


@dataclass(frozen=True)
class SortedPool:
    """What was written, to recount."""

    out: Path
    images: Path
    names: list[str]
    label: NDArray[np.int64]
    confidence: NDArray[np.float32]
    score: NDArray[np.float32]

    @property
    def page(self) -> Path:
        return self.out / "report.html"

    def aside(self, threshold: float) -> NDArray[np.bool_]:
        """Which pictures lie above a threshold, in the scores' own precision."""
        return self.score > np.float32(threshold)


def make_names(count: int) -> list[str]:
    """Names in sub-folders, among them some that a page could stumble over."""
    odd = [
        EVIL,
        FORMULA,
        'quote " and, comma.png',
        "träd/日本 🦆.png",
        "träd/日本 🦢.png",
        "-x.png",
    ]
    return [*odd, *(f"shoot_{i % 7}/picture_{i:06d}.png" for i in range(count - len(odd)))]


def make_pool(
    root: Path,
    count: int,
    classes: Sequence[str] = CLASSES,
    *,
    on_disk: bool = False,
    names: list[str] | None = None,
    scores: NDArray[np.float32] | None = None,
) -> SortedPool:
    """A sorted folder of so many pictures with its page; the pictures themselves if `on_disk`."""
    rng = np.random.default_rng(0)
    names = make_names(count) if names is None else names
    label = rng.integers(0, len(classes), count)
    outlier = rng.random(count) < 0.4
    score = rng.normal(np.where(outlier, 2.0, -1.0), 1.0).astype(np.float32)
    score = score if scores is None else scores
    confidence = rng.uniform(0.2, 1.0, count).astype(np.float32)
    out, images = root / "sorted", root / "pool"
    columns = {
        "path": names,
        "label": [classes[i] for i in label.tolist()],
        "confidence": confidence,
        "outlier_score": score,
        "is_outlier": score > np.float32(THRESHOLD),
    }
    rejected = [Rejected("broken <b>.jpg", "damaged"), Rejected("empty.jpg", "empty file")]
    write_predictions(out, pa.table(columns), rejected)
    images.mkdir(parents=True)
    if on_disk:
        for number, name in enumerate(names):
            (images / name).parent.mkdir(parents=True, exist_ok=True)
            tinted(number).save(images / name, "PNG")
    facts = Facts(
        run="my run",
        images=str(images),
        images_at=str(images),
        classes=tuple(classes),
        threshold=THRESHOLD,
        run_threshold=THRESHOLD,
        outlier_share=0.4,
        outlier_share_interval=(0.31, 0.52),
    )
    places = {name: number for number, name in enumerate(names)}
    opened = None if on_disk else lambda name: tinted(places[name])
    write_report(out, facts, Progress(quiet=True), opened)
    return SortedPool(out, images, names, label, confidence, score)


def tinted(number: int, size: int = 40) -> Image.Image:
    """A picture of one colour with some noise, another one for every number."""
    rng = np.random.default_rng(number)
    colour = rng.integers(0, 200, 3)
    noise = rng.integers(0, 55, (size, size, 3))
    return Image.fromarray((colour + noise).astype(np.uint8))
