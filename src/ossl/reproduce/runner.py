"""Every cell of a table for every seed, one run after another, going on where it was.

OUT/reproduce.json        which table under which profile
OUT/results.jsonl         one line for every finished run
OUT/runs/CELL/seedN/      the runs
OUT/features/             features of frozen encoders, shared by the runs
OUT/table.md, table.csv   written anew after every run
"""

from __future__ import annotations

import fnmatch
import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ossl.config import Device, Profile, RunConfig
from ossl.data.unseen import is_there
from ossl.errors import InputError, unknown_name
from ossl.files import check_writable, make_folder, write_text
from ossl.fit import fit
from ossl.models.backbone import HOUSE_BACKBONES
from ossl.models.memory import FeatureMemory
from ossl.progress import Progress
from ossl.reproduce.render import csv_text, markdown
from ossl.reproduce.results import Result, append_result, read_results, run_hash, version_of
from ossl.reproduce.tables import ACCURACY, AUROC, Cell, Places, Table
from ossl.rundir import RunFolder
from ossl.summary import percent

MARKER = "reproduce.json"
RESULTS = "results.jsonl"


@dataclass(frozen=True)
class Job:
    """One run of a cell."""

    cell: Cell
    seed: int
    config: RunConfig
    unseen: tuple[str, ...]  # the cell's sets that were found
    truth: Path | None

    @property
    def run_hash(self) -> str:
        """What tells a finished run from one that has to be made."""
        return run_hash(self.config, self.unseen, self.truth)


@dataclass(frozen=True)
class Order:
    """What a person asked for."""

    table: Table
    cells: tuple[Cell, ...]
    seeds: tuple[int, ...]
    profile: Profile
    places: Places
    device: Device = "auto"

    def job(self, cell: Cell, seed: int) -> Job | None:
        """The run of a cell; None without its weights."""
        if cell.weights is not None and self.places.find(cell.weights) is None:
            return None
        config = replace(cell.config(self.profile, seed, self.places), device=self.device)
        truth = self.places.root / cell.truth if cell.truth else None
        there = tuple(name for name in cell.unseen if is_there(config.data, name))
        return Job(cell, seed, config, there, truth)

    def jobs(self) -> list[Job]:
        """All runs in their order, cell by cell."""
        made = [self.job(cell, seed) for cell in self.cells for seed in self.seeds]
        return [job for job in made if job is not None]

    def skipped(self) -> list[str]:
        """A line for every file of weights that is not there, with how to get it."""
        lacking: dict[str, list[Cell]] = {}
        for cell in self.cells:
            if cell.weights is not None and self.places.find(cell.weights) is None:
                lacking.setdefault(cell.weights.get, []).append(cell)
        return [
            f"skipped for want of weights: {', '.join(cell.name for cell in cells)}; {get}"
            for get, cells in lacking.items()
        ]

    def lacking(self) -> list[str]:
        """A line for every unseen set that is not there."""
        lines: dict[str, None] = {}
        for cell in self.cells:
            job = self.job(cell, self.seeds[0])
            for name in () if job is None else cell.unseen:
                if job is not None and name not in job.unseen:
                    lines[f"{name} is not below {self.places.root}: not judged on it"] = None
        return list(lines)


def choose_cells(table: Table, patterns: Sequence[str]) -> tuple[Cell, ...]:
    """The table's cells with these names (`*` stands for anything), all of them for none."""
    by_name = {cell.name: cell for cell in table.cells}
    chosen: dict[str, Cell] = {}
    for pattern in patterns:
        names = fnmatch.filter(by_name, pattern)
        if not names:
            raise unknown_name(f"cell of table {table.name}", pattern, by_name)
        chosen |= {name: by_name[name] for name in names}
    return tuple(cell for name, cell in by_name.items() if not patterns or name in chosen)


