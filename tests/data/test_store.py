"""Decoded pictures: in memory and streamed are the same; one pass decodes ahead."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from ossl.data.arrays import ArrayPictures
from ossl.data.folders import FlatFolder
from ossl.data.pictures import UnreadablePicture, read
from ossl.data.reading import available_memory
from ossl.data.store import (
    MemoryPictures,
    Pictures,
    SelectedPictures,
    StreamedPictures,
    load,
    stream,
)
from ossl.errors import InputError

RNG = np.random.default_rng(0)


class Torn(ArrayPictures):
    """Every seventh picture cannot be read."""

    opened = 0

    def open(self, index: int) -> Image.Image:
        self.opened += 1
        if index % 7 == 3:
            raise UnreadablePicture("torn")
        return super().open(index)


def torn(count: int = 150) -> Torn:
    pixels = RNG.integers(0, 256, (count, 12, 10, 3), dtype=np.uint8)
    return Torn(pixels, np.arange(count) % 4, ("a", "b", "c", "d"))


def test_streamed_equals_memory() -> None:
    source = torn()
    memory, streamed = load(source, 8), load(source, 8, memory_limit=0)
    assert isinstance(memory, MemoryPictures)
    assert isinstance(streamed, StreamedPictures)
    kept = [i for i in range(150) if i % 7 != 3]
    slow = torch.stack([torch.from_numpy(read(source, i, 8)) for i in kept])
    either: list[Pictures] = [memory, streamed]
    for pictures in either:
        assert len(pictures) == len(kept)
        assert pictures.size == 8
        assert list(pictures.names) == [f"picture {i}" for i in kept]
        assert pictures.labels.tolist() == [i % 4 for i in kept]
        assert pictures.classes == source.classes
        assert [bad.path for bad in pictures.rejected] == [
            f"picture {i}" for i in range(150) if i % 7 == 3
        ]
        assert {bad.reason for bad in pictures.rejected} == {"torn"}
        for indices in ([5, 0, 5, len(kept) - 1], torch.randperm(len(kept)), range(3)):
            got = pictures.take(indices)
            assert got.dtype == torch.uint8
            assert torch.equal(got, slow[torch.as_tensor(indices)])
        assert pictures.take([]).shape == (0, 3, 8, 8)
        for wrong in ([-1], [len(kept)]):
            with pytest.raises(IndexError):
                pictures.take(wrong)


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_the_number_of_threads_changes_nothing(workers: int) -> None:
    source = torn()
    wanted = load(source, 8, workers=3)
    got = load(source, 8, workers=workers)
    assert torch.equal(got.take(range(len(got))), wanted.take(range(len(wanted))))
    assert got.rejected == wanted.rejected


def test_the_limit_decides_and_progress_is_told() -> None:
    source = ArrayPictures(np.zeros((10, 4, 4), np.uint8))
    assert isinstance(load(source, 4, memory_limit=480), MemoryPictures)
    assert isinstance(load(source, 4, memory_limit=479), StreamedPictures)
    told: list[tuple[int, int]] = []
    load(torn(), 8, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (150, 150)
    assert [done for done, _ in told] == sorted({done for done, _ in told})
    assert available_memory() > 0


def test_nothing_to_read_is_the_users_error(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_text("not a picture, just text")
    (tmp_path / "b.png").write_bytes(b"")
    with pytest.raises(InputError, match=r"none of 2 can be read \(a.jpg: not a picture\)"):
        load(FlatFolder(tmp_path), 8)


def test_a_file_lost_after_the_check_is_named(tmp_path: Path) -> None:
    for i in range(3):
        Image.new("RGB", (8, 8), (i, 0, 0)).save(tmp_path / f"{i}.png")
    pictures = load(FlatFolder(tmp_path), 8, memory_limit=0)
    (tmp_path / "1.png").unlink()
    assert pictures.take([0, 2]).shape == (2, 3, 8, 8)
    with pytest.raises(InputError, match=r"1\.png could be read at the start"):
        pictures.take([0, 1])


@pytest.mark.parametrize("batch_size", [1, 7, 64, 150, 400])
def test_a_stream_is_one_pass_in_order(batch_size: int) -> None:
    source = torn()
    memory = load(source, 8)
    batches = list(stream(source, 8, batch_size))
    indices = [i for batch in batches for i in batch[0]]
    assert indices == memory.kept.tolist()
    assert torch.equal(torch.cat([b[1] for b in batches]), memory.take(range(len(memory))))
    assert [bad for b in batches for bad in b[2]] == list(memory.rejected)
    sizes = [len(kept) + len(bad) for kept, _, bad in batches]
    assert sizes[:-1] == [batch_size] * (len(sizes) - 1)
    assert sum(sizes) == 150


def test_a_stream_runs_ahead_but_not_away() -> None:
    source = torn(2000)
    batches = stream(source, 8, 20, workers=2, prefetch=2)
    first = next(batches)
    assert len(first[0]) + len(first[2]) == 20
    for thread in threading.enumerate():  # let the decoding that is under way come to its end
        if thread.name.startswith("decode"):
            thread.join(0.3)
    assert 20 < source.opened <= 4 * 20
    batches.close()  # type: ignore[attr-defined]
    assert not [t for t in threading.enumerate() if t.name.startswith("decode")]


def test_a_fault_of_ours_is_not_swallowed() -> None:
    class Broken(ArrayPictures):
        def open(self, index: int) -> Image.Image:
            raise RuntimeError(f"bug at {index}")

    source: Any = Broken(np.zeros((3, 4, 4), np.uint8))
    with pytest.raises(RuntimeError, match="bug at 0"):
        load(source, 4)


def test_selected_pictures() -> None:
    pictures = load(torn(), 8)
    some = SelectedPictures(pictures, [9, 2, 5], labels=[0, 0, -1], classes=("x",))
    assert torch.equal(some.take([2, 0]), pictures.take([5, 9]))
    assert some.labels.tolist() == [0, 0, -1]
    assert some.names[1] == pictures.names[2]
    assert SelectedPictures(pictures, [9]).labels[0] == pictures.labels[9]
    with pytest.raises(IndexError):
        some.take([3])
    with pytest.raises(IndexError):
        SelectedPictures(pictures, [len(pictures)])
