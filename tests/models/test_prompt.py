"""Visual prompts: exactly the paper's numbers, in the right place, and cheap gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ossl.errors import InputError
from ossl.models.prompt import VisualPrompt, prompt_parameter_count, prompt_size_for


def border_mask(size: int, p: int) -> Tensor:
    """The slow reference: True where a pixel is nearer than p to an edge."""
    mask = torch.zeros(size, size, dtype=torch.bool)
    for row in range(size):
        for column in range(size):
            mask[row, column] = min(row, column, size - 1 - row, size - 1 - column) < p
    return mask


def pictures_of(size: int, batch: int = 3, channels: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(7)
    return torch.randn(batch, channels, size, size, generator=generator)


@given(st.integers(3, 24), st.integers(0, 11), st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_padding_is_the_border_and_nothing_else(size: int, p: int, channels: int) -> None:
    if 2 * p >= size:
        with pytest.raises(InputError, match=f"from 0 to {(size - 1) // 2}"):
            VisualPrompt(size, p, channels=channels)
        return
    prompt = VisualPrompt(size, p, channels=channels)
    mask = border_mask(size, p)
    assert prompt.values.numel() == int(mask.sum()) * channels
    assert prompt.values.numel() == prompt_parameter_count(size, p, channels)
    image = prompt.as_image()
    assert bool((image[:, ~mask] == 0).all())
    assert sorted(image[:, mask].flatten().tolist()) == sorted(prompt.values.tolist())
    pictures = pictures_of(size, channels=channels)
    torch.testing.assert_close(prompt(pictures), pictures + image)


@given(st.integers(3, 9), st.integers(1, 4), st.booleans())
@settings(max_examples=15, deadline=None)
def test_gradient_is_autograds(size: int, p: int, patch: bool) -> None:
    p = min(p, (size - 1) // 2)
    prompt = VisualPrompt(size, p, template="fixed_patch" if patch else "padding")
    weight = pictures_of(size)
    pictures = pictures_of(size).requires_grad_()
    (prompt(pictures) * weight).sum().backward()
    assert prompt.values.grad is not None
    assert pictures.grad is not None
    torch.testing.assert_close(pictures.grad, weight)
    # d/dv of sum(w · (x + canvas(v))) is the sum of w over the batch, read where v lies.
    slow = torch.zeros(prompt.values.numel())
    for i in range(len(slow)):
        one = torch.zeros(prompt.values.numel())
        one[i] = 1
        basis = VisualPrompt(size, p, template=prompt.template)
        basis.values.data = one
        slow[i] = (weight * basis.as_image()).sum()
    torch.testing.assert_close(prompt.values.grad, slow, rtol=1e-4, atol=1e-5)


def test_the_papers_numbers() -> None:
    assert VisualPrompt(224, 40).values.numel() == 2 * 3 * 40 * (448 - 80) == 88_320
    assert [prompt_size_for(size) for size in (32, 98, 112, 128, 160, 224)] == [
        6, 18, 20, 23, 29, 40,
    ]  # fmt: skip
    assert prompt_size_for(32, 20) == 3
    values = VisualPrompt(224, 40).values.detach()
    assert abs(float(values.mean())) < 0.02
    assert abs(float(values.std()) - 1) < 0.02


def test_zero_start_and_seed() -> None:
    assert not VisualPrompt(8, 2, start="zero").values.any()
    assert torch.equal(VisualPrompt(8, 2, seed=4).values, VisualPrompt(8, 2, seed=4).values)
    assert not torch.equal(VisualPrompt(8, 2, seed=4).values, VisualPrompt(8, 2, seed=5).values)


@pytest.mark.parametrize("template", ["padding", "fixed_patch", "random_patch"])
def test_size_zero_changes_nothing(template: Any) -> None:
    prompt = VisualPrompt(8, 0, template=template)
    pictures = pictures_of(8)
    assert torch.equal(prompt(pictures), pictures)
    assert sum(p.numel() for p in prompt.parameters()) == 0
    assert not prompt.as_image().any()


def test_surround_shrinks_the_picture_into_the_window() -> None:
    prompt = VisualPrompt(16, 3, placement="surround")
    pictures = pictures_of(16)
    prompted = prompt(pictures)
    mask = border_mask(16, 3)
    image = prompt.as_image()
    assert torch.equal(prompted[:, :, mask], image[:, mask].expand(3, -1, -1))
    inner = torch.nn.functional.interpolate(
        pictures, size=(10, 10), mode="bilinear", antialias=True
    )
    torch.testing.assert_close(prompted[:, :, 3:13, 3:13], inner)
    flat = torch.full((1, 3, 16, 16), 0.7)
    torch.testing.assert_close(prompt(flat)[:, :, 3:13, 3:13], flat[:, :, 3:13, 3:13])


def test_fixed_patch_lies_top_left() -> None:
    prompt = VisualPrompt(8, 3, template="fixed_patch")
    assert prompt.values.numel() == 27
    assert torch.equal(prompt.as_image()[:, :3, :3].flatten(), prompt.values)
    assert not prompt.as_image()[:, 3:].any()
    assert VisualPrompt(8, 8, template="fixed_patch").values.numel() == 192


def test_random_patch_moves_in_training_and_rests_in_evaluation() -> None:
    prompt = VisualPrompt(12, 3, template="random_patch", seed=2)
    nothing = torch.zeros(16, 3, 12, 12)
    first, second = prompt(nothing), prompt(nothing)
    assert not torch.equal(first, second)
    places = {tuple(picture[0].nonzero()[0].tolist()) for picture in first.detach()}
    assert len(places) > 4
    for picture in first.detach():
        top, left = picture[0].nonzero()[0].tolist()
        assert torch.equal(picture[:, top : top + 3, left : left + 3].flatten(), prompt.values)
        assert int(picture.count_nonzero()) == 27
    again = VisualPrompt(12, 3, template="random_patch", seed=2)
    again.load_state_dict({"values": prompt.values, "draws": torch.tensor(1)})
    assert torch.equal(again(nothing), second)  # a resumed run goes on where it stopped
    prompt.eval()
    assert torch.equal(prompt(nothing), prompt.as_image().expand(16, -1, -1, -1))
    assert torch.equal(prompt(nothing[:1])[0], prompt(nothing)[5])


def test_random_patch_takes_a_generator_and_learns() -> None:
    prompt = VisualPrompt(12, 3, template="random_patch")
    pictures = pictures_of(12)
    one, two = (prompt(pictures, torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(one, two)
    prompt(pictures).sum().backward()
    torch.testing.assert_close(prompt.values.grad, torch.full((27,), 3.0))


@pytest.mark.parametrize("placement", ["overlay", "surround"])
def test_precision_and_layout_of_the_pictures_are_kept(placement: Any) -> None:
    prompt = VisualPrompt(16, 2, placement=placement)
    pictures = pictures_of(16).bfloat16().contiguous(memory_format=torch.channels_last)
    prompted = prompt(pictures)
    assert prompted.dtype == torch.bfloat16
    assert prompted.is_contiguous(memory_format=torch.channels_last)
    prompted.sum().backward()
    assert prompt.values.grad is not None
    assert prompt.values.grad.dtype == torch.float32


def test_misfits_name_what_fits() -> None:
    with pytest.raises(InputError, match="from 0 to 15"):
        VisualPrompt(32, 16)
    with pytest.raises(InputError, match="from 0 to 32"):
        VisualPrompt(32, 33, template="random_patch")
    with pytest.raises(InputError, match="from 0"):
        VisualPrompt(32, -1)
    with pytest.raises(InputError, match="surround"):
        VisualPrompt(32, 3, template="fixed_patch", placement="surround")
    with pytest.raises(ValueError, match="32"):
        VisualPrompt(32, 3)(pictures_of(31))
