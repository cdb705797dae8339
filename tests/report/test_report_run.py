"""`ossl report RUN`, by the real command, and its page in a real browser."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ossl.cli import main
from tests.browser import CONTRASTS, UNNAMED, OpenPage
from tests.conftest import FittedRun


@pytest.fixture
def run(fitted: FittedRun, tmp_path: Path) -> Path:
    """A copy of the finished run, to write into."""
    return Path(shutil.copytree(fitted.run, tmp_path / "run"))


def test_a_runs_page(run: Path, open_page: OpenPage, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(run)]) == 0
    assert capsys.readouterr().out == f"open {run / 'report.html'}\n"
    page = open_page(run / "report.html")
    titles = [text.split(" ·")[0] for text in page.locator(".charts figcaption").all_inner_texts()]
    losses = {"labelled loss", "supervised loss", "consistency loss", "contrast loss"}
    assert losses <= set(titles)
    pictures = page.locator(".prompts img")
    assert pictures.count() == 5
    sizes = pictures.evaluate_all("all => all.map((one) => [one.naturalWidth, one.naturalHeight])")
    assert sizes == [[32, 32]] * 5
    assert page.locator("#plane svg .centre").count() == 2
    assert page.locator("#plane svg .boundary").count() == 1
    assert "ossl report" in page.locator("#figures .note").inner_text()
    assert page.locator(".matrix").count() == 0
    for width in (320, 800):
        page.set_viewport_size({"width": width, "height": 700})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_with_truth_it_is_judged_as_evaluate_does(
    run: Path, fitted: FittedRun, open_page: OpenPage, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(run), "--truth", str(fitted.truth)]) == 0
    capsys.readouterr()
    assert main(["evaluate", str(run), "--json", "--truth", str(fitted.truth)]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert open_page(run / "report.html").evaluate(CONTRASTS)[1] == []
    page = open_page(run / "report.html", color_scheme="dark")
    assert page.evaluate(CONTRASTS)[1] == []
    assert page.evaluate(UNNAMED) == []
    shown = dict(
        zip(
            page.locator(".figures th[scope=row]").all_inner_texts(),
            page.locator(".figures .value").all_inner_texts(),
            strict=True,
        )
    )
    assert shown["AUROC, known against outliers"] == f"{100 * figures['auroc']:.1f} %"
    assert shown["balanced open accuracy"] == f"{100 * figures['open_accuracy']:.1f} %"
    cells = page.locator(".matrix tbody td").all_inner_texts()
    assert sum(int(cell) for cell in cells if cell) == 18  # the whole pool
    assert page.locator(".matrix tbody tr").count() == 4
    assert page.locator("#mistakes .bars").count() == 2


def test_without_its_pictures_the_rest_is_shown_and_the_loss_said(
    run: Path, fitted: FittedRun, open_page: OpenPage, capsys: pytest.CaptureFixture[str]
) -> None:
    config = json.loads((run / "config.json").read_text())
    config["data"]["unlabelled"] = str(run / "moved away")
    (run / "config.json").write_text(json.dumps(config))
    assert main(["report", str(run)]) == 0
    said = capsys.readouterr().out
    assert "there is no plane and no matrix" in said
    assert "moved away: there is no such folder" in said
    page = open_page(run / "report.html")
    assert "moved away" in page.locator(".warning").inner_text()
    assert page.locator("#plane").count() == 0
    assert page.locator(".charts figure").count() > 4
    assert page.locator(".prompts img").count() == 3
    # And it says how to mend it.
    assert main(["report", str(run), "--data-root", str(fitted.pool)]) == 0
    assert "no plane" not in capsys.readouterr().out


def test_a_damaged_journal_is_no_reason_to_stop(run: Path) -> None:
    with (run / "journal.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"event": "step", "labelled_lo')
    assert main(["report", str(run)]) == 0
    (run / "journal.jsonl").unlink()
    (run / "metrics.json").unlink()
    assert main(["report", str(run)]) == 0


def test_an_overwritten_run_does_not_keep_the_page(run: Path) -> None:
    from ossl.rundir import RunFolder

    assert main(["report", str(run)]) == 0
    RunFolder(run).clear()
    assert not (run / "report.html").exists()
