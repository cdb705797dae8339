"""Thousands of small files under every kind of name, and what to compare of them."""

from __future__ import annotations

import os
import subprocess
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

from ossl.sort.arrange import Step, plan

ODD = (
    "plain.jpg",
    unicodedata.normalize("NFC", "Möwe.jpg"),
    unicodedata.normalize("NFD", "Möwe zwei.jpg"),
    "猫.png",
    "🦭 seal.webp",
    "with 'quotes' and \"more\".jpg",
    "a\nnew line.jpg",
    "-rf.jpg",
    "CON.jpg",
    "dots...jpg",
    "x" * 240 + ".jpg",
    "UPPER.JPG",
)
LABELS = ("cat", "dög", "..", "CON", "a.")


def make_heap(root: Path, count: int) -> list[Path]:
    """So many files with a content of their own, in nested folders."""
    files = []
    for number in range(count):
        folder = root / f"sub {number % 7}" / ("tief/ä" if number % 3 else ".")
        name = f"{number:05d} {ODD[number % len(ODD)]}"[:250]
        if name.startswith(f"{number:05d} xxx"):
            name = f"{number:05d}{'x' * 240}.jpg"
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(f"picture {number} ".encode() * (1 + number % 40))
        files.append(file)
    odd = os.fsencode(root) + b"/no utf-8 \xff\xfe.jpg"
    try:
        Path(os.fsdecode(odd)).write_bytes(b"odd")
    except OSError:  # a file system that takes text alone
        return files
    return [*files, Path(os.fsdecode(odd))]


def plan_of(root: Path, files: list[Path]) -> list[Step]:
    """A way for each file, to all three folders."""
    group = [("known", "outliers", "unsure", "known")[number % 4] for number in range(len(files))]
    label = [LABELS[number % len(LABELS)] for number in range(len(files))]
    return plan(root, files, group, label)


def contents(root: Path) -> dict[str, bytes]:
    """The hash of every file below a folder, by its path there; links by where they lead."""
    found = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder) / name
            link = path.is_symlink()
            data = os.fsencode(path.readlink()) if link else path.read_bytes()
            found[os.path.relpath(path, root)] = blake2b(data, digest_size=16).digest()
    return found


def can_mount() -> bool:
    """Whether this process may mount a small disk."""
    return os.name == "posix" and hasattr(os, "geteuid") and os.geteuid() == 0


@contextmanager
def small_disk(place: Path, options: str) -> Iterator[Path]:
    """A small file system of its own; None of it stays."""
    place.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)],
        capture_output=True,
        check=False,
    )
    if done.returncode:
        import pytest

        pytest.skip("a small disk cannot be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=False)
