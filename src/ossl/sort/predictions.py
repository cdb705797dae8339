"""`predictions.parquet` and `.csv`, and `rejected_files.csv`: every file is in exactly one."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from ossl.data.pictures import Rejected
from ossl.data.task import REJECTED_FILE
from ossl.errors import InputError
from ossl.files import check_writable, write_whole
from ossl.methods.base import Predictions

COLUMNS = ("path", "label", "confidence", "outlier_score", "is_outlier")
FILES = ("predictions.parquet", "predictions.csv", REJECTED_FILE, "report.html", "report.json")


def prediction_table(
    paths: Sequence[str], predictions: Predictions, classes: Sequence[str], threshold: float
) -> pa.Table:
    """One row a picture: its most likely known class by name (also for an outlier), and scores."""
    confidence, label = predictions.logits.softmax(dim=1).max(dim=1)
    score = predictions.outlier_score
    columns = (
        list(paths),
        [classes[index] for index in label.tolist()],
        confidence.numpy(),
        score.numpy(),
        (score > threshold).numpy(),
    )
    return pa.table(dict(zip(COLUMNS, columns, strict=True)))


def check_folder(folder: Path) -> None:
    """Refuse in one line a folder that holds predictions or cannot be written to."""
    for name in FILES:
        if (folder / name).exists():
            raise InputError(f"--out {folder} already holds {name}; name another folder.")
    check_writable(folder)


def write_predictions(folder: Path, table: pa.Table, rejected: Sequence[Rejected]) -> None:
    """Write the three files whole."""
    write_whole(folder / "predictions.parquet", lambda path: pq.write_table(table, path))
    write_whole(folder / "predictions.csv", lambda path: pa_csv.write_csv(table, path))
    write_rejected(folder / REJECTED_FILE, rejected)


def write_rejected(place: Path, rejected: Sequence[Rejected]) -> None:
    """Write a row with the reason for every file that was left out."""

    def write(path: Path) -> None:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["path", "reason"])
            writer.writerows((entry.path, entry.reason) for entry in rejected)

    write_whole(place, write)
