"""Features remembered by their picture's bytes.

A frozen encoder without a prompt gives the same feature for the same picture for ever. What it said
is kept under the BLAKE2b hash of the uint8 picture, apart for every encoder, picture size, number
type and set of weights:

DIR/ENCODER-SIZE-TYPE-HASH/SHARD.safetensors    keys uint8 [n, 16], features float32 [n, D]

With a prompt that has learnt all that it will, its own hash follows; a mirrored picture is just
another picture.

Features are kept as the encoder gives them, in float32, so that a run with the memory has the
figures of one without to the last bit: 20,000 pictures of 1,280 numbers take 100 MB. A shard is
written whole under a temporary name and never changed, so several runs may share a folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from torch import Tensor

from ossl.errors import InputError
from ossl.files import check_writable, write_tensors
from ossl.models.frozen import FrozenBackbone
from ossl.models.prompt import VisualPrompt

KEY_BYTES = 16
SHARD_ROWS = 8192  # new features after which a shard is written: no more are lost in a crash
FORMAT = "ossl-features-1"

Rows = dict[bytes, NDArray[np.float32]]


def _silent(_: str) -> None:
    """Nothing is said."""


class FeatureMemory:
    """The features of pictures seen before, in memory and, with a folder, on disk.

    As a context it writes what is new when it is left, also by an error, and says what it was
    good for.
    """

    def __init__(self, folder: Path | None = None, say: Callable[[str], None] = _silent) -> None:
        if folder is not None:
            check_writable(folder, "--cache")
        self.folder = folder
        self.say = say
        self.remembered = 0  # pictures whose feature was there
        self.computed = 0  # pictures that went through a network
        self._shelves: dict[str, _Shelf] = {}
        self._names: WeakKeyDictionary[FrozenBackbone, str] = WeakKeyDictionary()

    def __enter__(self) -> FeatureMemory:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.flush()
        if error is None:
            self.say(self.report())

    def features(
        self,
        encoder: FrozenBackbone,
        pictures: Tensor,
        encode: Callable[[Tensor], Tensor],
        prompt: VisualPrompt | None = None,
    ) -> Tensor:
        """Features [B, D] of uint8 pictures; `encode` gets those alone that are not known yet.

        `prompt` is what `encode` adds to them; it has learnt all that it will.
        """
        shelf = self._shelf(encoder, prompt)
        keys = picture_keys(pictures)
        new: dict[bytes, int] = {}  # each picture once, where it stands
        for place, key in enumerate(keys):
            if key not in shelf.rows:
                new.setdefault(key, place)
        self.computed += len(new)
        self.remembered += len(keys) - len(new)
        if new:
            places = list(new.values())
            made = encode(pictures if len(places) == len(keys) else pictures[places])
            shelf.add(list(new), made.detach().float().cpu().numpy())
            if len(shelf.unsaved) >= SHARD_ROWS:
                self._write(shelf)
        return torch.from_numpy(np.stack([shelf.rows[key] for key in keys])).to(pictures.device)

    @property
    def counts(self) -> tuple[int, int]:
        """How many features were remembered so far, and how many worked out."""
        return self.remembered, self.computed

    def flush(self) -> None:
        """Write what is new to the disk."""
        for shelf in self._shelves.values():
            self._write(shelf)

    def report(self) -> str:
        """What was remembered, in one line for people."""
        where = f" ({self.folder})" if self.folder is not None else ""
        return (
            f"{self.remembered:,} features remembered, {self.computed:,} worked out{where}"
            if self.remembered or self.computed
            else f"no features remembered{where}: this run's encoder or its prompt learns"
        )

    def _shelf(self, encoder: FrozenBackbone, prompt: VisualPrompt | None) -> _Shelf:
        """What is known of an encoder; its shards are read when it is first asked for."""
        if encoder not in self._names:
            self._names[encoder] = namespace(encoder)
        name = self._names[encoder]
        if prompt is not None:
            name += f"-{blake2b(prompt.fingerprint(), digest_size=KEY_BYTES).hexdigest()}"
        if name not in self._shelves:
            self._shelves[name] = _Shelf(name, self._read(name, encoder.width))
        return self._shelves[name]

    def _read(self, name: str, width: int) -> Rows:
        """The features of all shards in a namespace's folder; what is no shard is left alone."""
        rows: Rows = {}
        bad: list[str] = []
        for path in sorted((self.folder / name).glob("*.safetensors")) if self.folder else ():
            try:
                rows |= _read_shard(path, name, width)
            except (OSError, SafetensorError, KeyError, ValueError) as error:
                bad.append(f"{path.name}: {error}")
        if bad:
            count = "1 file" if len(bad) == 1 else f"{len(bad):,} files"
            self.say(f"cache {self.folder}: {count} ignored ({' '.join(bad[0].split())})")
        return rows

    def _write(self, shelf: _Shelf) -> None:
        if self.folder is None or not shelf.unsaved:
            return
        keys = np.frombuffer(b"".join(shelf.unsaved), dtype=np.uint8).reshape(-1, KEY_BYTES)
        features = np.stack([shelf.rows[key] for key in shelf.unsaved])
        # Named for what it holds: another run that has worked out the same writes the same file.
        called = blake2b(keys.tobytes() + features.tobytes(), digest_size=KEY_BYTES).hexdigest()
        path = self.folder / shelf.name / f"{called}.safetensors"
        tensors = {"keys": torch.from_numpy(keys.copy()), "features": torch.from_numpy(features)}
        try:
            write_tensors(path, tensors, {"about": f"{FORMAT} {shelf.name}"})
        except InputError as error:  # a run needs no memory to go on
            self.say(f"cache: {error}")
            self.folder = None
        shelf.unsaved.clear()


