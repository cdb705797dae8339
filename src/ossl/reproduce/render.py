"""What is made of results: a page for people and a table for programs, from the same rows."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ossl.jointspace.simple import SIMPLE_SCORES
from ossl.reproduce.results import Result
from ossl.reproduce.tables import ACCURACY, AUROC, UNSEEN, Cell, Figure, Table

DASH = "–"


@dataclass(frozen=True)
class Entry:
    """One number of a table over its seeds; fractions, None where unknown."""

    row: str
    column: str
    cell: str
    figure: str
    mean: float | None
    std: float | None  # over seeds, n − 1
    seeds: int
    target: float | None
    paper: str | None
    simple: dict[str, float | None]  # the mean of each
    share: float | None  # of outliers in the pool, estimated
    share_true: float | None
    share_errors: tuple[float, ...]  # by seed
    seconds: float | None  # of a fit, every feature worked out
    seconds_remembered: float | None  # of a fit that other runs' features were there for

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None without one, or without a result."""
        return None if self.target is None or self.mean is None else self.mean >= self.target

    @property
    def best(self) -> tuple[str, float] | None:
        """The best simple score and its figure."""
        there = {name: value for name, value in self.simple.items() if value is not None}
        return max(there.items(), key=lambda item: item[1]) if there else None

    @property
    def margin(self) -> float | None:
        """How far above the best simple score."""
        return None if self.best is None or self.mean is None else self.mean - self.best[1]


def entries(table: Table, results: Sequence[Result]) -> list[Entry]:
    """Every figure of every cell, in the table's order, also those without a result yet."""
    by_cell: dict[str, list[Result]] = {}
    for result in results:
        by_cell.setdefault(result.cell, []).append(result)
    found = [
        _entry(cell, figure, by_cell.get(cell.name, []))
        for cell in table.cells
        for figure in cell.figures
    ]
    rows = list(dict.fromkeys([cell.row for cell in table.cells] + [e.row for e in found]))
    return sorted(found, key=lambda entry: rows.index(entry.row))  # stable: cells in order


def _entry(cell: Cell, figure: Figure, results: Sequence[Result]) -> Entry:
    values = [value(result.metrics, figure.metric, cell.unseen) for result in results]
    there = [number for number in values if number is not None]
    simple = {
        name: _mean([simple_value(r.metrics, figure.metric, name, cell.unseen) for r in results])
        for name in SIMPLE_SCORES
    }
    own = figure.metric == AUROC
    timed = [result for result in results if own and not result.resumed]
    return Entry(
        row=figure.row or cell.row,
        column=cell.column,
        cell=cell.name,
        figure=figure.metric,
        mean=_mean(values),
        std=statistics.stdev(there) if len(there) > 1 else None,
        seeds=len(there),
        target=figure.target,
        paper=figure.paper,
        simple=simple,
        share=_mean([r.metrics.get("outlier_share") for r in results]) if own else None,
        share_true=_mean([r.metrics.get("outlier_share_true") for r in results]) if own else None,
        share_errors=tuple(_share_error(r.metrics) for r in results if own and _has_share(r)),
        seconds=_mean([r.seconds for r in timed if not r.features_remembered]),
        seconds_remembered=_mean([r.seconds for r in timed if r.features_remembered]),
    )


def _has_share(result: Result) -> bool:
    names = ("outlier_share", "outlier_share_true")
    return all(result.metrics.get(name) is not None for name in names)


def _share_error(metrics: dict[str, Any]) -> float:
    return abs(float(metrics["outlier_share"]) - float(metrics["outlier_share_true"]))


def value(metrics: dict[str, Any], metric: str, unseen: Sequence[str]) -> float | None:
    """A figure of a run; the mean over unseen sets only when it was judged on all of them."""
    part, _, name = metric.partition(".")
    if part != UNSEEN:
        number = metrics.get(metric)
        return None if number is None else float(number)
    return _unseen(metrics.get(UNSEEN) or {}, name, unseen)


def simple_value(
    metrics: dict[str, Any], metric: str, score: str, unseen: Sequence[str]
) -> float | None:
    """What a simple score reaches where the method reaches `metric`."""
    part, _, name = metric.partition(".")
    if part == UNSEEN:
        by_set = metrics.get("unseen_simple_scores") or {}
        return _unseen({key: scores.get(score) for key, scores in by_set.items()}, name, unseen)
    if metric != AUROC:
        return None
    number = (metrics.get("simple_scores") or {}).get(score)
    return None if number is None else float(number)


def _unseen(found: dict[str, Any], name: str, wanted: Sequence[str]) -> float | None:
    if name != "mean":
        return found.get(name)
    numbers = [found.get(other) for other in wanted]
    return _mean(numbers) if numbers and None not in numbers else None


def _mean(numbers: Sequence[float | None]) -> float | None:
    there = [number for number in numbers if number is not None]
    return math.fsum(there) / len(there) if there else None


# --- the page -------------------------------------------------------------------------------------


def markdown(table: Table, profile: str, results: Sequence[Result]) -> str:
    """`table.md`: the table as a person would print it, then everything behind it."""
    found = entries(table, results)
    lines = [f"# {table.title}", "", _made_by(table, profile, results), ""]
    lines += [*_overview(found), "", *_verdict(found), "", "## Everything", ""]
    lines += _detail(found)
    shortfalls = sorted(
        {f"{r.metrics['data'].rpartition('split ')[2].partition(' ')[0]}: {r.shortfall}"
         for r in results if r.shortfall}
    )  # fmt: skip
    if shortfalls:
        lines += ["", "Data short of what was published:", ""]
        lines += [f"- {line}" for line in shortfalls]
    return "\n".join(lines) + "\n"


