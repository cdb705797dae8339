"""`ossl sort` writes the page, and `ossl report OUT` writes it again."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from ossl.cli import main
from ossl.sort.report import earlier_thumbnails, front_decoded
from tests.browser import OpenPage
from tests.conftest import FittedRun


@pytest.fixture
def sorted_pool(fitted: FittedRun, tmp_path: Path) -> tuple[Path, Path]:
    """The folder that a real run was sorted into, and a copy of its pictures."""
    pool, out = tmp_path / "pool", tmp_path / "out"
    shutil.copytree(fitted.pool, pool)
    (pool / "broken.jpg").write_bytes(b"\xff\xd8\xff nothing")
    words = ["sort", str(fitted.run), "--images", str(pool), "--out", str(out)]
    assert main([*words, "--threshold", "0.9"]) == 0
    return out, pool


def test_sorting_writes_a_page_that_agrees_with_the_files(
    sorted_pool: tuple[Path, Path], fitted: FittedRun, open_page: OpenPage
) -> None:
    out, _ = sorted_pool
    with (out / "predictions.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    aside = sum(row["is_outlier"] == "true" for row in rows)
    page = open_page(out / "report.html")
    assert page.locator("#aside").inner_text() == str(aside)
    assert page.locator("#kept").inner_text() == str(len(rows) - aside)
    assert page.locator("#rejected td").first.inner_text() == "broken.jpg"
    # The run's own boundary is another one, and a click away.
    page.locator("#reset").click()
    own = json.loads((fitted.run / "metrics.json").read_text())["threshold"]
    scores = np.asarray([row["outlier_score"] for row in rows], dtype=np.float32)
    page.wait_for_timeout(100)
    assert page.locator("#aside").inner_text() == str(int((scores > np.float32(own)).sum()))
    assert len(earlier_thumbnails(out / "report.html")) == len(rows)


def test_the_page_is_made_again_the_same(
    sorted_pool: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    out, _ = sorted_pool
    before = (out / "report.html").read_bytes()
    assert main(["report", str(out)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"open {out / 'report.html'}"
    assert (out / "report.html").read_bytes() == before


def test_pictures_that_are_gone_keep_their_thumbnails(
    sorted_pool: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    out, pool = sorted_pool
    before = earlier_thumbnails(out / "report.html")
    moved = pool.with_name("elsewhere")
    pool.rename(moved)
    assert main(["report", str(out)]) == 0
    said = capsys.readouterr().out
    assert f"{len(before)} pictures can no longer be read in {pool}; {len(before)} of them" in said
    assert earlier_thumbnails(out / "report.html") == before

    (out / "report.html").unlink()  # now there are none to keep
    assert main(["report", str(out)]) == 0
    assert "none of them has the thumbnail of the page before" in capsys.readouterr().out
    assert earlier_thumbnails(out / "report.html") == {}

    assert main(["report", str(out), "--images", str(moved)]) == 0
    assert "no longer" not in capsys.readouterr().out
    assert earlier_thumbnails(out / "report.html") == before
    text = (out / "report.html").read_text(encoding="utf-8")
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])
    assert data["original"] == "../elsewhere/"
    assert set(front_decoded(data["names"])) == set(before)


def test_pictures_that_were_moved_into_the_sorted_folder_are_found_there(
    sorted_pool: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    out, pool = sorted_pool
    before = earlier_thumbnails(out / "report.html")
    for number, name in enumerate(sorted(before)):
        place = out / ("outliers", "unsure", "known/circle", "known/a class")[number % 4] / name
        place.parent.mkdir(parents=True, exist_ok=True)
        (pool / name).rename(place)
    (out / "report.html").unlink()
    assert main(["report", str(out)]) == 0
    assert "no longer" not in capsys.readouterr().out
    assert earlier_thumbnails(out / "report.html") == before


def test_a_folder_with_a_page_in_it_is_not_sorted_into(
    sorted_pool: tuple[Path, Path],
    fitted: FittedRun,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(sorted_pool[0] / "report.html", other)
    words = ["sort", str(fitted.run), "--images", str(fitted.pool), "--out", str(other)]
    assert main(words) == 2
    assert "already holds report.html; name another folder." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (lambda out: (out / "report.json").unlink(), "has no report.json, which the page is made"),
        (lambda out: (out / "report.json").write_text("[]"), "report.json cannot be read"),
        (lambda out: (out / "report.json").write_text("{"), "report.json cannot be read"),
        (
            lambda out: (out / "predictions.parquet").write_text("x"),
            "cannot be read as predictions",
        ),
        (lambda out: (out / "predictions.parquet").unlink(), "is neither a run"),
    ],
)
def test_a_damaged_folder_is_one_line(
    sorted_pool: tuple[Path, Path],
    broken: object,
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out, _ = sorted_pool
    page = (out / "report.html").read_bytes()
    assert callable(broken)
    broken(out)
    capsys.readouterr()
    assert main(["report", str(out)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.startswith("ossl: ")
    assert [line for line in error.splitlines() if line.startswith("ossl")] == [
        error.splitlines()[-1]
    ]
    assert (out / "report.html").read_bytes() == page


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["OUT", "--truth", "truth.csv"], "--truth is for a run"),
        (["OUT", "--data-root", "x"], "--data-root is for a run"),
        (["OUT", "--images", "nowhere"], "there is no such folder"),
        (["RUN", "--images", "x"], "--images is for a sorted folder"),
        (["nowhere"], "does not exist; name a run"),
        (["OUT/report.html"], "is a file; name a run"),
        (["EMPTY"], "is neither a run (it has no config.json) nor a sorted folder"),
        (["RUN", "--device", "gpu"], "gpu"),
        ([], "report needs RUN|OUT"),
    ],
)
def test_wrong_words_are_one_line(
    sorted_pool: tuple[Path, Path],
    fitted: FittedRun,
    tmp_path: Path,
    words: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "empty").mkdir()
    places = {"OUT": sorted_pool[0], "RUN": fitted.run, "EMPTY": tmp_path / "empty"}
    for name, place in places.items():
        words = [word.replace(name, str(place)) for word in words]
    capsys.readouterr()
    assert main(["report", *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1
