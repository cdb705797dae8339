"""A bar on a terminal, plain lines anywhere else, nothing when quiet."""

from __future__ import annotations

import io

import pytest

from ossl import progress as module
from ossl.progress import Progress


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _work(stream: io.StringIO, *, quiet: bool = False) -> str:
    with Progress(quiet=quiet, stream=stream) as progress:
        progress.say("[red] is no colour")
        task = progress.task("sorting", 20)
        for _ in range(20):
            task.advance(1, "loss 0.5")
        task.finish()
    return stream.getvalue()


def test_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = _work(io.StringIO())
    assert "\x1b" not in shown
    lines = shown.splitlines()
    assert lines[0] == "[red] is no colour"
    assert len(lines) == 2
    assert lines[1].startswith("sorting: 20/20  ")
    assert "pictures/s  loss 0.5  in 0 s" in lines[1]
    monkeypatch.setattr(module, "LINE_EVERY", 0.0)
    often = _work(io.StringIO()).splitlines()
    assert len(often) == 21
    assert often[1].endswith("s left")


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    shown = _work(_Terminal())
    assert "\x1b" in shown
    assert "sorting" in shown
    assert "[red] is no colour" in shown


def test_quiet() -> None:
    assert _work(io.StringIO(), quiet=True) == ""
    assert _work(_Terminal(), quiet=True) == ""
