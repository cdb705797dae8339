"""A baseline in two real processes learns what it learns in one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.shapes import make_folders
from tests.train.runs import journal
from tests.train.test_processes import alone, in_two_processes, run

pytestmark = pytest.mark.slow

TINY = ("epochs=2", "epoch_steps=2", "labelled_batch=8", "pool_batch=8", "learning_rate=0.01")
OWN = {
    "openmatch": ("pseudo_from_epoch=1",),
    "iomatch": ("projection=8", "align=true"),
    "mtc": ("learning_rate=0.001", "outlier_epochs=1", "window=1"),
}
# MTC's classifier mixes pictures within each process, by design: the same up to where it learns
ALIKE_UNTIL = {"mtc": 1}  # epochs


@pytest.mark.parametrize("method", OWN)
def test_two_processes_are_one(method: str, tmp_path: Path) -> None:
    """Of methods that have every side, or remember something of all processes' pictures."""
    labelled, pool, _ = make_folders(tmp_path)
    settings = [word for name in (*TINY, *OWN[method]) for word in ("--set", f"baseline.{name}")]
    words = [
        *("fit", "--method", method, "--labelled", str(labelled), "--unlabelled", str(pool)),
        *("--backbone", "wrn-28-2", "--image-size", "16", "--precision", "fp32"),
        *("--device", "cpu", "--quiet", *settings),
    ]
    for place, how in (("one", alone()), ("two", in_two_processes("-m", "ossl"))):
        done = run([*how, *words, "--out", str(tmp_path / place)])
        assert done.returncode == 0, done.stderr
    for first, second in zip(
        journal(tmp_path / "one", "step", "epoch"),
        journal(tmp_path / "two", "step", "epoch"),
        strict=True,
    ):
        if first["epoch"] > ALIKE_UNTIL.get(method, 99):
            break
        assert first.keys() == second.keys()
        for name, value in first.items():
            if isinstance(value, float):
                assert second[name] == pytest.approx(value, rel=0.02, abs=1e-3), name
            else:
                assert second[name] == value, name
    if method in ALIKE_UNTIL:
        return
    shares = [
        json.loads((tmp_path / place / "metrics.json").read_text())["outlier_share"]
        for place in ("one", "two")
    ]
    assert shares[0] == pytest.approx(shares[1], abs=0.06)  # one picture of the pool's eighteen
