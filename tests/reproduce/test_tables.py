"""The tables' data: what the paper prints, what is aimed at, and runs that can be written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ossl.baseline_presets import OPENPROMPT, baseline_of
from ossl.config import from_json, to_json
from ossl.data.find import DATASETS
from ossl.data.protocols import RULES
from ossl.method_config import BASELINES
from ossl.models.backbone import HOUSE_BACKBONES
from ossl.presets import PRESETS, RECIPES
from ossl.reproduce.results import run_hash
from ossl.reproduce.tables import DINOV2, PROFILES, TABLES, Cell, Places

CELLS = [
    (name, cell) for name in ("default", "table1", "baselines") for cell in TABLES[name].cells
]  # not the tests' own
PLACES = Places(Path("data"), {DINOV2.option: Path("w.safetensors")})


@pytest.mark.parametrize(("table", "cell"), CELLS, ids=[f"{t}-{c.name}" for t, c in CELLS])
def test_every_cell_is_a_run(table: str, cell: Cell) -> None:
    assert [name for name, other in CELLS if (name, other.name) == (table, cell.name)] == [table]
    assert cell.figures
    for profile in PROFILES:
        config = cell.config(profile, 2, PLACES)
        assert (config.seed, config.profile) == (2, profile)
        assert from_json(to_json(config), "config.json") == config
        assert (config.data.kind == "folders") == (cell.truth is not None)
        if config.data.kind == "protocol":
            assert config.data.split in RULES
            assert Path(config.data.data_root or "").is_absolute()
        assert config.backbone.name in HOUSE_BACKBONES
        size, step = config.backbone.image_size, HOUSE_BACKBONES[config.backbone.name].size_multiple
        assert size is not None
        assert size % step == 0
        assert (config.backbone.weights is not None) == (cell.weights is not None)
        assert config.recipe == RECIPES[config.recipe_name]
    for figure in cell.figures:
        assert figure.target is None or 0.5 < figure.target < 1
        part, _, name = figure.metric.partition(".")
        assert part in ("auroc", "known_accuracy", "unseen")
        assert name in ("", "mean", *cell.unseen)
    assert set(cell.unseen) <= set(DATASETS)


def test_the_papers_figures_are_those_of_the_presets() -> None:
    printed = {
        cell.runs["desk"].preset: cell.figures[0].paper
        for cell in TABLES["table1"].cells
        if cell.runs["desk"].recipe_name == "paper"
    }
    assert set(printed) == {name for name in PRESETS if name.startswith("table1/")}
    for name, text in printed.items():
        mean, sign, _ = str(text).split()
        assert sign == "±"
        assert float(mean) / 100 == pytest.approx(PRESETS[str(name)].paper_auroc)


def test_the_default_table_is_the_issues() -> None:
    cells = {cell.name: cell for cell in TABLES["default"].cells}
    assert len(cells) == 15
    aims = {
        name: [f.target for f in cell.figures if f.target is not None]
        for name, cell in cells.items()
    }
    assert aims["cifar10-100-lite0"] == [0.993, 0.815, 0.954]
    assert aims["cifar10-100-dinov2"] == [0.999, 0.90, 0.97]
    assert aims["photos-dinov2"] == [0.99, 0.98]
    assert aims["cifar10-100-scratch"] == [0.90, 0.60]
    scratch = cells["cifar10-100-scratch"].runs
    assert {config.backbone.image_size for config in scratch.values()} == {32}


def test_weights_are_the_named_ones_or_beside_the_data(tmp_path: Path) -> None:
    root = tmp_path / "data"
    assert Places(root).find(DINOV2) is None
    beside = tmp_path / "weights" / "vit_small_patch14_dinov2.fp16.safetensors"
    beside.parent.mkdir()
    beside.write_bytes(b"")
    assert Places(root).find(DINOV2) == beside
    assert Places(root, {DINOV2.option: tmp_path / "w"}).find(DINOV2) == tmp_path / "w"


def test_one_place_has_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = TABLES["default"].cells[0]
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    configs = [
        cell.config("desk", 0, Places(root)) for root in (Path("../data"), tmp_path / "data")
    ]
    assert configs[0] == configs[1]


def test_every_baseline_has_a_cell_of_its_own_settings() -> None:
    cells = TABLES["baselines"].cells
    assert [cell.name for cell in cells] == [OPENPROMPT, *BASELINES]
    for cell in cells:
        for profile in PROFILES:
            config = cell.runs[profile]
            assert (config.method, config.baseline) == (
                cell.name,
                baseline_of(cell.name, profile, "cifar10-100"),
            )
            assert (config.backbone.name, config.backbone.image_size) == ("wrn-28-2", 32)


def test_a_baselines_run_is_the_same_wherever_its_data_and_device_are() -> None:
    cell = TABLES["baselines"].cells[1]
    here = cell.config("desk", 0, PLACES)
    there = replace(cell.config("desk", 0, Places(Path("elsewhere"))), device="cuda")
    assert here != there
    assert run_hash(here, (), None) == run_hash(there, (), None)
    assert run_hash(here, (), None) != run_hash(replace(here, seed=1), (), None)
    other = replace(here, baseline=replace(here.baseline, epochs=7))  # type: ignore[type-var]
    assert run_hash(here, (), None) != run_hash(other, (), None)
