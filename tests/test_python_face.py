"""OpenPrompt as a person's program uses it, against the command line on the same pictures."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import ossl
from ossl import InputError, OpenPrompt
from ossl.cli import main
from ossl.data.task import load_task
from ossl.progress import Progress
from ossl.results import ResultTable
from tests.conftest import FittedRun
from tests.shapes import CLASSES, JUNK, TINY, picture

SETTINGS = {name: value for name, _, value in (pair.partition("=") for pair in TINY)}
Pictures = list[Image.Image]


def new(**changes: Any) -> OpenPrompt:
    """A model whose fit takes a second or two: the default recipe on a tiny picture size."""
    return OpenPrompt(**{"image_size": 32, "quiet": True, **changes})


@pytest.fixture(scope="module")
def shapes() -> tuple[Pictures, list[str], Pictures]:
    """Labelled pictures, their labels, and a pool of 40."""
    labels = [name for name in CLASSES for _ in range(4)]
    labelled = [picture(name, seed) for seed, name in enumerate(labels)]
    names = [*list(CLASSES) * 8, *[JUNK] * 16]
    return labelled, labels, [picture(name, 100 + seed) for seed, name in enumerate(names)]


@pytest.fixture(scope="module")
def model(shapes: tuple[Pictures, list[str], Pictures]) -> OpenPrompt:
    """The default recipe on pictures in memory."""
    return new().fit(*shapes)


@pytest.fixture(scope="module")
def table(model: OpenPrompt, shapes: tuple[Pictures, list[str], Pictures]) -> ResultTable:
    return model.predict(shapes[2])


def test_importing_it_imports_no_network() -> None:
    code = (
        "import ossl, sys; ossl.__version__; dir(ossl); "
        "print([n for n in ('torch', 'timm', 'sklearn', 'pyarrow', 'PIL') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_public_names() -> None:
    assert set(ossl.__all__) <= set(dir(ossl))
    assert all(getattr(ossl, name).__name__ == name for name in ossl.__all__)
    assert ossl.__version__.startswith("0.")
    with pytest.raises(AttributeError, match="no attribute 'OpenPromt'"):
        _ = ossl.OpenPromt


def test_folders_are_the_command_line(fitted: FittedRun, tmp_path: Path) -> None:
    config = {"backbone": "wrn-28-2", "recipe": "paper", "settings": SETTINGS}
    model = new(**config).fit(fitted.labelled, str(fitted.pool), out=tmp_path / "run")
    assert (
        main(["sort", str(fitted.run), "--images", str(fitted.pool), "--out", f"{tmp_path}/o"]) == 0
    )
    said = model.predict(fitted.pool)
    with (tmp_path / "o/predictions.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["path"] for row in rows] == list(said["path"])
    assert [row["label"] for row in rows] == list(said["label"])
    assert [float(row["outlier_score"]) for row in rows] == pytest.approx(said["outlier_score"])
    assert [row["is_outlier"] == "true" for row in rows] == list(said["is_outlier"])
    again = OpenPrompt.load(fitted.run, quiet=True)
    assert np.array_equal(again.predict(fitted.pool)["outlier_score"], said["outlier_score"])
    assert again.classes_ == model.classes_ == tuple(CLASSES)
    assert model.metrics_["threshold"] == model.threshold_
    judged = model.evaluate(fitted.truth)
    assert judged["auroc"] is not None
    assert judged["outlier_share_true"] == pytest.approx(1 / 3)


def test_pictures_in_memory(model: OpenPrompt, table: ResultTable) -> None:
    assert model.classes_ == tuple(sorted(CLASSES))
    assert len(table) == 40
    assert list(table["path"])[:2] == ["picture 0", "picture 1"]
    truth = [*list(CLASSES) * 8, *[JUNK] * 16]
    right = [said == true for said, true in zip(table["label"], truth, strict=True)][:24]
    assert np.mean(right) > 0.8
    assert table["outlier_score"][24:].mean() > table["outlier_score"][:24].mean() + 1
    assert "3 classes" in repr(model)


def test_arrays_paths_and_pictures_are_the_same(
    model: OpenPrompt,
    table: ResultTable,
    shapes: tuple[Pictures, list[str], Pictures],
    tmp_path: Path,
) -> None:
    pool = shapes[2]
    arrays = np.stack([np.asarray(one) for one in pool])
    files = [tmp_path / f"{number}.png" for number in range(len(pool))]
    for one, file in zip(pool, files, strict=True):
        one.save(file)
    for same in (arrays, list(arrays), files, [str(file) for file in files]):
        assert np.array_equal(model.predict(same)["outlier_score"], table["outlier_score"])
    sizes = [np.asarray(one.resize((40 + place, 50))) for place, one in enumerate(pool[:3])]
    assert len(model.predict(sizes)) == 3
    gone = model.predict([*files[:2], tmp_path / "gone.png"])
    assert len(gone) == 2
    assert [entry.reason for entry in gone.rejected] == ["no such file"]
    assert "1 files could not be read" in repr(gone)


def test_labels_of_numbers_and_a_jpeg_that_stays_as_it_is(
    shapes: tuple[Pictures, list[str], Pictures], tmp_path: Path
) -> None:
    labelled, labels, pool = shapes
    numbers = [sorted(CLASSES).index(label) for label in labels]
    labelled[0].resize((200, 200)).save(tmp_path / "large.jpg")
    lazy = Image.open(tmp_path / "large.jpg")
    model = new().fit([lazy, *labelled[1:]], numbers, pool)
    assert model.classes_ == ("0", "1", "2")
    assert lazy.size == (200, 200)


def test_what_is_saved_is_what_was_learnt(
    model: OpenPrompt,
    table: ResultTable,
    shapes: tuple[Pictures, list[str], Pictures],
    tmp_path: Path,
) -> None:
    model.save(tmp_path / "run")
    model.export(tmp_path / "run.safetensors")
    with pytest.raises(InputError, match="already holds a run"):
        model.save(tmp_path / "run")
    model.save(tmp_path / "run", overwrite=True)
    for place in (tmp_path / "run", tmp_path / "run.safetensors"):
        again = OpenPrompt.load(place, quiet=True)
        assert again.threshold_ == model.threshold_
        assert again.outlier_share_ == model.outlier_share_
        assert again.predict(shapes[2]).to_arrow() == table.to_arrow()
    OpenPrompt.load(tmp_path / "run.safetensors").save(tmp_path / "third")
    assert OpenPrompt.load(tmp_path / "third").predict(shapes[2]).to_arrow() == table.to_arrow()
    with pytest.raises(InputError, match="pictures in a program's memory"):
        load_task(again.config.data, 32, 0, Progress(quiet=True))


def test_the_table(table: ResultTable) -> None:
    aside = table.outliers
    assert len(aside) + len(table.known) == len(table)
    assert (aside["outlier_score"] > table.threshold).all()
    assert table.counts()["outliers"] == len(aside)
    assert sum(table.counts().values()) == len(table)
    everything = table.at(-np.inf)
    assert len(everything.outliers) == len(table)
    assert len(table.at(np.inf).outliers) == 0
    assert table.at(table.threshold).to_arrow() == table.to_arrow()
    assert len(table) == 40  # `at` made another one
    with pytest.raises(InputError, match="nan"):
        table.at(float("nan"))
    row = next(iter(table))
    assert row.path == "picture 0"
    assert row.is_outlier == (row.outlier_score > table.threshold)
    with pytest.raises(KeyError, match="the columns are path, label"):
        _ = table["score"]


def test_the_table_leaves_as_others_know_it(
    table: ResultTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = ["path", "label", "confidence", "outlier_score", "is_outlier"]
    frame = table.to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == columns == table.to_arrow().column_names
    rows = table.to_numpy()
    assert list(rows.dtype.names or ()) == columns
    assert np.array_equal(rows["outlier_score"], frame["outlier_score"])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="pip install pandas"):
        table.to_pandas()


def test_the_table_shows_itself(model: OpenPrompt, table: ResultTable, tmp_path: Path) -> None:
    lines = repr(table).splitlines()
    assert lines[0].startswith("40 pictures: ")
    assert "outliers (" in lines[0]
    assert lines[-1] == "… and 30 more"
    assert len(lines) == 13
    folder = tmp_path / "odd"
    folder.mkdir()
    picture("circle", 1).save(folder / "<script>alert('\"')&.png")
    shown = model.predict(folder)._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert shown.count("<tr>") == 1 + len(CLASSES) + 1 + 2


def test_what_is_wrong_is_said(shapes: tuple[Pictures, list[str], Pictures]) -> None:
    labelled, labels, pool = shapes
    wrong: list[tuple[Any, str]] = [
        (lambda: new().predict(pool), "call fit or load first"),
        (lambda: OpenPrompt(recipe="papers"), "did you mean 'paper'"),
        (lambda: OpenPrompt(device="gpu"), "device"),
        (lambda: OpenPrompt(outlier_share=1.5), "outlier_share"),
        (lambda: new().fit(labelled, labels), "fit takes two folders"),
        (lambda: new().fit(labelled, labels[:-1], pool), "one label per picture"),
        (lambda: new().fit(labelled, [-1, *labels[1:]], pool), "put those pictures into the pool"),
        (lambda: new().fit(labelled, labels, []), "give at least one"),
        (lambda: new().fit(np.zeros((4, 8, 8, 3)), [0, 0, 1, 1], pool), "uint8"),
        (lambda: OpenPrompt.load("nowhere"), "there is no such run"),
    ]
    for make, words in wrong:
        with pytest.raises(InputError) as error:
            make()
        assert words in str(error.value)
        assert "\n" not in str(error.value)
