"""A data set is found in each layout, in order, and says which it was."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torchvision.datasets
from PIL import Image

from ossl.data.find import DATASETS, digits_source, find_dataset
from ossl.data.protocols import CIFAR10_CLASSES, IMAGENET30_CLASSES, split, split_rule
from ossl.data.store import load
from ossl.errors import InputError

from .test_parquet import write
from .test_sources import write_cifar, write_svhn

SHARED = Path(__file__).parents[3] / "shared" / "data"


def folders(root: Path, names: Any, per_class: int = 1) -> None:
    for name in names:
        (root / name).mkdir(parents=True)
        for i in range(per_class):
            Image.new("RGB", (4, 4)).save(root / name / f"{i}.png")


def test_the_order_of_layouts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders(tmp_path / "cifar10" / "train", CIFAR10_CLASSES)
    assert find_dataset("cifar10", tmp_path, "train").where.startswith("class folders")
    kind = torchvision.datasets.CIFAR10
    write_cifar(tmp_path, kind, monkeypatch, fine=False)
    meta = tmp_path / kind.base_folder / "batches.meta"

    meta.write_bytes(pickle.dumps({"label_names": list(CIFAR10_CLASSES)}))
    assert find_dataset("cifar10", tmp_path, "train").where.startswith("torchvision's cifar10")
    names = list(CIFAR10_CLASSES)
    path = tmp_path / "cifar10" / "train-00000-of-00001.parquet"
    write(path, range(10), list(range(10)), names=names)
    found = find_dataset("cifar10", tmp_path, "train")
    assert found.where.startswith("parquet")
    assert found.classes == CIFAR10_CLASSES
    # The test part is not there as parquet, but as torchvision keeps it.
    assert find_dataset("cifar10", tmp_path, "test").where.startswith("torchvision's")


@pytest.mark.parametrize("sub", ["", "data/", "plain_text/"])
def test_parquet_where_the_hub_has_it(tmp_path: Path, sub: str) -> None:
    root = tmp_path / "cifar10"
    for i in range(2):
        write(root / f"{sub}test-0000{i}-of-00002.parquet", range(10), list(range(10)))
    source = find_dataset("cifar10", tmp_path, "test")
    assert len(source) == 20
    assert source.classes == CIFAR10_CLASSES  # the file has no names, the set has
    (root / f"{sub}test-00001-of-00002.parquet").unlink()
    with pytest.raises(InputError, match="1 of 2 files"):
        find_dataset("cifar10", tmp_path, "test")


def test_other_sets_lie_below_ood_for_testing(tmp_path: Path) -> None:
    ood = tmp_path / "ood"
    write(ood / "tinyimagenet-resize32.parquet", [1, 2], [0, 0], names=["unlabelled"])
    write(ood / "sun-scenes-32.parquet", [1, 2, 3])
    tiny = find_dataset("tinyimagenet", tmp_path, "test")
    assert tiny.labels.tolist() == [-1, -1]
    assert tiny.classes == ()
    assert len(find_dataset("scenes", tmp_path, "test")) == 3
    with pytest.raises(InputError, match="not there"):
        find_dataset("tinyimagenet", tmp_path, "train")
    write(ood / "tinyimagenet-crop32.parquet", [1, 2])
    with pytest.raises(InputError, match="could each be meant"):
        find_dataset("tinyimagenet", tmp_path, "test")


def test_svhn_in_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "svhn").mkdir()
    write_svhn(tmp_path / "svhn", "test", monkeypatch)
    assert find_dataset("svhn", tmp_path, "test").labels.tolist() == [0, 1, 2, 9]


def test_class_folders_get_the_official_numbers(tmp_path: Path) -> None:
    spelt = ["Manhole Cover" if n == "manhole_cover" else n for n in IMAGENET30_CLASSES]
    folders(tmp_path / "imagenet30" / "train", spelt)
    folders(tmp_path / "imagenet30" / "val", IMAGENET30_CLASSES)
    train = find_dataset("imagenet30", tmp_path, "train")
    assert train.classes == IMAGENET30_CLASSES
    # "Manhole Cover" sorts first as a folder; its number stays the official one.
    assert train.labels[0] == IMAGENET30_CLASSES.index("manhole_cover")
    assert sorted(train.labels.tolist()) == list(range(30))
    assert find_dataset("imagenet30", tmp_path, "test").labels.tolist() == list(range(30))
    folders(tmp_path / "cifar10" / "train", ["car", *CIFAR10_CLASSES[2:]])
    with pytest.raises(InputError, match=r"1 unknown such as 'car', 2 missing"):
        find_dataset("cifar10", tmp_path, "train")


def test_heaps_and_textures(tmp_path: Path) -> None:
    folders(tmp_path, ["scenes"], 3)
    assert find_dataset("scenes", tmp_path, "test").labels.tolist() == [-1] * 3
    folders(tmp_path / "dtd" / "dtd" / "images", ["banded", "woven"], 2)
    (tmp_path / "dtd" / "dtd" / "labels").mkdir()
    assert find_dataset("dtd", tmp_path, "test").classes == ("banded", "woven")


def test_what_is_not_there(tmp_path: Path) -> None:
    for name in DATASETS:
        with pytest.raises(InputError) as caught:
            find_dataset(name, tmp_path, "test")
        text = str(caught.value)
        assert "looked for" in text
        assert name in text
        assert str(tmp_path) in text
    with pytest.raises(InputError, match="did you mean 'cifar100'"):
        find_dataset("cifar-100", tmp_path, "test")
    with pytest.raises(InputError, match="unknown part 'tset'"):
        find_dataset("cifar10", tmp_path, "tset")
    with pytest.raises(InputError, match="no such folder"):
        find_dataset("cifar10", tmp_path / "nowhere", "test")
    with pytest.raises(InputError, match="cannot be downloaded"):
        find_dataset("dtd", tmp_path, "test", download=True)


def test_download_goes_to_torchvision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*_: object, **__: object) -> None:
        raise OSError("Name or service not known")

    monkeypatch.setattr(torchvision.datasets.CIFAR100, "download", no_network)
    with pytest.raises(InputError, match="check the network"):
        find_dataset("cifar100", tmp_path / "new", "train", download=True)


def test_digits_and_the_demo_split() -> None:
    source = digits_source()
    assert len(source) == 1797
    pictures = load(source, 8)
    assert int(pictures.take(range(100)).max()) == 255
    s = split(split_rule("digits"), source.labels, None, 0)
    assert len(s.labelled) == 30
    assert len(s.pool) == 1767
    assert 0.35 < float(np.mean(s.pool_truth == -1)) < 0.45


@pytest.mark.skipif(not SHARED.is_dir(), reason="shared/data is not beside this checkout")
def test_the_shared_data() -> None:
    train = find_dataset("cifar10", SHARED, "train")
    test = find_dataset("cifar10", SHARED, "test")
    assert (len(train), len(test)) == (20_000, 5_000)
    s = split(split_rule("cifar10-100"), train.labels, test.labels, 0)
    assert s.shortfall == "pool=19k of 50k, test=5k of 10k"
    for name in ("cifar100", "svhn", "tinyimagenet", "scenes", "dtd"):
        source = find_dataset(name, SHARED, "test")
        assert source.open(0).size[0] >= 32
        assert "parquet" in source.where
    hundred = find_dataset("cifar100", SHARED, "train")
    for rule in ("cifar100-80-50", "cifar100-55-100"):
        assert split(split_rule(rule), hundred.labels, [0], 0).shortfall is not None
    dtd = load(find_dataset("dtd", SHARED, "test"), 32)
    assert len(dtd) == 400
    assert dtd.rejected == ()
