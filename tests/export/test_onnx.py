"""The ONNX graph against PyTorch, on real pictures."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray

from ossl import OpenPrompt
from ossl.cli import main
from ossl.config import DigitsData, with_value
from ossl.data.find import digits_source
from ossl.data.folders import FlatFolder
from ossl.data.pictures import Source
from ossl.data.store import load
from ossl.fit import fit, load_run
from ossl.presets import everyday_config
from ossl.progress import Progress
from tests.conftest import FittedRun

PHOTOS = Path(__file__).parents[3] / "shared/data/photos"
COUNT = 500
CLOSE = 1e-3


def agree(run: Path, file: Path, source: Source, count: int) -> None:
    """Hold the file under ONNX Runtime against the run in float32, in several batch sizes."""
    model = load_run(run)
    method = model.method
    # The pictures lie in the pool: this is where equality is hardest, for there a feature's last
    # bits could decide which of its neighbours is itself.
    pictures = load(source, method.image_size).take(list(range(count)))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    assert method.dtype == torch.float32
    said = [method.predict(some) for some in torch.split(pictures, 100)]
    wanted = torch.cat([some.logits.softmax(1) for some in said]).numpy()
    scores = torch.cat([some.outlier_score for some in said]).numpy()
    given = pictures.permute(0, 2, 3, 1).contiguous().numpy()
    for batch in (count, 37, 1):
        rows = given[: 5 if batch == 1 else count]
        parts = [
            session.run(None, {"pictures": rows[low : low + batch]})
            for low in range(0, len(rows), batch)
        ]
        found = [np.concatenate(column) for column in zip(*parts, strict=True)]
        same(found, wanted[: len(rows)], scores[: len(rows)], method.threshold)


def same(
    found: list[NDArray[np.float32]],
    wanted: NDArray[np.float32],
    scores: NDArray[np.float32],
    threshold: float,
) -> None:
    probabilities, outlier_score, is_outlier = found
    assert np.abs(probabilities - wanted).max() < CLOSE
    assert np.abs(outlier_score - scores).max() < CLOSE
    clear = np.abs(scores - threshold) > CLOSE  # the boundary itself goes through a picture
    assert np.array_equal(is_outlier[clear], scores[clear] > threshold)
    assert is_outlier.any()
    assert not is_outlier.all()


@pytest.mark.slow
@pytest.mark.parametrize("pictures", ["digits", "photos"])
def test_the_default_recipe_in_onnx(pictures: str, tmp_path: Path) -> None:
    run, file = tmp_path / "run", tmp_path / "model.onnx"
    if pictures == "digits":
        config = with_value(everyday_config(DigitsData()), "backbone.image_size", 48, "")
        config = with_value(config, "precision", "fp32", "")
        fit(config, run, Progress(quiet=True))
        source: Source = digits_source()
    else:
        if not PHOTOS.is_dir():
            pytest.skip("needs ../shared/data/photos")
        OpenPrompt(precision="fp32", quiet=True).fit(
            PHOTOS / "labelled", PHOTOS / "unlabelled", out=run
        )
        source = FlatFolder(PHOTOS / "unlabelled")
    assert main(["export", str(run), "--out", str(file)]) == 0
    agree(run, file, source, COUNT)


@pytest.mark.slow
def test_the_paper_recipe_in_onnx(
    fitted: FittedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "model.onnx"
    model = OpenPrompt.load(fitted.run)
    assert main(["export", str(fitted.run), "--format", "onnx", "--out", str(file)]) == 0
    said = capsys.readouterr()
    assert "uint8 [batch, 32, 32, 3]" in said.out
    assert said.err.startswith("tracing the graph")
    assert said.err.count("\n") == 1  # the exporter's own words are for others
    about = {entry.key: entry.value for entry in onnx.load(str(file)).metadata_props}
    assert json.loads(about["classes"]) == list(model.classes_)
    assert (about["image_size"], about["recipe"]) == ("32", "paper")
    assert float(about["threshold"]) == model.threshold_
    assert json.loads(about["normalisation"])["mean"] == [0.4914, 0.4822, 0.4465]
    assert json.loads(about["config"])["backbone"]["name"] == "wrn-28-2"
    assert str(fitted.labelled.parent) not in file.read_bytes().decode("latin-1")
    pictures = load(FlatFolder(fitted.pool), 32).take(list(range(18)))
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    assert [side.shape[0] for side in (*session.get_inputs(), *session.get_outputs())] == [
        "batch"
    ] * 4
    found = session.run(None, {"pictures": pictures.permute(0, 2, 3, 1).contiguous().numpy()})
    # In float32 whatever the run computes in; bf16 here is no nearer than its three digits.
    said_here = model.predict(fitted.pool)
    assert np.abs(found[1] - said_here["outlier_score"]).max() < 0.05
    assert [model.classes_[k] for k in found[0].argmax(1)] == list(said_here["label"])


def test_without_the_extra_it_names_it(
    fitted: FittedRun,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    assert main(["export", str(fitted.run), "--out", str(tmp_path / "m.onnx")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "onnxscript" in said
    assert "pip install 'ossl[onnx]'" in said
    assert not (tmp_path / "m.onnx").exists()
