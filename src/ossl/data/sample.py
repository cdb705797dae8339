"""Some of a run's pictures, spread evenly over all of them: enough to draw, quick to load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ossl.config import ArrayData, DataConfig, FolderData
from ossl.data.folders import ClassFolders, FlatFolder
from ossl.data.protocols import Split
from ossl.data.sources import Selection
from ossl.data.store import Pictures
from ossl.data.task import load_pictures, training_source
from ossl.errors import InputError
from ossl.progress import Progress

LABELLED, POOL = 300, 1_500  # pictures


@dataclass(frozen=True)
class Sample:
    """Labelled and pool pictures; the pool's labels are its truth where that is known."""

    labelled: Pictures
    pool: Pictures
    has_truth: bool


def load_sample(
    config: DataConfig,
    size: int,
    drawn: Split | None,
    truth: Mapping[str, int] | None,
    progress: Progress,
) -> Sample:
    """The sample of a run; `drawn` is a benchmark's split, `truth` a folder's classes by name."""
    if isinstance(config, ArrayData):
        raise InputError("the run's pictures were in a program's memory and are gone.")
    if isinstance(config, FolderData):
        folders, heap = ClassFolders(config.labelled), FlatFolder(config.unlabelled)
        rows = evenly(len(heap), POOL)
        known = None
        if truth is not None:  # what is not in it cannot be read
            rows = np.asarray([row for row in rows if heap.names[row] in truth], dtype=np.int64)
            known = [truth[heap.names[row]] for row in rows]
        labelled = Selection(folders, evenly(len(folders), LABELLED))
        pool = Selection(heap, rows, known)
    elif drawn is None:
        raise InputError("the run has lost its split.json; fit the run again.")
    else:
        train, truth = training_source(config), {}
        chosen, rows = drawn.labelled, evenly(len(drawn.pool), POOL)
        chosen = chosen[evenly(len(chosen), LABELLED)]
        labelled = Selection(train, chosen, drawn.train_labels[chosen], drawn.classes)
        pool = Selection(train, drawn.pool[rows], drawn.pool_truth[rows], drawn.classes)
    return Sample(
        load_pictures(labelled, size, "loading labelled pictures to draw", progress),
        load_pictures(pool, size, "loading pool pictures to draw", progress),
        truth is not None,
    )


def evenly(count: int, most: int) -> NDArray[np.int64]:
    """At most so many places out of `count`, evenly spread, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))
