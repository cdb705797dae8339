"""The real command on tiny data: it fills the table, goes on where it was, and says what failed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from ossl.cli import main
from ossl.errors import InputError
from ossl.reproduce.runner import Order, choose_cells, current, stays_frozen
from ossl.reproduce.tables import TABLES, Places
from tests.reproduce import tiny
from tests.test_bad_input import refusal, tree


def words(out: Path, root: Path, *more: str) -> list[str]:
    return ["reproduce", "tiny", "--data-root", str(root), "--out", str(out), *more]


def lines(out: Path) -> list[dict[str, Any]]:
    text = (out / "results.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


@dataclass(frozen=True)
class Filled:
    """A finished table, and what the command said."""

    out: Path
    err: str


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, data_root: Path) -> Iterator[Filled]:
    """The tiny table by the command's code, without what fails; none of the tests writes to it."""
    out = tmp_path_factory.mktemp("filled") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TABLES, "tiny", tiny.TABLE)
        with (out.parent / "err").open("w+") as err:
            patch.setattr(sys, "stderr", err)
            cells = "folders,unseen,scratch,weights"
            assert main(words(out, data_root, "--cells", cells, "--seeds", "0,1")) == 0
            err.seek(0)
            yield Filled(out, err.read())


def test_a_line_for_every_run(filled: Filled, data_root: Path) -> None:
    found = lines(filled.out)
    assert [(line["cell"], line["seed"]) for line in found] == [
        (cell, seed) for cell in ("folders", "unseen", "scratch") for seed in (0, 1)
    ]
    assert {(line["table"], line["profile"]) for line in found} == {("tiny", "desk")}
    assert len({line["run_hash"] for line in found}) == 6
    for line in found:
        run = filled.out / "runs" / line["cell"] / f"seed{line['seed']}"
        written = json.loads((run / "metrics.json").read_text())
        assert {**written, "data": ""} == {**line["metrics"], "data": ""}
        assert str(data_root) not in json.dumps(line)
        assert str(data_root) not in (filled.out / "table.md").read_text()
        assert json.loads((run / "config.json").read_text())["seed"] == line["seed"]
    folders, _, judged, *_ = found
    assert folders["metrics"]["outlier_share_true"] == pytest.approx(6 / 18)
    assert set(folders["metrics"]["simple_scores"]) == {
        *("max_softmax", "energy", "knn", "pool_direction", "relative_mahalanobis")
    }
    assert list(judged["metrics"]["unseen"]) == ["svhn"]
    assert set(judged["metrics"]["unseen_simple_scores"]["svhn"]) == set(
        folders["metrics"]["simple_scores"]
    )
    assert "test" in judged["shortfall"]
    assert judged["metrics"]["preset"] is None


def test_seeds_share_the_forward_passes(filled: Filled) -> None:
    remembered = {
        (line["cell"], line["seed"]): line["features_remembered"] for line in lines(filled.out)
    }
    assert remembered["folders", 0] == 0
    assert remembered["folders", 1] == 12 + 18
    assert remembered["unseen", 1] > remembered["unseen", 0]
    assert remembered["scratch", 0] is None  # nobody else has its encoder
    assert "features remembered" in filled.err
    (shelf,) = (filled.out / "features").iterdir()
    assert shelf.name.startswith("wrn-28-2-32-")


def test_what_it_says_on_the_way(filled: Filled) -> None:
    said = filled.err.splitlines()
    assert any(line.startswith("cell 3 of 4, seed 1: scratch (") for line in said)
    assert any(line.startswith("cell 1 of 4, seed 0 (folders) done: AUROC ") for line in said)
    skipped = [line for line in said if line.startswith("skipped for want of weights: weights;")]
    assert len(skipped) == 1
    assert "--dinov2-weights FILE" in skipped[0]
    assert [line for line in said if line.startswith("scenes is not below")] == [
        line for line in said if "not judged on it" in line
    ]


def test_the_tables_are_there(filled: Filled) -> None:
    page = (filled.out / "table.md").read_text(encoding="utf-8")
    assert "| shapes |" in page
    assert "missed by" in page
    assert "94.1 ± 1.1" in page
    figures = sum(len(cell.figures) for cell in tiny.TABLE.cells)
    assert (filled.out / "table.csv").read_text().count("\n") == 1 + figures


