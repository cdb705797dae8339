"""One picture at a time: where pictures come from, and any file made into [3, S, S] uint8."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image

UNLABELLED = -1  # the label of a picture whose class is not given, everywhere

# How a picture stored with this EXIF orientation is turned upright.
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
# How a picture file may begin; anything else that Pillow does not know is not a picture at all.
_MAGIC = (b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"RIFF", b"BM", b"II*\x00", b"MM\x00*")
_HEIC = (b"ftypheic", b"ftypheix", b"ftypmif1", b"ftypheim", b"ftyphevc")


@dataclass(frozen=True)
class Rejected:
    """A file that could not be read, and why."""

    path: str
    reason: str


class UnreadablePicture(Exception):  # noqa: N818  it says what the picture is
    """A picture that cannot be decoded; `str(error)` is the reason in plain words."""


class Source(Protocol):
    """Where pictures come from, undecoded, by index."""

    @property
    def names(self) -> Sequence[str]:
        """A unique name per picture: its path below the root, or `row 17 of train.parquet`."""

    @property
    def labels(self) -> NDArray[np.int64]:
        """The class of each picture, -1 = unlabelled."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names by label, () when there are none."""

    @property
    def where(self) -> str:
        """One line for people: what it is and where it lies."""

    def __len__(self) -> int:
        """The number of pictures."""

    def open(self, index: int) -> Image.Image:
        """The picture, not decoded yet; raises UnreadablePicture."""


def open_bytes(data: bytes) -> Image.Image:
    """The picture in the bytes of a file, not decoded yet; raises UnreadablePicture."""
    if not data:
        raise UnreadablePicture("empty file")
    try:
        return Image.open(io.BytesIO(data))
    except Image.DecompressionBombError as problem:
        raise UnreadablePicture(_reason(problem, len(data))) from None
    except Exception:
        # A plugin that meets a damaged header may raise anything; all of it means the same.
        if data[4:12] in _HEIC:
            reason = "HEIC is not supported: convert it to JPEG or PNG"
        elif data.startswith(_MAGIC):
            reason = f"damaged or truncated at its start ({len(data):,} bytes)"
        else:
            reason = "not a picture"
        raise UnreadablePicture(reason) from None


def decode(image: Image.Image, size: int) -> NDArray[np.uint8]:
    """The picture as RGB [3, size, size]: upright, short side resized, centre cropped.

    Transparency is laid on white, 16-bit grey is scaled to 8, an animation gives its first frame.
    An upright RGB picture that is `size` x `size` already comes back byte for byte.
    """
    square = _upright(image, size, lambda rgb: _square(rgb, size))
    return np.ascontiguousarray(np.asarray(square, dtype=np.uint8).transpose(2, 0, 1))


def shrunk(image: Image.Image, side: int) -> Image.Image:
    """The whole picture in RGB and upright, its longer side `side` pixels at most."""

    def fit(rgb: Image.Image) -> Image.Image:
        part = side / max(rgb.size)
        if part >= 1:
            return rgb
        width, height = (max(1, round(part * length)) for length in rgb.size)
        return rgb.resize((width, height), Image.Resampling.BICUBIC)

    return _upright(image, side, fit)


def read(source: Source, index: int, size: int) -> NDArray[np.uint8]:
    """Picture `index` of the source as [3, size, size]; raises UnreadablePicture."""
    return decode(source.open(index), size)


def _upright(
    image: Image.Image, size: int, then: Callable[[Image.Image], Image.Image]
) -> Image.Image:
    """What `then` makes of the picture in RGB and upright; raises UnreadablePicture."""
    held = getattr(image, "fp", None)
    length = held.getbuffer().nbytes if isinstance(held, io.BytesIO) and not held.closed else None
    try:
        # JPEG decodes at 1/2, 1/4 or 1/8 for a fraction of the work; twice the wanted size is
        # left for the bicubic filter, so the result is as good.
        image.draft(None, (2 * size, 2 * size))
        image.load()
        turn = _UPRIGHT.get(_orientation(image))
        rgb = _rgb(image)
        return then(rgb if turn is None else rgb.transpose(turn))
    except MemoryError:
        raise UnreadablePicture("too large for the memory there is") from None
    except Exception as problem:
        # Damaged data makes Pillow's decoders raise nearly anything (OSError, SyntaxError,
        # struct.error, ...): one bad file must not end a run over a million.
        raise UnreadablePicture(_reason(problem, length)) from None


def _rgb(image: Image.Image) -> Image.Image:
    """The picture in RGB, on white where it is transparent."""
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode.startswith("I") or image.mode == "F":
        return Image.fromarray(_eight_bits(np.asarray(image), image.mode)).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        if image.mode == "La":  # premultiplied grey converts to plain grey with alpha only
            image = image.convert("LA")
        rgba = image.convert("RGBA")
        white = Image.new("RGBA", rgba.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, rgba).convert("RGB")
    return image.convert("RGB")


def _eight_bits(values: NDArray[np.generic], mode: str) -> NDArray[np.uint8]:
    """Grey values of more than 8 bits as 0-255, by the range they are in.

    `I;16` is 0-65535 by definition. `I` and `F` do not say: 0-1 (`F` alone), 0-255 and 0-65535
    are taken as they are, anything else is stretched from its minimum to its maximum.
    """
    if mode.startswith("I;16"):
        return ((values.astype(np.uint32) * 255 + 32767) // 65535).astype(np.uint8)
    grey = np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    low, high = float(grey.min()), float(grey.max())
    if low < 0 or high > 65535:
        grey = (grey - low) * (255 / (high - low) if high > low else 0)
    elif mode == "F" and high <= 1:
        grey = grey * 255
    elif high > 255:
        grey = grey * (255 / 65535)
    return np.rint(grey).astype(np.uint8)


def _orientation(image: Image.Image) -> int:
    """The EXIF orientation of a loaded picture, 1 (upright) when it has none."""
    if not image.info:
        return 1
    try:
        return int(image.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:  # a broken EXIF block is no reason to lose the picture
        return 1


def _square(image: Image.Image, size: int) -> Image.Image:
    """The centre square of the picture, `size` on a side."""
    width, height = image.size
    if width == height == size:
        return image
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    box = (left, top, left + side, top + side)
    if side == size:
        return image.crop(box)
    # Pillow's bicubic filter widens with the factor, which is what antialiasing is; the box
    # saves resizing what the crop throws away.
    return image.resize((size, size), Image.Resampling.BICUBIC, box=box)


def _reason(problem: Exception, length: int | None) -> str:
    """What went wrong, in words for the person who owns the file."""
    text = " ".join(str(problem).split())
    if isinstance(problem, Image.DecompressionBombError):
        return f"too many pixels: {text.split(', could')[0]}"
    if "truncated" in text.lower() or isinstance(problem, EOFError):
        ends = f" after {length:,} bytes" if length is not None else ""
        return f"truncated: the file ends{ends}, in the middle of the picture"
    return f"damaged: {text or type(problem).__name__}"
