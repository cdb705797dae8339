"""`ossl evaluate RUN --posthoc` as a person runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ossl.cli import main
from ossl.posthoc.scores import OURS, SCORES, THEIRS
from tests.conftest import FittedRun
from tests.shapes import make_folders

pytest.importorskip("pytorch_ood", reason="the extra `ood` is not installed")


def test_all_scores_are_printed_and_in_the_json(
    fitted: FittedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["evaluate", str(fitted.run), "--truth", str(fitted.truth), "--posthoc", "all"]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["posthoc"]) == list(SCORES)
    assert all(0 <= value <= 1 for value in found["posthoc"].values())
    assert set(found["posthoc_source"].values()) <= {OURS, THEIRS}
    assert main(words) == 0
    shown = capsys.readouterr().out
    for name, value in found["posthoc"].items():
        (line,) = [line for line in shown.splitlines() if line.startswith(f"AUROC of {name} ")]
        assert f"{100 * value:.1f} %" in line


def test_some_scores_of_a_baseline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labelled, pool, truth = make_folders(tmp_path)
    run = tmp_path / "run"
    words = ["--labelled", str(labelled), "--unlabelled", str(pool), "--out", str(run), "--quiet"]
    tiny = ["epochs=2", "epoch_steps=2", "labelled_batch=6", "pool_batch=6", "hidden=16"]
    settings = [word for one in tiny for word in ("--set", f"baseline.{one}")]
    net = ["--backbone", "wrn-28-2", "--image-size", "32"]
    assert main(["fit", "--method", "ssb", *words, *net, *settings]) == 0
    capsys.readouterr()
    words = ["evaluate", str(run), "--truth", str(truth), "--posthoc", "vim,msp", "--json"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["posthoc"]) == ["vim", "msp"]
    assert found["posthoc"]["msp"] == pytest.approx(found["simple_scores"]["max_softmax"])


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (["--posthoc", "vin"], "unknown post-hoc score 'vin': did you mean 'vim'?"),
        (["--posthoc", "all"], "add --truth FILE"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(
    fitted: FittedRun, capsys: pytest.CaptureFixture[str], more: list[str], expected: str
) -> None:
    assert main(["evaluate", str(fitted.run), *more]) == 2
    err = capsys.readouterr().err
    assert expected in err
    assert err.count("ossl: ") == 1


def test_without_the_extra_the_line_names_it(
    fitted: FittedRun, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ossl.posthoc.scores.find_spec", lambda _: None)
    assert main(["evaluate", str(fitted.run), "--posthoc", "msp"]) == 2
    assert "pip install 'ossl[ood]'" in capsys.readouterr().err
