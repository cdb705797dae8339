"""A run as one safetensors file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.torch import save_file

from ossl import InputError, OpenPrompt
from ossl.cli import main
from ossl.export.bundle import HEADER
from ossl.files import read_tensors
from tests.conftest import FittedRun


def test_it_holds_all_that_the_run_is(
    fitted: FittedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "deep/model.safetensors"
    assert main(["export", str(fitted.run), "--format", "safetensors", "--out", str(file)]) == 0
    assert "3 classes, pictures of 32×32" in capsys.readouterr().out
    run, bundle = OpenPrompt.load(fitted.run), OpenPrompt.load(file, quiet=True)
    assert bundle.classes_ == run.classes_
    there, here = (model.predict(fitted.pool) for model in (run, bundle))
    assert np.array_equal(there["outlier_score"], here["outlier_score"])
    assert np.array_equal(there["confidence"], here["confidence"])
    with safe_open(file, "pt") as opened:
        header = json.loads(opened.metadata()[HEADER])
    assert header["classes"] == list(run.classes_)
    assert float(header["threshold"]) == run.threshold_
    # Where the pictures lay is nobody's business.
    assert header["config"]["data"]["labelled"] == "labelled"
    assert str(fitted.labelled.parent) not in file.read_bytes().decode("latin-1")


def test_the_same_run_is_the_same_file(fitted: FittedRun, tmp_path: Path) -> None:
    for name in ("one", "two"):
        OpenPrompt.load(fitted.run).export(tmp_path / f"{name}.safetensors")
    one, two = ((tmp_path / f"{name}.safetensors").read_bytes() for name in ("one", "two"))
    assert one == two


def test_what_is_wrong_is_one_line(
    fitted: FittedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, out = str(fitted.run), str(tmp_path / "x.safetensors")
    wrong = [
        ([run], "export needs --out FILE"),
        ([run, "--out", str(tmp_path)], "is a folder"),
        ([run, "--format", "onxx", "--out", out], "did you mean 'onnx'"),
        ([run, "--out", str(tmp_path / "model.pt")], "format"),
        ([str(tmp_path), "--out", out], "is not a run"),
        ([run, "--out", str(fitted.truth / "m.safetensors")], "cannot write"),
    ]
    for words, said in wrong:
        assert main(["export", *words]) == 2, words
        err = capsys.readouterr().err
        assert said in err
        assert err.count("\n") == 1, err
    assert not Path(out).exists()


def test_a_file_of_others_is_refused(fitted: FittedRun, tmp_path: Path) -> None:
    tensors = read_tensors(fitted.run / "model.safetensors")
    save_file(tensors, tmp_path / "other.safetensors")
    with pytest.raises(InputError, match="is no run that `ossl export"):
        OpenPrompt.load(tmp_path / "other.safetensors")
    (tmp_path / "text.safetensors").write_text("hello")
    with pytest.raises(InputError, match="cannot be read"):
        OpenPrompt.load(tmp_path / "text.safetensors")
    model = OpenPrompt.load(fitted.run)
    with pytest.raises(InputError, match=r"unknown format 'bin'"):
        model.export(tmp_path / "m.bin")
