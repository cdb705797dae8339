"""Carrying a plan out: copying, linking or moving the files of a pool to where they belong."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ossl.errors import InputError
from ossl.progress import Progress
from ossl.sort.arrange import Step
from ossl.sort.place import NO_LINKS, copy_file, move_file
from ossl.sort.undo import part_file, write_undo_list

How = Literal["copy", "link", "move"]
_DOING = {"copy": "copying", "link": "linking", "move": "moving"}
_DONE = {"copy": "copied", "link": "linked", "move": "moved"}


@dataclass(frozen=True)
class Carried:
    """How many files are at their new place, which had vanished, and what else is to be said."""

    done: int
    gone: list[str]
    notes: list[str]


def carry_out(how: How, steps: Sequence[Step], out: Path, progress: Progress) -> Carried:
    """What was done; an InputError that says how far it came where the machine refuses more."""
    _check_leave(how, steps)
    _check_room(how, steps, out)
    if how == "move":
        write_undo_list(out, steps)
    links = _Links()
    one: Callable[[Path, Path, Path], None] = {
        "copy": copy_file,
        "link": links.make,
        "move": move_file,
    }[how]
    done, gone = 0, []
    task = progress.task(_DOING[how], len(steps), "files")
    for number, step in enumerate(steps):
        destination = out / step.destination
        try:
            one(Path(step.source), destination, part_file(destination, number))
            done += 1
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not os.path.lexists(step.source):
                gone.append(step.source)
            else:
                raise InputError(_stopped(how, step, error, done, len(steps), out)) from error
        task.advance()
    task.finish()
    return Carried(done, gone, links.notes)


class _Links:
    """Symbolic links; hard links or copies on a file system that has none."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._ways = [self._symbolic, self._hard, copy_file]

    def make(self, source: Path, destination: Path, part: Path) -> None:
        """Link a file; FileExistsError when the name is taken."""
        while True:
            try:
                self._ways[0](source, destination, part)
                return
            except OSError as error:
                refused = error.errno in NO_LINKS or getattr(error, "winerror", 0) == 1314
                if len(self._ways) == 1 or not refused:
                    raise
            self._ways.pop(0)
            instead = "hard links" if len(self._ways) == 2 else "copies"
            self.notes = [f"there can be no links there, so {instead} were made instead"]

    def _symbolic(self, source: Path, destination: Path, _: Path) -> None:
        destination.parent.mkdir(parents=True, exist_ok=True)
        destination.symlink_to(source)

    def _hard(self, source: Path, destination: Path, _: Path) -> None:
        destination.parent.mkdir(parents=True, exist_ok=True)
        destination.hardlink_to(source.resolve())


def _check_leave(how: How, steps: Sequence[Step]) -> None:
    """None when files may be taken out of their folders, else an InputError before any is."""
    if how != "move":
        return
    for folder in sorted({str(Path(step.source).parent) for step in steps}):
        if not os.access(folder, os.W_OK | os.X_OK):
            raise InputError(
                f"--move: nothing may be taken out of {folder}; allow writing there, or use --copy "
                "or --link (nothing has been moved)."
            )


def _check_room(how: How, steps: Sequence[Step], out: Path) -> None:
    """None when there is room for what has to be copied, else an InputError before any is."""
    if how == "link":
        return
    there = out.stat().st_dev
    need = 0
    for step in steps:
        about = os.lstat(step.source)
        if how == "copy" or about.st_dev != there:
            need += about.st_size if how == "move" else Path(step.source).stat().st_size
    free = shutil.disk_usage(out).free
    if need > free:
        raise InputError(
            f"--{how}: the pictures take {need / 1e6:,.0f} MB and {out} has {free / 1e6:,.0f} MB "
            "free; make room or choose another folder (every picture is where it was)."
        )


def _stopped(how: How, step: Step, error: OSError, done: int, total: int, out: Path) -> str:
    """How far it came, and what to do."""
    reason = (error.strerror or str(error)).lower()
    if isinstance(error, FileExistsError):
        reason = "there is a file of that name already, and nothing is overwritten"
    mend = "make room" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "mend that"
    back = (
        f"`ossl sort --undo {out}` brings them back, the others are where they were"
        if how == "move"
        else "the pool is as it was"
    )
    return (
        f"{_DONE[how]} {done:,} of {total:,} pictures; {step.source} could not be {_DONE[how]} to "
        f"{out / step.destination}: {reason}; {back}: {mend} and sort to a new folder."
    )
