"""`report.html` of a sorted folder, made from the files beside it."""

from __future__ import annotations

import base64
import contextlib
import csv
import json
import os
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from PIL import Image

from ossl.data.pictures import UnreadablePicture, open_bytes
from ossl.data.task import REJECTED_FILE
from ossl.errors import InputError
from ossl.files import write_text
from ossl.html import embedded_json, page
from ossl.methods.base import Method
from ossl.progress import Progress
from ossl.rundir import json_text
from ossl.sort.thumbnails import BUDGET, MIME, MOST, Thumbnails, choose, make, side_for

PAGE_FILE = "report.html"
FACTS_FILE = "report.json"
PREDICTIONS = "predictions.parquet"
TEMPLATE = "sort/page/page.html.jinja"
STYLES = ("sort/page/page.css", "sort/page/cards.css")
SCRIPTS = tuple(
    f"sort/page/{name}.js"
    for name in ("theme", "data", "page", "cards", "boundary", "marks", "browse", "main")
)
LISTED = 1_000  # files left out that the page names
SHARED = 70  # the longest beginning that a name takes from the one before


@dataclass(frozen=True)
class Facts:
    """What `report.json` keeps, so that the page can be made again: where, by what, how sure."""

    run: str
    images: str
    images_at: str  # the same folder as an absolute path; empty when they lie in none
    classes: tuple[str, ...]
    threshold: float  # that the pictures were sorted by
    run_threshold: float  # the run's own
    outlier_share: float | None = None  # of the pool the run learned from, as it estimates
    outlier_share_interval: tuple[float, float] | None = None

    @staticmethod
    def of(
        method: Method, run: Path, classes: Sequence[str], threshold: float, images: Path | str
    ) -> Facts:
        """The facts of pictures that a run's method has sorted; a text names what is no folder."""
        return Facts(
            run=str(run),
            images=str(images),
            images_at=str(images.absolute()) if isinstance(images, Path) else "",
            classes=tuple(classes),
            threshold=threshold,
            run_threshold=method.threshold,
            outlier_share=method.outlier_share,
            outlier_share_interval=method.outlier_share_interval,
        )

    @staticmethod
    def read(out: Path) -> Facts:
        """The facts of a sorted folder; an InputError when they are not there or not whole."""
        path = out / FACTS_FILE
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            known = {field.name for field in fields(Facts)}
            values = {name: value for name, value in values.items() if name in known}
            values["classes"] = tuple(values["classes"])
            if values.get("outlier_share_interval"):
                low, high = values["outlier_share_interval"]
                values["outlier_share_interval"] = (low, high)
            return Facts(**values)
        except FileNotFoundError:
            raise InputError(
                f"{out} has no {FACTS_FILE}, which the page is made from; sort again by "
                "`ossl sort RUN --images DIR --out OUT`."
            ) from None
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise InputError(f"{path} cannot be read ({error}); sort again.") from error


@dataclass(frozen=True)
class Written:
    """What came of writing the page."""

    path: Path
    thumbnails: int
    wanted: int
    missing: int  # pictures that are no longer where they were
    reused: int  # of those, how many keep the thumbnail of the page before


def write_report(
    out: Path,
    facts: Facts | None,
    progress: Progress,
    open_picture: Callable[[str], Image.Image] | None = None,
) -> Written:
    """What was written, after making the page from the predictions in `out`.

    `facts` is None for a folder that was sorted before and keeps its own; `open_picture` opens a
    picture by its name in the table, and looks below the sorted folder when it is not given.
    """
    if facts is None:
        facts = Facts.read(out)
    else:
        write_text(out / FACTS_FILE, json_text(asdict(facts), indent=2) + "\n")
    rows = Rows.read(out, facts.classes)
    look = open_picture or _opener(facts.images_at, out)
    wanted = choose(rows.score, rows.confidence, rows.label, facts.threshold)
    before = earlier_thumbnails(out / PAGE_FILE)
    task = progress.task("making the report page", len(wanted))
    made = make(
        wanted,
        side_for(len(rows.names)),
        lambda index: look(rows.names[index]),
        lambda index: before.get(rows.names[index]),
        task.advance,
    )
    task.finish()
    write_text(out / PAGE_FILE, rendered(out, facts, rows, made))
    return Written(out / PAGE_FILE, len(made.kept), len(wanted), made.unreadable, made.reused)


