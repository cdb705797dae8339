"""decisions.csv: what a person said, however it was written down."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from ossl.data.corrections import Corrections, read_corrections
from ossl.errors import InputError

NAMES = ["a.png", "sub/b.png", "c.png", "Möwe.png", "e.png", "f.png", "g.png"]
CLASSES = ("cat", "dög", "outlier")


def written(tmp_path: Path, text: str, encoding: str = "utf-8") -> Path:
    path = tmp_path / "decisions.csv"
    path.write_text(text, encoding=encoding)
    return path


def test_as_the_page_writes_it(tmp_path: Path) -> None:
    text = (
        "path,label,is_outlier,seconds\r\na.png,cat,false,1\r\n"
        "sub/b.png,,true,2\r\nc.png,cat,TRUE,3\r\n"
    )
    said = read_corrections(written(tmp_path, text, "utf-8-sig"))
    assert said.said == {"a.png": "cat", "sub/b.png": None, "c.png": None}
    assert said.outliers == 2
    marks = said.marks(NAMES, CLASSES, "x")
    assert marks.rows.tolist() == [0, 1, 2]
    assert marks.labels.tolist() == [0, -1, -1]
    assert marks.known_count == 1


def test_with_decisions(tmp_path: Path) -> None:
    said = read_corrections(written(tmp_path, "decision,path\ndög,a.png\nOutlier,c.png\n"))
    assert said.said == {"a.png": "dög", "c.png": None}


def test_a_name_that_a_spreadsheet_would_run(tmp_path: Path) -> None:
    said = read_corrections(written(tmp_path, "path,label,is_outlier\n./=1.png,cat,false\n"))
    assert said.said == {"=1.png": "cat"}


def test_a_class_that_is_called_outlier(tmp_path: Path) -> None:
    said = read_corrections(written(tmp_path, "path,label,is_outlier\na.png,outlier,false\n"))
    assert said.marks(NAMES, CLASSES, "x").labels.tolist() == [2]


def test_accents_are_one_however_stored(tmp_path: Path) -> None:
    text = unicodedata.normalize("NFD", "path,label,is_outlier\nMöwe.png,dög,false\n")
    marks = read_corrections(written(tmp_path, text)).marks(NAMES, CLASSES, "x")
    assert (marks.rows.tolist(), marks.labels.tolist()) == ([3], [1])


def test_written_and_read_again(tmp_path: Path) -> None:
    said = Corrections({'a "b", c.png': "cat", "d.png": None, "ü\n.png": "outlier"})
    assert read_corrections(written(tmp_path, said.text())) == said


def test_what_was_said_later_counts() -> None:
    first, second = Corrections({"a": "cat", "b": None}), Corrections({"b": "dog"})
    assert second.over(first).said == {"a": "cat", "b": "dog"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "its first line is empty"),
        ("path,label,is_outlier\n", "there is no picture in it"),
        ("file,label\na.png,cat\n", "needs the columns path"),
        ("path,is_outlier\na.png,true\n", "needs the columns path"),
        ("path,label,is_outlier\na.png,,false\n", "names no class and no outlier"),
        ("path,label,is_outlier\na.png,cat,perhaps\n", "write true or false"),
        ("path,label,is_outlier\n,cat,false\n", "line 2 lacks a path"),
        ("path,decision\na.png,cat\na.png,outlier\n", "'a.png' is called cat and outlier"),
        ("path,decision\na.png\n", "names no class"),
        ('path,decision\n"a.png,cat\n', "cannot be read"),
    ],
)
def test_what_cannot_be_understood(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        read_corrections(written(tmp_path, text))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_corrections(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"sub/bb.png": "cat"}, "1 of its files are not in the pool.*did you mean 'sub/b.png'"),
        ({"a.png": "cta"}, "did you mean 'cat'"),
        (dict.fromkeys(NAMES), "7 of the pool's 7 pictures are marked"),
    ],
)
def test_what_does_not_fit_the_run(said: dict[str, str | None], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Corrections(said).marks(NAMES, CLASSES, "decisions.csv")