class _Shelf:
    """All that is known of one frozen encoder."""

    def __init__(self, name: str, rows: Rows) -> None:
        self.name = name
        self.rows = rows
        self.unsaved: list[bytes] = []

    def add(self, keys: list[bytes], features: NDArray[np.float32]) -> None:
        """Keep the features of these pictures."""
        self.rows.update(zip(keys, features.copy(), strict=True))
        self.unsaved += keys


def picture_keys(pictures: Tensor) -> list[bytes]:
    """The BLAKE2b hash of each uint8 picture's bytes."""
    if pictures.dtype != torch.uint8:
        raise ValueError(f"pictures are remembered as uint8, not as {pictures.dtype}")
    return [
        blake2b(picture.tobytes(), digest_size=KEY_BYTES).digest()
        for picture in pictures.cpu().numpy()
    ]


def namespace(encoder: FrozenBackbone) -> str:
    """The name of everything that decides which feature a picture gets: one folder on disk."""
    told = blake2b(digest_size=KEY_BYTES)
    told.update(repr((encoder.mean.tolist(), encoder.std.tolist())).encode())
    for name, tensor in sorted(encoder.state_dict().items()):
        told.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        # As bytes: numpy knows no bfloat16.
        told.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    plain = re.sub(r"[^\w.-]", "_", encoder.name)
    number = str(encoder.dtype).removeprefix("torch.")
    return f"{plain}-{encoder.image_size}-{number}-{told.hexdigest()}"


def _read_shard(path: Path, name: str, width: int) -> Rows:
    """The features of a shard by key; an error where it is none of this namespace's."""
    with safe_open(path, "np") as file:
        if (file.metadata() or {}).get("about") != f"{FORMAT} {name}":
            raise ValueError("not written by this memory")
        keys, features = file.get_tensor("keys"), file.get_tensor("features")
    if (
        keys.dtype != np.uint8
        or features.dtype != np.float32
        or keys.shape != (len(features), KEY_BYTES)
        or features.shape[1:] != (width,)
    ):
        raise ValueError(f"keys {keys.shape} and features {features.shape} do not belong together")
    return dict(zip((key.tobytes() for key in keys), features, strict=True))
