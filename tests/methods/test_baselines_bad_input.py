"""What a person can do wrong with a baseline is one line that says how to mend it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ossl.cli import main
from ossl.config import RunConfig, from_json, to_json
from ossl.errors import InputError
from ossl.method_config import BASELINES
from ossl.methods import METHODS, create_method
from ossl.presets import preset_config
from ossl.reproduce.tables import PROFILES
from tests.methods import tiny
from tests.shapes import make_folders


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line that a command ends with."""
    assert main([*words]) == 2
    said = capsys.readouterr().err.strip()
    assert "\n" not in said
    assert said.startswith("ossl: ")
    return said


@pytest.fixture
def folders(tmp_path: Path) -> tuple[str, ...]:
    labelled, pool, _ = make_folders(tmp_path / "shapes")
    return ("--labelled", str(labelled), "--unlabelled", str(pool), "--backbone", "wrn-28-2")


def fit(tmp_path: Path, *words: str) -> tuple[str, ...]:
    return ("fit", "--out", str(tmp_path / "run"), "--quiet", *words)


@pytest.mark.parametrize("method", BASELINES)
def test_a_pool_is_needed(
    method: str, tmp_path: Path, folders: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(capsys, *fit(tmp_path, "--method", method, *folders[:2]))
    assert f"method {method} needs a pool" in said
    assert "--unlabelled DIR" in said
    assert not (tmp_path / "run").exists()


def test_an_empty_pool_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labelled, _, _ = make_folders(tmp_path / "shapes")
    (tmp_path / "nothing").mkdir()
    words = ("--labelled", str(labelled), "--unlabelled", str(tmp_path / "nothing"))
    assert "nothing" in refused(capsys, *fit(tmp_path, "--method", "fixmatch", *words))


def test_a_pool_smaller_than_a_batch(
    tmp_path: Path, folders: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(capsys, *fit(tmp_path, "--method", "openmatch", *folders))
    assert "the pool has 18 pictures, fewer than a batch of 32" in said
    assert "--set baseline.pool_batch=18" in said


def test_a_head_with_one_class(
    tmp_path: Path, folders: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    root = Path(folders[1])
    for extra in sorted(root.iterdir())[1:]:
        extra.rename(tmp_path / extra.name)
    assert "only one class" in refused(capsys, *fit(tmp_path, "--method", "fixmatch", *folders))
    config = preset_config("table1/cifar10-100", method="fixmatch")
    with pytest.raises(InputError, match="1 known class leaves nothing to tell apart"):
        create_method(config, tiny.encoder(), 1, torch.float32)


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("baseline.pseudo_threshold=1.5", "baseline.pseudo_threshold = 1.5"),
        ("baseline.pseudo_threshold=-0.1", "baseline.pseudo_threshold = -0.1"),
        ("baseline.ema_decay=2", "baseline.ema_decay = 2"),
        ("baseline.epochs=0", "baseline.epochs = 0"),
        ("baseline.pool_batch=0", "baseline.pool_batch = 0"),
        ("baseline.learning_rate=0", "baseline.learning_rate = 0"),
        ("baseline.pseudo_treshold=0.5", "baseline.pseudo_threshold"),
        ("recipe.circle_limit=0.5", "takes its settings from `baseline`"),
        ("schedule.pool_batch=4", "takes its settings from `baseline`"),
        ("baseline.kind=fixmach", "did you mean 'fixmatch'"),
    ],
)
def test_settings_out_of_range(
    setting: str,
    told: str,
    tmp_path: Path,
    folders: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = fit(tmp_path, "--method", "fixmatch", *folders, "--set", setting)
    assert told in refused(capsys, *words)
    assert not (tmp_path / "run").exists()


def test_settings_of_another_method(
    tmp_path: Path, folders: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    words = fit(tmp_path, "--method", "labeled_only", *folders)
    said = refused(capsys, *words, "--set", "baseline.kind=supervised")
    assert "method 'labeled_only' with the settings of 'supervised'" in said


def test_options_of_openprompt(
    tmp_path: Path, folders: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    words = fit(tmp_path, "--method", "openmatch", *folders)
    assert "--recipe is for method openprompt" in refused(capsys, *words, "--recipe", "paper")
    share = refused(capsys, *words, "--outlier-share", "0.2")
    assert "--outlier-share is for method openprompt" in share
    preset = ("--method", "openmatch", "--preset", "ablation/no-contrast")
    assert "--preset table1/cifar10-100" in refused(capsys, *fit(tmp_path, *preset))


def test_an_unknown_method(
    tmp_path: Path, folders: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(capsys, *fit(tmp_path, "--method", "openmach", *folders))
    assert "did you mean 'openmatch'" in said


def test_supervised_needs_the_truth(
    tmp_path: Path, folders: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(capsys, *fit(tmp_path, "--method", "supervised", *folders))
    assert "give a benchmark by --preset" in said


def test_a_network_that_neither_knows_nor_learns(
    tmp_path: Path, folders: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    words = fit(tmp_path, "--method", "fixmatch", *folders)
    said = refused(capsys, *words, "--set", "baseline.train_encoder=never")
    assert "--set baseline.train_encoder=auto" in said


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("split", ["table1/cifar10-100", "table1/cifar100-80-50"])
def test_every_methods_settings_come_back_from_their_file(method: str, split: str) -> None:
    for profile in PROFILES:
        config = preset_config(split, profile=profile, method=method)
        again: RunConfig = from_json(to_json(config), "config.json")
        assert again == config
        assert type(again.baseline) is type(config.baseline)