def test_what_is_finished_is_kept(
    filled: Filled, data_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = tree(filled.out)
    cells = ("--cells", "folders,scratch")
    assert main(words(filled.out, data_root, *cells, "--seeds", "1,0")) == 0
    out, err = capsys.readouterr()
    assert f"4 runs are in {filled.out / 'table.md'}" in out
    assert "4 of 4 runs are finished already" in err
    assert tree(filled.out) == before


def test_dry_run_writes_nothing(
    filled: Filled, data_root: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before = tree(filled.out)
    assert main(words(filled.out, data_root, "--dry-run")) == 0
    shown = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert shown["folders"].endswith("seeds 2")
    assert shown["lacking"].endswith("seeds 0, 1, 2")
    assert shown["weights"].endswith("skipped")
    assert "auroc 1, known_accuracy 101" in shown["folders"]
    assert tree(filled.out) == before
    assert main(words(filled.out, data_root, "--dry-run", "--cells", "fold*", "--seeds", "0")) == 0
    assert "finished" in capsys.readouterr().out
    assert main(["reproduce", "tiny", "--dry-run", "--data-root", str(tmp_path)]) == 0
    assert not list(tmp_path.iterdir())


def test_a_cell_that_fails_lets_the_rest_go_on(
    data_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    command = words(out, data_root, "--cells", "lacking,folders", "--seeds", "0")
    said = refusal(command, capsys)
    assert "1 of 2 runs failed (cell 2 of 2, seed 0 (lacking): cifar100 (train): " in said
    assert "the same command tries these again" in said
    assert [line["cell"] for line in lines(out)] == ["folders"]
    assert "| shapes |" in (out / "table.md").read_text()
    # The same command tries what failed, and only that.
    refusal(command, capsys)
    assert len(lines(out)) == 1


def test_a_changed_run_is_made_again(data_root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = words(out, data_root, "--cells", "folders", "--seeds", "0")
    assert main(command) == 0
    changed = replace(tiny.FOLDERS.runs["desk"], precision="fp32")
    cell = replace(tiny.FOLDERS, runs={"desk": changed})
    TABLES["tiny"] = replace(tiny.TABLE, cells=(cell,))
    assert main(command) == 0
    found = lines(out)
    assert len({line["run_hash"] for line in found}) == len(found) == 2
    assert json.loads((out / "runs/folders/seed0/config.json").read_text())["precision"] == "fp32"
    order = Order(TABLES["tiny"], (cell,), (0,), "desk", Places(data_root))
    from ossl.reproduce.results import read_results

    (kept,) = current(order, read_results(out / "results.jsonl")[0])
    assert kept.run_hash == found[1]["run_hash"]


def test_a_run_that_was_stopped_goes_on(
    data_root: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    out = tmp_path / "out"
    command = words(out, data_root, "--cells", "scratch", "--seeds", "0")
    with monkeypatch.context() as patch:
        patch.setattr("ossl.fit.measure", stop)
        assert main(command) == 130
    assert "the same command goes on where it was" in capsys.readouterr().err
    assert not (out / "results.jsonl").exists()
    run = out / "runs/scratch/seed0"
    (run / ".config.json.123.part").write_text("{")  # what a kill leaves
    assert main(command) == 0
    assert "going on from stage1-epoch000001" in capsys.readouterr().err
    assert [line["resumed"] for line in lines(out)] == [True]
    assert not list(run.glob(".*"))


def test_a_run_that_cannot_be_gone_on_with_begins_again(
    data_root: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out"
    command = words(out, data_root, "--cells", "scratch", "--seeds", "0")
    assert main(command) == 0
    (out / "results.jsonl").unlink()
    for file in (out / "runs/scratch/seed0/checkpoints").iterdir():
        file.write_bytes(b"nothing")
    assert main(command) == 0
    assert "it begins again" in capsys.readouterr().err
    assert [line["resumed"] for line in lines(out)] == [False]


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "what"),
    [
        (["defualt", "--out", "o"], "unknown table 'defualt': did you mean 'default'?"),
        (["tiny", "--out", "o", "--cells", "folder"], "did you mean 'folders'?"),
        (["tiny", "--out", "o", "--cells", "x*"], "unknown cell of table tiny 'x*'"),
        (["tiny", "--out", "o", "--seeds", "0,x"], "--seeds 0,x: give whole numbers"),
        (["tiny", "--out", "o", "--seeds", "-1"], "--seeds"),
        (["tiny", "--out", "o", "--seeds", ","], "--seeds ,: give whole numbers"),
        (["tiny", "--out", "o", "--seeds", "4294967296"], "below 2^32"),
        (["tiny", "--out", "o", "--profile", "dsk"], "did you mean 'desk'?"),
        (["tiny", "--out", "o", "--device", "cdua"], "did you mean 'cuda'?"),
        (["tiny", "--out", "o", "--dinov2-weights", "none"], "there is no such file"),
        (["tiny", "--out", "o", "--cells", "weights"], "nothing can be run: skipped for want"),
        (["tiny", "--out", "o", "--sede", "0"], "did you mean --seeds?"),
        (["tiny"], "reproduce needs --out DIR"),
        ([], "reproduce needs TABLE"),
    ],
)
def test_wrong_words(
    more: list[str],
    what: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert what in refusal(["reproduce", *more], capsys)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_holds_something_else(
    filled: Filled, data_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("mine")
    assert "holds other files (file" in refusal(words(tmp_path, data_root), capsys)
    assert "is a file" in refusal(words(tmp_path / "file", data_root), capsys)
    said = refusal(words(filled.out, data_root, "--profile", "full"), capsys)
    assert "holds table 'tiny' under profile 'desk'" in said
    said = refusal(["reproduce", "table1", "--out", str(filled.out)], capsys)
    assert "holds table 'tiny'" in said
    run = filled.out / "runs" / "folders" / "seed0"
    assert "holds other files" in refusal(words(run, data_root), capsys)
    (tmp_path / "reproduce.json").write_text("{")
    assert "cannot be read" in refusal(words(tmp_path, data_root), capsys)
    assert (tmp_path / "file").read_text() == "mine"


def test_one_process_alone(
    data_root: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "without torchrun" in refusal(words(tmp_path / "out", data_root), capsys)
    assert not (tmp_path / "out").exists()


def test_choosing_cells() -> None:
    assert choose_cells(tiny.TABLE, ()) == tiny.TABLE.cells
    chosen = choose_cells(tiny.TABLE, ("unseen", "*s"))  # in the table's order
    assert [cell.name for cell in chosen] == ["folders", "unseen", "weights"]
    with pytest.raises(InputError, match="did you mean 'scratch'"):
        choose_cells(tiny.TABLE, ("scrath",))


def test_only_published_encoders_are_remembered() -> None:
    assert not stays_frozen(tiny.FOLDERS.runs["desk"])  # that has no weights yet
    assert not stays_frozen(tiny.SCRATCH.runs["desk"])
    cells = {cell.name: cell for cell in TABLES["default"].cells}
    assert not stays_frozen(cells["cifar10-100-scratch"].runs["desk"])
    assert stays_frozen(cells["photos-dinov2"].runs["desk"])
    assert not any(stays_frozen(cell.runs["desk"]) for cell in TABLES["table1"].cells)


# --- a process of its own -------------------------------------------------------------------------

START = """
import sys
from ossl.cli import main
from ossl.reproduce.tables import TABLES
from tests.reproduce import tiny
TABLES["tiny"] = tiny.TABLE
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_command_goes_on(data_root: Path, tmp_path: Path, signum: signal.Signals) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-c", START, *words(out, data_root, "--cells", "folders,scratch")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    deadline = time.monotonic() + 120
    results = out / "results.jsonl"
    while not (results.exists() and len(lines(out)) >= 2) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signum)
    _, err = process.communicate(timeout=60)
    assert process.returncode in (130, -signal.SIGKILL), err
    before = results.read_text()
    done = len(before.splitlines())
    assert 2 <= done < 6
    again = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=300, check=False
    )
    assert again.returncode == 0, again.stderr
    assert f"{done} of 6 runs are finished already" in again.stderr
    assert results.read_text().startswith(before)
    assert [(line["cell"], line["seed"]) for line in lines(out)] == [
        (cell, seed) for cell in ("folders", "scratch") for seed in (0, 1, 2)
    ]
    assert not list(out.rglob("*.part"))
