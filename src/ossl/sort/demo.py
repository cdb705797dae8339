"""The demo's pool as a sorted folder: its pictures come with a library and lie in no folder."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from PIL import Image

from ossl.data.task import Task
from ossl.methods.base import Method
from ossl.progress import Progress
from ossl.sort.predictions import write_predictions
from ossl.sort.report import Facts, Written, write_report

FOLDER = "sorted"  # in the demo's run


def write_sorted_demo(
    run: Path, table: pa.Table, task: Task, method: Method, progress: Progress
) -> Written:
    """What was written to `RUN/sorted`: the predictions once more, with the page to look at."""
    out = run / FOLDER
    facts = Facts.of(method, run, task.classes, method.threshold, "scikit-learn's digits")
    places = {name: place for place, name in enumerate(task.pool.names)}

    def look(name: str) -> Image.Image:
        return Image.fromarray(task.pool.take([places[name]])[0].permute(1, 2, 0).numpy())

    write_predictions(out, table, task.rejected)
    return write_report(out, facts, progress, look)
