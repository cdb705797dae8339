"""The real command in a process of its own: what it prints where, and how it ends."""

from __future__ import annotations

import csv
import json
import os
import pty
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ossl.cli import VERBS, main
from ossl.errors import not_our_fault
from ossl.files import write_tensors
from ossl.models.backbone import create_backbone
from tests.conftest import FittedRun
from tests.shapes import CLASSES, make_cifar10, make_folders, picture, tiny_options

OSSL = [sys.executable, "-m", "ossl"]
KEYS = {
    *("auroc", "known_accuracy", "open_accuracy", "fpr95", "outlier_share", "outlier_share_true"),
    *("threshold", "trainable_parameters", "total_parameters", "seconds", "images_per_second"),
    *("recipe", "preset", "seed", "data"),
}


def ossl(*words: str | Path, **more: object) -> subprocess.CompletedProcess[str]:
    """The finished command, with its output as text."""
    command = [*OSSL, *(str(word) for word in words)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        command, capture_output=True, text=True, env=environment, timeout=120, check=False, **more
    )


def fit_words(root: Path, out: Path, *more: str) -> list[str]:
    words = ["--labelled", f"{root}/labelled", "--unlabelled", f"{root}/pool", "--out", str(out)]
    return ["fit", *words, *tiny_options(*more)]


# --- help -------------------------------------------------------------------------------------


def test_help_is_short_and_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert main([]) == 0
    assert capsys.readouterr().out == shown
    assert all(f"  {name} " in shown for name in VERBS)
    assert max(len(line) for line in shown.splitlines()) <= 90
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("ossl 0.")


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"Example: ossl {verb}" in shown
    assert "None" not in shown
    assert "Args:" not in shown
    assert "(default: )" not in shown


