"""A finished tiny run that many tests look at; none of them writes to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ossl.cli import main
from tests.browser import OpenPage, chromium, opener
from tests.shapes import make_folders, tiny_options


@dataclass(frozen=True)
class FittedRun:
    """A run on folders, and what it was fitted on."""

    run: Path
    labelled: Path
    pool: Path
    truth: Path


@pytest.fixture(scope="session")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> FittedRun:
    """A run fitted by the real command's code, in this process."""
    root = tmp_path_factory.mktemp("fitted")
    labelled, pool, truth = make_folders(root)
    run = root / "run"
    words = ["--labelled", str(labelled), "--unlabelled", str(pool), "--out", str(run), "--quiet"]
    assert main(["fit", *words, *tiny_options()]) == 0
    return FittedRun(run, labelled, pool, truth)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A real Chromium for all tests of pages."""
    with chromium() as running:
        yield running


@pytest.fixture
def open_page(browser: Any) -> Iterator[OpenPage]:
    """Opens a page from disk; the test fails when the page complains or fetches anything."""
    with opener(browser) as open_one:
        yield open_one