def reproduce(order: Order, out: Path, progress: Progress) -> str:
    """What was made, in words for people; an InputError at the end when a run failed."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InputError("reproduce makes its runs in one process; start it without torchrun.")
    check_out(out, order)
    jobs = order.jobs()
    for line in (*order.skipped(), *order.lacking()):
        progress.say(line)
    if not jobs:
        raise InputError(f"nothing can be run: {'; '.join(order.skipped())}.")
    make_folder(out)
    write_text(out / MARKER, json.dumps(_about(order)) + "\n")
    failures = []
    with FeatureMemory(out / "features", progress.say) as memory:
        for job, said in _announced(jobs, out, order, progress):
            try:
                result = run(job, out, order, memory, progress)
            except InputError as error:
                failures.append(f"{said}: {error}")
                progress.say(f"{said} failed: {error}")
                continue
            finally:
                memory.flush()
            append_result(out / RESULTS, result)
            write_tables(order, out)
            progress.say(f"{said} done: {in_words(result)}")
    write_tables(order, out)
    if failures:
        raise InputError(
            f"{len(failures)} of {len(jobs)} runs failed ({failures[0].rstrip('.')}); "
            f"the others are in {out / 'table.md'}, and the same command tries these again."
        )
    return f"{len(jobs)} runs are in {out / 'table.md'}"


def run(job: Job, out: Path, order: Order, memory: FeatureMemory, progress: Progress) -> Result:
    """The result of one run, begun again or gone on with where it was interrupted."""
    place = out / "runs" / job.cell.name / f"seed{job.seed}"
    shared = memory if stays_frozen(job.config) else None

    def attempt(resume: bool) -> dict[str, Any]:
        return fit(
            job.config,
            place,
            progress,
            resume=resume,
            overwrite=not resume,
            memory=shared,
            truth=job.truth,
            unseen=job.unseen,
        )

    for left in place.glob(".*.part"):  # of a run that was killed while it wrote
        left.unlink()
    resumed = begun(place, job.config)
    try:
        metrics = attempt(resume=resumed)
    except InputError as error:
        if not resumed:
            raise
        progress.say(f"{place} cannot be gone on with ({error}); it begins again")
        resumed, metrics = False, attempt(resume=False)
    split = RunFolder(place).read_split()
    # Where the data lie is no part of a result that is to be shown to others.
    metrics["data"] = str(metrics["data"]).replace(str(order.places.root), "DATA_ROOT")
    return Result(
        table=order.table.name,
        cell=job.cell.name,
        seed=job.seed,
        profile=order.profile,
        run_hash=job.run_hash,
        ossl=version_of("ossl"),
        torch=version_of("torch"),
        seconds=metrics["seconds"],
        resumed=resumed,
        features_remembered=metrics["features_remembered"],
        shortfall=split.shortfall if split is not None else None,
        metrics=metrics,
    )


def in_words(result: Result) -> str:
    """What a run came to, in a line."""
    auroc, accuracy = (result.metrics[name] for name in (AUROC, ACCURACY))
    some = ", features remembered" if result.features_remembered else ""
    return (
        f"AUROC {percent(auroc)}, known accuracy {percent(accuracy)}, fitted in "
        f"{_clock(result.seconds or 0.0)}{some}"
    )


def begun(place: Path, config: RunConfig) -> bool:
    """Whether a folder holds this very run, finished or not."""
    folder = RunFolder(place)
    try:
        return folder.config_file.exists() and folder.read_config() == config
    except InputError:
        return False


def stays_frozen(config: RunConfig) -> bool:
    """Whether the encoder is the published one throughout, so that other runs share its features.

    One that a run has trained itself nobody else will ask for.
    """
    spec = HOUSE_BACKBONES.get(config.backbone.name)
    pretrained = bool(config.backbone.weights) or spec is None or spec.pretrained
    return pretrained and config.train_encoder != "always"


def write_tables(order: Order, out: Path) -> None:
    """Write `table.md` and `table.csv` from the results so far."""
    results = current(order, read_results(out / RESULTS)[0])
    write_text(out / "table.md", markdown(order.table, order.profile, results))
    write_text(out / "table.csv", csv_text(order.table, results))


def current(order: Order, results: Iterable[Result]) -> list[Result]:
    """The last result of every cell and seed that is of the run as it would be made now.

    Of a cell that cannot be made now, for want of its weights, what there is stands.
    """
    cells = {cell.name: cell for cell in order.table.cells}
    hashes: dict[tuple[str, int], str | None] = {}
    kept: dict[tuple[str, int], Result] = {}
    for result in results:
        key = (result.cell, result.seed)
        if result.cell not in cells:
            continue
        if key not in hashes:
            job = order.job(cells[result.cell], result.seed)
            hashes[key] = job.run_hash if job is not None else None
        if hashes[key] in (None, result.run_hash):
            kept[key] = result
    return list(kept.values())


def check_out(out: Path, order: Order) -> None:
    """Refuse in one line a folder that holds something else; nothing is touched."""
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is a file; name a folder.")
    held = sorted(path.name for path in out.iterdir()) if out.exists() else []
    if held and MARKER not in held:
        raise InputError(
            f"--out {out} holds other files ({held[0]}, …); name a new or empty folder."
        )
    if held:
        try:
            about = json.loads((out / MARKER).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{out / MARKER} cannot be read ({error}); name another.") from error
        if about != _about(order):
            raise InputError(
                f"--out {out} holds table {about.get('table')!r} under profile "
                f"{about.get('profile')!r}; name another folder for {order.table.name!r} under "
                f"{order.profile!r}."
            )
    check_writable(out)


def _about(order: Order) -> dict[str, str]:
    return {"table": order.table.name, "profile": order.profile}


def _announced(
    jobs: Sequence[Job], out: Path, order: Order, progress: Progress
) -> Iterator[tuple[Job, str]]:
    """The runs that are not finished yet, each after a line that says how far things are."""
    results, bad = read_results(out / RESULTS)
    if bad:
        progress.say(f"{out / RESULTS}: {bad} lines are no results and are left alone")
    finished = {(result.cell, result.seed) for result in current(order, results)}
    left = [job for job in jobs if (job.cell.name, job.seed) not in finished]
    if len(left) < len(jobs):
        progress.say(f"{len(jobs) - len(left)} of {len(jobs)} runs are finished already")
    places = {cell.name: number for number, cell in enumerate(order.cells, start=1)}
    started = time.monotonic()
    for done, job in enumerate(left):
        said = f"cell {places[job.cell.name]} of {len(order.cells)}, seed {job.seed}"
        spent = time.monotonic() - started
        rest = f", about {_clock(spent / done * (len(left) - done))} left" if done else ""
        progress.say(f"{said}: {job.cell.name} ({_clock(spent)} so far{rest})")
        yield job, f"{said} ({job.cell.name})"


def _clock(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
