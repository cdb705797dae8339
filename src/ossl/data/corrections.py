"""What a person said of pool pictures: `decisions.csv`, as the report page writes it.

path,label,is_outlier
img_0004.jpg,cat,false
img_0009.jpg,,true

`path` is as in predictions.csv. Or the columns are path and decision, which is a class or the word
outlier. Other columns are left alone.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from ossl.data.truth import plain
from ossl.errors import InputError, nearest, unknown_name
from ossl.jointspace.marks import Marks

OUTLIER = "outlier"
OPTION = "--corrections"
LEFT = 2  # pictures of the pool without a mark, at least
_YES, _NO = {"true", "1", "yes"}, {"false", "0", "no", ""}


@dataclass(frozen=True)
class Corrections:
    """A class by name, or None for an outlier, of each picture by its path in the pool."""

    said: dict[str, str | None]

    @property
    def outliers(self) -> int:
        """How many are outliers."""
        return sum(label is None for label in self.said.values())

    def over(self, earlier: Corrections) -> Corrections:
        """Both; what was said later counts."""
        return Corrections(earlier.said | self.said)

    def text(self) -> str:
        """As a file that `read_corrections` reads."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["path", "label", "is_outlier"])
        for path, label in self.said.items():
            writer.writerow([path, label or "", "true" if label is None else "false"])
        return out.getvalue()

    def marks(self, names: Sequence[str], classes: Sequence[str], where: object) -> Marks:
        """The rows of the pool with their labels, known ones first; an InputError for others."""
        places = {plain(name): place for place, name in enumerate(names)}
        numbers = {plain(name): number for number, name in enumerate(classes)}
        strange = [path for path in self.said if path not in places]
        if strange:
            guess = nearest(strange[0], places)
            hint = f"did you mean {guess!r}?" if guess else f"they are named as in {names[0]!r}."
            raise InputError(
                f"{OPTION} {where}: {len(strange):,} of its files are not in the pool, "
                f"the first is {strange[0]!r}; {hint}"
            )
        for label in self.said.values():
            if label is not None and label not in numbers:
                unknown = unknown_name("class", label, (*numbers, OUTLIER))
                raise InputError(f"{OPTION} {where}: {unknown}")
        if len(names) - len(self.said) < LEFT:
            raise InputError(
                f"{OPTION} {where}: {len(self.said):,} of the pool's {len(names):,} pictures are "
                "marked; leave some that nobody has looked at, the pool is learnt from too."
            )
        found = [(places[p], -1 if c is None else numbers[c]) for p, c in self.said.items()]
        found.sort(key=lambda pair: (pair[1] < 0, pair[0]))
        rows, labels = zip(*found, strict=True)
        return Marks(torch.tensor(rows), torch.tensor(labels))


def read_corrections(path: Path) -> Corrections:
    """What the file says; an InputError where it says nothing, or two things of one picture."""
    said: dict[str, str | None] = {}
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file, strict=True)
            columns = [(name or "").strip() for name in rows.fieldnames or ()]
            rows.fieldnames = columns
            if "path" not in columns or not {"decision", "label"} & set(columns):
                raise InputError(
                    f"{OPTION} {path}: its first line is {', '.join(columns) or 'empty'}; it needs "
                    "the columns path, label and is_outlier, or path and decision, as the report "
                    "page writes them."
                )
            for row in rows:
                # The page writes ./ before a name that a spreadsheet would run as a formula.
                name = plain(row["path"] or "").removeprefix("./")
                label = _label(row, f"{path}: line {rows.line_num}")
                if not name:
                    raise InputError(f"{OPTION} {path}: line {rows.line_num} lacks a path; add it.")
                if said.setdefault(name, label) != label:
                    raise InputError(
                        f"{OPTION} {path}: {name!r} is called {said[name] or OUTLIER} and "
                        f"{label or OUTLIER}; leave one."
                    )
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"{OPTION} {path} cannot be read: {reason}; give a CSV file.") from error
    if not said:
        raise InputError(
            f"{OPTION} {path}: there is no picture in it; mark some on the page first."
        )
    return Corrections(said)


def _label(row: dict[str, str], where: str) -> str | None:
    """The class that a row names, None for an outlier."""
    if "decision" in row and "label" not in row:
        label = plain(row["decision"] or "")
        if label.casefold() == OUTLIER:
            return None
    else:
        label, outlier = plain(row["label"] or ""), plain(row.get("is_outlier") or "").casefold()
        if outlier not in _YES | _NO:
            raise InputError(f"{OPTION} {where}: is_outlier is {outlier!r}; write true or false.")
        if outlier in _YES:
            return None
    if not label:
        raise InputError(f"{OPTION} {where} names no class and no outlier; name one or remove it.")
    return label
