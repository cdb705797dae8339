"""`ossl fit --corrections`: a run begun again with what a person said of its pool."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from ossl.cli import main
from ossl.rundir import RunFolder
from tests.conftest import FittedRun
from tests.shapes import CLASSES, make_folders

Rows = list[tuple[str, str, str]]


@dataclass(frozen=True)
class Begun:
    root: Path
    run: Path
    truth: dict[str, str]

    def file(self, rows: Rows, name: str = "decisions.csv") -> Path:
        path = self.root / name
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("path", "label", "is_outlier"), *rows])
        return path

    def rows(self, count: int, start: int = 0) -> Rows:
        """The truth of some pictures, as a person would mark them."""
        found: Rows = []
        for name, label in list(self.truth.items())[start::7][:count]:
            known = label in CLASSES
            found.append((name, label if known else "", str(not known).lower()))
        return found


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Begun:
    """A run of the default recipe on shapes; none of the tests writes to it."""
    root = tmp_path_factory.mktemp("begun")
    labelled, pool, truth = make_folders(root, labelled=6, known=20, junk=40)
    words = ["--labelled", str(labelled), "--unlabelled", str(pool), "--image-size", "64"]
    assert main(["fit", *words, "--out", str(root / "run"), "--quiet"]) == 0
    with truth.open(newline="") as file:
        labels = {row["file"]: row["label"] for row in csv.DictReader(file)}
    return Begun(root, root / "run", labels)


def words(begun: Begun, file: Path, out: Path, *more: str) -> list[str]:
    return ["fit", "--corrections", str(file), "--from", str(begun.run), "--out", str(out), *more]


def test_before_and_after(begun: Begun, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, rows = tmp_path / "new", begun.rows(12)
    truth = ["--truth", str(begun.root / "truth.csv")]
    assert main(words(begun, begun.file(rows), out, *truth)) == 0
    said = capsys.readouterr()
    assert "what your 12 corrections did" in said.out
    for line in ("outliers in the pool", "AUROC, pictures not marked", "called as you did, of 12"):
        assert line in said.out
    known = sum(row[2] == "false" for row in rows)
    assert f"{known} pictures have a class from you and {12 - known} are outliers" in said.err
    # The run keeps what was said, and goes on from there.
    config = RunFolder(out).read_config()
    assert config.data.kind == "folders"
    assert config.data.corrections == str(out / "corrections.csv")
    with (out / "corrections.csv").open(newline="") as file:
        assert sorted(tuple(row.values()) for row in csv.DictReader(file)) == sorted(rows)
    pictures = json.loads((out / "pictures.json").read_text())
    assert pictures["labelled"] == 18 + known
    # Its tensors say how the marks were heeded; later pictures are judged by them too.
    capsys.readouterr()
    assert main(["evaluate", str(out), *truth, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["auroc"] == json.loads((out / "metrics.json").read_text())["auroc"]
    sort = ["sort", str(out), "--images", str(begun.root / "pool"), "--out", str(tmp_path / "s")]
    assert main(sort) == 0


def test_a_second_round_keeps_the_first(
    begun: Begun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = begun.rows(6), begun.rows(5, start=3)
    changed = (first[0][0], "circle", "false")
    assert main(words(begun, begun.file(first), tmp_path / "one", "--quiet")) == 0
    again = ["fit", "--from", str(tmp_path / "one"), "--out", str(tmp_path / "two"), "--quiet"]
    file = begun.file([changed, *second], "second.csv")
    assert main([*again, "--corrections", str(file)]) == 0
    with (tmp_path / "two" / "corrections.csv").open(newline="") as opened:
        kept = {row["path"]: row["label"] for row in csv.DictReader(opened)}
    assert set(kept) == {row[0] for row in (*first, *second)}
    assert kept[changed[0]] == "circle"
    assert "what your 11 corrections did" in capsys.readouterr().out


def test_the_same_again_is_the_same(begun: Begun, tmp_path: Path) -> None:
    file = begun.file(begun.rows(10))
    for name in ("a", "b"):
        assert main(words(begun, file, tmp_path / name, "--quiet")) == 0
    one, other = ((tmp_path / name / "jointspace.safetensors").read_bytes() for name in "ab")
    assert one == other


def test_resuming_reads_what_the_run_keeps(begun: Begun, tmp_path: Path) -> None:
    file = begun.file(begun.rows(10), "mine.csv")
    assert main(words(begun, file, tmp_path / "new", "--quiet")) == 0
    before = (tmp_path / "new" / "jointspace.safetensors").read_bytes()
    file.unlink()
    (tmp_path / "new" / "jointspace.safetensors").unlink()
    assert main(["fit", "--resume", "--out", str(tmp_path / "new"), "--quiet"]) == 0
    assert (tmp_path / "new" / "jointspace.safetensors").read_bytes() == before
    kept = tmp_path / "new" / "corrections.csv"
    kept.write_text(kept.read_text().replace("true", "false").replace(",,", ",cross,"))
    assert main(["fit", "--resume", "--out", str(tmp_path / "new"), "--quiet"]) == 2


def test_bad_input(
    begun: Begun, fitted: FittedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, out = begun.file(begun.rows(3)), tmp_path / "new"
    name = next(iter(begun.truth))

    def refused(*given: str) -> str:
        capsys.readouterr()
        assert main(["fit", *given]) == 2
        own = [line for line in capsys.readouterr().err.splitlines() if line.startswith("ossl: ")]
        assert len(own) == 1
        assert not out.exists()
        return own[0]

    run, new = ["--from", str(begun.run)], ["--out", str(out)]
    corrections = ["--corrections", str(good)]
    assert "needs --from RUN" in refused(*corrections, *new)
    assert "needs --corrections FILE" in refused(*run, *new)
    assert "is the run it begins from" in refused(*corrections, *run, "--out", str(begun.run))
    assert "leave those options away" in refused(*corrections, *run, *new, "--seed", "3")
    assert "not a run" in refused(*corrections, "--from", str(tmp_path), *new)
    for rows, text in (
        ([("none.png", "cross", "false")], "not in the pool"),
        ([(name, "crosss", "false")], "did you mean 'cross'"),
        ([(name, "cross", "false"), (name, "", "true")], "leave one"),
        ([], "there is no picture in it"),
    ):
        file = begun.file(rows, "bad.csv")
        assert text in refused("--corrections", str(file), *run, *new)
    paper = ["--from", str(fitted.run)]
    file = begun.file([("img_013.png", "", "true")], "out.csv")
    assert "only the default recipe" in refused("--corrections", str(file), *paper, *new)


def test_labels_teach_any_recipe(fitted: FittedRun, tmp_path: Path) -> None:
    pool = sorted(path.name for path in fitted.pool.iterdir())
    file = tmp_path / "d.csv"
    file.write_text(f"path,decision\n{pool[0]},circle\n{pool[1]},circle\n")
    words = ["--corrections", str(file), "--from", str(fitted.run), "--quiet"]
    assert main(["fit", *words, "--out", str(tmp_path / "new")]) == 0
    pictures = json.loads((tmp_path / "new" / "pictures.json").read_text())
    assert pictures["labelled"] == 14


def test_a_pool_that_was_moved_away(
    begun: Begun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "again"
    shutil.copytree(begun.root, root)
    config = (root / "run" / "config.json").read_text()
    (root / "run" / "config.json").write_text(config.replace(str(begun.root), str(root)))
    shutil.rmtree(root / "pool")
    words = ["--corrections", str(begun.file(begun.rows(3))), "--from", str(root / "run")]
    assert main(["fit", *words, "--out", str(tmp_path / "new"), "--quiet"]) == 2
    assert "there is no such folder" in capsys.readouterr().err
