"""Who may write to a run's folder, and what it holds."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ossl.config import DigitsData, RunConfig
from ossl.errors import InputError
from ossl.rundir import RunFolder

CONFIG = RunConfig(data=DigitsData())


def test_a_new_folder_is_free(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "a" / "run")
    folder.check()
    assert not folder.path.parent.exists()
    folder.clear()
    folder.check()
    with pytest.raises(InputError, match="holds no run"):
        folder.check(resume=True)


def test_clearing_takes_the_run_alone(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_config(CONFIG)
    folder.write_json("metrics.json", {"auroc": 0.5})
    (folder.checkpoints).mkdir()
    (folder.checkpoints / "stage0-epoch000001.safetensors").write_bytes(b"x")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="already holds a run"):
        folder.check()
    folder.check(resume=True)
    folder.check(overwrite=True)
    folder.clear()
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    with pytest.raises(InputError, match=r"other files \(notes.txt"):
        folder.check()


def test_what_is_written_is_read(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_config(CONFIG)
    assert folder.read_config() == CONFIG
    assert folder.read_split() is None
    assert folder.read_json("metrics.json") is None
    with pytest.raises(InputError, match="not finished"):
        folder.read_model()
    folder.write_model({"w": torch.ones(2)}, {"limit": torch.tensor(1.0)}, ("ä", "b"))
    model, space, classes = folder.read_model()
    assert torch.equal(model["w"], torch.ones(2))
    assert float(space["limit"]) == 1.0
    assert classes == ("ä", "b")
    (tmp_path / "split.json").write_text("{}")
    with pytest.raises(InputError, match=r"split.json cannot be read"):
        folder.read_split()
