"""The tables that `ossl reproduce` fills, as data: every cell's run, its targets, what was printed.

To add a table, add its cells here and its name to `TABLES`; runner and rendering know none by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import get_args

from ossl.baseline_presets import OPENPROMPT
from ossl.config import (
    BackboneConfig,
    FolderData,
    Profile,
    ProtocolData,
    RecipeName,
    RunConfig,
)
from ossl.method_config import BASELINES
from ossl.presets import TABLE1 as TABLE1_PRESETS
from ossl.presets import everyday_config, preset_config

PROFILES: tuple[Profile, ...] = get_args(Profile)
AUROC, ACCURACY = "auroc", "known_accuracy"
UNSEEN = "unseen"  # a metric "unseen.NAME" is one set's AUROC, "unseen.mean" the mean of them


@dataclass(frozen=True)
class Figure:
    """One number of a cell: which metric it is, what is aimed at, and what the paper prints."""

    metric: str  # a key of metrics.json, or one below `unseen`
    target: float | None = None  # a fraction, to be reached by the mean over seeds
    paper: str | None = None  # in percent, with its ±, as printed
    row: str | None = None  # where it stands, when not in the cell's own row


@dataclass(frozen=True)
class Weights:
    """An encoder's weights that do not come with the install."""

    option: str  # of `ossl reproduce`
    pattern: str  # the file's name in the folder `weights` beside the data root
    get: str  # how a person gets them


@dataclass(frozen=True)
class Places:
    """Where a person keeps the data and the weights."""

    data_root: Path | None = None  # None: ./data, downloaded where a set allows it
    weights: Mapping[str, Path] = field(default_factory=dict)  # by option

    @property
    def root(self) -> Path:
        """The data root as a whole path."""
        return (self.data_root or Path("data")).resolve()

    def find(self, wanted: Weights) -> Path | None:
        """The file that was named for these weights, or one beside the data root, or None."""
        if wanted.option in self.weights:
            return self.weights[wanted.option].resolve()
        found = sorted((self.root.parent / "weights").glob(wanted.pattern))
        return found[0] if found else None


@dataclass(frozen=True)
class Cell:
    """A cell of a table: the run it stands for, and the numbers that are read off it."""

    name: str  # also the folder's
    row: str
    column: str
    runs: Mapping[Profile, RunConfig]  # but for the seed and the places
    figures: tuple[Figure, ...]
    unseen: tuple[str, ...] = ()  # data sets to be told from the known test pictures
    truth: str | None = None  # of a run on folders: the CSV file below the data root
    weights: Weights | None = None

    def config(self, profile: Profile, seed: int, places: Places) -> RunConfig:
        """The run of this cell; `places` has its weights."""
        config = replace(self.runs[profile], seed=seed)
        if isinstance(config.data, ProtocolData):
            root = None if places.data_root is None else str(places.root)
            config = replace(config, data=replace(config.data, data_root=root))
        elif isinstance(config.data, FolderData):
            labelled, unlabelled = config.data.labelled, config.data.unlabelled
            data = FolderData(
                labelled=str(places.root / labelled), unlabelled=str(places.root / unlabelled)
            )
            config = replace(config, data=data)
        if self.weights is not None:
            file = str(places.find(self.weights))
            config = replace(config, backbone=replace(config.backbone, weights=file))
        return config


@dataclass(frozen=True)
class Table:
    """Cells that belong together."""

    name: str
    title: str
    cells: tuple[Cell, ...]


# --- the default recipe, against the figures it was built to reach --------------------------------

