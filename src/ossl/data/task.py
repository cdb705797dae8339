"""What a run learns from and is judged on, loaded as its configuration says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ossl.config import DataConfig, DigitsData, FolderData, ProtocolData
from ossl.data.find import digits_source, find_dataset
from ossl.data.folders import FlatFolder, check_separate
from ossl.data.pictures import Source
from ossl.data.protocols import Split, split, split_rule
from ossl.data.sources import Selection
from ossl.data.store import Pictures, labelled_from_folder, load
from ossl.progress import Progress
from ossl.progress import Task as WorkTask

DEFAULT_ROOT = "data"


@dataclass(frozen=True)
class Judged:
    """Pictures whose truth is known; for figures alone, nothing that learns ever sees it."""

    name: str
    pictures: Pictures
    truth: NDArray[np.int64]  # the known class, or -1 = outlier
    pool_share: float | None  # the true share of outliers in the run's pool


@dataclass(frozen=True)
class Task:
    """The pictures of a run."""

    labelled: Pictures
    pool: Pictures
    classes: tuple[str, ...]
    judged: tuple[Judged, ...]
    where: str  # one line for people and for metrics.json
    split: Split | None = None

    def report(self) -> list[str]:
        """What was found, in plain words."""
        counts = np.bincount(self.labelled.labels, minlength=len(self.classes))
        shown = ", ".join(self.classes[:8]) + (", …" if len(self.classes) > 8 else "")
        each = f"{counts.min()}" if counts.min() == counts.max() else f"{counts.min()}–{counts.max()}"
        lines = [
            f"data: {self.where}",
            f"{len(self.classes)} known classes ({shown}) with {each} labelled pictures each; "
            f"{len(self.pool):,} pictures in the pool",
        ]
        rejected = (*self.labelled.rejected, *self.pool.rejected)
        if rejected:
            first = rejected[0]
            lines.append(
                f"{len(rejected):,} files cannot be read and are left out, "
                f"the first is {first.path}: {first.reason}"
            )
        return lines


def load_task(config: DataConfig, size: int, seed: int, progress: Progress) -> Task:
    """The pictures of a run at `size` pixels."""
    if isinstance(config, FolderData):
        return _folders(config, size, progress)
    if isinstance(config, DigitsData):
        drawn, train, test = _digits(seed)
        where = train.where
    else:
        drawn, train, test = _protocol(config, seed)
        where = f"{train.where}, split {drawn.rule}"
    where += f" ({drawn.shortfall})" if drawn.shortfall else ""
    labels = drawn.train_labels[drawn.labelled]
    unlabelled = np.full(len(drawn.pool), -1)
    labelled = Selection(train, drawn.labelled, labels, drawn.classes)
    pool = Selection(train, drawn.pool, unlabelled, drawn.classes)
    return Task(
        labelled=_load(labelled, size, "loading the labelled pictures", progress),
        pool=_load(pool, size, "loading the pool", progress),
        classes=drawn.classes,
        judged=_judged(drawn, train, test, size, progress),
        where=where,
        split=drawn,
    )


def load_judged(
    config: DataConfig, size: int, kept: str | None, progress: Progress
) -> tuple[tuple[Judged, ...], str]:
    """The pictures that a finished run is judged on, by the split it wrote, and where they lie."""
    if isinstance(config, FolderData) or kept is None:
        return (), ""
    drawn = Split.from_json(kept)
    train: Source
    test: Source
    if isinstance(config, DigitsData):
        train = test = digits_source()
    else:
        train, test = _sources(config)
    return _judged(drawn, train, test, size, progress), test.where


def _judged(
    drawn: Split, train: Source, test: Source, size: int, progress: Progress
) -> tuple[Judged, ...]:
    share = float((drawn.pool_truth < 0).mean())
    chosen = Selection(train if drawn.test_is_pool else test, drawn.test, drawn.test_labels)
    name = "the pool" if drawn.test_is_pool else "the test pictures"
    pictures = _load(chosen, size, f"loading {name}", progress)
    return (Judged(name, pictures, drawn.test_labels, share),)


def _folders(config: FolderData, size: int, progress: Progress) -> Task:
    check_separate(config.labelled, config.unlabelled)
    with_bar = _bar(progress, "loading the labelled pictures")
    labelled = labelled_from_folder(config.labelled, size, progress=with_bar)
    pool = _load(FlatFolder(config.unlabelled), size, "loading the pool", progress)
    where = f"{labelled.where}; {pool.where}"
    return Task(labelled, pool, labelled.classes, (), where)


def _protocol(config: ProtocolData, seed: int) -> tuple[Split, Source, Source]:
    train, test = _sources(config)
    return split(split_rule(config.split), train.labels, test.labels, seed), train, test


def _sources(config: ProtocolData) -> tuple[Source, Source]:
    name = split_rule(config.split).dataset
    root, download = config.data_root or DEFAULT_ROOT, config.data_root is None
    return (
        find_dataset(name, root, "train", download),
        find_dataset(name, root, "test", download),
    )


def _digits(seed: int) -> tuple[Split, Source, Source]:
    source = digits_source()
    return split(split_rule("digits"), source.labels, None, seed), source, source


def _load(source: Source, size: int, what: str, progress: Progress) -> Pictures:
    return load(source, size, progress=_bar(progress, what))


def _bar(progress: Progress, what: str) -> Callable[[int, int], None]:
    """A callback that shows a bar from the first call on, until all is done."""
    tasks: list[WorkTask] = []

    def advance(done: int, total: int) -> None:
        if not tasks:
            tasks.append(progress.task(what, total))
        tasks[0].advance(done - tasks[0].done)
        if done == total:
            tasks[0].finish()

    return advance
