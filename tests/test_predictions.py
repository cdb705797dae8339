"""predictions.csv and its parquet twin say the same, in words for people."""

from __future__ import annotations

import csv
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch

from ossl.data.pictures import Rejected
from ossl.errors import InputError
from ossl.methods.base import Predictions
from ossl.sort.predictions import COLUMNS, check_folder, prediction_table, write_predictions

CLASSES = ("Apfel", 'grün, "süß"')
PATHS = ["a.png", "b/ü, x.png", "c.png"]


def test_three_files(tmp_path: Path) -> None:
    logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.0, 3.0]])
    score = torch.tensor([0.1, 0.5, 0.9])
    table = prediction_table(PATHS, Predictions(logits, score), CLASSES, 0.5)
    check_folder(tmp_path)
    write_predictions(tmp_path, table, [Rejected("d, e.png", "empty file")])
    with (tmp_path / "predictions.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    assert [row["path"] for row in rows] == PATHS
    assert [row["label"] for row in rows] == [CLASSES[0], CLASSES[1], CLASSES[1]]
    # On the boundary is still known; an outlier keeps its most likely class.
    assert [row["is_outlier"] for row in rows] == ["false", "false", "true"]
    assert float(rows[0]["confidence"]) == pytest.approx(float(logits[0].softmax(0)[0]))
    twin = pq.read_table(tmp_path / "predictions.parquet").to_pylist()
    assert [row["is_outlier"] for row in twin] == [False, False, True]
    assert [row["label"] for row in twin] == [row["label"] for row in rows]
    with (tmp_path / "rejected_files.csv").open(newline="", encoding="utf-8") as file:
        assert list(csv.DictReader(file)) == [{"path": "d, e.png", "reason": "empty file"}]
    with pytest.raises(InputError, match="already holds predictions"):
        check_folder(tmp_path)