def _made_by(table: Table, profile: str, results: Sequence[Result]) -> str:
    made = sorted({f"ossl {r.ossl}, torch {r.torch}" for r in results})
    by = f" by {'; '.join(made)}" if made else ""
    return (
        f"Made by `ossl reproduce {table.name} --profile {profile}`{by}. Percent; mean ± standard "
        "deviation over seeds (n − 1)."
    )


def _overview(found: Sequence[Entry]) -> list[str]:
    """Rows against columns: AUROC / known accuracy, and below them what was aimed at."""
    columns = list(dict.fromkeys(entry.column for entry in found))
    rows: dict[str, dict[str, list[Entry]]] = {}
    for entry in found:
        if not entry.figure.startswith(f"{UNSEEN}.") or entry.target is not None:
            rows.setdefault(entry.row, {}).setdefault(entry.column, []).append(entry)
    body = [
        [row, *(_overview_cell(by_column.get(column, [])) for column in columns)]
        for row, by_column in rows.items()
    ]
    return _table(["AUROC / known accuracy", *columns], body)


def _overview_cell(found: Sequence[Entry]) -> str:
    if all(entry.mean is None for entry in found):
        return DASH
    text = " / ".join(_spread(entry) for entry in found)
    aims = [entry for entry in found if entry.target is not None]
    if aims:
        text += f"<br>target {' / '.join(_percent(entry.target, 1) for entry in aims)}: "
        text += " / ".join(_met(entry) for entry in aims)
    return text


def _verdict(found: Sequence[Entry]) -> list[str]:
    """How many targets are reached, and how the method stands against the best simple score."""
    aims = [entry.met for entry in found if entry.met is not None]
    lines = [f"Targets met: {sum(aims)} of {len(aims)}."] if aims else []
    margins = [(e.margin, e.cell) for e in found if e.figure == AUROC and e.margin is not None]
    if margins:
        least, where = min(margins)
        mean = _percent(math.fsum(margin for margin, _ in margins) / len(margins), 2)
        lines.append(
            f"AUROC above the best simple score: {mean} on average, {_percent(least, 2)} at the "
            f"least ({where})."
        )
    errors = [(error, e.cell) for e in found if e.figure == AUROC for error in e.share_errors]
    if errors:
        most, where = max(errors)
        mean = _percent(math.fsum(error for error, _ in errors) / len(errors), 1)
        lines.append(
            f"Share of outliers off by {mean} points on average, {_percent(most, 1)} at the most "
            f"({where})."
        )
    return lines


def _detail(found: Sequence[Entry]) -> list[str]:
    scores = [name.replace("_", " ") for name in SIMPLE_SCORES]
    head = ["case", "encoder or recipe", "figure", "value", "seeds", "target", "", "paper"]
    head += [
        *scores,
        "best simple",
        "outliers estimated / true",
        "seconds to fit / features remembered",
    ]
    body = [
        [
            entry.row,
            entry.column,
            {AUROC: "AUROC", ACCURACY: "known accuracy"}.get(entry.figure, "AUROC"),
            _spread(entry),
            str(entry.seeds) if entry.seeds else DASH,
            _percent(entry.target, 1),
            _met(entry),
            entry.paper or DASH,
            *(_percent(entry.simple[name], 2) for name in SIMPLE_SCORES),
            f"{_percent(entry.best[1], 2)} {entry.best[0].replace('_', ' ')}"
            if entry.best
            else DASH,
            f"{_percent(entry.share, 1)} / {_percent(entry.share_true, 1)}"
            if entry.share is not None or entry.share_true is not None
            else DASH,
            _seconds(entry),
        ]
        for entry in found
        if entry.seeds
    ]
    return _table(head, body)


def _seconds(entry: Entry) -> str:
    times = (entry.seconds, entry.seconds_remembered)
    if times == (None, None):
        return DASH
    return " / ".join(DASH if time is None else f"{time:,.0f}" for time in times)


def _spread(entry: Entry) -> str:
    if entry.mean is None:
        return DASH
    return _percent(entry.mean, 2) + (
        f" ± {_percent(entry.std, 2)}" if entry.std is not None else ""
    )


def _met(entry: Entry) -> str:
    if entry.met is None or entry.mean is None or entry.target is None:
        return DASH
    return "met" if entry.met else f"missed by {_percent(entry.target - entry.mean, 2)}"


def _percent(fraction: float | None, places: int) -> str:
    return DASH if fraction is None else f"{100 * fraction:.{places}f}"


def _table(head: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    rows = [head, ["---"] * len(head), *body]
    return [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]


def csv_text(table: Table, results: Sequence[Result]) -> str:
    """`table.csv`: the same rows with fractions; nothing where unknown."""
    rows = []
    for entry in entries(table, results):
        values = asdict(entry)
        simple = values.pop("simple")
        best = entry.best or (None, None)
        rows.append(
            {"table": table.name}
            | values
            | {"met": entry.met, **simple, "best_simple": best[0], "best_simple_value": best[1]}
        )
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
