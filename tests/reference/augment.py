"""FixMatch's augmentation one picture at a time with Pillow: slow, plain, and what we must match.

Written from the published description of the operations; every random number comes from `Draws`.
"""

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageEnhance, ImageOps

from ossl.data.augment import Draws
from ossl.data.randaugment import OPERATIONS

Pixels = NDArray[np.uint8]  # [H,W,3]


def operation(picture: Image.Image, name: str, strength: int) -> Image.Image:
    """Return the picture after one RandAugment operation; the strength's sign is its direction."""
    level = abs(strength)
    factor = level * 0.9 / 10 + 0.05
    sign = 1 if strength > 0 else -1
    width, height = picture.size
    shear = sign * (level * 0.3 / 10)
    maps = {
        "shear_x": (1, shear, 0, 0, 1, 0),
        "shear_y": (1, 0, 0, shear, 1, 0),
        "translate_x": (1, 0, int(shear * width), 0, 1, 0),
        "translate_y": (1, 0, 0, 0, 1, int(shear * height)),
    }
    if name in maps:
        return picture.transform(picture.size, Image.Transform.AFFINE, maps[name])
    if name == "rotate":
        return picture.rotate(sign * int(level * 30 / 10))
    if name == "autocontrast":
        return ImageOps.autocontrast(picture)
    if name == "equalize":
        return ImageOps.equalize(picture)
    if name == "posterize":
        return ImageOps.posterize(picture, int(level * 4 / 10) + 4)
    if name == "solarize":
        return ImageOps.solarize(picture, 256 - int(level * 256 / 10))
    if name == "brightness":
        return ImageEnhance.Brightness(picture).enhance(factor)
    if name == "colour":
        return ImageEnhance.Color(picture).enhance(factor)
    if name == "contrast":
        return ImageEnhance.Contrast(picture).enhance(factor)
    if name == "sharpness":
        return ImageEnhance.Sharpness(picture).enhance(factor)
    assert name == "identity", name
    return picture


def weak(picture: Pixels, draws: Draws, row: int) -> Pixels:
    """Return the picture flipped or not, padded by numpy's reflection and cropped."""
    height, width = picture.shape[:2]
    if draws.flip[row]:
        picture = picture[:, ::-1]
    pad_y, pad_x = height // 8, width // 8
    padded = np.pad(picture, ((pad_y, pad_y), (pad_x, pad_x), (0, 0)), mode="reflect")
    top = int(draws.crop[row, 0] * (2 * pad_y + 1))
    left = int(draws.crop[row, 1] * (2 * pad_x + 1))
    return np.ascontiguousarray(padded[top : top + height, left : left + width])


def cutout(picture: Image.Image, down: float, across: float) -> Image.Image:
    """Return the picture with a grey rectangle, both ends drawn, around a centre in [0,1)²."""
    width, height = picture.size
    side = min(width, height) // 2
    left = int(max(0, across * width - side / 2))
    top = int(max(0, down * height - side / 2))
    right, bottom = min(width, left + side), min(height, top + side)
    picture = picture.copy()
    ImageDraw.Draw(picture).rectangle((left, top, right, bottom), (127, 127, 127))
    return picture


def strong(picture: Pixels, draws: Draws, row: int) -> Pixels:
    """Return the strong view of one picture."""
    image = Image.fromarray(weak(picture, draws, row))
    for code, strength in zip(draws.operations[row], draws.strengths[row], strict=True):
        image = operation(image, OPERATIONS[int(code)], int(strength))
    return np.asarray(cutout(image, float(draws.cutout[row, 0]), float(draws.cutout[row, 1])))
