"""A table whose runs take seconds, on pictures of shapes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ossl.config import BackboneConfig, FolderData, Profile, ProtocolData, RunConfig, with_settings
from ossl.files import write_tensors
from ossl.models.backbone import create_backbone
from ossl.options import pairs
from ossl.presets import everyday_config, preset_config
from ossl.reproduce.tables import DINOV2, PROFILES, Cell, Figure, Table, Weights
from tests.shapes import TINY, make_cifar10, make_folders, picture

# A small network with weights from a file is a published one, frozen and the same in every run.
SHAPES = Weights("--shapes-weights", "shapes*.safetensors", "make them")
NET = BackboneConfig(name="wrn-28-2", image_size=32)
PHOTOS = FolderData(labelled="photos/labelled", unlabelled="photos/unlabelled")


def _runs(config: RunConfig) -> dict[Profile, RunConfig]:
    return {profile: replace(config, profile=profile) for profile in PROFILES}


def _default(data: FolderData | ProtocolData) -> dict[Profile, RunConfig]:
    return _runs(replace(everyday_config(data), backbone=NET))


def _scratch() -> dict[Profile, RunConfig]:
    config = preset_config("table1/cifar10-50", recipe_name="paper")
    return _runs(with_settings(config, pairs(TINY)))


FOLDERS = Cell(
    "folders",
    "shapes",
    "frozen",
    _default(PHOTOS),
    (Figure("auroc", target=0.01), Figure("known_accuracy", target=1.01)),
    truth="photos/truth.csv",
    weights=SHAPES,
)
UNSEEN = Cell(
    "unseen",
    "CIFAR-10",
    "frozen",
    _default(ProtocolData(split="cifar10-50")),
    (
        Figure("auroc", paper="99.4 ± 0.1"),
        Figure("unseen.svhn", paper="94.1 ± 1.1", row="unseen: SVHN"),
        Figure("unseen.mean", target=0.9, row="unseen: mean"),
    ),
    unseen=("svhn", "scenes"),
    weights=SHAPES,
)
SCRATCH = Cell("scratch", "CIFAR-10", "from scratch", _scratch(), (Figure("auroc"),))
LACKING = Cell(
    "lacking",
    "not there",
    "frozen",
    _default(ProtocolData(split="cifar100-80-50")),
    (Figure("auroc"),),
    weights=SHAPES,
)
WEIGHTS = replace(FOLDERS, name="weights", column="other weights", weights=DINOV2)

TABLE = Table("tiny", "Shapes", (FOLDERS, UNSEEN, SCRATCH, LACKING, WEIGHTS))


def make_data(root: Path) -> Path:
    """The data root: photos, CIFAR-10 and SVHN, neither scenes nor CIFAR-100; weights beside it."""
    net = create_backbone("wrn-28-2", seed=1).net
    write_tensors(root.parent / "weights" / "shapes.safetensors", net.state_dict())
    make_cifar10(root)
    make_folders(root / "photos")
    (root / "photos" / "pool").rename(root / "photos" / "unlabelled")
    (root / "svhn").mkdir()
    for number in range(4):
        picture("stripes", number, 32).save(root / "svhn" / f"{number}.png")
    return root
