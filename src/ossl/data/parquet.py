"""Pictures in parquet files, in the schema of the Hugging Face hub."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from PIL import Image

from ossl.data.pictures import UNLABELLED, UnreadablePicture, open_bytes
from ossl.data.sources import Names, checked_labels
from ossl.errors import InputError, nearest

IMAGE_COLUMNS = ("img", "image")
LABEL_COLUMNS = ("label", "fine_label", "labels")
_CACHE_BYTES = 256 * 2**20  # undecoded row groups that are kept for the next picture


class ParquetPictures:
    """A source over one or more parquet files with image bytes, read a row group at a time.

    The image column holds struct<bytes, path> or plain bytes. Without a label column the
    pictures are unlabelled. Reading in order, or sorted within a batch, reads each row group
    once; pictures asked for wholly at random read a row group again when 256 MB of others have
    been read since.
    """

    def __init__(
        self,
        paths: str | Path | Sequence[str | Path],
        image_column: str | None = None,
        label_column: str | None = None,
    ) -> None:
        self.paths = _files(paths)
        self._meta = [_opened(path) for path in self.paths]
        schema = self._meta[0].schema.to_arrow_schema()
        first = self.paths[0]
        self.image_column = _column(schema, image_column, IMAGE_COLUMNS, "image", first)
        self.label_column = _column(schema, label_column, LABEL_COLUMNS, "label", first)
        assert self.image_column is not None
        self._is_struct = _check_image(schema.field(self.image_column), first)
        groups = [(shard, g) for shard, m in enumerate(self._meta) for g in range(m.num_row_groups)]
        rows = [self._meta[shard].row_group(g).num_rows for shard, g in groups]
        self._groups = groups
        self._group_start = np.concatenate([[0], np.cumsum(rows)]).astype(np.int64)
        self._shard_start = np.cumsum([0] + [m.num_rows for m in self._meta])
        count = int(self._group_start[-1])
        if count == 0:
            raise InputError(f"parquet: {first}: no rows: name a file with pictures in it")
        self._shown = _short_names(self.paths)
        self.names = Names(count, self._name)
        self.classes, self.labels = self._read_labels(schema, count)
        shards = f" and {len(self.paths) - 1} more" if len(self.paths) > 1 else ""
        self.where = f"parquet: {first}{shards} ({count:,} pictures, column {self.image_column!r})"
        self._cache: OrderedDict[int, pa.ChunkedArray] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.labels)

    def open(self, index: int) -> Image.Image:
        """The picture in this row, not decoded yet; raises UnreadablePicture."""
        row = range(len(self))[index]
        group = int(np.searchsorted(self._group_start, row, side="right")) - 1
        value = self._column_of(group)[row - int(self._group_start[group])].as_py()
        if isinstance(value, dict):
            value = value["bytes"]
        if value is None:
            raise UnreadablePicture("no picture in this row (the bytes are null)")
        return open_bytes(value)

    def _name(self, row: int) -> str:
        shard = int(np.searchsorted(self._shard_start, row, side="right")) - 1
        return f"row {row - self._shard_start[shard]} of {self._shown[shard]}"

    def _column_of(self, group: int) -> pa.ChunkedArray:
        """The undecoded pictures of a row group, from the cache or the file."""
        # One lock for cache and file: threads that decode want the same group at the same time,
        # and it is to be read once.
        with self._lock:
            if group in self._cache:
                self._cache.move_to_end(group)
                return self._cache[group]
            shard, number = self._groups[group]
            wanted = f"{self.image_column}.bytes" if self._is_struct else self.image_column
            try:
                # Opened for each read: a set of a thousand shards must not hold a thousand files.
                with pq.ParquetFile(self.paths[shard], metadata=self._meta[shard]) as file:
                    column = file.read_row_group(number, columns=[wanted]).column(0)
            except (OSError, pa.ArrowException) as problem:
                raise UnreadablePicture(f"its row group cannot be read: {problem}") from None
            self._cache[group] = column
            while len(self._cache) > 1 and self._held() > _CACHE_BYTES:
                self._cache.popitem(last=False)
            return column

    def _held(self) -> int:
        return sum(int(column.nbytes) for column in self._cache.values())

    def _read_labels(
        self, schema: pa.Schema, count: int
    ) -> tuple[tuple[str, ...], NDArray[np.int64]]:
        """The class names and every row's label, null = unlabelled."""
        if self.label_column is None:
            return (), np.full(count, UNLABELLED, dtype=np.int64)
        classes = _class_names(schema, self.label_column)
        columns = []
        for path, meta in zip(self.paths, self._meta, strict=True):
            if _class_names(meta.schema.to_arrow_schema(), self.label_column) != classes:
                raise InputError(
                    f"parquet: {path}: its class names differ from those of {self.paths[0]}: "
                    "read files of one data set"
                )
            with pq.ParquetFile(path, metadata=meta) as file:
                columns.append(file.read(columns=[self.label_column]).column(0))
        values = pa.chunked_array([chunk for column in columns for chunk in column.chunks])
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
            texts = values.to_pylist()
            classes = tuple(sorted({text for text in texts if text is not None}))
            number = {name: i for i, name in enumerate(classes)} | {None: UNLABELLED}
            return classes, np.asarray([number[text] for text in texts], dtype=np.int64)
        where = f"column {self.label_column!r} of {self.paths[0]}"
        if pa.types.is_integer(values.type):
            values = values.fill_null(UNLABELLED) if values.null_count else values
        return classes, checked_labels(values.to_numpy(), count, classes, where)