DINOV2 = Weights(
    "--dinov2-weights",
    "vit_small_patch14_dinov2*.safetensors",
    "download model.safetensors of timm/vit_small_patch14_dinov2.lvd142m from the Hugging Face "
    "hub and name it by --dinov2-weights FILE",
)
_UNSEEN = (  # set, row, the paper's figure (Table 2a)
    ("svhn", "unseen: SVHN", "94.1 ± 1.1"),
    ("scenes", "unseen: scenes (paper: LSUN)", "93.6 ± 0.7"),
    ("tinyimagenet", "unseen: Tiny-ImageNet, 32 px (paper: ImageNet)", "97.4 ± 0.3"),
    ("cifar100", "unseen: CIFAR-100", "96.2 ± 0.5"),
)
_CIFAR = (  # row, split, (AUROC, known accuracy) aimed at by Lite0 and by DINOv2, the paper's AUROC
    ("CIFAR-10 6/4, 25 labels", "cifar10-25", (0.988, 0.76), (0.999, 0.88), None),
    ("CIFAR-10 6/4, 50 labels", "cifar10-50", (0.991, 0.80), (0.999, 0.89), "99.4 ± 0.1"),
    ("CIFAR-10 6/4, 100 labels", "cifar10-100", (0.993, 0.815), (0.999, 0.90), "99.7 ± 0.5"),
    ("CIFAR-10 6/4, 400 labels", "cifar10-400", (0.995, 0.835), (0.999, 0.915), "99.2 ± 0.1"),
    ("CIFAR-100 80/20, 50 labels", "cifar100-80-50", (0.910, 0.62), (0.950, 0.77), "86.5 ± 1.5"),
    ("CIFAR-100 55/45, 50 labels", "cifar100-55-50", (0.898, 0.68), (0.943, 0.81), "87.2 ± 1.2"),
)
_PHOTOS = ("photos", (0.980, 0.965), (0.990, 0.98))
_LITE0, _DINOV2 = "Lite0 (128 px, photos 160)", "DINOv2 ViT-S/14 (112 px, photos 98)"
_SCRATCH = "WRN-28-2 from scratch (32 px)"


def _figures(aims: tuple[float, float], paper: str | None = None) -> tuple[Figure, Figure]:
    return Figure(AUROC, aims[0], paper), Figure(ACCURACY, aims[1])


def _unseen_figures(target: float) -> tuple[Figure, ...]:
    mean = Figure(f"{UNSEEN}.mean", target, "95.4 ± 1.3", "unseen sets, mean AUROC")
    return mean, *(Figure(f"{UNSEEN}.{name}", None, paper, row) for name, row, paper in _UNSEEN)


def _default_run(
    data: ProtocolData | FolderData, backbone: str, size: int
) -> dict[Profile, RunConfig]:
    """The run anyone gets without asking, on this encoder; a frozen one is alike in any profile."""
    config = replace(everyday_config(data), backbone=BackboneConfig(name=backbone, image_size=size))
    return {profile: replace(config, profile=profile) for profile in PROFILES}


def _default_cells() -> tuple[Cell, ...]:
    cells = []
    for short, column, backbone, sizes, weights, unseen_target in (
        ("lite0", _LITE0, "lite0", (128, 160), None, 0.954),
        ("dinov2", _DINOV2, "dinov2-s", (112, 98), DINOV2, 0.97),
    ):
        for row, split, lite0, dinov2, paper in _CIFAR:
            unseen = split == "cifar10-100"
            figures: tuple[Figure, ...] = _figures(lite0 if weights is None else dinov2, paper)
            cells.append(
                Cell(
                    f"{split}-{short}",
                    row,
                    column,
                    _default_run(ProtocolData(split=split), backbone, sizes[0]),
                    figures + (_unseen_figures(unseen_target) if unseen else ()),
                    unseen=tuple(name for name, *_ in _UNSEEN) if unseen else (),
                    weights=weights,
                )
            )
        photos = FolderData(labelled="photos/labelled", unlabelled="photos/unlabelled")
        row, lite0, dinov2 = _PHOTOS
        cells.append(
            Cell(
                f"photos-{short}",
                row,
                column,
                _default_run(photos, backbone, sizes[1]),
                _figures(lite0 if weights is None else dinov2),
                truth="photos/truth.csv",
                weights=weights,
            )
        )
    scratch = {
        profile: preset_config("table1/cifar10-100", profile=profile) for profile in PROFILES
    }
    at_32 = BackboneConfig(name="wrn-28-2", image_size=32)
    cells.append(
        Cell(
            "cifar10-100-scratch",
            "CIFAR-10 6/4, 100 labels",
            _SCRATCH,
            {profile: replace(config, backbone=at_32) for profile, config in scratch.items()},
            _figures((0.90, 0.60), "99.7 ± 0.5"),
        )
    )
    return tuple(cells)


