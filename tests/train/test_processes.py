"""The real command in real processes: two that train as one, and one that is killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from ossl.data.protocols import CIFAR10_CLASSES
from ossl.files import read_tensors
from tests.train.runs import journal

pytestmark = pytest.mark.slow

SETTINGS = {
    "labelled_epochs": 2,
    "labelled_steps": 3,
    "pool_epochs": 3,
    "pool_steps": 3,
    "outlier_steps": 2,
    "labelled_batch": 8,
    "pool_batch": 12,
    "learning_rate": 0.005,
}
CLOCK = {"seconds", "images_per_second"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """CIFAR-10 in name and layout: a colour a class, in noise; 105 + 12 pictures of each."""
    root = tmp_path_factory.mktemp("data")
    draw = np.random.default_rng(0)
    colours = draw.integers(40, 216, (10, 3))
    for number, name in enumerate(CIFAR10_CLASSES):
        for part, count in (("train", 105), ("test", 12)):
            folder = root / "cifar10" / part / name
            folder.mkdir(parents=True)
            noise = draw.integers(-40, 41, (count, 32, 32, 3))
            for index, pixels in enumerate((colours[number] + noise).astype(np.uint8)):
                Image.fromarray(pixels).save(folder / f"{index:03}.png", compress_level=1)
    return root


def command(data: Path, out: Path, *more: str) -> list[str]:
    settings = [part for k, v in SETTINGS.items() for part in ("--set", f"schedule.{k}={v}")]
    return [
        *("fit", "--preset", "table1/cifar10-50", "--recipe", "paper", "--data-root", str(data)),
        *("--device", "cpu", "--precision", "fp32"),
        *("--quiet", "--out", str(out)),
        *settings,
        *more,
    ]


def alone() -> list[str]:
    return [sys.executable, "-m", "ossl"]


def in_two_processes(*what: str) -> list[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    where = ("--master_addr", "127.0.0.1", "--master_port", str(port))
    return [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", *where, *what]


def run(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, env=environment(), capture_output=True, text=True, timeout=300)


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "OSSL_TRACEBACK": "1"}


@pytest.fixture(scope="module")
def one(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run in one process."""
    out = tmp_path_factory.mktemp("one") / "run"
    done = run([*alone(), *command(data, out)])
    assert done.returncode == 0, done.stderr
    return out


def metrics(out: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((out / "metrics.json").read_text())
    return {name: value for name, value in values.items() if name not in CLOCK}


def tensors(out: Path) -> dict[str, Tensor]:
    return {
        f"{name}/{key}": value
        for name in ("model", "jointspace")
        for key, value in read_tensors(out / f"{name}.safetensors").items()
    }


def files(out: Path) -> set[str]:
    """What lies in a run's folder; TensorBoard's files are only counted, for their names differ."""
    names = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    boards = {name for name in names if name.startswith("tensorboard")}
    return (names - boards) | {f"{len(boards)} of tensorboard"}


def close(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(close(a[name], b[name]) for name in a)
    if isinstance(a, float):
        return bool(abs(a - b) <= 1e-3)
    return bool(a == b)


def test_two_processes_reach_what_one_does(data: Path, one: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = run([*in_two_processes("-m", "ossl"), *command(data, out)])
    assert done.returncode == 0, done.stderr
    told = journal(out, "distributed")
    assert [(line["processes"], line["local"]) for line in told] == [(2, [])]
    single, double = metrics(one), metrics(out)
    assert single["auroc"] is not None
    assert single["known_accuracy"] is not None
    for name, value in single.items():
        assert close(value, double[name]), (name, value, double[name])
    expected, found = tensors(one), tensors(out)
    assert expected.keys() == found.keys()
    for name, tensor in expected.items():
        if tensor.is_floating_point():
            largest = max(1.0, float(tensor.abs().max())) if tensor.numel() else 1.0
            assert (tensor - found[name]).abs().sum().isfinite(), name
            assert not ((tensor - found[name]).abs() > 5e-4 * largest).any(), name
    # The means over both halves of each batch; what a single picture may tip is left out.
    for mine, yours in zip(journal(out, "step"), journal(one, "step"), strict=True):
        assert mine.keys() == yours.keys()
        for name in mine.keys() & {"labelled_loss", "consistency_loss", "contrast_loss"}:
            assert mine[name] == pytest.approx(yours[name], rel=2e-3, abs=1e-3), (name, mine, yours)
    assert files(out) == files(one)  # one process writes, and writes all


def test_a_batch_that_cannot_be_halved_is_one_line(data: Path, tmp_path: Path) -> None:
    more = ("--set", "schedule.pool_batch=7")
    done = run([*in_two_processes("-m", "ossl"), *command(data, tmp_path / "run", *more)])
    assert done.returncode != 0
    lines = {line for line in done.stderr.splitlines() if line.startswith("ossl:")}
    assert len(lines) == 1, done.stderr
    (line,) = lines
    assert "schedule.pool_batch" in line
    assert "shared evenly by 2 processes" in line
    assert "schedule.pool_batch=6" in line
    assert "Traceback" not in done.stderr.split("ossl:")[0]


def test_killed_and_resumed_is_uninterrupted(data: Path, one: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with subprocess.Popen(
        [*alone(), *command(data, out)], env=environment(), stderr=subprocess.PIPE, text=True
    ) as running:
        for _ in range(6000):
            if second_stage_has_begun(out) or running.poll() is not None:
                break
            time.sleep(0.02)
        running.send_signal(signal.SIGKILL)
        _, said = running.communicate()
    assert running.returncode == -signal.SIGKILL, said
    assert not (out / "model.safetensors").exists()
    killed = journal_text(out)
    done = run([*alone(), "fit", "--resume", "--quiet", "--out", str(out)])
    assert done.returncode == 0, done.stderr
    expected, found = tensors(one), tensors(out)
    assert expected.keys() == found.keys()
    assert [name for name in expected if not torch.equal(expected[name], found[name])] == []
    assert metrics(out) == metrics(one)
    assert journal(out) == journal(one)
    # Stage 1 was not done again, stage 2 was.
    assert journal_text(out)[:5] == killed[:5]
    assert len(killed) > len([line for line in killed if '"stage": "labelled"' in line])


def journal_text(out: Path) -> list[str]:
    return (out / "journal.jsonl").read_text().splitlines()


def second_stage_has_begun(out: Path) -> bool:
    path = out / "journal.jsonl"
    return path.exists() and any(
        '"event": "epoch"' in line and '"stage": "pool"' in line
        for line in path.read_text().splitlines()
    )


def test_two_processes_normalise_as_one() -> None:
    """`tests.train.synced` compares in both processes; it prints what it has compared."""
    done = run(in_two_processes("-m", "tests.train.synced"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("same") == 2  # two processes may write on one line
