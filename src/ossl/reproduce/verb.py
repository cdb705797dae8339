"""The verb `ossl reproduce`; it reads options, calls the runner and prints what it says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ossl.config import Device, Profile
from ossl.errors import InputError, unknown_name
from ossl.options import (
    DeviceName,
    File,
    Flag,
    Folder,
    Names,
    ProfileName,
    Seeds,
    TableName,
    listed,
    one_of,
)

if TYPE_CHECKING:
    from ossl.reproduce.runner import Order


def reproduce(
    table: TableName,
    cells: Names = None,
    seeds: Seeds = None,
    profile: ProfileName = None,
    data_root: Folder = None,
    dinov2_weights: File = None,
    out: Folder = None,
    device: DeviceName = None,
    dry_run: Flag = False,
) -> None:
    """Make all runs of a table, and put their figures beside the paper's.

    Every cell and seed is a run; what they come to stands beside targets and simple scores. What is
    finished is kept: the same command goes on where it was stopped. OUT/table.md is written anew
    after every run, OUT/results.jsonl has a line for each.

    Example: ossl reproduce default --data-root DIR --out OUT

    Example: ossl reproduce default --cells cifar10-50-lite0,photos-* --seeds 0 --out OUT

    Example: ossl reproduce table1 --dry-run

    Args:
        table: default (the default recipe against its targets), table1 (the paper's) or baselines
            (the methods to compare with, on one budget) or shares (pools with 0 to 90 % junk).
        cells: Only these cells; * stands for anything. --dry-run shows them.
        seeds: Chooses the splits and every random start. Default: 0,1,2.
        profile: desk (minutes a run) or full (the paper's sizes). Default: desk.
        data_root: Where the data lie, as for ossl fit. Default: data.
        dinov2_weights: A safetensors file. Default: one in the folder weights beside the data root.
        out: Where runs, results and the table go.
        device: Where to compute. Default: auto.
        dry_run: Show what would be run, and stop.
    """
    from ossl.reproduce.tables import DINOV2, TABLES, Places

    if table not in TABLES:
        raise unknown_name("table", table, TABLES)
    chosen = cast(Profile, one_of("profile", profile or "desk", Profile))
    numbers = seed_numbers("0,1,2" if seeds is None else seeds)
    where = cast(Device, one_of("device", device or "auto", Device))
    if out is None and not dry_run:
        raise InputError("reproduce needs --out DIR, the folder to write to; see its --help.")
    if dinov2_weights is not None and not dinov2_weights.is_file():
        raise InputError(f"{DINOV2.option} {dinov2_weights}: there is no such file.")
    named = {} if dinov2_weights is None else {DINOV2.option: dinov2_weights}
    from ossl.progress import Progress
    from ossl.reproduce.runner import Order, choose_cells
    from ossl.reproduce.runner import reproduce as run

    wanted = choose_cells(TABLES[table], listed(cells or ""))
    order = Order(TABLES[table], wanted, numbers, chosen, Places(data_root, named), where)
    if dry_run:
        print(overview(order, out))
        return
    assert out is not None
    with Progress(quiet=int(os.environ.get("RANK", "0")) > 0) as progress:
        said = run(order, out, progress)
    print(said)


def seed_numbers(text: str) -> tuple[int, ...]:
    """The seeds in `0,1,2`."""
    words = listed(text)
    if not words or not all(word.isascii() and word.isdigit() for word in words):
        raise InputError(f"--seeds {text}: give whole numbers from 0 on, such as 0,1,2.")
    numbers = tuple(dict.fromkeys(int(word) for word in words))
    if max(numbers) >= 2**32:
        raise InputError(f"--seeds {text}: {max(numbers)} is too big; give numbers below 2^32.")
    return numbers


def overview(order: Order, out: Path | None) -> str:
    """What `--dry-run` prints: a line for every cell, with its targets and what is left of it."""
    from ossl.listing import table
    from ossl.reproduce.results import read_results
    from ossl.reproduce.runner import RESULTS, check_out, current

    if out is not None:
        check_out(out, order)
    results = current(order, read_results(out / RESULTS)[0] if out is not None else [])
    done = {(result.cell, result.seed) for result in results}
    rows = []
    for cell in order.cells:
        left = [str(seed) for seed in order.seeds if (cell.name, seed) not in done]
        if cell.weights is not None and order.places.find(cell.weights) is None:
            state = "skipped"
        else:
            state = f"seeds {', '.join(left)}" if left else "finished"
        aims = ", ".join(
            f"{figure.metric} {100 * figure.target:g}"
            for figure in cell.figures
            if figure.target is not None
        )
        rows.append((cell.name, cell.row, cell.column, aims or "-", state))
    head = ("cell", "row", "column", "targets", "to run")
    return "\n".join([table(head, rows), *order.skipped(), *order.lacking()])
