"""Names that hold on every file system and never meet."""

from __future__ import annotations

import os
import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ossl.sort.names import LONGEST, changed, clash_free, folder_names, key

NFC, NFD = (unicodedata.normalize(form, "Möwe") for form in ("NFC", "NFD"))


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("cat", "cat"),
        ("joshua tree", "joshua tree"),
        ("猫", "猫"),
        (".", "_"),
        ("..", "__"),
        ("a.", "a_"),
        ("a. ", "a__"),
        (".hidden", "_.hidden"),
        ("CON", "_CON"),
        ("aux.x", "_aux.x"),
        ("consul", "consul"),
        ("a/b", "a_b"),
        ("what?", "what_"),
        ("tab\there", "tab_here"),
        ("", "_"),
        (NFD, NFC),
        ("bad\udcff", "bad_"),
    ],
)
def test_folder_of_a_class(name: str, folder: str) -> None:
    assert folder_names([name]) == {name: folder}


def test_classes_that_some_file_system_takes_for_one() -> None:
    names = folder_names(["cat", "CAT", "Cat", NFC, NFD + "!", "a?", "a*"])
    assert len({key(folder) for folder in names.values()}) == 7
    assert names["cat"] == "cat"
    assert names["CAT"] == "CAT (2)"
    assert dict(changed(names))["a*"] == "a_ (2)"


def test_a_long_class() -> None:
    names = folder_names(["ä" * 300, "ä" * 300 + "b"])
    assert all(len(os.fsencode(folder)) <= LONGEST + 4 for folder in names.values())
    assert len(set(names.values())) == 2


@given(st.lists(st.text(max_size=30), unique=True, max_size=20))
def test_any_classes(classes: list[str]) -> None:
    folders = folder_names(classes)
    assert list(folders) == classes
    assert len({key(folder) for folder in folders.values()}) == len(classes)
    for folder in folders.values():
        assert folder not in (".", "..")
        assert "/" not in folder
        assert "\0" not in folder
        assert not folder.endswith((".", " "))


def test_paths_that_do_not_clash_stay() -> None:
    paths = ["a/x.jpg", "b/x.jpg", "x.jpg"]
    assert clash_free(paths) == paths


def test_paths_that_clash_get_a_number() -> None:
    assert clash_free(["a/x.jpg", "a/X.JPG", "A/x.jpg"]) == [
        "a/x.jpg",
        "a/X (2).JPG",
        "A/x (3).jpg",
    ]
    assert clash_free([f"{NFC}.png", f"{NFD}.png"]) == [f"{NFC}.png", f"{NFD} (2).png"]
    assert clash_free(["x (2).jpg", "x.jpg", "X.jpg"])[2] == "X (3).jpg"
    long = "n" * 240
    assert len(clash_free([f"{long}.jpg", f"{long}.JPG"])[1]) < 255


def test_a_file_named_as_a_folder() -> None:
    first, second = clash_free(["Cat/x.jpg", "cat"])
    assert first == "Cat/x.jpg"
    assert second == "cat (2)"


@given(st.lists(st.sampled_from(["a", "A", "ä", "Ä", "a\u0308", "b"]), max_size=12))
def test_any_paths(letters: list[str]) -> None:
    paths = [f"{one}/{other}.jpg" for one, other in pairwise(letters)]
    found = clash_free(paths)
    assert len({key(path) for path in found}) == len(paths)
