"""The undo list of a move: written whole before the first file moves, and followed back.

OUT/undo.jsonl has a line for every file that is going to be moved:
    {"source": "/pool/a.jpg", "destination": "known/cat/a.jpg", "size": 8123, "link": null}
`destination` is below OUT, so OUT may be moved meanwhile; `link` is the text of a symbolic link.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from ossl.errors import InputError
from ossl.files import write_whole
from ossl.progress import Progress
from ossl.sort.arrange import FOLDERS, Step
from ossl.sort.place import (
    link_target,
    move_file,
    move_link_back,
    same_content,
    sync_folder,
)

UNDO_FILE = "undo.jsonl"
LEFT_FILE = "not_brought_back.csv"


@dataclass(frozen=True)
class Move:
    """A line of the list."""

    source: str
    destination: str
    size: int  # bytes
    link: str | None


@dataclass(frozen=True)
class Undone:
    """How many files were brought back, how many had never left, and which could not be."""

    back: int
    there: int
    left: list[tuple[Move, str]]  # with the reason


def part_file(destination: Path, number: int) -> Path:
    """Where a file on its way between two file systems is written first."""
    return destination.parent / f".ossl-{number}.part"


def write_undo_list(out: Path, steps: Sequence[Step]) -> list[Move]:
    """The moves, after they are on the disk for good."""
    moves = []
    for step in steps:
        about = os.lstat(step.source)
        source = Path(step.source)
        link = str(source.readlink()) if source.is_symlink() else None
        moves.append(Move(step.source, step.destination, about.st_size, link))

    def write(path: Path) -> None:
        with path.open("w", encoding="utf-8", newline="\n") as file:
            # Escaped to ASCII: a name whose bytes are no text comes back as it was.
            file.writelines(json.dumps(asdict(move)) + "\n" for move in moves)
            file.flush()
            os.fsync(file.fileno())

    write_whole(out / UNDO_FILE, write)
    sync_folder(out)
    return moves


def read_undo_list(out: Path) -> list[Move]:
    """The moves in OUT/undo.jsonl."""
    path = out / UNDO_FILE
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError as error:
        raise InputError(
            f"--undo {out}: there is no {UNDO_FILE} in it; name the --out of an `ossl sort --move`."
        ) from error
    except NotADirectoryError as error:
        raise InputError(f"--undo {out} is a file; name the folder that was sorted to.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--undo {out}: {path} cannot be read ({error}); mend it.") from error
    return [_read_line(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]


def undo(out: Path, progress: Progress) -> Undone:
    """What came back, after every file of the list that could be is at its old place.

    It can be stopped, killed and repeated; nothing is overwritten, nothing deleted that is not at
    the other place too.
    """
    moves = read_undo_list(out)
    task = progress.task("bringing back", len(moves), "files")
    back = there = 0
    left: list[tuple[Move, str]] = []
    for number, move in enumerate(moves):
        try:
            if _bring_back(out, move, number):
                back += 1
            else:
                there += 1
        except _Left as reason:
            left.append((move, str(reason)))
        except OSError as error:
            left.append((move, (error.strerror or str(error)).lower()))
        task.advance()
    task.finish()
    for name in FOLDERS:
        _remove_empty(out / name)
    _write_left(out, left)
    return Undone(back, there, left)


class _Left(Exception):  # noqa: N818  it says what becomes of the file
    """A file that cannot be brought back; `str(error)` is the reason."""


def _bring_back(out: Path, move: Move, number: int) -> bool:
    """Whether the file had to be brought back; False when it is at its place already."""
    old, new = Path(move.source), out / move.destination
    for place in (old, new):
        with contextlib.suppress(OSError):
            part_file(place, number).unlink(missing_ok=True)
    # A kill may leave the empty file that took a name.
    for place, other in ((old, new), (new, old)):
        if move.size and _is_empty_file(place) and os.path.lexists(other):
            place.unlink()
    at_old, at_new = os.path.lexists(old), os.path.lexists(new)
    if at_old and at_new:
        if not _is_same(old, new, move):
            raise _Left("another file is at its old place now")
        new.unlink()
        return False
    if at_old:
        return False
    if not at_new:
        raise _Left("it is neither here nor at its old place: was it moved or deleted?")
    if move.link is not None and new.is_symlink():
        move_link_back(new, old, move.link)
    else:
        move_file(new, old, part_file(old, number))
    return True


def _is_same(old: Path, new: Path, move: Move) -> bool:
    if old.is_symlink() or new.is_symlink():
        both = old.is_symlink() and new.is_symlink()
        return both and str(old.readlink()) == move.link and link_target(old) == link_target(new)
    return old.is_file() and new.is_file() and (old.samefile(new) or same_content(old, new))


def _is_empty_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and path.stat().st_size == 0


def _remove_empty(folder: Path) -> None:
    """Remove a folder and those below it as far as nothing is in them."""
    for place, _, _ in os.walk(folder, topdown=False):
        with contextlib.suppress(OSError):
            Path(place).rmdir()


def _write_left(out: Path, left: Sequence[tuple[Move, str]]) -> None:
    """Write what could not be brought back, and why; no such file when all came back."""
    path = out / LEFT_FILE
    if not left:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        return

    def write(temporary: Path) -> None:
        with temporary.open("w", newline="", encoding="utf-8", errors="backslashreplace") as file:
            writer = csv.writer(file)
            writer.writerow(["is_at", "belongs_to", "reason"])
            writer.writerows((str(out / m.destination), m.source, why) for m, why in left)

    write_whole(path, write)


def _read_line(path: Path, number: int, line: str) -> Move:
    try:
        said = json.loads(line)
        move = Move(said["source"], said["destination"], int(said["size"]), said["link"])
        below = PurePosixPath(move.destination)
        wrong = below.is_absolute() or ".." in below.parts or below.parts[0] not in FOLDERS
        if wrong or not Path(move.source).is_absolute():
            raise ValueError("a path that no move has written")
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise InputError(
            f"--undo: line {number} of {path} is not as it was written ({error}); "
            "mend or remove that line."
        ) from error
    return move
