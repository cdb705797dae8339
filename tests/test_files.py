"""Files are whole or not there."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ossl.errors import InputError
from ossl.files import check_writable, read_tensors, write_tensors, write_text, write_whole
from ossl.rundir import json_text


def test_a_file_that_fails_leaves_the_old_one_and_nothing_else(tmp_path: Path) -> None:
    place = tmp_path / "deep" / "file.txt"
    write_text(place, "old\n")

    def half(path: Path) -> None:
        path.write_text("ne")
        raise OSError(28, "No space left on device")

    with pytest.raises(InputError, match="No space left on device; make room"):
        write_whole(place, half)

    def broken(path: Path) -> None:
        path.write_text("ne")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_whole(place, broken)
    assert [p.name for p in place.parent.iterdir()] == ["file.txt"]
    assert place.read_text() == "old\n"


def test_tensors_round_trip(tmp_path: Path) -> None:
    shared = torch.arange(6.0).view(2, 3)
    tensors = {"a": shared, "b": shared.T, "c": torch.tensor(3)}
    write_tensors(tmp_path / "t.safetensors", tensors)
    for name, tensor in read_tensors(tmp_path / "t.safetensors").items():
        assert torch.equal(tensor, tensors[name])
    with pytest.raises(InputError, match="is missing"):
        read_tensors(tmp_path / "none.safetensors")


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    check_writable(tmp_path / "new" / "folder")
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        check_writable(tmp_path / "file" / "below")


def test_json_knows_no_infinity() -> None:
    values = {"a": float("nan"), "b": {"c": float("inf"), "d": 1.5}, "e": "größe"}
    assert json_text(values) == '{"a": null, "b": {"c": null, "d": 1.5}, "e": "größe"}'
