"""The tiny table under a name of its own, and its data, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from ossl.reproduce.tables import TABLES
from tests.reproduce import tiny


@pytest.fixture(autouse=True)
def tiny_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """`ossl reproduce tiny …` is a command while a test runs."""
    monkeypatch.setitem(TABLES, "tiny", tiny.TABLE)


@pytest.fixture(scope="session")
def data_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of the tiny table; no test writes to it."""
    return tiny.make_data(tmp_path_factory.mktemp("places") / "data")
