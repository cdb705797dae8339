"""Tiny pictures of coloured shapes in folders, for tests that run the real command."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from ossl.data.protocols import CIFAR10_CLASSES

CLASSES = {"circle": (220, 40, 40), "cross": (40, 160, 60), "square": (50, 70, 220)}
JUNK = "stripes"

# What makes a fit a matter of seconds: two steps of each kind.
TINY = (
    "schedule.labelled_epochs=1",
    "schedule.labelled_steps=2",
    "schedule.round_steps=2",
    "schedule.pool_epochs=1",
    "schedule.pool_steps=2",
    "schedule.outlier_steps=1",
    "schedule.labelled_batch=8",
    "schedule.pool_batch=8",
)


def tiny_options(*more: str) -> list[str]:
    """Options of `ossl fit` for a network and a schedule that take seconds."""
    words = ["--backbone", "wrn-28-2", "--image-size", "32", "--recipe", "paper"]
    for setting in TINY:
        words += ["--set", setting]
    return [*words, *more]


def picture(name: str, seed: int, size: int = 32) -> Image.Image:
    """A shape in its colour at a random place, or junk for any other name."""
    rng = np.random.default_rng(seed)
    image = Image.fromarray(rng.integers(150, 256, (size, size, 3), dtype=np.uint8))
    draw = ImageDraw.Draw(image)
    x, y = rng.integers(2, size // 2 - 2, 2).tolist()
    box = (x, y, x + size // 2, y + size // 2)
    colour = CLASSES.get(name)
    if name == "circle":
        draw.ellipse(box, fill=colour)
    elif name == "square":
        draw.rectangle(box, fill=colour)
    elif name == "cross":
        draw.line(box, fill=colour, width=5)
        draw.line((box[0], box[3], box[2], box[1]), fill=colour, width=5)
    else:
        for low in range(0, size, 6):
            draw.line((low, 0, low, size), fill=(30, 30, 30), width=3)
    return image


def make_folders(
    root: Path, *, labelled: int = 4, known: int = 4, junk: int = 6
) -> tuple[Path, Path, Path]:
    """The folders of labelled and of unlabelled pictures, and the file with the pool's truth."""
    seed = 0
    for name in CLASSES:
        folder = root / "labelled" / name
        folder.mkdir(parents=True)
        for number in range(labelled):
            seed += 1
            picture(name, seed).save(folder / f"{number}.png")
    pool = root / "pool"
    pool.mkdir()
    rows = []
    for name, count in [*((name, known) for name in CLASSES), (JUNK, junk)]:
        for _ in range(count):
            seed += 1
            rows.append((f"img_{seed:03d}.png", name))
            picture(name, seed).save(pool / rows[-1][0])
    truth = root / "truth.csv"
    with truth.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("file", "label"), *rows])
    return root / "labelled", pool, truth


def make_cifar10(folder: Path) -> None:
    """The smallest folder that the split cifar10-50 can be drawn from."""
    known = {"bird", "cat", "deer", "dog", "frog", "horse"}
    seed = 0
    for name in CIFAR10_CLASSES:
        for part, count in (("train", 102 if name in known else 3), ("test", 2)):
            place = folder / "cifar10" / part / name
            place.mkdir(parents=True)
            for number in range(count):
                seed += 1
                picture(name, seed, 16).save(place / f"{number}.bmp")
