"""Weights: bundled, from a file, from a hub that is not there."""

from __future__ import annotations

import time
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from sklearn.datasets import load_sample_images
from torch import Tensor, nn
from torch.nn.functional import interpolate, normalize

from ossl.errors import InputError
from ossl.models.backbone import Backbone, create_backbone

SHARED = Path(__file__).parents[3] / "shared"
DINO = SHARED / "weights/vit_small_patch14_dinov2.fp16.safetensors"
PHOTOS = SHARED / "data/photos/labelled"


def _photo_crops() -> Tensor:
    """Twelve crops of the two photographs that come with scikit-learn, from 0 to 1."""
    photos = torch.stack([torch.tensor(photo) for photo in load_sample_images().images])
    photos = photos.permute(0, 3, 1, 2).float() / 255
    crops = [photos[:, :, r : r + 213, c : c + 213] for r in (0, 214) for c in (0, 213, 426)]
    return interpolate(torch.cat(crops), size=(128, 128), mode="bilinear", antialias=True)


def _surprise(backbone: Backbone) -> float:
    """How far photographs' activations lie from what the BatchNorms expect, in deviations.

    The median channel's of the worst layer. Weights in a wrong place show: what follows them no
    longer has the statistics it was trained with.
    """
    offsets = []

    def look(norm: nn.Module, inputs: tuple[Tensor]) -> None:
        assert isinstance(norm, nn.BatchNorm2d)
        assert norm.running_mean is not None
        assert norm.running_var is not None
        mean = inputs[0].mean((0, 2, 3))
        offset = (mean - norm.running_mean).abs() / (norm.running_var + norm.eps).sqrt()
        offsets.append(float(offset.median()))

    hooks = [
        module.register_forward_pre_hook(look)
        for module in backbone.modules()
        if isinstance(module, nn.BatchNorm2d)
    ]
    with torch.inference_mode():
        backbone.eval()(backbone.normalise(_photo_crops()))
    for hook in hooks:
        hook.remove()
    return max(offsets)


def test_bundled_weights_are_in_their_places() -> None:
    backbone = create_backbone("lite0")
    assert backbone.pretrained
    assert _surprise(backbone) < 0.7
    norm = backbone.get_submodule("net.blocks.2.0.bn1")
    assert isinstance(norm, nn.BatchNorm2d)
    with torch.no_grad():  # the check does notice a single exchanged pair
        norm.weight.data, norm.bias.data = norm.bias.data, norm.weight.data
    assert _surprise(backbone) > 1.0


@pytest.mark.skipif(not PHOTOS.is_dir(), reason="the photographs are not in ../shared/data")
def test_bundled_weights_tell_photographs_apart() -> None:
    backbone = create_backbone("lite0", image_size=96).eval()
    classes = sorted(PHOTOS.iterdir())
    files = [file for folder in classes for file in sorted(folder.iterdir())[:6]]
    pictures = [np.array(Image.open(file).convert("RGB").resize((96, 96))) for file in files]
    with torch.inference_mode():
        batch = torch.tensor(np.stack(pictures)).permute(0, 3, 1, 2)
        features = normalize(backbone(backbone.normalise(batch)), dim=1)
    features = features.view(len(classes), 6, -1)
    centres, asked = features[:, :3].mean(1), features[:, 3:].flatten(0, 1)
    truth = torch.arange(len(classes)).repeat_interleave(3)
    assert float((torch.cdist(asked, centres).argmin(1) == truth).float().mean()) > 0.8


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
