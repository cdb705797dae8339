"""What is found in folders: sizes, copies, and labels that contradict each other."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from PIL import Image

from ossl.data.folders import ClassFolders, FlatFolder
from ossl.data.store import load
from ossl.data.survey import Noting, Survey, check_contradictions, survey
from ossl.errors import InputError
from tests.shapes import make_folders, picture


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with labelled/ and pool/ in it."""
    make_folders(tmp_path)
    return tmp_path


def look(root: Path) -> Survey:
    """The findings, in the way a run comes by them."""
    labelled, pool = Noting(ClassFolders(root / "labelled")), Noting(FlatFolder(root / "pool"))
    for source in (labelled, pool):
        source.forget(load(source, 16).rejected)
    return survey(labelled, pool)


def test_clean_folders_say_counts_and_sizes_alone(root: Path) -> None:
    found = look(root)
    assert found.classes == {"circle": 4, "cross": 4, "square": 4}
    assert found.pool == 18
    assert found.usual == found.smallest == (32, 32)
    assert (found.pool_copies, found.labelled_copies, found.in_both) == (0, [], [])
    check_contradictions(found)
    said = found.report()
    assert "12 labelled pictures of 3 classes, 4 each (circle 4, cross 4, square 4)" in said[0]
    assert "18 pictures" in said[1]
    assert not any("copy" in line for line in said)


def test_sizes(root: Path) -> None:
    picture("circle", 1, 300).resize((400, 300)).save(root / "pool" / "large.png")
    Image.new("RGB", (3, 200)).save(root / "pool" / "narrow.png")
    found = look(root)
    assert found.smallest == (3, 200)
    assert found.usual == (32, 32)
    assert found.small == 31


def test_copies_in_the_pool(root: Path) -> None:
    first = sorted((root / "pool").iterdir())[0]
    for name in ("copy.png", "again.png"):
        shutil.copy(first, root / "pool" / name)
    found = look(root)
    assert found.pool_copies == 2
    assert any("2 pictures of the pool are a copy" in line for line in found.report())


def test_copies_among_the_labelled(root: Path) -> None:
    shutil.copy(root / "labelled/cross/0.png", root / "labelled/cross/z.png")
    found = look(root)
    assert found.labelled_copies == [("cross/0.png", "cross/z.png")]
    assert any(
        "1 labelled picture is a copy" in line and "cross/z.png" in line for line in found.report()
    )


def test_labelled_pictures_in_the_pool(root: Path) -> None:
    shutil.copy(root / "labelled/cross/0.png", root / "pool" / "same.png")
    found = look(root)
    assert found.in_both == [("cross/0.png", "same.png")]
    assert any("same.png (cross/0.png)" in line for line in found.report())


def test_one_picture_of_two_classes_is_refused(root: Path) -> None:
    for number in range(4):
        shutil.copy(root / f"labelled/cross/{number}.png", root / f"labelled/square/x{number}.png")
    with pytest.raises(InputError, match=r"cross/0\.png and square/x0\.png") as error:
        check_contradictions(look(root))
    assert "and 1 more" in str(error.value)
    assert "remove it from the class" in str(error.value)


def test_unreadable_files_count_nowhere(root: Path) -> None:
    (root / "labelled/cross/bad.png").write_bytes(b"")
    (root / "pool/bad.png").write_bytes(b"")
    whole = sorted((root / "pool").glob("img*"))[0].read_bytes()
    for name in ("half.png", "half2.png"):
        (root / "pool" / name).write_bytes(whole[: len(whole) // 2])
    found = look(root)
    assert found.classes["cross"] == 4
    assert (found.pool, found.pool_copies, found.in_both) == (18, 0, [])


def test_few_labels_are_warned_of(root: Path) -> None:
    said = "\n".join(look(root).report())
    assert "'circle' has only 4 labelled pictures" in said
    assert "with 12 labelled pictures in all, the share of outliers is a rough guess" in said
    enough = Survey({"a": 60, "b": 60}, 100, (96, 96), (96, 96), 0, 0)
    assert not any("warning" in line for line in enough.report())


def test_every_file_is_read_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    true = FlatFolder.read

    def counted(self: FlatFolder, index: int) -> bytes:
        read.append(index)
        return true(self, index)

    monkeypatch.setattr(FlatFolder, "read", counted)
    look(root)
    assert sorted(read) == list(range(18))
