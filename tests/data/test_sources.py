"""Arrays, torchvision's sets and selections."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import torch
import torchvision.datasets

from ossl.data.arrays import ArrayPictures
from ossl.data.pictures import Source, read
from ossl.data.sources import Names, Selection
from ossl.data.store import load
from ossl.data.torchvision_sets import TorchvisionSet
from ossl.errors import InputError

RNG = np.random.default_rng(0)


def colours(count: int, size: int = 8) -> Any:
    return RNG.integers(0, 256, (count, size, size, 3), dtype=np.uint8)


def test_arrays_of_every_layout_are_the_same_pictures() -> None:
    pixels = colours(5)
    wanted = pixels.transpose(0, 3, 1, 2)
    for given in (pixels, wanted, torch.from_numpy(wanted), torch.from_numpy(pixels)):
        source = ArrayPictures(given)
        assert np.array_equal(np.stack([read(source, i, 8) for i in range(5)]), wanted)
    grey = pixels[..., 0]
    for given in (grey, grey[..., None], grey[:, None]):
        source = ArrayPictures(given)
        assert np.array_equal(read(source, 2, 8), np.stack([grey[2]] * 3))
    assert (source.labels == -1).all()
    assert source.names[2] == "picture 2"


def refused(*parts: str, pictures: Any, **options: Any) -> None:
    with pytest.raises(InputError) as caught:
        ArrayPictures(pictures, **options)
    for part in parts:
        assert part in str(caught.value)


def test_wrong_arrays_say_how_to_mend_it() -> None:
    pixels = colours(4)
    refused("multiply", "* 255", pictures=pixels / np.float32(255))
    refused("multiply", pictures=torch.rand(4, 3, 8, 8))
    refused("astype('uint8')", pictures=pixels.astype(np.int64))
    refused("-1 to 1", "scale", pictures=torch.tensor([[[-1.0, 1.0]]]))
    refused("bool", pictures=pixels > 5)
    refused("N×H×W", pictures=pixels[0, 0])
    refused("N×H×W", pictures=RNG.integers(0, 256, (4, 8, 8, 5), dtype=np.uint8))
    refused("no picture", pictures=pixels[:0])
    refused("one label per picture", pictures=pixels, labels=[0, 1])
    refused("whole numbers", pictures=pixels, labels=[0.5, 1, 1, 1])
    refused("below -1", pictures=pixels, labels=[0, -2, 1, 1])
    refused("2 class names", pictures=pixels, labels=[0, 2, 1, 1], classes=("a", "b"))


def test_selections_reorder_and_relabel() -> None:
    pixels = colours(5)
    source = ArrayPictures(pixels, [0, 1, 2, 0, 1], ("a", "b", "c"))
    chosen: Source = Selection(source, [4, 0, 4])
    assert list(chosen.names) == ["picture 4", "picture 0", "picture 4"]
    assert chosen.labels.tolist() == [1, 0, 1]
    assert np.array_equal(read(chosen, 1, 8), pixels[0].transpose(2, 0, 1))
    renamed = Selection(chosen, labels=[-1, 0, -1], classes=("x",))
    assert renamed.labels.tolist() == [-1, 0, -1]
    assert renamed.classes == ("x",)
    assert len(Selection(source, [])) == 0
    for wrong in ([5], [-1]):
        with pytest.raises(IndexError):
            Selection(source, wrong)


def test_names_are_a_sequence() -> None:
    names = Names(5, lambda i: f"n{i}")
    assert list(names) == [f"n{i}" for i in range(5)]
    assert names[-1] == "n4"
    assert names[1:3] == ["n1", "n2"]
    assert "n3" in names
    with pytest.raises(IndexError):
        names[5]


def write_cifar(root: Path, kind: Any, monkeypatch: pytest.MonkeyPatch, fine: bool) -> Any:
    """torchvision's own layout with a few pictures in it, its checksums left aside."""
    folder = root / kind.base_folder
    folder.mkdir(parents=True)
    pixels = {}
    for name in [n for n, _ in kind.train_list + kind.test_list]:
        rows = RNG.integers(0, 256, (4, 3072), dtype=np.uint8)
        labels = {"fine_labels" if fine else "labels": [3, 1, 0, 2]}
        (folder / name).write_bytes(pickle.dumps({"data": rows, **labels}))
        pixels[name] = rows.reshape(4, 3, 32, 32)
    count = 100 if fine else 10
    meta = {kind.meta["key"]: [f"class{i:02}" for i in range(count)]}
    (folder / kind.meta["filename"]).write_bytes(pickle.dumps(meta))
    monkeypatch.setattr(kind, "train_list", [[n, None] for n, _ in kind.train_list])
    monkeypatch.setattr(kind, "test_list", [[n, None] for n, _ in kind.test_list])
    monkeypatch.setattr(kind, "meta", {**kind.meta, "md5": None})
    return pixels


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_cifar_as_torchvision_keeps_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = getattr(torchvision.datasets, name.upper())
    pixels = write_cifar(tmp_path, kind, monkeypatch, fine=name == "cifar100")
    train = TorchvisionSet(name, tmp_path, train=True)
    test = TorchvisionSet(name, tmp_path, train=False)
    assert len(train) == 4 * len(kind.train_list)
    assert len(test) == 4
    assert test.labels.tolist() == [3, 1, 0, 2]
    assert train.classes[1] == "class01"
    wanted = np.concatenate([pixels[n] for n, _ in kind.train_list])
    assert np.array_equal(load(train, 32).take(range(len(train))).numpy(), wanted)
    assert kind.base_folder in train.where


def write_svhn(root: Path, part: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    pixels = RNG.integers(0, 256, (32, 32, 3, 4), dtype=np.uint8)
    labels = np.asarray([[10], [1], [2], [9]], np.uint8)
    scipy.io.savemat(root / f"{part}_32x32.mat", {"X": pixels, "y": labels})
    parts = torchvision.datasets.SVHN.split_list
    monkeypatch.setattr(
        torchvision.datasets.SVHN, "split_list", {k: [*v[:2], None] for k, v in parts.items()}
    )
    return pixels.transpose(3, 2, 0, 1)


def test_svhn_as_torchvision_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = write_svhn(tmp_path, "test", monkeypatch)
    source = TorchvisionSet("svhn", tmp_path, train=False)
    assert source.labels.tolist() == [0, 1, 2, 9]
    assert source.classes == tuple("0123456789")
    assert np.array_equal(read(source, 3, 32), pixels[3])


def test_a_torchvision_set_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="did you mean 'cifar10'"):
        TorchvisionSet("cifar-10", tmp_path, train=True)
    with pytest.raises(InputError, match=r"cifar-10-batches-py: not there: download"):
        TorchvisionSet("cifar10", tmp_path, train=True)
    (tmp_path / "cifar-10-batches-py").mkdir()
    with pytest.raises(InputError, match="incomplete or damaged"):
        TorchvisionSet("cifar10", tmp_path, train=True)

    def no_network(*_: object, **__: object) -> None:
        raise OSError("Name or service not known")

    monkeypatch.setattr(torchvision.datasets.CIFAR10, "download", no_network)
    with pytest.raises(InputError, match=r"check the network.*not known"):
        TorchvisionSet("cifar10", tmp_path, train=True, download=True)
