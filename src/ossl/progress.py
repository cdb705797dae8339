"""How long work has taken and will take: a bar on a terminal, plain lines anywhere else."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as RichProgress

LINE_EVERY = 15.0  # seconds between plain lines


class Task:
    """One piece of work with a known length."""

    def __init__(self, owner: Progress, name: str, total: int, unit: str) -> None:
        self.owner, self.name, self.total, self.unit = owner, name, total, unit
        self.done = 0
        self.started = self.said = time.monotonic()
        self.note = ""
        self.bar = owner.rich.add_task(name, total=total, note="") if owner.rich else None

    def advance(self, count: int = 1, note: str | None = None) -> None:
        """Say that `count` more are done; the note stays until the next one."""
        self.done += count
        self.note = self.note if note is None else note
        now = time.monotonic()
        rate = self.done / max(now - self.started, 1e-9)
        shown = (
            f"{rate:,.0f} {self.unit}/s  {self.note}"
            if rate >= 10
            else (f"{rate:,.1f} {self.unit}/s  {self.note}")
        )
        if self.bar is not None and self.owner.rich is not None:
            self.owner.rich.update(self.bar, completed=self.done, note=shown)
        elif not self.owner.quiet and (now - self.said >= LINE_EVERY or self.done == self.total):
            self.said = now
            left = (self.total - self.done) / max(rate, 1e-9)
            when = f"in {now - self.started:,.0f} s" if left <= 0 else f"{left:,.0f} s left"
            self.owner.say(f"{self.name}: {self.done:,}/{self.total:,}  {shown}  {when}")

    def finish(self) -> None:
        """Take the bar away; the plain line has been written."""
        if self.bar is not None and self.owner.rich is not None:
            self.owner.rich.remove_task(self.bar)


class Progress:
    """The tasks of one command, on standard error so that results can be piped."""

    def __init__(self, *, quiet: bool = False, stream: TextIO | None = None) -> None:
        self.quiet = quiet
        self.console = Console(file=stream or sys.stderr, highlight=False, soft_wrap=True)
        self.rich: RichProgress | None = None
        if self.console.is_terminal and not quiet:
            self.rich = RichProgress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("<"),
                TimeRemainingColumn(),
                TextColumn("{task.fields[note]}"),
                console=self.console,
            )

    def __enter__(self) -> Progress:
        if self.rich is not None:
            self.rich.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.rich is not None:
            self.rich.stop()

    def task(self, name: str, total: int, unit: str = "pictures") -> Task:
        """A new piece of work."""
        return Task(self, name, total, unit)

    def say(self, text: str) -> None:
        """Write one plain line above the bars."""
        if not self.quiet:
            self.console.print(text, markup=False)
