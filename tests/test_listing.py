"""`ossl list methods` and README's table are the code's own records."""

from __future__ import annotations

from pathlib import Path

import pytest

from ossl.cli import main
from ossl.listing import METHOD_HEAD, method_rows, methods_markdown
from ossl.methods import METHODS

README = Path(__file__).parent.parent / "README.md"


def test_the_readmes_table_is_the_records() -> None:
    text = README.read_text(encoding="utf-8")
    shown = text.partition("<!-- methods -->\n")[2].partition("\n<!-- /methods -->")[0]
    assert shown == methods_markdown(), "paste what ossl.listing.methods_markdown() gives"


def test_every_method_stands_in_the_list_with_its_paper(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["list", "methods"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name in METHOD_HEAD:
        assert name in lines[0]
    for (name, method), line in zip(METHODS.items(), lines[1:], strict=False):
        assert line.startswith(name)
        assert method.info.paper in line
        assert str(method.info.year) in line


def test_the_counts_are_the_networks() -> None:
    """Wide ResNet 28-2 has 1,466,320 parameters, a classifier of six 6 · 129, K pairs 12 · 128."""
    counts = {row[0]: row[-1] for row in method_rows()}
    assert counts["fixmatch"] == f"{1_466_320 + 6 * 129 + 12 * 128:,}"
    assert set(counts) == set(METHODS)