def test_help_imports_no_network() -> None:
    code = (
        "import sys; from ossl.cli import main; main(['fit', '--help']); main(['list', 'presets']);"
        "print([name for name in ('torch', 'timm', 'sklearn', 'PIL') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("topic", ["methods", "backbones", "presets", "data"])
def test_list(topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", topic]) == 0
    shown = capsys.readouterr().out
    expected = {"methods": "openprompt", "backbones": "lite0", "presets": "table1/cifar10-100"}
    assert expected.get(topic, "cifar10") in shown


# --- exit codes -------------------------------------------------------------------------------


def test_a_wrong_word_is_one_line_in_a_process_too() -> None:
    done = ossl("fitt")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "ossl: unknown command 'fitt': did you mean 'fit'?\n"


def test_a_fault_of_ours_is_one_line(
    fitted: FittedRun, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("nobody\nexpected this")

    monkeypatch.setattr("ossl.fit.measure", broken)
    assert main(["evaluate", str(fitted.run)]) == 1
    err = capsys.readouterr().err
    assert "ossl: a fault of ours: ZeroDivisionError: nobody expected this (OSSL_TRACEBACK=1" in err
    monkeypatch.setenv("OSSL_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        main(["evaluate", str(fitted.run)])


def test_what_the_machine_lacks_is_not_our_fault() -> None:
    assert "--image-size" in str(not_our_fault(MemoryError()))
    reason = RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate")
    assert "schedule.pool_batch" in str(not_our_fault(reason))
    assert "make room" in str(not_our_fault(OSError(28, "No space left on device", "x.bin")))
    assert "allow writing" in str(not_our_fault(PermissionError(13, "Permission denied", "x")))
    assert not_our_fault(ValueError("x")) is None


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_output_that_nobody_takes() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*OSSL, "list", "presets"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr.startswith("ossl: cannot write the output: No space left")
    assert len(done.stderr.splitlines()) == 1


# --- sort and evaluate ------------------------------------------------------------------------


def test_evaluate_prints_one_object(fitted: FittedRun, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["evaluate", str(fitted.run), "--json"]) == 0
    out, err = capsys.readouterr()
    plain = json.loads(out)
    assert set(plain) >= KEYS
    assert plain["auroc"] is None
    assert (plain["seed"], plain["recipe"], plain["preset"]) == (0, "paper", None)
    assert err == ""
    words = ["evaluate", str(fitted.run), "--truth", str(fitted.truth)]
    assert main([*words, "--json"]) == 0
    judged = json.loads(capsys.readouterr().out)
    assert judged["outlier_share_true"] == pytest.approx(6 / 18)
    assert 0 <= judged["auroc"] <= 1
    assert judged["images_per_second"] > 0
    assert main(words) == 0
    assert "33.3 % true" in capsys.readouterr().out


def test_evaluate_finds_a_pool_that_was_moved(
    fitted: FittedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, moved = tmp_path / "run", tmp_path / "moved"
    shutil.copytree(fitted.run, run)
    shutil.copytree(fitted.pool, moved)
    config = (run / "config.json").read_text().replace(str(fitted.pool), str(tmp_path / "gone"))
    (run / "config.json").write_text(config)
    words = ["evaluate", str(run), "--json", "--truth", str(fitted.truth)]
    assert main(words) == 2
    err = capsys.readouterr().err
    assert str(tmp_path / "gone") in err
    assert "--data-root DIR" in err
    assert main([*words, "--data-root", str(moved)]) == 0


def test_every_file_is_sorted_or_rejected(
    fitted: FittedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pool, out = tmp_path / "pool", tmp_path / "out"
    (pool / "tiefer" / "日本").mkdir(parents=True)
    for number, name in enumerate(("größe.png", 'tiefer/日本/ё, "x".png', "a.png")):
        picture("cross", number).save(pool / name)
    (pool / "broken.jpg").write_bytes(b"\xff\xd8\xff")
    (pool / "tiefer/notes.txt").write_text("x")
    files = {str(p.relative_to(pool)) for p in pool.rglob("*") if p.is_file()}
    words = ["sort", str(fitted.run), "--images", str(pool), "--out", str(out)]
    assert main(words) == 0
    assert "2 files left out" in capsys.readouterr().out
    with (out / "predictions.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    with (out / "rejected_files.csv").open(newline="", encoding="utf-8") as file:
        rejected = {row["path"]: row["reason"] for row in csv.DictReader(file)}
    assert {row["path"] for row in rows} | set(rejected) == files
    assert len(rows) + len(rejected) == len(files)
    assert rejected["tiefer/notes.txt"] == "not a picture file"
    assert {row["is_outlier"] for row in rows} <= {"true", "false"}
    assert {row["label"] for row in rows} <= set(CLASSES)
    table = pq.read_table(out / "predictions.parquet").to_pylist()
    assert [row["path"] for row in table] == [row["path"] for row in rows]
    assert main(words) == 2
    assert "already holds predictions" in capsys.readouterr().err


def test_the_threshold_moves_the_boundary(fitted: FittedRun, tmp_path: Path) -> None:
    for threshold, aside in (("-1", True), ("1e9", False)):
        out = tmp_path / threshold
        words = ["sort", str(fitted.run), "--images", str(fitted.pool), "--out", str(out)]
        assert main([*words, "--threshold", threshold]) == 0
        rows = pq.read_table(out / "predictions.parquet").to_pylist()
        assert {row["is_outlier"] for row in rows} == {aside}
        assert {row["label"] for row in rows} <= set(CLASSES)


def test_a_cache_spares_the_network(
    fitted: FittedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights, cache = tmp_path / "w.safetensors", tmp_path / "cache"
    write_tensors(weights, create_backbone("wrn-28-2", seed=1).net.state_dict())
    folders = ["--labelled", str(fitted.labelled), "--unlabelled", str(fitted.pool)]
    net = ["--backbone", "wrn-28-2", "--weights", str(weights)]
    written = []
    for name, said in (
        ("plain", ""),
        ("cold", f"0 features remembered, 30 worked out ({cache})"),
        ("warm", f"30 features remembered, 0 worked out ({cache})"),
    ):
        out = tmp_path / name
        more = ["--cache", str(cache)] if said else []
        assert main(["fit", *folders, *net, "--out", str(out), *more]) == 0
        err = capsys.readouterr().err
        assert said in err
        assert ("remembered" in err) == bool(said)
        written.append(json.loads((out / "metrics.json").read_text()))
        spaces = [tmp_path / run / "jointspace.safetensors" for run in ("plain", name)]
        assert spaces[0].read_bytes() == spaces[1].read_bytes()
    assert [metrics["features_remembered"] for metrics in written] == [None, 0, 30]
    assert [metrics["features_computed"] for metrics in written] == [None, 30, 0]

    run, truth = tmp_path / "plain", ["--truth", str(fitted.truth), "--json"]
    assert main(["evaluate", str(run), *truth]) == 0
    timed = json.loads(capsys.readouterr().out)
    assert main(["evaluate", str(run), *truth, "--cache", str(cache)]) == 0
    shown, err = capsys.readouterr()
    assert err == ""
    again = json.loads(shown)
    assert timed["images_per_second"] > 0
    assert again["images_per_second"] is None  # no network was timed
    assert again["auroc"] == timed["auroc"]
    assert len(again["simple_scores"]) == 5
    sort = ["sort", str(run), "--images", str(fitted.pool), "--out"]
    assert main([*sort, str(tmp_path / "a"), "--cache", str(cache)]) == 0
    assert "18 features remembered, 0 worked out" in capsys.readouterr().err
    assert main([*sort, str(tmp_path / "b")]) == 0
    rows = [(tmp_path / name / "predictions.csv").read_text() for name in "ab"]
    assert rows[0] == rows[1]


def test_a_run_whose_prompt_learns_remembers_nothing(
    fitted: FittedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", str(fitted.run), "--cache", str(tmp_path / "cache")]) == 0
    assert "no features remembered" in capsys.readouterr().err
    assert not (tmp_path / "cache").exists()


# --- a benchmark whose data move --------------------------------------------------------------


def test_a_benchmark_whose_data_move(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root, moved, run = tmp_path / "data", tmp_path / "moved", tmp_path / "run"
    make_cifar10(root)
    # An unreadable test picture is left out of the figures, with its truth.
    next((root / "cifar10/test/cat").iterdir()).write_bytes(b"BM nothing")
    words = ["--preset", "table1/cifar10-50", "--data-root", str(root), "--out", str(run)]
    options = [word for word in tiny_options() if word not in ("--recipe", "paper")]
    assert main(["fit", *words, *options]) == 0
    err = capsys.readouterr().err
    assert "pool=" in err
    written = json.loads((run / "metrics.json").read_text())
    assert written["preset"] == "table1/cifar10-50"
    assert written["known_accuracy"] is not None

    (root / "svhn").mkdir()
    for number in range(3):
        picture("cross", number).save(root / "svhn" / f"{number}.png")
    assert main(["evaluate", str(run), "--json", "--unseen", "svhn"]) == 0
    judged = json.loads(capsys.readouterr().out)
    assert list(judged["unseen"]) == ["svhn"]
    assert 0 <= judged["unseen"]["svhn"] <= 1
    assert set(judged["unseen_simple_scores"]["svhn"]) == set(judged["simple_scores"])
    assert {k: judged[k] for k in ("auroc", "threshold")} == {
        k: written[k] for k in ("auroc", "threshold")
    }
    assert main(["evaluate", str(run), "--unseen", "svhn"]) == 0
    assert "AUROC against svhn" in capsys.readouterr().out
    assert main(["evaluate", str(run), "--unseen", "scenes"]) == 2
    assert "scenes (test): " in capsys.readouterr().err

    root.rename(moved)
    evaluate = ["evaluate", str(run), "--json"]
    assert main(evaluate) == 2
    err = capsys.readouterr().err
    assert str(root) in err
    assert "--data-root DIR" in err
    assert main([*evaluate, "--data-root", str(moved)]) == 0
    again = json.loads(capsys.readouterr().out)
    for key in set(again) - {"images_per_second"}:
        assert again[key] == written[key], key

    (moved / "cifar10/train/dog/0.bmp").unlink()
    assert main([*evaluate, "--data-root", str(moved)]) == 2
    assert "not the pictures that the run was split on" in capsys.readouterr().err
    assert main([*evaluate, "--truth", "x.csv"]) == 2
    assert "--truth is for a run on folders" in capsys.readouterr().err


# --- a process of its own ---------------------------------------------------------------------


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with labelled/ and pool/ in it."""
    make_folders(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_fit_then_evaluate(root: Path) -> None:
    run = root / "run"
    fitted = ossl(*fit_words(root, run))
    assert fitted.returncode == 0, fitted.stderr
    assert "outliers in the pool" in fitted.stdout
    assert "learning from the pool: 3/3" in fitted.stderr  # plain lines, as this is no terminal
    assert "\x1b" not in fitted.stderr
    assert "Warning" not in fitted.stderr
    evaluated = ossl("evaluate", run, "--json")
    assert evaluated.returncode == 0, evaluated.stderr
    assert len(evaluated.stdout.splitlines()) == 1
    assert evaluated.stderr == ""
    written = json.loads((run / "metrics.json").read_text())
    assert json.loads(evaluated.stdout)["outlier_share"] == written["outlier_share"]


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGTERM])
def test_a_stopped_fit_says_how_to_go_on(root: Path, signum: signal.Signals) -> None:
    run = root / "run"
    # The end of stage 1 is always kept; stage 2 then lasts until it is stopped.
    words = fit_words(root, run, "--set", "schedule.pool_steps=1000000")
    process = subprocess.Popen(
        [*OSSL, *words], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not list(run.glob("checkpoints/*")) and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(0.3)
    process.send_signal(signum)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    last = f"ossl: stopped; `ossl fit --resume --out {run}` goes on from the last checkpoint."
    assert err.splitlines()[-1] == last
    assert out == ""
    assert not list(run.rglob("*.part"))


def test_stopped_without_a_checkpoint(
    fitted: FittedRun, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)

    monkeypatch.setattr("ossl.fit.measure", stop)
    before = signal.getsignal(signal.SIGTERM)
    assert main(["evaluate", str(fitted.run), "--json"]) == 130
    assert capsys.readouterr().err == "ossl: stopped.\n"
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_file_size_limit_is_one_line(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, hard))
    try:
        code = main(fit_words(root, root / "run"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    _refused_for_room(code, capsys.readouterr().err, root / "run")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of a quarter of a megabyte; only root can have one."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = shutil.which("mount")
    options = ["-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    if mount is None or subprocess.run([mount, *options], capture_output=True).returncode:
        pytest.skip("a small disk cannot be mounted here")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.parametrize("room", [0, 8, 200])
def test_a_full_disk_is_one_line(
    root: Path, small_disk: Path, room: int, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = bytes((252 - room) * 1024)
    (small_disk / "kept").write_bytes(kept)
    code = main(fit_words(root, small_disk / "run"))
    _refused_for_room(code, capsys.readouterr().err, small_disk / "run")
    assert (small_disk / "kept").read_bytes() == kept


def _refused_for_room(code: int, err: str, run: Path) -> None:
    own = [line for line in err.splitlines() if line.startswith("ossl: ")]
    assert code == 2, err
    assert len(own) == 1
    assert own[0].startswith(f"ossl: cannot write {run}")
    assert "Traceback" not in err
    assert not list(run.rglob("*.part"))


@pytest.mark.slow
def test_a_terminal_gets_a_bar(fitted: FittedRun, tmp_path: Path) -> None:
    for number in range(400):
        picture("cross", number).save(tmp_path / f"{number}.bmp")
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "OMP_NUM_THREADS": "1"}
    words = ["sort", str(fitted.run), "--images", str(tmp_path), "--out", str(tmp_path / "out")]
    process = subprocess.Popen(
        [*OSSL, *words], stdout=subprocess.DEVNULL, stderr=theirs, env=environment
    )
    os.close(theirs)
    shown = b""
    while select.select([ours], [], [], 60)[0]:
        try:
            shown += os.read(ours, 65536)
        except OSError:  # the other end has been closed
            break
    os.close(ours)
    assert process.wait(timeout=30) == 0
    text = shown.decode()
    assert "━" in text
    assert "sorting" in text
    assert "pictures/s" in text
    assert "/400" in text