@dataclass(frozen=True)
class Rows:
    """The predictions as the page holds them, and what was left out."""

    names: list[str]
    label: NDArray[np.uint16]
    confidence: NDArray[np.float32]
    score: NDArray[np.float32]
    rejected: list[tuple[str, str]]

    @staticmethod
    def read(out: Path, classes: Sequence[str]) -> Rows:
        """The rows of a sorted folder's own files."""
        try:
            table = pq.read_table(out / PREDICTIONS)
            place = {name: number for number, name in enumerate(classes)}
            label = [place[name] for name in table["label"].to_pylist()]
            return Rows(
                table["path"].to_pylist(),
                np.asarray(label, dtype=np.uint16),
                table["confidence"].to_numpy().astype(np.float32),
                table["outlier_score"].to_numpy().astype(np.float32),
                read_rejected(out / REJECTED_FILE),
            )
        except (OSError, ValueError, KeyError) as error:
            raise InputError(
                f"{out / PREDICTIONS} cannot be read as predictions ({error}); sort again."
            ) from error


def rendered(out: Path, facts: Facts, rows: Rows, made: Thumbnails) -> str:
    """The text of the page."""
    return page(
        TEMPLATE,
        STYLES,
        SCRIPTS,
        {
            "title": Path(facts.images_at).name or facts.images,
            "images": facts.images,
            "run": facts.run,
            "count": len(rows.names),
            "left_out": len(rows.rejected),
            "data": embedded_json(_data(out, facts, rows)),
            "thumbnails": embedded_json(_pictures(made)),
        },
    )


def _data(out: Path, facts: Facts, rows: Rows) -> dict[str, Any]:
    return {
        "run": facts.run,
        "images": facts.images,
        "sorted": str(out),
        "classes": list(facts.classes),
        "threshold": facts.threshold,
        "runThreshold": facts.run_threshold,
        "share": facts.outlier_share,
        "interval": facts.outlier_share_interval,
        "original": _beside(Path(facts.images_at), out) if facts.images_at else None,
        "folder": bool(facts.images_at),
        "command": {
            "run": shlex.quote(facts.run),
            "images": shlex.quote(facts.images),
            "sorted": shlex.quote(f"{out}-again"),
            "fitted": shlex.quote(f"{facts.run}-corrected"),
        },
        "names": front_coded(rows.names),
        "label": _packed(rows.label, "<u2"),
        "confidence": _packed(rows.confidence, "<f4"),
        "score": _packed(rows.score, "<f4"),
        "rejected": rows.rejected[:LISTED],
        "rejectedCount": len(rows.rejected),
    }


def _pictures(made: Thumbnails) -> dict[str, Any]:
    return {
        "mime": MIME,
        "side": made.side,
        "most": MOST,
        "budget": BUDGET,
        "rows": list(made.kept),
        "pictures": list(made.kept.values()),
    }


def front_coded(names: Sequence[str]) -> list[str]:
    """Each name as one character, for how much of the name before it begins with, and the rest."""
    coded, before = [], ""
    for name in names:
        shared = 0
        # A character beyond 16 bits is two to a browser, so the count stops before one.
        while (
            shared < min(len(name), len(before), SHARED)
            and name[shared] == before[shared] < "\U00010000"
        ):
            shared += 1
        coded.append(chr(ord("0") + shared) + name[shared:])
        before = name
    return coded


def front_decoded(coded: Sequence[str]) -> list[str]:
    """The names that `front_coded` took in."""
    names, before = [], ""
    for text in coded:
        before = before[: ord(text[0]) - ord("0")] + text[1:]
        names.append(before)
    return names


def earlier_thumbnails(path: Path) -> dict[str, str]:
    """The thumbnails by name of the page that is there already; none when it is not one of ours."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return {}
    parts = {
        name: re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', text, re.S)
        for name in ("data", "thumbnails")
    }
    try:
        data, kept = (json.loads(found[1]) for found in parts.values() if found)
        names = front_decoded(data["names"])
        return {names[row]: text for row, text in zip(kept["rows"], kept["pictures"], strict=True)}
    except (ValueError, KeyError, IndexError, TypeError):
        return {}


def read_rejected(path: Path) -> list[tuple[str, str]]:
    """The files that were left out and why; none when the list is not there."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [(row["path"], row["reason"]) for row in csv.DictReader(file)]


def _opener(images: str, out: Path) -> Callable[[str], Image.Image]:
    """Opens a picture where it was sorted, or where a move has arranged it in the sorted folder."""
    known = out / "known"
    classes = sorted(known.iterdir()) if known.is_dir() else []
    places = [Path(images)] if images else []
    places += [place for place in (out / "outliers", out / "unsure", *classes) if place.is_dir()]

    def look(name: str) -> Image.Image:
        for place in places:
            with contextlib.suppress(OSError):
                return open_bytes((place / name).read_bytes())
        raise UnreadablePicture("it is neither where it was nor in the sorted folder")

    return look


def _beside(images: Path, out: Path) -> str | None:
    """The way from the page to the pictures as an address, or None when there is none."""
    try:
        way = os.path.relpath(images, out.absolute())
    except ValueError:  # on another drive
        return None
    return quote(way.replace(os.sep, "/")) + "/"


def _packed(values: NDArray[Any], kind: str) -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode()
