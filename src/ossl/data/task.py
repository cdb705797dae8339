"""What a run learns from and is judged on, loaded as its configuration says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ossl.config import DataConfig, DigitsData, FolderData, ProtocolData
from ossl.data.find import digits_source, find_dataset
from ossl.data.folders import ClassFolders, FlatFolder, check_separate
from ossl.data.pictures import Rejected, Source
from ossl.data.protocols import Split, split, split_rule
from ossl.data.sources import Selection
from ossl.data.store import Pictures, check_labelled, load
from ossl.data.truth import read_truth
from ossl.errors import InputError
from ossl.progress import Progress

DEFAULT_ROOT = "data"
REJECTED_FILE = "rejected_files.csv"  # in the run's folder
LISTED = 5  # rejected files that are named on the screen
NOT_A_PICTURE = "not a picture file"
COMPARED = 256  # pictures at a time


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
    rejected: tuple[Rejected, ...] = ()  # files left out, by their whole path for folders
    split: Split | None = None

    def fingerprint(self) -> dict[str, int | str]:
        """What a resumed run compares: it must go on with the very pictures it began with."""
        named = sha256()
        for pictures in (self.labelled, self.pool):
            for name, label in zip(pictures.names, pictures.labels.tolist(), strict=True):
                named.update(f"{name}\0{label}\0".encode())
        return {
            "labelled": len(self.labelled),
            "pool": len(self.pool),
            "sha256": named.hexdigest(),
        }

    def report(self) -> list[str]:
        """What was found, in plain words."""
        counts = np.bincount(self.labelled.labels, minlength=len(self.classes))
        shown = ", ".join(self.classes[:8]) + (", …" if len(self.classes) > 8 else "")
        each = (
            f"{counts.min()}" if counts.min() == counts.max() else f"{counts.min()}–{counts.max()}"
        )
        lines = [
            f"data: {self.where}",
            f"{len(self.classes)} known classes ({shown}) with {each} labelled pictures each; "
            f"{len(self.pool):,} pictures in the pool",
        ]
        if self.rejected:
            count = len(self.rejected)
            what = (
                "1 file cannot be used and is"
                if count == 1
                else f"{count:,} files cannot be used and are"
            )
            lines.append(f"{what} left out (all in {REJECTED_FILE}):")
            lines += [f"  {entry.path}: {entry.reason}" for entry in self.rejected[:LISTED]]
            lines += [f"  … and {count - LISTED:,} more"] if count > LISTED else []
        return lines


def load_task(config: DataConfig, size: int, seed: int, progress: Progress) -> Task:
    """The pictures of a run at `size` pixels."""
    if isinstance(config, FolderData):
        return load_folders(config, size, progress)
    if isinstance(config, DigitsData):
        drawn, train, test = _digits(seed)
        where = train.where
    else:
        drawn, train, test = _protocol(config, seed)
        where = f"{train.where}, split {drawn.rule}"
    where += f" ({drawn.shortfall})" if drawn.shortfall else ""
    labels = drawn.train_labels[drawn.labelled]
    unlabelled = np.full(len(drawn.pool), -1)
    chosen = Selection(train, drawn.labelled, labels, drawn.classes)
    rest = Selection(train, drawn.pool, unlabelled, drawn.classes)
    labelled = load_pictures(chosen, size, "loading the labelled pictures", progress)
    pool = load_pictures(rest, size, "loading the pool", progress)
    judged = _judged(drawn, train, test, size, progress)
    rejected = (*labelled.rejected, *pool.rejected)
    return Task(labelled, pool, drawn.classes, judged, where, rejected, drawn)


def load_judged(
    config: DataConfig, size: int, drawn: Split, progress: Progress
) -> tuple[tuple[Judged, ...], str]:
    """The pictures that a finished run is judged on, by the split it wrote, and where they lie."""
    train: Source
    test: Source
    if isinstance(config, ProtocolData):
        with _data_root_named():
            train, test = _sources(config)
        again = split(split_rule(config.split), train.labels, test.labels, drawn.seed)
        if again.to_json() != drawn.to_json():
            raise InputError(
                f"{test.where}: these are not the pictures that the run was split on; "
                "name the folder with those by --data-root DIR."
            )
    else:
        train = test = digits_source()
    return _judged(drawn, train, test, size, progress), test.where


def load_pool(
    config: FolderData, size: int, classes: tuple[str, ...], truth: Path, progress: Progress
) -> tuple[Judged, ...]:
    """The pool of a run on folders with what its pictures truly are, by a person's file."""
    with _data_root_named():
        source = FlatFolder(config.unlabelled)
    pool = load_pictures(source, size, "loading the pool", progress)
    left_out = {entry.path for entry in pool.rejected} | set(source.ignored)
    labels = read_truth(truth, list(pool.names), classes, left_out)
    return (Judged("the pool", pool, labels, float((labels < 0).mean())),)


