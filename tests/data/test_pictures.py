"""Every kind of picture file becomes [3, S, S] uint8, or a reason why not."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from ossl.data.pictures import UnreadablePicture, decode, open_bytes

RNG = np.random.default_rng(0)


def smooth(height: int, width: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """A colour gradient, which lossy formats keep and resizing does not alias."""
    y, x = np.mgrid[0:height, 0:width]
    channels = [x * 255 / max(1, width - 1), y * 255 / max(1, height - 1), (x + y) % 256]
    return np.stack(channels, axis=-1).astype(np.uint8)


def saved(image: Image.Image, kind: str, **options: object) -> bytes:
    held = io.BytesIO()
    image.save(held, kind, **options)
    return held.getvalue()


def shown(data: bytes, size: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return decode(open_bytes(data), size)


def test_a_picture_of_the_right_size_is_untouched() -> None:
    pixels = RNG.integers(0, 256, (32, 32, 3), dtype=np.uint8)
    got = shown(saved(Image.fromarray(pixels), "PNG"), 32)
    assert got.shape == (3, 32, 32)
    assert got.dtype == np.uint8
    assert got.flags.c_contiguous
    assert np.array_equal(got, pixels.transpose(2, 0, 1))


def test_the_centre_is_cropped_when_only_the_long_side_is_longer() -> None:
    pixels = RNG.integers(0, 256, (32, 48, 3), dtype=np.uint8)
    got = shown(saved(Image.fromarray(pixels), "PNG"), 32)
    assert np.array_equal(got, pixels[:, 8:40].transpose(2, 0, 1))


@pytest.mark.parametrize("shape", [(64, 96), (96, 64), (64, 64), (20, 30), (7, 900), (1, 1)])
def test_resizing_equals_cropping_then_resizing(shape: tuple[int, int]) -> None:
    image = Image.fromarray(smooth(*shape))
    side = min(shape)
    left, top = (shape[1] - side) // 2, (shape[0] - side) // 2
    crop = image.crop((left, top, left + side, top + side))
    slow = np.asarray(crop.resize((32, 32), Image.Resampling.BICUBIC)).transpose(2, 0, 1)
    got = shown(saved(image, "PNG"), 32)
    # Only the crop's edge may differ: there the filter sees the pixels beyond it.
    assert np.abs(got.astype(int) - slow)[:, 3:-3, 3:-3].max(initial=0) <= 1


def test_a_big_jpeg_decoded_small_is_the_same_picture() -> None:
    data = saved(Image.fromarray(smooth(640, 800)), "JPEG", quality=95)
    full = Image.open(io.BytesIO(data)).convert("RGB").crop((80, 0, 720, 640))
    slow = np.asarray(full.resize((32, 32), Image.Resampling.BICUBIC)).transpose(2, 0, 1)
    got = shown(data, 32)[:2]  # the third channel is a saw, which JPEG does not keep
    assert np.abs(got.astype(int) - slow[:2]).mean() < 2


def test_grey_is_the_same_in_three_channels() -> None:
    grey = RNG.integers(0, 256, (16, 16), dtype=np.uint8)
    got = shown(saved(Image.fromarray(grey), "PNG"), 16)
    assert all(np.array_equal(channel, grey) for channel in got)
    bits = shown(saved(Image.fromarray(grey).convert("1"), "PNG"), 16)
    assert set(np.unique(bits)) <= {0, 255}


def test_16_bit_grey_does_not_clip_to_white() -> None:
    deep = np.linspace(0, 65535, 256).reshape(16, 16).astype(np.uint16)
    got = shown(saved(Image.fromarray(deep), "PNG"), 16)
    assert np.array_equal(got[0], np.rint(deep / 257).astype(np.uint8))
    tiff = shown(saved(Image.fromarray(deep), "TIFF"), 16)
    assert np.array_equal(tiff, got)


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (np.asarray([[0.0, 0.5], [0.25, 1.0]], np.float32), [[0, 128], [64, 255]]),
        (np.asarray([[0, 100], [200, 255]], np.float32), [[0, 100], [200, 255]]),
        (np.asarray([[0, 65535], [257, 514]], np.float32), [[0, 255], [1, 2]]),
        (np.asarray([[-1, 1], [0, 0]], np.float32), [[0, 255], [128, 128]]),
        (np.asarray([[-5, -5], [-5, -5]], np.float32), [[0, 0], [0, 0]]),
        (np.asarray([[np.nan, np.inf], [100, 255]], np.float32), [[0, 0], [100, 255]]),
        (np.asarray([[0, 100], [200, 255]], np.int32), [[0, 100], [200, 255]]),
        (np.asarray([[0, 65535], [257, 514]], np.int32), [[0, 255], [1, 2]]),
        (np.asarray([[0, 2**30], [0, 2**29]], np.int32), [[0, 255], [0, 128]]),
    ],
)
def test_wide_values_are_scaled_by_their_range(
    values: np.ndarray[tuple[int, ...], np.dtype[np.float32]], wanted: list[list[int]]
) -> None:
    got = shown(saved(Image.fromarray(values), "TIFF"), 2)
    assert np.array_equal(got, np.broadcast_to(wanted, (3, 2, 2)))


def test_transparency_lies_on_white() -> None:
    pixels = np.zeros((8, 8, 4), dtype=np.uint8)
    pixels[:4, :, 0], pixels[:4, :, 3] = 200, 255
    got = shown(saved(Image.fromarray(pixels), "PNG"), 8)
    assert (got[:, 4:] == 255).all()
    assert (got[0, :4] == 200).all()
    assert (got[1:, :4] == 0).all()
    grey = shown(saved(Image.fromarray(pixels).convert("LA"), "PNG"), 8)
    assert (grey[:, 4:] == 255).all()


def test_a_transparent_palette_lies_on_white() -> None:
    image = Image.new("P", (8, 8), 0)
    image.putpalette([10, 20, 30, 200, 100, 50])
    image.paste(1, (0, 0, 8, 4))
    opaque = shown(saved(image, "PNG"), 8)
    assert opaque[:, 0, 0].tolist() == [200, 100, 50]
    assert opaque[:, 7, 0].tolist() == [10, 20, 30]
    clear = shown(saved(image, "PNG", transparency=0), 8)
    assert clear[:, 0, 0].tolist() == [200, 100, 50]
    assert clear[:, 7, 0].tolist() == [255, 255, 255]


def test_a_cmyk_jpeg_has_its_colours() -> None:
    image = Image.new("CMYK", (16, 16), (0, 255, 255, 0))  # red
    got = shown(saved(image, "JPEG", quality=95), 16)
    assert got[0].min() > 245
    assert got[1:].max() < 10


def test_an_animation_gives_its_first_frame() -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "green", "blue")]
    data = saved(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert shown(data, 8)[:, 0, 0].tolist() == [255, 0, 0]
    webp = saved(frames[0], "WEBP", save_all=True, append_images=frames[1:], lossless=True)
    assert shown(webp, 8)[:, 0, 0].tolist() == [255, 0, 0]


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF"])
@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_turns_a_picture_upright(kind: str, mode: str, orientation: int) -> None:
    stored = Image.new(mode, (16, 16))
    stored.paste(255 if mode == "L" else (255, 255, 255), (0, 0, 8, 4))  # no symmetry
    exif = Image.Exif()
    exif[0x0112] = orientation
    quality = {"quality": 100} if kind == "JPEG" else {}
    got = shown(saved(stored, kind, exif=exif, **quality), 16).astype(int)
    s = np.asarray(stored.convert("L"))
    upright = {
        1: s, 2: s[:, ::-1], 3: s[::-1, ::-1], 4: s[::-1],
        5: s.T, 6: s.T[:, ::-1], 7: s[::-1, ::-1].T, 8: s.T[::-1],
    }[orientation]  # fmt: skip
    assert np.abs(got - upright).max() <= 8


def test_a_broken_exif_block_does_not_lose_the_picture() -> None:
    image = Image.fromarray(smooth(8, 8))
    data = saved(image, "PNG", exif=b"Exif\x00\x00not an exif block")
    assert np.array_equal(shown(data, 8), smooth(8, 8).transpose(2, 0, 1))


def reason(data: bytes) -> str:
    with pytest.raises(UnreadablePicture) as caught:
        shown(data, 32)
    text = str(caught.value)
    assert "\n" not in text
    assert "0x" not in text  # no addresses of objects
    return text


def test_what_is_no_picture_says_so() -> None:
    assert reason(b"") == "empty file"
    assert reason(b"dear diary, " * 20) == "not a picture"
    assert "HEIC" in reason(b"\x00\x00\x00\x18ftypheic" + bytes(40))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP"])
def test_a_truncated_picture_says_so(kind: str) -> None:
    data = saved(Image.fromarray(RNG.integers(0, 256, (64, 64, 3), dtype=np.uint8)), kind)
    text = reason(data[: len(data) // 2])
    assert "truncated" in text or "damaged" in text
    if kind == "JPEG":
        assert f"{len(data) // 2:,} bytes" in text
    assert "damaged or truncated at its start" in reason(data[:12])


def test_a_damaged_picture_says_so() -> None:
    data = bytearray(saved(Image.fromarray(smooth(64, 64)), "PNG"))
    data[len(data) // 2] ^= 0xFF
    assert reason(bytes(data)).startswith(("damaged", "truncated"))


def test_a_decompression_bomb_is_refused() -> None:
    assert "too many pixels" in reason(b"P6 40000 40000 255\n" + bytes(64))


@pytest.mark.filterwarnings("ignore::UserWarning")  # Pillow's remarks on broken tags
def test_random_damage_never_escapes_as_another_error() -> None:
    originals = [saved(Image.fromarray(smooth(24, 24)), k) for k in ("JPEG", "PNG", "GIF", "TIFF")]
    for trial in range(200):
        data = bytearray(originals[trial % 4])
        for place in RNG.integers(0, len(data), 8):
            data[place] = RNG.integers(0, 256)
        try:
            assert shown(bytes(data), 16).shape == (3, 16, 16)
        except UnreadablePicture as problem:
            assert str(problem)
