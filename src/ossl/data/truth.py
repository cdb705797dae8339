"""What a pool's pictures truly are, from a person's CSV file; for judging alone."""

from __future__ import annotations

import csv
import unicodedata
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ossl.errors import InputError, nearest

COLUMNS = ("file", "label")


def read_truth(
    path: Path, names: Sequence[str], classes: Sequence[str], left_out: Collection[str] = ()
) -> NDArray[np.int64]:
    """The class of each picture in `names`, -1 where the file's label is none of `classes`.

    Every picture needs a row; a row needs a picture, or one of the files `left_out` as unreadable.
    """
    said = _rows(path)
    places = {plain(name): place for place, name in enumerate(names)}
    other = {plain(name) for name in left_out}
    strange = [name for name in said if name not in places and name not in other]
    if strange:
        guess = nearest(strange[0], places)
        hint = f"did you mean {guess!r}?" if guess else f"they are named as in {names[0]!r}."
        raise InputError(
            f"--truth {path}: {len(strange):,} of its files are not in the pool, "
            f"the first is {strange[0]!r}; {hint}"
        )
    silent = [name for name in places if name not in said]
    if silent:
        raise InputError(
            f"--truth {path}: {len(silent):,} of the pool's {len(names):,} pictures have no row, "
            f"the first is {silent[0]!r}; add them."
        )
    number = {plain(name): label for label, name in enumerate(classes)}
    truth = np.asarray([number.get(said[name], -1) for name in places], dtype=np.int64)
    if (truth < 0).all():
        raise InputError(
            f"--truth {path}: none of its labels is a class of the run; "
            f"the classes are {', '.join(classes[:8])}{', …' if len(classes) > 8 else ''}."
        )
    return truth


def _rows(path: Path) -> dict[str, str]:
    """The label of each file, as the CSV file says."""
    said: dict[str, str] = {}
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file, strict=True)
            missing = [name for name in COLUMNS if name not in (rows.fieldnames or ())]
            if missing:
                found = ", ".join(rows.fieldnames or ()) or "nothing"
                raise InputError(
                    f"--truth {path}: there is no column {missing[0]!r} in its first line "
                    f"({found}); it needs the columns file and label."
                )
            for row in rows:
                name, label = plain(row["file"] or ""), plain(row["label"] or "")
                if not name or not label:
                    raise InputError(
                        f"--truth {path}: line {rows.line_num} lacks a file or a label; add it."
                    )
                if said.setdefault(name, label) != label:
                    raise InputError(
                        f"--truth {path}: {name!r} has two labels, {said[name]!r} and {label!r}; "
                        "leave one."
                    )
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"--truth {path} cannot be read: {reason}; give a CSV file.") from error
    return said


def plain(name: str) -> str:
    """A name in one spelling, whichever way a file system or a spreadsheet stores accents."""
    return unicodedata.normalize("NFC", name.strip())
