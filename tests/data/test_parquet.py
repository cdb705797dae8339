"""Parquet in the hub's schema and beside it."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from ossl.data import parquet
from ossl.data.parquet import ParquetPictures
from ossl.data.pictures import UnreadablePicture, read
from ossl.data.store import load
from ossl.errors import InputError


def png(value: int) -> bytes:
    held = io.BytesIO()
    Image.new("RGB", (4, 4), (value, 0, 0)).save(held, "PNG")
    return held.getvalue()


def write(
    path: Path,
    values: Sequence[int | None],
    labels: Any = None,
    *,
    image: str = "img",
    label: str = "label",
    names: Any = None,
    plain: bool = False,
    rows: int = 3,
) -> Path:
    cells: list[Any] = [None if v is None else png(v) for v in values]
    if not plain:
        cells = [{"bytes": c, "path": f"{i}.png"} for i, c in enumerate(cells)]
    kind = pa.binary() if plain else pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = pa.table({image: pa.array(cells, kind)})
    if labels is not None:
        table = table.append_column(label, pa.array(labels))
    if names is not None:
        features = {image: {"_type": "Image"}, label: {"names": names, "_type": "ClassLabel"}}
        meta = {"huggingface": json.dumps({"info": {"features": features}})}
        table = table.replace_schema_metadata(meta)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=rows)
    return path


def reds(source: ParquetPictures, order: Sequence[int] | None = None) -> list[int]:
    return [int(read(source, i, 4)[0, 0, 0]) for i in (order or range(len(source)))]


def test_the_hubs_schema_over_shards(tmp_path: Path) -> None:
    names = ["cat", "dog"]
    a = write(tmp_path / "a.parquet", range(7), [0, 1, 0, 1, 0, 1, 0], names=names)
    b = write(tmp_path / "b.parquet", range(50, 55), [1] * 5, names=names)
    source = ParquetPictures([a, b])
    assert len(source) == 12
    assert source.classes == ("cat", "dog")
    assert source.labels.tolist() == [0, 1, 0, 1, 0, 1, 0, 1, 1, 1, 1, 1]
    assert reds(source) == [*range(7), *range(50, 55)]
    assert reds(source, [11, 0, 6, 7, 3, 11]) == [54, 0, 6, 50, 3, 54]
    assert source.names[6] == "row 6 of a.parquet"
    assert source.names[7] == "row 0 of b.parquet"
    assert len(set(source.names)) == 12
    assert "a.parquet" in source.where


def test_a_folder_stands_for_its_files_and_names_stay_unique(tmp_path: Path) -> None:
    write(tmp_path / "x" / "0.parquet", [1, 2])
    write(tmp_path / "y" / "0.parquet", [3, 4])
    assert reds(ParquetPictures(tmp_path / "x")) == [1, 2]
    both = ParquetPictures([tmp_path / "x", tmp_path / "y"])
    assert both.names[:] == [f"row {i} of {d}/0.parquet" for d in "xy" for i in range(2)]
    assert (both.labels == -1).all()


@pytest.mark.parametrize("label", ["label", "fine_label", "labels"])
def test_plain_bytes_and_other_names(tmp_path: Path, label: str) -> None:
    path = write(tmp_path / "a.parquet", [5, 6], [1, 0], image="image", label=label, plain=True)
    source = ParquetPictures(path)
    assert (source.image_column, source.label_column) == ("image", label)
    assert reds(source) == [5, 6]
    assert source.labels.tolist() == [1, 0]
    assert source.classes == ()


def test_columns_by_name(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", [5, 6], [1, 0], image="photo", label="kind")
    source = ParquetPictures(path, image_column="photo", label_column="kind")
    assert source.labels.tolist() == [1, 0]


def test_labels_of_other_kinds(tmp_path: Path) -> None:
    text = ParquetPictures(write(tmp_path / "t.parquet", [1, 2, 3], ["dog", "cat", None]))
    assert text.classes == ("cat", "dog")
    assert text.labels.tolist() == [1, 0, -1]
    null = ParquetPictures(write(tmp_path / "n.parquet", [1, 2, 3], [4, None, 0]))
    assert null.labels.tolist() == [4, -1, 0]
    numbered = {"1": "dog", "0": "cat"}
    old = ParquetPictures(write(tmp_path / "o.parquet", [1, 2], [0, 1], names=numbered))
    assert old.classes == ("cat", "dog")


def test_a_set_larger_than_the_cache_still_reads_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "_CACHE_BYTES", 1)
    source = ParquetPictures(write(tmp_path / "a.parquet", range(40)))
    assert reds(source, [39, 0, 20, 1, 39]) == [39, 0, 20, 1, 39]
    assert len(source._cache) == 1
    streamed = load(source, 4, memory_limit=0)
    assert streamed.take(list(range(40)))[:, 0, 0, 0].tolist() == list(range(40))


def test_null_bytes_are_one_unreadable_picture(tmp_path: Path) -> None:
    for plain in (True, False):
        source = ParquetPictures(write(tmp_path / "a.parquet", [1, None, 3], plain=plain))
        with pytest.raises(UnreadablePicture, match="null"):
            source.open(1)
        assert [bad.path for bad in load(source, 4).rejected] == ["row 1 of a.parquet"]


def refused(path: Path | list[Path], *parts: str, **options: Any) -> None:
    with pytest.raises(InputError) as caught:
        ParquetPictures(path, **options)
    for part in parts:
        assert part in str(caught.value)


def test_wrong_files_and_columns(tmp_path: Path) -> None:
    good = write(tmp_path / "train.parquet", [1, 2], [0, 1])
    refused(tmp_path / "trian.parquet", "no such file", "train.parquet?")
    bad = tmp_path / "bad.parquet"
    bad.write_bytes(b"PAR1 not really")
    refused(bad, "no readable parquet")
    (tmp_path / "none").mkdir()
    refused(tmp_path / "none", "no *.parquet")
    refused(good, "no column 'lable'", "did you mean 'label'?", label_column="lable")
    refused(good, "is int64", "image bytes", image_column="label")
    other = write(tmp_path / "other.parquet", [1, 2], [0, 1], image="photo")
    refused(other, "no column img or image", "photo, label", "image_column")
    table = pq.read_table(good)
    for extra in ("fine_label", "image"):
        pq.write_table(table.append_column(extra, table.column("img")), tmp_path / "two.parquet")
        refused(tmp_path / "two.parquet", "could each be", extra)
    refused(write(tmp_path / "low.parquet", [1], [-2]), "below -1")
    refused(write(tmp_path / "float.parquet", [1], [0.5]), "whole numbers")
    refused(write(tmp_path / "high.parquet", [1], [2], names=["a", "b"]), "2 class names")
    refused(write(tmp_path / "zero.parquet", [], pa.array([], pa.int64())), "no rows")
    first = write(tmp_path / "n1.parquet", [1], [0], names=["a", "b"])
    second = write(tmp_path / "n2.parquet", [1], [0], names=["b", "a"])
    refused([first, second], "class names differ")
    assert ParquetPictures(good).labels.dtype == np.int64
