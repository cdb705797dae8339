"""A run's repository: its files, its card, and the way to a hub and back."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from huggingface_hub import ModelCard

from ossl import InputError, OpenPrompt
from ossl.cli import main
from ossl.export.card import model_card
from ossl.export.hub import FILES
from ossl.fit import load_run
from tests.conftest import FittedRun
from tests.export.small_hub import SmallHub, small_hub

NAME = "me/shapes"


def in_another_process(
    words: list[str], home: Path, endpoint: str, token: str = "hf_right"
) -> subprocess.CompletedProcess[str]:
    """Python with these words; the hub's address is read once, when its library is imported."""
    more = {"HF_ENDPOINT": endpoint, "HF_TOKEN": token, "HF_HOME": str(home)}
    more |= {"OMP_NUM_THREADS": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_XET": "1"}
    return subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        env={**os.environ, **more},
        timeout=120,
        check=False,
    )


def test_the_files_of_a_repository(
    fitted: FittedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = tmp_path / "repository"
    assert main(["push", str(fitted.run), NAME, "--to", str(there)]) == 0
    assert "nothing was uploaded" in capsys.readouterr().out
    assert {file.name for file in there.iterdir()} == {*FILES, "README.md"}
    everything = b"".join(file.read_bytes() for file in there.iterdir())
    assert str(fitted.labelled.parent).encode() not in everything
    model = OpenPrompt.from_pretrained(there)
    scores = model.predict(fitted.pool)["outlier_score"]
    assert np.array_equal(scores, OpenPrompt.load(fitted.run).predict(fitted.pool)["outlier_score"])
    assert main(["push", str(fitted.run), NAME, "--to", str(there)]) == 2
    assert "already holds a run" in capsys.readouterr().err


def test_the_card_is_honest(fitted: FittedRun) -> None:
    run = load_run(fitted.run)
    metrics = json.loads((fitted.run / "metrics.json").read_text(encoding="utf-8"))
    card = ModelCard(model_card(run, metrics, NAME))
    about: dict[str, Any] = card.data.to_dict()  # type: ignore[no-untyped-call]
    assert about["library_name"] == "ossl"
    assert "open-set-recognition" in about["tags"]
    assert "license" not in about  # the owner's to choose
    assert "**Not measured.**" in card.text
    assert "circle, cross, square" in card.text
    assert f'OpenPrompt.from_pretrained("{NAME}")' in card.text
    judged = {**metrics, "auroc": 0.9512, "known_accuracy": 0.81, "data": "digits"}
    text = model_card(run, judged, NAME)
    assert "| AUROC of known against outliers | 95.1 % |" in text
    assert "| Accuracy with *outlier* as one more class | - |" in text
    assert "Not measured" not in text
    odd = model_card(run, {}, "me/_a_<b>")
    assert "# \\_a\\_\\<b\\>" in odd


THERE_AND_BACK = """
import os, sys
import ossl

model = ossl.OpenPrompt.from_pretrained("me/shapes")
model.quiet = True
print(*model.predict(sys.argv[1])["outlier_score"].tolist())
for attempt in ("forms", "shapes"):
    os.environ["HF_TOKEN"] = "hf_right" if attempt == "forms" else "hf_wrong"
    try:
        if attempt == "forms":
            ossl.OpenPrompt.from_pretrained("me/forms")
        else:
            model.push("me/shapes")
    except ossl.InputError as error:
        print(error)
"""


@pytest.mark.slow
def test_to_a_hub_and_back(fitted: FittedRun, tmp_path: Path) -> None:
    words = ["-m", "ossl", "push", str(fitted.run), NAME, "--private", "--message", "First"]
    with small_hub() as address:
        sent = in_another_process(words, tmp_path / "one", address)
        assert sent.returncode == 0, sent.stderr
        assert f"the run is at {address}/{NAME}" in sent.stdout
        assert set(SmallHub.repositories[NAME]) >= {*FILES, "README.md"}
        assert SmallHub.private == {NAME}
        back = in_another_process(
            ["-c", THERE_AND_BACK, str(fitted.pool)], tmp_path / "two", address
        )
    assert back.returncode == 0, back.stderr
    scores, missing, refused = back.stdout.splitlines()
    here = OpenPrompt.load(fitted.run).predict(fitted.pool)["outlier_score"]
    assert [float(word) for word in scores.split()] == pytest.approx(here.tolist(), rel=1e-6)
    assert missing == (
        "fetch me/forms: there is no such repository, or it is private: check the name, "
        "or hf auth login."
    )
    assert refused.startswith("push me/shapes: ")
    assert refused.endswith("hf auth login.")


@pytest.mark.slow
def test_a_hub_that_is_not_there(fitted: FittedRun, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and never listening: nobody answers
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        words = ["-m", "ossl", "push", str(fitted.run), NAME]
        done = in_another_process(words, tmp_path, address)
    assert done.returncode == 2
    assert done.stderr == (
        f"ossl: push {NAME}: the hub cannot be reached; check the network, or write the files with "
        "--to DIR.\n"
    )


@pytest.mark.parametrize("name", ["a b", "me/../x", "me/a/b", "/nowhere/here"])
def test_names_that_are_none(name: str, fitted: FittedRun, tmp_path: Path) -> None:
    assert main(["push", str(fitted.run), name, "--to", str(tmp_path / "x")]) == 2
    with pytest.raises(InputError, match="neither a folder here nor a repository's name"):
        OpenPrompt.from_pretrained(name)
