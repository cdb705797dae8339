"""Weights: bundled, from a file, from a hub that is not there."""

from __future__ import annotations

import time
from pathlib import Path

import huggingface_hub
import pytest
import torch
from safetensors.torch import save_file
from sklearn.datasets import load_digits
from torch import Tensor
from torch.nn.functional import interpolate

from ossl.errors import InputError
from ossl.models.backbone import create_backbone

DINO = Path(__file__).parents[3] / "shared/weights/vit_small_patch14_dinov2.fp16.safetensors"


def _digits() -> tuple[Tensor, Tensor]:
    data = load_digits()
    grey = torch.tensor(data.images[:300] / 16, dtype=torch.float32)[:, None].expand(-1, 3, -1, -1)
    return interpolate(grey, size=(64, 64), mode="bilinear"), torch.tensor(data.target[:300])


def _nearest_centre_accuracy(name: str, pretrained: bool) -> float:
    """Share of digits whose nearest class centre, of ten digits each, is their own."""
    pictures, labels = _digits()
    backbone = create_backbone(name, image_size=64, pretrained=pretrained).eval()
    with torch.inference_mode():
        features = torch.nn.functional.normalize(backbone(backbone.normalise(pictures)), dim=1)
    centres = torch.stack([features[labels == c][:10].mean(0) for c in range(10)])
    return float((torch.cdist(features, centres).argmin(1) == labels).float().mean())


def test_bundled_weights_see() -> None:
    # Weights in the wrong order give features like an untrained network's.
    trained = _nearest_centre_accuracy("lite0", pretrained=True)
    assert trained > 0.85
    assert trained > _nearest_centre_accuracy("lite0", pretrained=False) + 0.1


def test_file_round_trip_half_precision_and_a_foreign_head(tmp_path: Path) -> None:
    source = create_backbone("wrn-28-2", seed=1)
    state = {key: tensor.clone() for key, tensor in source.net.state_dict().items()}
    half = {key: t.half() if t.is_floating_point() else t for key, t in state.items()}
    file = tmp_path / "w.safetensors"
    save_file({**half, "fc.weight": torch.zeros(10, 128)}, file)
    loaded = create_backbone("wrn-28-2", weights=file)
    assert loaded.pretrained
    for key, tensor in loaded.net.state_dict().items():
        assert tensor.dtype == state[key].dtype
        torch.testing.assert_close(tensor, half[key].to(tensor.dtype), rtol=0, atol=0)
    save_file({f"module.{key}": tensor for key, tensor in state.items()}, file)
    wrapped = create_backbone("wrn-28-2", weights=file).net.state_dict()
    assert all(torch.equal(wrapped[key], state[key]) for key in state)


def test_misfit_says_how_many_which_and_why(tmp_path: Path) -> None:
    file = tmp_path / "other.safetensors"
    save_file(dict(create_backbone("wrn-28-2").net.state_dict()), file)
    with pytest.raises(InputError, match=r"have another shape \(first: 'group1.*variant"):
        create_backbone("wrn-28-8", weights=file)
    with pytest.raises(InputError, match=r"tensors are not in the file .*another network"):
        create_backbone("resnet18", weights=file)
    state = create_backbone("wrn-28-2").net.state_dict()
    del state["bn.weight"]
    save_file({**state, "surplus": torch.zeros(1)}, file)
    with pytest.raises(InputError, match=r"1 of its .*'bn.weight'.*1 in the file.*'surplus'"):
        create_backbone("wrn-28-2", weights=file)


def test_absent_folder_and_broken_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        create_backbone("lite0", weights=tmp_path / "none.safetensors")
    with pytest.raises(InputError, match="is a folder"):
        create_backbone("lite0", weights=tmp_path)
    pickle = tmp_path / "net.pth"
    torch.save({"a": torch.zeros(1)}, pickle)
    with pytest.raises(InputError, match="no readable safetensors") as caught:
        create_backbone("lite0", weights=pickle)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["dinov2-s", "resnet50"])
def test_a_dead_hub_is_one_quick_error(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    start = time.monotonic()
    with pytest.raises(InputError, match=r"'lite0'.*--weights"):
        create_backbone(name)
    assert time.monotonic() - start < 10


def test_a_model_nobody_published_asks_for_a_file() -> None:
    with pytest.raises(InputError, match=r"no published weights.*--weights"):
        create_backbone("coatnet_0_224")


@pytest.mark.skipif(not DINO.is_file(), reason="DINOv2's weights are not in ../shared/weights")
@pytest.mark.parametrize("size", [98, 112])
def test_dinov2_from_a_file(size: int) -> None:
    backbone = create_backbone("dinov2-s", image_size=size, weights=DINO).eval()
    assert backbone.width == 384
    assert {parameter.dtype for parameter in backbone.parameters()} == {torch.float32}
    pictures = torch.rand(2, 3, size, size, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        features = backbone(backbone.normalise(pictures))
    assert features.shape == (2, 384)
    assert bool(features.isfinite().all())
    with pytest.raises(InputError, match="The file says it is for 'vit_small_patch14_dinov2'"):
        create_backbone("lite0", weights=DINO)
