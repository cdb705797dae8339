"""The table that `OpenPrompt.predict` gives: a row for each picture that could be read."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ossl.data.pictures import Rejected
from ossl.errors import InputError

SHOWN = 10  # rows of the text and of the notebook's table


@dataclass(frozen=True)
class Row:
    """What is said of one picture."""

    path: str
    label: str  # the most likely known class, also for an outlier
    confidence: float
    outlier_score: float  # higher is more outlying
    is_outlier: bool


class ResultTable:
    """Columns path, label, confidence, outlier_score and is_outlier, a row for each picture.

    `label` is the most likely known class, also for an outlier; a higher outlier score is more
    outlying. `rejected` names the files that could not be read, with the reason for each.
    """

    def __init__(
        self,
        table: pa.Table,
        threshold: float,
        classes: Sequence[str],
        rejected: Sequence[Rejected] = (),
    ) -> None:
        self._table = table
        self.threshold = threshold
        self.classes = tuple(classes)
        self.rejected = tuple(rejected)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __iter__(self) -> Iterator[Row]:
        for batch in self._table.to_batches(max_chunksize=4096):
            for row in batch.to_pylist():
                yield Row(**row)

    def __getitem__(self, column: str) -> NDArray[Any]:
        """One column as an array."""
        if column not in self._table.column_names:
            raise KeyError(f"{column!r}: the columns are {', '.join(self._table.column_names)}")
        values: NDArray[Any] = self._table[column].to_numpy(zero_copy_only=False)
        return values

    @property
    def known(self) -> ResultTable:
        """The pictures that were given a class."""
        return self._where(pc.invert(self._table["is_outlier"]))

    @property
    def outliers(self) -> ResultTable:
        """The pictures that were put aside."""
        return self._where(self._table["is_outlier"])

    def at(self, threshold: float) -> ResultTable:
        """The same pictures, put aside where their outlier score is above another threshold."""
        if threshold != threshold:
            raise InputError("threshold nan: nothing is above or below it; give a number.")
        place = self._table.column_names.index("is_outlier")
        above = pc.greater(self._table["outlier_score"].cast(pa.float64()), float(threshold))
        table = self._table.set_column(place, "is_outlier", above)
        return ResultTable(table, float(threshold), self.classes, self.rejected)

    def counts(self) -> dict[str, int]:
        """How many pictures each class was given, then how many were put aside."""
        found = self.known["label"]
        by_class = {name: int((found == name).sum()) for name in self.classes}
        return by_class | {"outliers": len(self) - len(found)}

    def to_arrow(self) -> pa.Table:
        """The rows as a pyarrow table."""
        return self._table

    def to_pandas(self) -> Any:
        """The rows as a pandas data frame; needs pandas."""
        try:
            return self._table.to_pandas()
        except ModuleNotFoundError as error:
            raise InputError(
                "to_pandas needs pandas, which is not installed: pip install pandas"
            ) from error

    def to_numpy(self) -> NDArray[np.void]:
        """The rows as a structured array, its fields named as the columns."""
        columns = {name: self[name] for name in self._table.column_names}
        kinds = [(name, values.dtype) for name, values in columns.items()]
        rows = np.empty(len(self), dtype=kinds)
        for name, values in columns.items():
            rows[name] = values
        return rows

    def _where(self, mask: Any) -> ResultTable:
        return ResultTable(self._table.filter(mask), self.threshold, self.classes, self.rejected)

    def _summary(self) -> str:
        counts = self.counts()
        aside = counts["outliers"]
        share = f" ({100 * aside / len(self):.1f} %)" if len(self) else ""
        left = f"; {len(self.rejected):,} files could not be read" if self.rejected else ""
        return (
            f"{len(self):,} pictures: {len(self) - aside:,} of a known class, {aside:,} outliers"
            f"{share} with a score above {self.threshold:.4g}{left}"
        )

    def _cells(self) -> list[tuple[str, ...]]:
        return [
            (
                row["path"],
                row["label"],
                f"{100 * row['confidence']:.1f} %",
                f"{row['outlier_score']:.3f}",
                "outlier" if row["is_outlier"] else "known",
            )
            for row in self._table.slice(0, SHOWN).to_pylist()
        ]

    def __repr__(self) -> str:
        head = ("path", "label", "confidence", "outlier score", "")
        rows = [head, *self._cells()]
        widths = [max(len(row[place]) for row in rows) for place in range(len(head))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in (rows if len(self) else [])
        ]
        more = [f"… and {len(self) - SHOWN:,} more"] if len(self) > SHOWN else []
        return "\n".join([self._summary(), *lines, *more])

    def _repr_html_(self) -> str:
        """What a notebook shows: the counts of each class, and the first rows."""

        def table(rows: Sequence[Sequence[str]]) -> str:
            lines = [
                "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row)
                for row, tag in zip(rows, ["th", *["td"] * len(rows)], strict=False)
            ]
            return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"

        counts = [("given", "pictures"), *((k, f"{v:,}") for k, v in self.counts().items())]
        first = [("path", "label", "confidence", "outlier score", ""), *self._cells()]
        more = f"<p>… and {len(self) - SHOWN:,} more</p>" if len(self) > SHOWN else ""
        return f"<p>{html.escape(self._summary())}</p>{table(counts)}{table(first)}{more}"
