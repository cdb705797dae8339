"""Whatever a person does wrong is one line (what, where, how to mend it), and nothing is lost."""

from __future__ import annotations

import csv
import json
import shutil
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from ossl.cli import main
from ossl.config import DigitsData, RunConfig, ScheduleConfig
from ossl.errors import InputError
from ossl.fit import check_batches
from ossl.method_config import FixMatchConfig
from tests.conftest import FittedRun
from tests.shapes import make_folders, picture, tiny_options


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A good labelled folder and a good pool, to be spoilt."""
    labelled, pool, _ = make_folders(tmp_path)
    return labelled, pool


def refusal(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What the command says when it refuses: one line, at the end, exit code 2."""
    capsys.readouterr()
    code = main(words)
    out, err = capsys.readouterr()
    own = [line for line in err.splitlines() if line.startswith("ossl: ")]
    assert code == 2, err
    assert out == ""
    assert len(own) == 1
    assert err.endswith(own[0] + "\n")
    assert "Traceback" not in err
    return own[0]


def fit_words(labelled: Path, pool: Path, out: Path, *more: str) -> list[str]:
    """A fit of these folders."""
    words = ["--labelled", str(labelled), "--unlabelled", str(pool), "--out", str(out)]
    return ["fit", *words, *tiny_options(*more)]


