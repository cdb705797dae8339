"""Class folders and flat folders: order, names, what is left out, and wrong input."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ossl.data.folders import ClassFolders, FlatFolder, check_separate
from ossl.data.pictures import UnreadablePicture
from ossl.data.store import check_labelled, labelled_from_folder, load
from ossl.errors import InputError


def picture(path: Path, value: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8), (value, 0, 0)).save(path)
    return path


def classes(root: Path, counts: dict[str, int]) -> Path:
    for name, count in counts.items():
        (root / name).mkdir(parents=True, exist_ok=True)
        for i in range(count):
            picture(root / name / f"{i}.png", i)
    return root


def test_class_folders_in_an_order_of_their_own(tmp_path: Path) -> None:
    for name in ("zebra/b.png", "ant/deep/er/c.PNG", "ant/a.jpeg", "ant/deep/b.jpg", "mole/x.gif"):
        picture(tmp_path / name)
    source = ClassFolders(tmp_path)
    assert source.classes == ("ant", "mole", "zebra")
    assert source.names == [
        "ant/a.jpeg", "ant/deep/b.jpg", "ant/deep/er/c.PNG", "mole/x.gif", "zebra/b.png",
    ]  # fmt: skip
    assert source.labels.tolist() == [0, 0, 0, 1, 2]
    assert source.labels.dtype == np.int64
    assert source.path(0) == tmp_path / "ant/a.jpeg"
    assert str(tmp_path) in source.where
    assert source.open(0).size == (8, 8)


def test_what_is_no_picture_is_left_out_and_noted(tmp_path: Path) -> None:
    for name in ("a/1.png", "a/2.png", "b/1.png", "b/2.png", "a/.hidden.png", ".git/x.png"):
        picture(tmp_path / name)
    picture(tmp_path / "__MACOSX" / "x.png")
    picture(tmp_path / "loose.png")
    (tmp_path / "a" / "notes.txt").write_text("x")
    source = ClassFolders(tmp_path)
    assert source.classes == ("a", "b")
    assert source.names == ["a/1.png", "a/2.png", "b/1.png", "b/2.png"]
    assert source.ignored == ("a/notes.txt", "loose.png")


def test_a_flat_folder_is_unlabelled_at_any_depth(tmp_path: Path) -> None:
    for name in ("b.png", "a.png", "sub/c.png", "sub/deeper/d.png"):
        picture(tmp_path / name)
    source = FlatFolder(tmp_path)
    assert source.names == ["a.png", "b.png", "sub/c.png", "sub/deeper/d.png"]
    assert (source.labels == -1).all()
    assert source.classes == ()


def test_names_of_any_script_and_bytes(tmp_path: Path) -> None:
    for name in ("图片/猫.png", "café/ñandú.png", "with space/a b.png"):
        picture(tmp_path / name)
    source = ClassFolders(tmp_path)
    assert set(source.classes) == {"图片", "café", "with space"}
    assert load(source, 8).rejected == ()
    odd = os.fsencode(tmp_path / "café") + b"/\xff\xfe.png"
    try:
        shutil.copy(tmp_path / "图片" / "猫.png", os.fsdecode(odd))
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    source = ClassFolders(tmp_path)
    assert "café/\\xff\\xfe.png" in source.names
    assert load(source, 8).rejected == ()
    "\n".join(source.names).encode("utf-8")  # can be written to a report


def test_links_are_followed_and_loops_end(tmp_path: Path) -> None:
    picture(tmp_path / "store" / "1.png")
    root = tmp_path / "pool"
    picture(root / "2.png")
    (root / "linked").symlink_to(tmp_path / "store", target_is_directory=True)
    (root / "loop").symlink_to(root, target_is_directory=True)
    (root / "gone.png").symlink_to(tmp_path / "nowhere.png")
    source = FlatFolder(root)
    assert source.names == ["2.png", "gone.png", "linked/1.png"]
    pictures = load(source, 8)
    assert [bad.path for bad in pictures.rejected] == ["gone.png"]
    assert "no such file" in pictures.rejected[0].reason


def test_a_pipe_does_not_hang_the_reading(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    os.mkfifo(tmp_path / "b.png")
    assert FlatFolder(tmp_path).names == ["a.png"]


def test_a_file_that_vanished_is_unreadable(tmp_path: Path) -> None:
    path = picture(tmp_path / "a.png")
    source = FlatFolder(tmp_path)
    path.unlink()
    with pytest.raises(UnreadablePicture, match="no such file"):
        source.open(0)


def refused(call: object, *parts: str) -> None:
    assert callable(call)
    with pytest.raises(InputError) as caught:
        call()
    for part in parts:
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_wrong_folders_say_how_to_mend_it(tmp_path: Path) -> None:
    picture(tmp_path / "labelled" / "loose.png")
    (tmp_path / "empty").mkdir()
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("x")
    (tmp_path / "hollow" / "cats").mkdir(parents=True)
    refused(lambda: ClassFolders(tmp_path / "labeled"), "no such folder", "labelled?")
    refused(lambda: FlatFolder(tmp_path / "zzzqqq"), "no such folder", "check the path")
    refused(lambda: FlatFolder(tmp_path / "labelled" / "loose.png"), "is a file")
    refused(lambda: ClassFolders(tmp_path / "empty"), "empty", "sub-folder")
    refused(lambda: ClassFolders(tmp_path / "labelled"), "no sub-folders", "sub-folder named")
    refused(lambda: ClassFolders(tmp_path / "hollow"), "no pictures")
    refused(lambda: FlatFolder(tmp_path / "empty"), "no pictures")
    refused(lambda: FlatFolder(tmp_path / "texts"), "no pictures", "a.txt")


def test_labelled_pictures_must_be_enough(tmp_path: Path) -> None:
    one = classes(tmp_path / "one", {"cats": 3})
    refused(lambda: labelled_from_folder(one, 8), "only one class (cats)")
    few = classes(tmp_path / "few", {"cats": 3, "dogs": 1, "eels": 0})
    refused(lambda: labelled_from_folder(few, 8), "'dogs' has 1", "'eels' has 0")
    torn = classes(tmp_path / "torn", {"cats": 3, "dogs": 2})
    (torn / "dogs" / "0.png").write_bytes(b"")
    refused(lambda: labelled_from_folder(torn, 8), "'dogs' has 1", "1 unreadable")
    good = labelled_from_folder(classes(tmp_path / "good", {"cats": 2, "dogs": 2}), 8)
    assert good.labels.tolist() == [0, 0, 1, 1]
    check_labelled(good)


def test_separate_folders_pass(tmp_path: Path) -> None:
    labelled = classes(tmp_path / "labelled", {"cats": 2})
    pool = classes(tmp_path / "labelled-not", {"x": 2})  # a name that starts alike is no overlap
    store = classes(tmp_path / "store", {"x": 2})
    (labelled / "cats" / "l.png").symlink_to(store / "x" / "0.png")
    (pool / "l.png").symlink_to(store / "x" / "1.png")  # same place, another file
    check_separate(labelled, pool)


def test_overlapping_folders_are_refused(tmp_path: Path) -> None:
    labelled = classes(tmp_path / "data" / "labelled", {"cats": 2})
    pool = classes(tmp_path / "pool", {"x": 2})
    refused(lambda: check_separate(labelled, labelled), "both are")
    refused(lambda: check_separate(labelled, tmp_path / "data"), "lies inside")
    refused(lambda: check_separate(labelled, labelled / "cats"), "lies inside")
    (tmp_path / "other").symlink_to(labelled, target_is_directory=True)
    refused(lambda: check_separate(labelled, tmp_path / "other"), "both are")
    (pool / "inside").symlink_to(labelled / "cats", target_is_directory=True)
    refused(lambda: check_separate(labelled, pool), "through a link")
    (pool / "inside").unlink()
    check_separate(labelled, pool)
    (labelled / "cats" / "l.png").symlink_to(pool / "x" / "0.png")
    refused(lambda: check_separate(labelled, pool), "through a link")
