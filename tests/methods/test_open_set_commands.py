"""MTC, IOMatch and SSB by the real command: two tiny epochs, the same again, and resumed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator

from ossl.baseline_presets import baseline_of
from ossl.cli import main
from ossl.config import DigitsData, RunConfig
from ossl.data.batches import Batches
from ossl.data.store import MemoryPictures
from ossl.files import read_tensors
from ossl.methods import create_method
from ossl.methods.baseline import Baseline
from ossl.methods.mtc import MTC
from ossl.progress import Progress
from ossl.train.loop import train
from tests.methods import tiny
from tests.shapes import make_folders

METHODS = ("mtc", "iomatch", "ssb")
SMALL = ("epochs=2", "epoch_steps=2", "labelled_batch=6", "pool_batch=6", "train_encoder=always")
OWN = {
    "mtc": ("outlier_epochs=1", "window=1"),
    "iomatch": ("projection=8", "align=true"),
    "ssb": ("hidden=8", "detector_from=0.5"),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes, of four pictures or of the two it has to have, and a pool with outliers."""
    root = tmp_path_factory.mktemp("shapes")
    labelled, _, _ = make_folders(root)
    for number in range(2, 4):
        (labelled / "circle" / f"{number}.png").unlink()
    return root


def fit(folders: Path, name: str, out: Path) -> int:
    words = ["--labelled", f"{folders}/labelled", "--unlabelled", f"{folders}/pool", "--quiet"]
    words += ["--backbone", "wrn-28-2", "--image-size", "32", "--device", "cpu", "--seed", "3"]
    for setting in (*SMALL, *OWN[name]):
        words += ["--set", f"baseline.{setting}"]
    return main(["fit", "--method", name, *words, "--out", str(out)])


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_two_epochs_end_to_end(
    name: str, folders: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, again = tmp_path / "first", tmp_path / "again"
    assert fit(folders, name, first) == 0
    assert fit(folders, name, again) == 0
    for file in ("model.safetensors", "jointspace.safetensors"):
        one, two = read_tensors(first / file), read_tensors(again / file)
        assert one.keys() == two.keys()
        assert all(one[key].equal(two[key]) for key in one), file
    # every loss of the second epoch is a number, and the log says what was selected
    events = [json.loads(line) for line in (first / "journal.jsonl").read_text().splitlines()]
    last = [event for event in events if event["event"] == "step"][-1]
    losses = {key: value for key, value in last.items() if key.endswith("_loss")}
    assert losses
    assert all(0 <= value < 1e4 for value in losses.values()), losses
    # judged from its files, it says what it said when it was fitted
    words = ["--truth", f"{folders}/truth.csv", "--json"]
    capsys.readouterr()
    assert main(["evaluate", str(first), *words]) == 0
    found = json.loads(capsys.readouterr().out)
    fitted = json.loads((first / "metrics.json").read_text())
    assert found["method"] == name
    assert found["outlier_share"] == fitted["outlier_share"]
    assert found["threshold"] == fitted["threshold"]
    assert 0 <= found["auroc"] <= 1
    assert main(["sort", str(first), "--images", f"{folders}/pool", "--out", f"{tmp_path}/s"]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_a_pool_smaller_than_a_batch_is_refused(
    name: str, folders: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--labelled", f"{folders}/labelled", "--unlabelled", f"{folders}/pool", "--quiet"]
    more = ["--backbone", "wrn-28-2", "--image-size", "32", "--out", f"{tmp_path}/run"]
    assert main(["fit", "--method", name, *words, *more, "--set", "baseline.pool_batch=99"]) == 2
    assert "fewer than a batch of 99" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "setting", "expected"),
    [
        ("mtc", "outlier_epochs=10", "leaves the classifier none"),
        ("mtc", "temperature=0", "greater than 0"),
        ("iomatch", "open_threshold=1.5", "less than or equal to 1"),
        ("ssb", "detector_from=1", "leaves the outlier detectors no epoch"),
        ("ssb", "negative_threshold=-0.1", "greater than or equal to 0"),
    ],
)
def test_settings_of_which_nothing_can_come_are_refused(
    name: str,
    setting: str,
    expected: str,
    folders: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["--labelled", f"{folders}/labelled", "--unlabelled", f"{folders}/pool", "--quiet"]
    more = ["--out", f"{tmp_path}/run", "--set", f"baseline.{setting}"]
    assert main(["fit", "--method", name, *words, *more]) == 2
    err = capsys.readouterr().err
    assert expected in err
    assert err.count("\n") == 1
    assert not (tmp_path / "run").exists()


ONE_OF: dict[str, dict[str, Any]] = {
    "mtc": {"outlier_epochs": 1, "window": 1},
    "iomatch": {"projection": 8},
    "ssb": {"hidden": 8},
}


def trained(name: str, folder: Path, labelled: MemoryPictures) -> Baseline:
    """A method after two epochs on tiny pictures."""
    short = {"epochs": 2, "epoch_steps": 2, "labelled_batch": 6, "pool_batch": 8}
    settings = replace(baseline_of(name, "desk"), **short, **ONE_OF[name])  # type: ignore[type-var]
    config = RunConfig(data=DigitsData(), method=name, baseline=settings)
    method = create_method(config, tiny.encoder(), tiny.CLASSES, torch.float32)
    assert isinstance(method, Baseline)
    run = Accelerator(cpu=True)
    train(
        method,
        labelled,
        tiny.pool_pictures(),
        folder,
        seed=0,
        accelerator=run,
        progress=Progress(quiet=True),
    )
    return method


@pytest.mark.parametrize("name", METHODS)
def test_one_picture_a_class_is_enough_to_run(name: str, tmp_path: Path) -> None:
    method = trained(name, tmp_path, tiny.pictures([0, 1, 2]))
    said = method.predict(tiny.pool_pictures().take(range(31)))
    assert torch.isfinite(said.outlier_score).all()
    assert torch.isfinite(said.logits).all()


def test_mtc_without_a_chosen_picture_learns_from_the_labelled_alone(tmp_path: Path) -> None:
    method = trained("mtc", tmp_path, tiny.labelled_pictures())
    assert isinstance(method, MTC)
    method.epochs_done = 1  # the classifier learns by then
    method.train()
    whole = next(Batches(tiny.labelled_pictures(), tiny.pool_pictures(), method.plan(), [0]))
    parts = method.losses(replace(whole, selected={}))
    assert {"outlier_loss", "labelled_loss"} <= parts.keys()
    assert "pool_loss" not in parts


@pytest.mark.parametrize("name", METHODS)
def test_losses_are_float32_under_autocast(name: str, tmp_path: Path) -> None:
    method = trained(name, tmp_path, tiny.labelled_pictures())
    method.train()
    pool = tiny.pool_pictures()
    chosen = torch.arange(len(pool))
    batch = next(Batches(tiny.labelled_pictures(), pool, method.plan(), [0], selected=chosen))
    exact = {key: value.detach() for key, value in method.losses(batch).items()}
    if isinstance(method, MTC):
        method.steps -= 1  # the same mixture once more
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = {key: value.detach() for key, value in method.losses(batch).items()}
    for key, value in rounded.items():
        assert value.dtype == torch.float32, key
        if key.endswith("_loss"):
            torch.testing.assert_close(value, exact[key], rtol=0.1, atol=0.05)