def tree(folder: Path) -> dict[str, bytes]:
    """Every file of a folder with its content."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


# --- folders ----------------------------------------------------------------------------------


def test_empty_folders(
    folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labelled, pool = folders
    empty, out = tmp_path / "empty", tmp_path / "run"
    empty.mkdir()
    said = refusal(fit_words(empty, pool, out), capsys)
    assert str(empty) in said
    assert "sub-folder" in said
    said = refusal(fit_words(labelled, empty, out), capsys)
    assert str(empty) in said
    assert "put the pictures there" in said
    said = refusal(fit_words(labelled, tmp_path / "pol", out), capsys)
    assert f"did you mean {pool}?" in said
    assert not out.exists()


def test_too_little_to_learn_from(
    folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labelled, pool = folders
    out = tmp_path / "run"
    for file in sorted((labelled / "cross").iterdir())[1:]:
        file.unlink()
    said = refusal(fit_words(labelled, pool, out), capsys)
    assert "'cross' has 1" in said
    assert "add pictures or remove the class" in said
    shutil.rmtree(labelled / "cross")
    shutil.rmtree(labelled / "square")
    assert "only one class (circle)" in refusal(fit_words(labelled, pool, out), capsys)
    assert not out.exists()


def test_a_class_of_unreadable_pictures(
    folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labelled, pool = folders
    for file in (labelled / "cross").iterdir():
        file.write_bytes(b"nothing")
    said = refusal(fit_words(labelled, pool, tmp_path / "run"), capsys)
    assert "'cross' has 0" in said
    assert "(4 unreadable)" in said


def test_overlapping_folders(
    folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labelled, _ = folders
    out = tmp_path / "run"
    assert "both are" in refusal(fit_words(labelled, labelled, out), capsys)
    said = refusal(fit_words(labelled, labelled / "cross", out), capsys)
    assert "lies inside" in said
    assert "neither inside the other" in said


def test_pictures_that_are_all_the_same(
    folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labelled, pool = folders
    for file in pool.iterdir():
        picture("circle", 0).save(file)
    said = refusal(fit_words(labelled, pool, tmp_path / "run"), capsys)
    assert "all 18 are the same picture" in said
    for file in sorted(pool.iterdir())[1:]:
        file.unlink()
    assert "only one picture" in refusal(fit_words(labelled, pool, tmp_path / "run"), capsys)
    for file in labelled.rglob("*.png"):
        picture("circle", 0).save(file)
    said = refusal(fit_words(labelled, pool, tmp_path / "run"), capsys)
    assert "all 12 are the same picture" in said


def test_a_pool_of_two_pictures_is_enough(
    folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labelled, pool = folders
    for file in sorted(pool.iterdir())[2:]:
        file.unlink()
    for recipe in ("paper", "default"):
        words = fit_words(labelled, pool, tmp_path / recipe, "--set", "recipe.train_encoder=always")
        words[words.index("--recipe") + 1] = recipe
        assert main(words) == 0, capsys.readouterr().err


# --- pictures ---------------------------------------------------------------------------------


def test_odd_pictures_are_converted_and_bad_ones_listed(
    folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labelled, pool = folders
    photo = picture("circle", 1)
    grey16 = np.linspace(0, 65535, 32 * 32).reshape(32, 32).astype(np.uint16)
    odd = {
        "grey.png": photo.convert("L"),
        "palette.gif": photo.convert("P"),
        "cmyk.jpg": photo.convert("CMYK"),
        "grey16.png": Image.fromarray(grey16),
        "alpha.png": photo.convert("RGBA"),
    }
    for name, image in odd.items():
        image.save(pool / name)
    photo.save(pool / "moving.gif", save_all=True, append_images=[picture("cross", 2)])
    photo.save(pool / "long.png")
    whole = (pool / "long.png").read_bytes()
    (pool / "long.png").write_bytes(whole[: len(whole) // 2])
    for number in range(6):
        (pool / f"bild-ä{number}.jpg").write_bytes(b"\xff\xd8\xff\xe0 nothing more")
    (labelled / "cross" / "leer.png").write_bytes(b"")
    (pool / "notes.txt").write_text("not a picture")
    capsys.readouterr()
    assert main(fit_words(labelled, pool, tmp_path / "run")) == 0
    err = capsys.readouterr().err
    assert "24 pictures in the pool" in err
    assert "9 files cannot be used and are left out" in err
    listed = [line for line in err.splitlines() if line.startswith("  ")]
    assert len(listed) == 6
    assert str(labelled / "cross" / "leer.png") in listed[0]
    assert "and 4 more" in listed[-1]
    with (tmp_path / "run/rejected_files.csv").open(newline="", encoding="utf-8") as file:
        rejected = {row["path"]: row["reason"] for row in csv.DictReader(file)}
    assert len(rejected) == 9
    assert rejected[str(labelled / "cross" / "leer.png")] == "empty file"
    assert "truncated" in rejected[str(pool / "long.png")]
    assert rejected[str(pool / "notes.txt")] == "not a picture file"
    assert str(pool / "bild-ä5.jpg") in rejected


# --- settings ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "what"),
    [
        (("--set", "recipe.prompt.size=40"), "recipe.prompt.size"),
        (("--set", "recipe.prompt.size=16"), "from 0 to 15"),
        (("--image-size", "4"), "--image-size"),
        (("--seed", "-1"), "--seed"),
        (("--seed", "x"), "--seed x: this is not a whole number"),
        (("--set", "schedule.pool_batch=100000000"), "schedule.pool_batch"),
        (("--set", "schedule.pool_batch=0"), "schedule.pool_batch"),
        (("--set", "schedule.learning_rate=inf"), "schedule.learning_rate"),
        (("--set", "schedule.pool_epochs=1.5"), "schedule.pool_epochs = 1.5"),
        (("--set", "recipe.circle_limit"), "NAME=VALUE"),
        (("--set", "recipe.circel_limit=1"), "did you mean 'recipe.circle_limit'?"),
        (("--set", "recipe.space=whitend"), "did you mean 'whitened'?"),
        (("--set", "method=openpromt"), "did you mean 'openprompt'?"),
        (("--set", "data.kind=folder"), "did you mean 'folders'?"),
        (("--backbone", "wrn-28"), "give one of wrn-28-2, wrn-28-8"),
        (("--backbone", "lite00"), "did you mean 'lite0'?"),
        (("--recipe", "papr"), "did you mean 'paper'?"),
        (("--device", "cdua"), "did you mean 'cuda'?"),
        (("--precision", "fp23"), "did you mean 'fp32'?"),
        (("--profile", "desk"), "--profile"),
        (("--preset", "table1/cifar10-100"), "leave --labelled and --unlabelled away"),
        (("--outlier-share", "2"), "recipe.outlier_share = 2.0"),
        (("--max-false-rejects", "nan"), "recipe.max_false_rejects = nan"),
        (("--outlier-share", "0.1", "--max-false-rejects", "0.1"), "exclude each other"),
        (("--recipe", "paper", "--outlier-share", "0.1"), "goes with --recipe default"),
        (("--overwite",), "did you mean --overwrite?"),
        (("--resume", "--overwrite"), "exclude each other"),
        (("--resume",), "give only --out with it"),
        (("--weights", "none.safetensors"), "does not exist"),
        (("more",), "no place for 'more'"),
    ],
)
def test_wrong_settings(
    folders: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    more: tuple[str, ...],
    what: str,
) -> None:
    words = fit_words(*folders, tmp_path / "run", *more)
    assert what in refusal(words, capsys)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["fitt"], "unknown command 'fitt': did you mean 'fit'?"),
        (["--versoin"], "did you mean '--version'?"),
        (["fit"], "--out RUN"),
        (["fit", "--out"], "--out needs a value"),
        (["fit", "--out", "r"], "--labelled DIR"),
        (["fit", "--out", "r", "--preset", "table1/cifar10-10"], "'table1/cifar10-100'"),
        (["fit", "--out", "r", "--preset", "table1/cifar10-50", "--profile", "dsk"], "'desk'"),
        (["fit", "--out", "r", "--preset", "table1/cifar10-50", "--data-root", "none"], "none"),
        (["list", "preset"], "did you mean 'presets'?"),
        (["list"], "list needs WHAT"),
        (["bench", "stpe"], "did you mean 'step'?"),
        (["bench", "step", "--steps", "0"], "--steps 0"),
        (["bench", "step", "--pool-batch", "0"], "--pool-batch 0"),
        (["evaluate", "none", "--cache", __file__], "is a file; name another folder"),
        (["sort"], "sort needs RUN"),
        (["sort", "none"], "--images DIR and --out OUT"),
        (["evaluate", "none"], "none is not a run"),
        (["fit", "--resume", "--out", "none"], "holds no run"),
        (["evaluate", "none", "--device", "gpu"], "unknown device 'gpu'"),
    ],
)
def test_wrong_words(
    words: list[str], what: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        assert what in refusal(words, capsys)
    assert not list(tmp_path.iterdir())


def test_batches_that_processes_cannot_share() -> None:
    config = RunConfig(data=DigitsData())
    check_batches(config, 2)
    with pytest.raises(InputError, match=r"schedule.pool_batch=126"):
        check_batches(replace(config, schedule=ScheduleConfig(labelled_batch=6)), 3)
    baseline = replace(config, method="fixmatch", baseline=FixMatchConfig(labelled_batch=6))
    with pytest.raises(InputError, match=r"--set baseline.pool_batch=126"):
        check_batches(baseline, 3)


def test_diverging_settings(
    folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ("--set", "schedule.learning_rate=1e30", "--set", "schedule.labelled_steps=8")
    said = refusal(fit_words(*folders, tmp_path / "run", *more), capsys)
    assert "smaller --set schedule.learning_rate" in said


def test_weights_that_do_not_fit(
    folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = tmp_path / "w.safetensors"
    save_file({"conv.weight": torch.zeros(3, 3)}, weights)
    more = ("--weights", str(weights))
    said = refusal(fit_words(*folders, tmp_path / "run", *more), capsys)
    assert "do not fit backbone 'wrn-28-2'" in said
    weights.write_bytes(b"rubbish")
    said = refusal(fit_words(*folders, tmp_path / "run", *more), capsys)
    assert "no readable safetensors file" in said
    assert not (tmp_path / "run").exists()


# --- the run's folder -------------------------------------------------------------------------


def test_a_run_is_never_overwritten_unasked(
    fitted: FittedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(fitted.run, run)
    before = tree(run)
    said = refusal(fit_words(fitted.labelled, fitted.pool, run), capsys)
    assert "--resume" in said
    assert "--overwrite" in said
    # Wrong input loses nothing either, even where the run may be replaced.
    empty = tmp_path / "empty"
    empty.mkdir()
    refusal(fit_words(empty, fitted.pool, run, "--overwrite"), capsys)
    refusal(fit_words(fitted.labelled, empty, run, "--overwrite"), capsys)
    wrong = ("--overwrite", "--set", "recipe.prompt.size=40")
    refusal(fit_words(fitted.labelled, fitted.pool, run, *wrong), capsys)
    assert tree(run) == before
    words = fit_words(fitted.labelled, fitted.pool, run, "--overwrite", "--seed", "1")
    assert main(words) == 0
    assert json.loads((run / "config.json").read_text())["seed"] == 1
    assert tree(run)["model.safetensors"] != before["model.safetensors"]


def test_places_that_cannot_hold_a_run(
    fitted: FittedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_text("here")
    folders = (fitted.labelled, fitted.pool)
    assert "is a file" in refusal(fit_words(*folders, file), capsys)
    assert "is a file" in refusal(fit_words(*folders, file / "run"), capsys)
    assert "holds other files (file" in refusal(fit_words(*folders, tmp_path), capsys)
    sort = ["sort", str(fitted.run), "--images", str(fitted.pool), "--out"]
    assert "is a file" in refusal([*sort, str(file / "out")], capsys)
    assert file.read_text() == "here"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{", "is not JSON"),
        ("[1, 2]", "holds no settings"),
        ("{}", "data is missing"),
        ('{"data": {"kind": "digits"}, "recpie": {}}', "did you mean 'recipe'?"),
        ('{"data": {"kind": "folders", "labeled": ""}}', "did you mean 'labelled'?"),
        (
            '{"data": {"kind": "digits"}, "recipe": {"prompt": {"temlpate": 1}}}',
            "'recipe.prompt.temlpate'; did you mean 'template'?",
        ),
        ('{"data": {"kind": "digits"}, "method": "openpromt"}', "did you mean 'openprompt'?"),
        ('{"data": {"kind": "digits"}, "backbone": {"name": "lite1"}}', "backbone"),
        ('{"data": {"kind": "digits"}, "device": "gpu"}', "device = 'gpu'"),
    ],
)
def test_a_spoilt_config(
    fitted: FittedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, what: str
) -> None:
    run = tmp_path / "run"
    shutil.copytree(fitted.run, run)
    (run / "config.json").write_text(text)
    before = tree(run)
    for words in (["evaluate", str(run)], ["fit", "--resume", "--out", str(run)]):
        assert what in refusal(words, capsys)
    assert tree(run) == before


def test_spoilt_files_of_a_run(
    fitted: FittedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoilt = {
        "config.json": b"\xff\xfe\x00",
        "metrics.json": b"{",
        "model.safetensors": struct.pack("<Q", 10) + b"rubbish",
        "jointspace.safetensors": b"",
    }
    for name, content in spoilt.items():
        run = tmp_path / name
        shutil.copytree(fitted.run, run)
        (run / name).write_bytes(content)
        assert str(run / name) in refusal(["evaluate", str(run)], capsys)
    run = tmp_path / "other"
    shutil.copytree(fitted.run, run)
    save_file({"limit": torch.tensor(0.5)}, run / "jointspace.safetensors")
    assert "do not fit" in refusal(["evaluate", str(run)], capsys)
    (run / "jointspace.safetensors").unlink()
    assert "missing" in refusal(["evaluate", str(run)], capsys)
    (run / "model.safetensors").unlink()
    assert f"`ossl fit --resume --out {run}`" in refusal(["evaluate", str(run)], capsys)


def test_resuming_needs_the_same_pictures_and_settings(
    folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labelled, pool = folders
    run = tmp_path / "run"
    assert main(fit_words(labelled, pool, run)) == 0
    resume = ["fit", "--resume", "--out", str(run)]
    assert main(resume) == 0  # nothing is left to do, and nothing breaks
    config = (run / "config.json").read_text()
    (run / "config.json").write_text(config.replace("wrn-28-2", "wrn-28-8"))
    assert "does not fit" in refusal(resume, capsys)
    (run / "config.json").write_text(config)
    before = tree(run)
    first = sorted(pool.iterdir())[0]
    first.rename(tmp_path / "away.png")
    said = refusal(resume, capsys)
    assert "12 labelled and 18 in the pool then, 12 and 17 now" in said
    assert tree(run) == before
    shutil.rmtree(labelled)
    assert str(labelled) in refusal(resume, capsys)
    assert tree(run) == before
