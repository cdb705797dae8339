"""Decoding in threads ahead of whoever wants the pictures, in order and in bounded memory."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np

from ossl.data.pictures import Rejected, Source, UnreadablePicture, read

CHUNK = 64  # pictures one thread decodes at a time: enough to make hand-over cheap


class Piece:
    """Some consecutive pictures, decoded: those that could be read, and those that could not."""

    def __init__(self, source: Source, rows: Sequence[int], size: int) -> None:
        self.count = len(rows)
        self.kept: list[int] = []
        self.rejected: list[Rejected] = []
        data = np.empty((len(rows), 3, size, size), dtype=np.uint8)
        for row in rows:
            try:
                data[len(self.kept)] = read(source, row, size)
            except UnreadablePicture as problem:
                self.rejected.append(Rejected(source.names[row], str(problem)))
            else:
                self.kept.append(row)
        self.data = data[: len(self.kept)]


def pieces(
    source: Source,
    rows: Sequence[int],
    size: int,
    chunk: int,
    workers: int,
    ahead: int,
    batch: int | None = None,
) -> Iterator[Piece]:
    """The rows in order, decoded in threads `ahead` pieces before they are asked for."""
    pool = ThreadPoolExecutor(workers, thread_name_prefix="decode")
    waiting: deque[Future[Piece]] = deque()
    step = batch or max(1, len(rows))
    try:
        for start in range(0, len(rows), step):
            end = min(start + step, len(rows))
            for first in range(start, end, chunk):
                part = rows[first : min(first + chunk, end)]
                waiting.append(pool.submit(Piece, source, part, size))
                if len(waiting) > max(1, ahead):
                    yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:  # also when the consumer stops early or presses Ctrl-C
        pool.shutdown(wait=True, cancel_futures=True)


def thread_count(wanted: int | None) -> int:
    """The number of decoding threads: as wanted, or one per core up to eight."""
    if wanted is not None:
        return max(1, wanted)
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS and Windows
        cores = os.cpu_count() or 1
    return min(8, cores)


def available_memory() -> int:
    """Bytes that can be used before the machine, or this container, runs out."""
    found: list[int] = []
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        found += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")]
    except (OSError, ValueError):
        pass  # not Linux
    try:
        group = Path("/sys/fs/cgroup")
        most = int((group / "memory.max").read_text())
        found.append(most - int((group / "memory.current").read_text()))
    except (OSError, ValueError):
        pass  # no container, or no limit ("max")
    if not found:
        try:
            found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)
        except (AttributeError, ValueError, OSError):
            found.append(4 * 2**30)  # Windows does not say; a modest guess streams early at worst
    return max(0, min(found))