def load_folders(config: FolderData, size: int, progress: Progress) -> Task:
    """The pictures of a person's own folders, refused where nothing can be learnt from them."""
    check_separate(config.labelled, config.unlabelled)
    first, second = ClassFolders(config.labelled), FlatFolder(config.unlabelled)
    labelled = load_pictures(first, size, "loading the labelled pictures", progress)
    check_labelled(labelled)
    pool = load_pictures(second, size, "loading the pool", progress)
    for pictures, what in ((labelled, "labelled pictures"), (pool, "pool")):
        check_differ(pictures, what)
    rejected: list[Rejected] = []
    for source, pictures in ((first, labelled), (second, pool)):
        named = [*pictures.rejected, *(Rejected(name, NOT_A_PICTURE) for name in source.ignored)]
        rejected += [Rejected(str(source.root / entry.path), entry.reason) for entry in named]
    where = f"{labelled.where}; {pool.where}"
    return Task(labelled, pool, labelled.classes, (), where, tuple(rejected))


def check_differ(pictures: Pictures, what: str) -> None:
    """None when two of the pictures differ, else an InputError: no feature of them would vary."""
    first = pictures.take([0])
    for low in range(0, len(pictures), COMPARED):
        some = pictures.take(list(range(low, min(low + COMPARED, len(pictures)))))
        if bool((some != first).any()):
            return
    count = (
        "there is only one picture"
        if len(pictures) == 1
        else (f"all {len(pictures):,} are the same picture")
    )
    raise InputError(f"{what}: {pictures.where}: {count}: give pictures that differ.")


def _judged(
    drawn: Split, train: Source, test: Source, size: int, progress: Progress
) -> tuple[Judged, ...]:
    share = float((drawn.pool_truth < 0).mean())
    chosen = Selection(train if drawn.test_is_pool else test, drawn.test, drawn.test_labels)
    name = "the pool" if drawn.test_is_pool else "the test pictures"
    pictures = load_pictures(chosen, size, f"loading {name}", progress)
    # Not the split's own list: a picture that cannot be read has no truth to be judged by.
    return (Judged(name, pictures, pictures.labels, share),)


@contextmanager
def _data_root_named() -> Iterator[None]:
    """Errors about data that are no longer there, with the option that says where they are."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{error}; if they lie elsewhere now, add --data-root DIR.") from error


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


def training_source(config: ProtocolData | DigitsData) -> Source:
    """The undecoded training pictures of a benchmark, that its split's indices mean."""
    if isinstance(config, DigitsData):
        return digits_source()
    with _data_root_named():
        return _sources(config)[0]


def load_pictures(source: Source, size: int, what: str, progress: Progress) -> Pictures:
    """The source's readable pictures, with a bar that says `what` is done."""
    task = progress.task(what, len(source))
    pictures = load(source, size, progress=lambda done, _: task.advance(done - task.done))
    task.finish()
    return pictures
