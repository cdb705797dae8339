"""The verb `ossl report`; it reads options, calls the library and prints what it says."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from ossl.config import Device
from ossl.errors import InputError
from ossl.options import DeviceName, File, Folder, RunOrSorted, one_of


def report(
    what: RunOrSorted,
    truth: File = None,
    data_root: Folder = None,
    images: Folder = None,
    device: DeviceName = None,
) -> None:
    """Make the page to look at: of a run, or again of a sorted folder.

    A run's page shows how it learned, what its joint space looks like and, where the truth is
    known, what it mistakes for what. A sorted folder's is the page that ossl sort made.

    Example: ossl report RUN

    Example: ossl report RUN --truth truth.csv

    Example: ossl report sorted/

    Args:
        what: A finished run, or a folder that ossl sort has filled.
        truth: What the pool of a run on folders is: a CSV file with the columns file and label.
        data_root: Where a run's data, or its pool, lie now if they were moved.
        images: Where a sorted folder's pictures lie now if they were moved.
        device: Where to compute, for a run. Default: auto.
    """
    where = one_of("device", device or "auto", Device)
    kind = kind_of(what)
    if kind == "sorted":
        for name, value in (("--truth", truth), ("--data-root", data_root), ("--device", device)):
            if value is not None:
                raise InputError(f"{name} is for a run; {what} is a sorted folder.")
        _sorted(what, images)
        return
    if images is not None:
        raise InputError(f"--images is for a sorted folder; {what} is a run.")
    _run(what, truth, data_root, cast(Device, where))


def kind_of(folder: Path) -> str:
    """Whether the folder is a run or a sorted one, by what lies in it; else an InputError."""
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise InputError(f"{folder} {what}; name a run, or a folder that `ossl sort` has filled.")
    if (folder / "config.json").exists():
        return "run"
    if (folder / "predictions.parquet").exists():
        return "sorted"
    raise InputError(
        f"{folder} is neither a run (it has no config.json) nor a sorted folder (it has no "
        "predictions.parquet); name one that `ossl fit` or `ossl sort` has made."
    )


def _sorted(out: Path, images: Path | None) -> None:
    from dataclasses import replace

    from ossl.data.folders import existing_folder
    from ossl.progress import Progress
    from ossl.sort.report import Facts, write_report

    facts = Facts.read(out)
    if images is not None:
        found = existing_folder(images, "--images")
        facts = replace(facts, images=str(images), images_at=str(found.absolute()))
    with Progress() as progress:
        made = write_report(out, facts, progress)
    if made.missing:
        where = facts.images_at or facts.images
        kept = f"{made.reused:,} of them keep" if made.reused else "none of them has"
        print(
            f"{made.missing:,} pictures can no longer be read in {where}; {kept} the thumbnail "
            "of the page before (--images DIR says where they lie now)"
        )
    print(f"open {made.path}")


def _run(run: Path, truth: Path | None, data_root: Path | None, device: Device) -> None:
    from ossl.compute import create_accelerator
    from ossl.progress import Progress
    from ossl.report.run import write_run_report

    with Progress() as progress:
        path, notes = write_run_report(run, create_accelerator(device), progress, truth, data_root)
    for note in notes:
        print(note)
    print(f"open {path}")
