"""Other sets by name: those that are there, and one line for each way of not being so."""

from __future__ import annotations

from pathlib import Path

import pytest

from ossl.config import DigitsData, FolderData, ProtocolData
from ossl.data.unseen import find_unseen, is_there
from ossl.errors import InputError
from ossl.progress import Progress
from tests.shapes import picture


@pytest.fixture
def data(tmp_path: Path) -> ProtocolData:
    """A benchmark's data root with scenes below it."""
    (tmp_path / "scenes").mkdir()
    for number in range(3):
        picture("cross", number, 20).save(tmp_path / "scenes" / f"{number}.png")
    return ProtocolData(split="cifar10-50", data_root=str(tmp_path))


def test_a_set_is_found_and_loaded_later(data: ProtocolData) -> None:
    (found,) = find_unseen(data, ["scenes", "scenes"])
    assert found.name == "scenes"
    pictures = found.load(16, Progress(quiet=True))
    assert pictures.take([0, 1, 2]).shape == (3, 3, 16, 16)
    assert find_unseen(data, []) == ()


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("scene", "did you mean 'scenes'"),
        ("svhn", "not there, looked for"),
        ("cifar10", "the run has learnt from this very set"),
    ],
)
def test_a_set_that_cannot_be_had(data: ProtocolData, name: str, what: str) -> None:
    with pytest.raises(InputError, match=what):
        find_unseen(data, ["scenes", name])
    assert not is_there(data, name)
    assert is_there(data, "scenes")


def test_only_a_benchmark_is_judged_on_other_sets() -> None:
    for other in (FolderData(), DigitsData()):
        assert find_unseen(other, []) == ()
        with pytest.raises(InputError, match="for a run on a benchmark"):
            find_unseen(other, ["scenes"])
        assert not is_there(other, "scenes")


def test_looking_for_a_set_fetches_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    asked = ProtocolData(split="cifar10-50")  # without a data root sets are downloaded
    assert is_there(asked, "svhn")
    assert not is_there(asked, "scenes")
    assert not list(tmp_path.iterdir())