# --- the paper's Table 1, its method ("Ours") -----------------------------------------------------

_PAPER_TABLE1 = {
    "cifar10-50": ("CIFAR-10 6/4, 50 labels", "99.4 ± 0.1"),
    "cifar10-100": ("CIFAR-10 6/4, 100 labels", "99.7 ± 0.5"),
    "cifar10-400": ("CIFAR-10 6/4, 400 labels", "99.2 ± 0.1"),
    "cifar100-55-50": ("CIFAR-100 55/45, 50 labels", "87.2 ± 1.2"),
    "cifar100-55-100": ("CIFAR-100 55/45, 100 labels", "87.0 ± 0.6"),
    "cifar100-80-50": ("CIFAR-100 80/20, 50 labels", "86.5 ± 1.5"),
    "cifar100-80-100": ("CIFAR-100 80/20, 100 labels", "87.3 ± 0.4"),
    "imagenet30": ("ImageNet-30 20/10, 10 % labelled", "97.1 ± 0.2"),
}


def _table1_cells(recipe: RecipeName) -> tuple[Cell, ...]:
    cells = []
    for preset in TABLE1_PRESETS:
        row, paper = _PAPER_TABLE1[preset.data.split]
        runs = {
            profile: preset_config(preset.name, profile=profile, recipe_name=recipe)
            for profile in PROFILES
        }
        figures = (Figure(AUROC, paper=paper), Figure(ACCURACY))
        cells.append(Cell(f"{preset.data.split}-{recipe}", row, f"recipe {recipe}", runs, figures))
    return tuple(cells)


# --- the baselines on equal terms: CIFAR-10 6/4 with 100 labels, WRN-28-2 from nothing at 32 pixels

_BASELINES_SPLIT = "cifar10-100"


def _baseline_cells() -> tuple[Cell, ...]:
    cells = []
    for method in (OPENPROMPT, *BASELINES):
        runs = {
            profile: replace(
                preset_config(f"table1/{_BASELINES_SPLIT}", profile=profile, method=method),
                backbone=BackboneConfig(name="wrn-28-2", image_size=32),
            )
            for profile in PROFILES
        }
        figures = (Figure(AUROC), Figure(ACCURACY))
        cells.append(Cell(method, method, _SCRATCH, runs, figures))
    return tuple(cells)


# --- how well the share of outliers is estimated, from none to nine in ten -----------------------

_JUNK = (0, 5, 10, 20, 40, 60, 80, 90)  # percent of the pool


def _share_cells() -> tuple[Cell, ...]:
    cells = []
    for row, split, *_ in _CIFAR:
        if split not in ("cifar10-50", "cifar100-80-50"):
            continue
        for junk in _JUNK:
            name = f"{split}-junk{junk}"
            runs = _default_run(ProtocolData(split=name), "lite0", 128)
            cells.append(Cell(name, f"{row}, {junk} % junk", _LITE0, runs, (Figure(AUROC),)))
    return tuple(cells)


TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        Table("default", "The default recipe against its targets", _default_cells()),
        Table(
            "table1",
            "The paper's Table 1, its method",
            (*_table1_cells("paper"), *_table1_cells("default")),
        ),
        Table("baselines", "The methods on equal terms", _baseline_cells()),
        Table("shares", "The share of outliers, estimated", _share_cells()),
    )
}
