"""`ossl sort` that arranges and undoes, by the real command's code and as a real process."""

from __future__ import annotations

import csv
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ossl.cli import main
from tests.conftest import FittedRun
from tests.shapes import CLASSES, picture
from tests.sort.heap import contents


@pytest.fixture
def pool(fitted: FittedRun, tmp_path: Path) -> Path:
    """A copy of the pool, with a damaged picture and a sub-folder."""
    place = tmp_path / "pool"
    shutil.copytree(fitted.pool, place)
    picture("circle", 900).save(tmp_path / "one.png")
    (place / "süb").mkdir()
    shutil.copy(tmp_path / "one.png", place / "süb" / "one.png")
    (place / "broken.png").write_bytes(b"\x89PNG")
    (place / "notes.txt").write_text("not a picture")
    return place


def words(fitted: FittedRun, pool: Path, out: Path, *more: str) -> list[str]:
    return ["sort", str(fitted.run), "--images", str(pool), "--out", str(out), *more]


def refused(given: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(given) == 2
    said = capsys.readouterr().err.strip()
    assert len(said.splitlines()) == 1
    return said


def test_move_and_undo(
    fitted: FittedRun, pool: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, before = tmp_path / "out", contents(pool)
    assert main(words(fitted, pool, out, "--move", "--unsure", "0.2")) == 0
    said = capsys.readouterr().out
    assert f"ossl sort --undo {out}" in said
    # What cannot be read, or is no picture, stays.
    assert set(contents(pool)) == {"broken.png", "notes.txt"}
    table = pq.read_table(out / "predictions.parquet").to_pylist()
    with (out / "rejected_files.csv").open(newline="") as file:
        rejected = {row["path"] for row in csv.DictReader(file)}
    assert {row["path"] for row in table} | rejected == set(before)
    assert not {row["path"] for row in table} & rejected
    unsure = 0
    for row in table:
        places = {
            "unsure": out / "unsure" / row["path"],
            "side": out / "outliers" / row["path"]
            if row["is_outlier"]
            else out / "known" / row["label"] / row["path"],
        }
        assert [place.exists() for place in places.values()].count(True) == 1
        unsure += places["unsure"].exists()
        if not row["is_outlier"] and row["confidence"] < 0.5:
            assert places["unsure"].exists()
    assert unsure >= round(0.2 * len(table))
    assert main(["sort", "--undo", str(out)]) == 0
    assert f"{len(table)} of {len(table)} files brought back" in capsys.readouterr().out
    assert contents(pool) == before
    assert (out / "predictions.csv").exists()
    assert main(["sort", "--undo", str(out)]) == 0
    assert "nothing to bring back" in capsys.readouterr().out


def test_link_and_copy_leave_the_pool(
    fitted: FittedRun, pool: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(pool)
    for how in ("link", "copy"):
        assert main(words(fitted, pool, tmp_path / how, f"--{how}")) == 0
        assert contents(pool) == before
        files = [f for f in (tmp_path / how).glob("*/**/*.png") if f.is_file()]
        assert len(files) == len(before) - 2
        assert all(file.is_symlink() == (how == "link") for file in files)
    shown = capsys.readouterr().out
    assert "linked" in shown
    assert "copied" in shown
    assert "--undo" not in shown


def test_without_an_option_nothing_is_arranged(
    fitted: FittedRun, pool: Path, tmp_path: Path
) -> None:
    assert main(words(fitted, pool, tmp_path / "out")) == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "predictions.csv",
        "predictions.parquet",
        "rejected_files.csv",
        "report.html",
        "report.json",
    ]


def test_an_undo_that_cannot_do_all(
    fitted: FittedRun, pool: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(words(fitted, pool, out, "--move")) == 0
    (pool / "süb" / "one.png").write_text("another")
    capsys.readouterr()
    assert main(["sort", "--undo", str(out)]) == 2
    said = capsys.readouterr()
    assert "another file is at its old place" in said.err
    assert len(said.err.strip().splitlines()[-1:]) == 1
    with (out / "not_brought_back.csv").open(newline="") as file:
        assert [row["belongs_to"] for row in csv.DictReader(file)] == [
            str(pool / "süb" / "one.png")
        ]


def test_bad_input(
    fitted: FittedRun, pool: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, before = tmp_path / "out", contents(pool)
    cases = [
        (["--copy", "--move"], "--copy and --move exclude each other"),
        (["--unsure", "0.1"], "--unsure goes with"),
        (["--move", "--unsure", "1.5"], "from 0 to 1"),
        (["--undo", str(out)], "stands alone"),
    ]
    for more, text in cases:
        assert text in refused(words(fitted, pool, out, *more), capsys)
    assert "lies inside --images" in refused(words(fitted, pool, pool / "sorted", "--move"), capsys)
    assert "lies inside --images" in refused(words(fitted, pool, pool, "--link"), capsys)
    assert "there is no undo.jsonl" in refused(["sort", "--undo", str(tmp_path)], capsys)
    (out / "known").mkdir(parents=True)
    assert "already holds known/" in refused(words(fitted, pool, out, "--move"), capsys)
    assert contents(pool) == before
    assert contents(out) == {}


@pytest.mark.slow
def test_a_real_command_killed_while_moving(fitted: FittedRun, tmp_path: Path) -> None:
    pool, out = tmp_path / "pool", tmp_path / "out"
    names = [*CLASSES, "stripes"]
    for number in range(1200):
        place = pool / f"d{number % 5}" / f"{number:04d} ü🦭.bmp"
        place.parent.mkdir(parents=True, exist_ok=True)
        picture(names[number % 4], number, 32).save(place)
    before = contents(pool)
    command = [sys.executable, "-m", "ossl", *words(fitted, pool, out, "--move")]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, env=environment, **quiet)  # type: ignore[call-overload]
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if (out / "undo.jsonl").exists() and len(list(pool.glob("d0/*"))) < 200:
            break
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    both = {**contents(pool), **{f"OUT/{k}": v for k, v in contents(out).items()}}
    assert set(before.values()) <= set(both.values())
    done = subprocess.run(
        [sys.executable, "-m", "ossl", "sort", "--undo", str(out)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "brought back" in done.stdout
    assert contents(pool) == before