def _files(paths: str | Path | Sequence[str | Path]) -> list[Path]:
    """The parquet files named, a folder standing for those in it."""
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    files: list[Path] = []
    for path in map(Path, given):
        if path.is_dir():
            inside = sorted(path.glob("*.parquet"))
            if not inside:
                raise InputError(f"parquet: {path}: no *.parquet in this folder: name the files")
            files += inside
        elif path.exists():
            files.append(path)
        else:
            near = [p.name for p in path.absolute().parent.glob("*.parquet")]
            guess = nearest(path.name, near)
            mend = f"did you mean {path.parent / guess}?" if guess else "check the path"
            raise InputError(f"parquet: {path}: there is no such file: {mend}")
    if not files:
        raise InputError("parquet: no files given: name at least one")
    return files


def _opened(path: Path) -> pq.FileMetaData:
    """What the file says about itself, or an InputError when it is no parquet."""
    try:
        return pq.read_metadata(path)
    except (OSError, pa.ArrowException) as problem:
        text = str(problem).split(". ")[0]
        raise InputError(
            f"parquet: {path}: no readable parquet file ({text}): get it anew"
        ) from None


def _column(
    schema: pa.Schema, wanted: str | None, usual: tuple[str, ...], kind: str, path: Path
) -> str | None:
    """The column wanted, or the only usual one; None for labels when there is none."""
    there = f"its columns are {', '.join(schema.names)}"
    if wanted is not None:
        if wanted in schema.names:
            return wanted
        guess = nearest(wanted, schema.names)
        hint = f": did you mean {guess!r}?" if guess else f": choose the {kind} column"
        raise InputError(f"parquet: {path}: no column {wanted!r}, {there}{hint}")
    found = [name for name in usual if name in schema.names]
    if len(found) > 1:
        raise InputError(
            f"parquet: {path}: {' and '.join(found)} could each be the {kind} column: "
            f"choose with {kind}_column ({there})"
        )
    if not found and kind == "image":
        raise InputError(
            f"parquet: {path}: no column {' or '.join(usual)}, {there}: choose with image_column"
        )
    return found[0] if found else None


def _check_image(field: pa.Field, path: Path) -> bool:
    """Whether the column is a struct with bytes (True) or bytes themselves (False)."""
    kind = field.type
    binary = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    if pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
        if any(test(kind.field("bytes").type) for test in binary):
            return True
    elif any(test(kind) for test in binary):
        return False
    raise InputError(
        f"parquet: {path}: column {field.name!r} is {kind}: "
        "choose one with image bytes, or struct<bytes, path>, with image_column"
    )


def _class_names(schema: pa.Schema, column: str) -> tuple[str, ...]:
    """The names of the hub's ClassLabel for this column, () when the file has none."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        names = features[column]["names"]
    except (KeyError, TypeError, ValueError):
        return ()
    if isinstance(names, dict):  # older files number the names: {"0": "airplane", ...}
        names = [names[key] for key in sorted(names, key=int)]
    return tuple(str(name) for name in names or ())


def _short_names(paths: Sequence[Path]) -> list[str]:
    """File names that tell the files apart, with as few folders as that needs."""
    for depth in range(1, max(len(path.parts) for path in paths) + 1):
        short = ["/".join(path.parts[-depth:]) for path in paths]
        if len(set(short)) == len(paths):
            return short
    return [str(path) for path in paths]
