"""Pictures that are in an array already."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from ossl.data.sources import Names, checked_labels
from ossl.errors import InputError


class ArrayPictures:
    """uint8 pictures [N, H, W], [N, H, W, 3] or [N, 3, H, W] as a source."""

    def __init__(
        self,
        pictures: ArrayLike | torch.Tensor,
        labels: ArrayLike | torch.Tensor | None = None,
        classes: tuple[str, ...] = (),
        where: str = "an array",
    ) -> None:
        self._pictures = _channels_last(_numpy(pictures), where)
        count, height, width = self._pictures.shape[:3]
        self.classes = tuple(classes)
        self.labels = checked_labels(
            None if labels is None else _numpy(labels), count, self.classes, where
        )
        self.names = Names(count, lambda i: f"picture {i}")
        self.where = f"{where} ({count:,} pictures, {height}×{width})"

    def __len__(self) -> int:
        return len(self._pictures)

    def open(self, index: int) -> Image.Image:
        """The picture at this index."""
        return Image.fromarray(np.ascontiguousarray(self._pictures[index]))


def _numpy(values: ArrayLike | torch.Tensor) -> NDArray[np.generic]:
    return values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)


def _channels_last(pictures: NDArray[np.generic], where: str) -> NDArray[np.uint8]:
    """The pictures as [N, H, W] or [N, H, W, 3], checked."""
    shape = pictures.shape
    if pictures.dtype != np.uint8:
        raise InputError(f"pictures: {where}: {_wrong_dtype(pictures)}")
    # The last dimension is asked first: pictures 3 wide are rarer than pictures of 3 channels.
    if len(shape) == 4 and shape[3] not in (1, 3) and shape[1] in (1, 3):
        pictures = pictures.transpose(0, 2, 3, 1)
    if pictures.ndim == 4 and pictures.shape[3] == 1:
        pictures = pictures[..., 0]
    if pictures.ndim not in (3, 4) or (pictures.ndim == 4 and pictures.shape[3] != 3):
        raise InputError(
            f"pictures: {where}: shape {shape}: give N×H×W (grey), N×H×W×3 or N×3×H×W (RGB)"
        )
    if 0 in shape:
        raise InputError(f"pictures: {where}: shape {shape} holds no picture: give at least one")
    return pictures.view(np.uint8)


def _wrong_dtype(pictures: NDArray[np.generic]) -> str:
    """What the values are and how to make uint8 of them."""
    mend = "convert them to uint8, 0 to 255"
    if pictures.dtype.kind == "b":
        mend = "make them uint8: x.astype('uint8') * 255"
    elif pictures.dtype.kind in "fiu" and pictures.size:
        low, high = float(pictures.min()), float(pictures.max())
        if pictures.dtype.kind == "f" and low >= 0 and high <= 1:
            mend = "they are 0 to 1, multiply: (x * 255).round().astype('uint8')"
        elif low >= 0 and high <= 255:
            mend = "they are 0 to 255, convert: x.round().astype('uint8')"
        else:
            mend = f"they run from {low:g} to {high:g}, scale them to 0 to 255 as uint8"
    return f"{pictures.dtype} values where uint8 is wanted: {mend}"
