"""`ossl fit --method NAME`, its run sorted, judged and gone on with, by the real commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ossl.cli import main
from tests.shapes import make_cifar10, make_folders

TINY = ("epochs=2", "epoch_steps=2", "labelled_batch=4", "pool_batch=6")


def words(method: str, *more: str) -> list[str]:
    settings = [word for setting in (*TINY, *more) for word in ("--set", f"baseline.{setting}")]
    return ["--method", method, "--quiet", *settings]


@pytest.fixture(scope="module", params=["fixmatch", "openmatch"])
def fitted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run on folders, and the folders."""
    root = tmp_path_factory.mktemp(request.param)
    labelled, pool, truth = make_folders(root)
    data = ["--labelled", str(labelled), "--unlabelled", str(pool), "--backbone", "wrn-28-2"]
    more = ["pseudo_from_epoch=1"] if request.param == "openmatch" else []
    run = root / "run"
    assert main(["fit", *data, "--out", str(run), *words(request.param, *more)]) == 0
    return request.param, run, pool, truth


def test_metrics_say_what_was_trained(fitted: Any) -> None:
    method, run, _, _ = fitted
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["method"] == method
    assert metrics["recipe"] is None
    assert metrics["trainable_parameters"] == metrics["total_parameters"] > 1_466_320
    assert metrics["threshold"] == 0.5
    assert 0 <= metrics["outlier_share"] <= 1
    config = json.loads((run / "config.json").read_text())
    assert config["baseline"]["kind"] == method


def test_it_sorts_and_is_judged(
    fitted: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, run, pool, truth = fitted
    assert main(["sort", str(run), "--images", str(pool), "--out", str(tmp_path / "s")]) == 0
    lines = (tmp_path / "s" / "predictions.csv").read_text().splitlines()
    assert len(lines) == 1 + len(list(pool.iterdir()))
    capsys.readouterr()
    assert main(["evaluate", str(run), "--truth", str(truth), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert 0 <= found["auroc"] <= 1
    assert set(found["simple_scores"]) >= {"max_softmax", "energy"}
    again = json.loads((run / "metrics.json").read_text())
    assert found["outlier_share"] == pytest.approx(again["outlier_share"])


def test_going_on_with_a_finished_run(fitted: Any) -> None:
    _, run, _, _ = fitted
    before = (run / "model.safetensors").read_bytes()
    assert main(["fit", "--resume", "--out", str(run), "--quiet"]) == 0
    assert (run / "model.safetensors").read_bytes() == before


def test_supervised_is_told_the_pools_known_pictures(tmp_path: Path) -> None:
    make_cifar10(tmp_path / "data")
    counts = {}
    for method in ("labeled_only", "supervised"):
        run = tmp_path / method
        preset = ["--preset", "table1/cifar10-50", "--data-root", str(tmp_path / "data")]
        assert main(["fit", *preset, "--out", str(run), *words(method)]) == 0
        counts[method] = json.loads((run / "pictures.json").read_text())
        split = json.loads((run / "split.json").read_text())
    known = sum(label >= 0 for label in split["pool_truth"])
    assert known > 0
    assert counts["labeled_only"]["labelled"] == 300
    assert counts["supervised"]["labelled"] == 300 + known
    assert counts["supervised"]["pool"] == counts["labeled_only"]["pool"]
