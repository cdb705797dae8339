"""The verb `ossl sort`; it reads options, has a folder sorted, and prints what came out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from ossl.config import Device
from ossl.errors import InputError
from ossl.options import DeviceName, Flag, Folder, Real, SortedRun, SortOut, one_of

if TYPE_CHECKING:
    from ossl.fit import Sorted
    from ossl.progress import Progress
    from ossl.sort.carry import Carried, How


def sort(
    run: SortedRun = None,
    images: Folder = None,
    out: Folder = None,
    copy: Flag = False,
    link: Flag = False,
    move: Flag = False,
    unsure: Real = None,
    threshold: Real = None,
    device: DeviceName = None,
    cache: Folder = None,
    undo: SortOut = None,
) -> None:
    """Give every picture of a folder a class, or put it aside as an outlier.

    What is predicted goes to OUT/predictions.csv and .parquet. With --copy, --link or --move the
    pictures are arranged too: OUT/known/CLASS/, OUT/outliers/ and OUT/unsure/, each below its path
    in the pool. Nothing is ever overwritten, and a move can be undone.

    Example: ossl sort RUN --images pool/ --out sorted/

    Example: ossl sort RUN --images pool/ --out sorted/ --link

    Example: ossl sort --undo sorted/

    Args:
        run: A finished run.
        images: A folder of pictures, nested or not.
        out: Where predictions.parquet, predictions.csv and rejected_files.csv go.
        copy: Arrange copies of the pictures in OUT.
        link: Arrange symbolic links to the pictures in OUT.
        move: Move the pictures to OUT, after writing OUT/undo.jsonl.
        unsure: To OUT/unsure go the pictures nearest to the boundary, this part of them all, and
            known ones whose class has less than an even chance; 0 for none. Default: 0.05.
        threshold: The outlier score above which a picture is put aside. Default: the run's own.
        device: Where to compute. Default: auto.
        cache: A folder that remembers a frozen encoder's features, as for ossl fit.
        undo: Bring every picture that was moved to OUT back to its old place; give nothing else.
    """
    if undo is not None:
        others = (run, images, out, copy, link, move, device, cache)
        if any(others) or threshold is not None or unsure is not None:
            raise InputError("--undo OUT stands alone; leave the other options away.")
        _undo(undo)
        return
    if run is None:
        raise InputError("sort needs RUN; see ossl sort --help.")
    if images is None or out is None:
        raise InputError("sort needs --images DIR and --out OUT; see ossl sort --help.")
    how = _how(copy, link, move)
    if unsure is not None and how is None:
        raise InputError("--unsure goes with --copy, --link or --move; add one of them.")
    if unsure is not None and not 0 <= unsure <= 1:
        raise InputError(f"--unsure {unsure}: give a part of the pictures, from 0 to 1.")
    if threshold is not None and threshold != threshold:
        raise InputError("--threshold nan: nothing is above or below it; give a number.")
    where = one_of("device", device or "auto", Device)
    from contextlib import nullcontext

    from ossl.compute import create_accelerator
    from ossl.data.folders import FlatFolder
    from ossl.fit import load_run
    from ossl.models.memory import FeatureMemory
    from ossl.progress import Progress
    from ossl.sort.arrange import UNSURE_SHARE, check_places
    from ossl.sort.predictions import check_folder
    from ossl.summary import arranged_summary, sort_summary

    check_folder(out)
    source = FlatFolder(images)
    if how is not None:
        check_places(source.root, out)
    with Progress() as progress:
        with FeatureMemory(cache, progress.say) if cache else nullcontext() as memory:
            loaded = load_run(run, create_accelerator(cast(Device, where)), memory)
            found = loaded.sort(source, out, threshold, progress)
        if how is None:
            print(sort_summary(found, out))
            return
        share = UNSURE_SHARE if unsure is None else unsure
        numbers, carried, renamed = _arrange(how, found, source.root, out, share, progress)
    print(sort_summary(found, out))
    print(arranged_summary(how, numbers, carried, renamed, out))


def _how(copy: bool, link: bool, move: bool) -> How | None:
    chosen: list[How] = []
    chosen += ["copy"] if copy else []
    chosen += ["link"] if link else []
    chosen += ["move"] if move else []
    if len(chosen) > 1:
        both = " and ".join(f"--{name}" for name in chosen)
        raise InputError(f"{both} exclude each other; give one.")
    return chosen[0] if chosen else None


def _arrange(
    how: How, found: Sorted, root: Path, out: Path, share: float, progress: Progress
) -> tuple[dict[str, int], Carried, list[tuple[str, str]]]:
    """The numbers by folder, what was done, and which classes' folders have another name."""
    from ossl.sort.arrange import Scores, counts, groups, plan
    from ossl.sort.carry import carry_out
    from ossl.sort.names import changed, folder_names

    label = found.table["label"].to_pylist()
    confidence = found.table["confidence"].to_numpy()
    score = found.table["outlier_score"].to_numpy()
    group = groups(Scores(label, confidence, score, found.threshold), share)
    steps = plan(root, found.files, group, label)
    carried = carry_out(how, steps, out, progress)
    return counts(group), carried, list(changed(folder_names(sorted(set(label)))))


def _undo(out: Path) -> None:
    from ossl.progress import Progress
    from ossl.sort.undo import LEFT_FILE, undo
    from ossl.summary import undo_summary

    with Progress() as progress:
        undone = undo(out, progress)
    print(undo_summary(undone))
    if undone.left:
        move, reason = undone.left[0]
        count = len(undone.left)
        what = "1 file" if count == 1 else f"{count:,} files"
        raise InputError(
            f"{what} could not be brought back, the first is {out / move.destination} ({reason}); "
            f"all are in {out / LEFT_FILE}: mend that and give the same command again."
        )
