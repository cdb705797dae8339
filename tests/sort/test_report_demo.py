"""The demo ends with a page to look at."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from ossl.cli import main
from tests.browser import OpenPage


@pytest.mark.slow
def test_the_demos_page(
    tmp_path: Path, open_page: OpenPage, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "demo"
    assert main(["demo", "--out", str(out)]) == 0
    place = out / "sorted" / "report.html"
    assert capsys.readouterr().out.splitlines()[-1].endswith(f"open {place}")
    with (out / "predictions.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    page = open_page(place)
    aside = sum(row["is_outlier"] == "true" for row in rows)
    assert page.locator("#aside").inner_text() == f"{aside:,}"
    assert page.locator("#gallery-outlying img:visible").count() > 6
    # Its pictures lie in no folder, so there is no command to give and no file to open.
    assert page.locator("#commands").is_hidden()
    page.locator("#gallery-outlying .card").first.click()
    assert page.locator("#viewer-open").is_hidden()

    assert main(["report", str(out)]) == 0  # the run's own page lies beside it
    page = open_page(out / "report.html")
    assert page.locator(".matrix").count() == 1
    assert main(["report", str(out / "sorted")]) == 0
    assert "can no longer be read in scikit-learn's digits" in capsys.readouterr().out
