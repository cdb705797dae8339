"""The verbs of the command line; they read options, call the library and print what it says."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ossl.bench.verb import bench
from ossl.command import run as run_command
from ossl.config import Device, Precision, RunConfig, with_settings, with_value
from ossl.errors import InputError, unknown_name
from ossl.export.verb import export, push
from ossl.options import (
    BudgetName,
    DeviceName,
    File,
    Flag,
    Folder,
    FromRun,
    Json,
    Name,
    Names,
    Number,
    PrecisionName,
    ProfileName,
    Real,
    RecipeName,
    Run,
    RunOut,
    Settings,
    Verb,
    Word,
    listed,
    one_of,
    pairs,
)
from ossl.report.verb import report
from ossl.reproduce.verb import reproduce
from ossl.sort.verb import sort

if TYPE_CHECKING:
    from ossl.data.corrections import Corrections


def demo(out: Folder = None, seed: Number = None, budget: BudgetName = None) -> None:
    """Do the main job on pictures and a backbone that come with the install.

    scikit-learn's digits: 0 to 5 are known, with five labelled pictures each; the other pictures
    are the pool, in which 6 to 9 are the outliers.

    Example: ossl demo --out my-demo

    Args:
        out: Where the run and its predictions go; an earlier demo there is replaced.
            Default: ossl-demo.
        seed: Chooses the labelled pictures and every random start. Default: 0.
        budget: As for ossl fit: fast, balanced or best. Default: fast.
    """
    from ossl.budgets import with_budget
    from ossl.config import DigitsData
    from ossl.fit import fit as run_fit
    from ossl.presets import demo_config
    from ossl.rundir import RunFolder
    from ossl.summary import demo_summary

    config = with_value(with_budget(demo_config(), budget), "seed", seed or 0, "--seed")
    folder = RunFolder(out or Path("ossl-demo"))
    again = folder.config_file.exists() and isinstance(folder.read_config().data, DigitsData)
    with _progress() as progress:
        metrics = run_fit(config, folder.path, progress, overwrite=again)
    print(demo_summary(metrics, folder.path))


def fit(
    out: RunOut = None,
    labelled: Folder = None,
    unlabelled: Folder = None,
    preset: Name = None,
    profile: ProfileName = None,
    data_root: Folder = None,
    method: Name = None,
    recipe: RecipeName = None,
    budget: BudgetName = None,
    backbone: Name = None,
    weights: File = None,
    image_size: Number = None,
    seed: Number = None,
    device: DeviceName = None,
    precision: PrecisionName = None,
    outlier_share: Real = None,
    max_false_rejects: Real = None,
    settings: Settings = (),
    corrections: File = None,
    begin: FromRun = None,
    truth: File = None,
    cache: Folder = None,
    resume: Flag = False,
    overwrite: Flag = False,
    quiet: Flag = False,
) -> None:
    """Learn the known classes and the outliers from labelled pictures and a pool.

    Example: ossl fit --labelled labelled/ --unlabelled pool/ --out RUN

    Example: ossl fit --labelled labelled/ --unlabelled pool/ --out RUN --max-false-rejects 0.01

    Example: ossl fit --labelled labelled/ --unlabelled pool/ --out RUN --budget balanced

    Example: ossl fit --corrections decisions.csv --from RUN --out NEWRUN

    Example: ossl fit --preset table1/cifar10-100 --recipe paper --data-root DIR --out RUN

    Example: ossl fit --method openmatch --labelled labelled/ --unlabelled pool/ --out RUN

    Example: ossl fit --resume --out RUN

    Args:
        out: The folder for the run.
        labelled: A folder with one sub-folder of pictures per class.
        unlabelled: A folder of pictures, outliers among them.
        preset: A benchmark's cell in place of folders; `ossl list presets` shows them.
        profile: The preset's size: desk (32 pixels, minutes) or full (the paper's). Default: desk.
        data_root: Where the preset's data lie: the hub's parquet, torchvision's or class folders.
        method: What learns; `ossl list methods` shows them. Default: openprompt.
        recipe: Of openprompt: default, which is ours, or paper, the published method to the letter.
        budget: Of the default recipe: fast sees every picture once; balanced also tunes a prompt
            and sees every picture three times, best tunes longer and sees it four times. What does
            not pay on your labelled pictures is left away. Default: fast.
        backbone: The encoder; `ossl list backbones` shows them. Default: lite0, or the preset's.
        weights: The encoder's weights, a safetensors file.
        image_size: Side of the pictures in pixels. Default: the backbone's or the preset's.
        seed: Chooses the split and every random start. Default: 0.
        device: Where to compute. Default: auto.
        precision: Of the frozen network's numbers; auto takes bf16 where it is fast.
        outlier_share: Put this part of the pool aside, such as 0.2. Default: what is estimated.
        max_false_rejects: Put aside no more than this part of the known pictures, such as 0.01.
        settings: One setting of config.json, such as recipe.circle_limit=0.3; may be repeated.
        corrections: What you said of pool pictures, a CSV file with the columns path, label and
            is_outlier, as the report page writes it; they become labels or known outliers.
        begin: With --corrections: the run whose folders and settings to begin from.
        truth: What the pool is, a CSV file with the columns file and label; for figures alone.
        cache: A folder that remembers a frozen encoder's features, for this run and later ones.
        resume: Go on with the run in RUN from its newest checkpoint.
        overwrite: Replace the run in RUN.
        quiet: Print the result only.
    """
    from ossl.budgets import with_budget
    from ossl.presets import new_run, with_backbone, with_boundary
    from ossl.rundir import RunFolder
    from ossl.summary import changes_summary, fit_summary

    if out is None:
        raise InputError("fit needs --out RUN, the folder to write to; see ossl fit --help.")
    said: Corrections | None = None
    if resume:
        words = (preset, profile, method, recipe, budget, backbone)
        given = (labelled, unlabelled, data_root, weights, *words)
        numbers = (image_size, seed, outlier_share, max_false_rejects)
        if overwrite:
            raise InputError("--resume and --overwrite exclude each other; give one.")
        if (
            any((*given, corrections, begin))
            or settings
            or any(number is not None for number in numbers)
        ):
            raise InputError(
                f"--resume goes on with the settings in {out}/config.json; give only --out with it."
            )
        RunFolder(out).check(resume=True)
        config = RunFolder(out).read_config()
    elif corrections is not None or begin is not None:
        config, said = _corrected(out, corrections, begin)
        words = (preset, profile, method, recipe, budget, backbone)
        given = (labelled, unlabelled, data_root, weights, *words)
        if any(given) or image_size is not None or seed is not None:
            raise InputError(
                f"--corrections goes on with the folders and settings of {begin}; leave "
                "those options away."
            )
        RunFolder(out).check(overwrite=overwrite)
        config = with_boundary(config, outlier_share, max_false_rejects)
        config = with_settings(config, pairs(settings))
    else:
        config = new_run(labelled, unlabelled, preset, profile, data_root, recipe, method)
        config = with_backbone(config, backbone, weights, image_size)
        config = with_value(config, "seed", seed or 0, "--seed")
        config = with_budget(config, budget)
        config = with_boundary(config, outlier_share, max_false_rejects)
        config = with_settings(config, pairs(settings))
    if device is not None:
        config = with_value(config, "device", one_of("device", device, Device), "--device")
    if precision is not None:
        config = with_value(
            config, "precision", one_of("precision", precision, Precision), "--precision"
        )
    from ossl.fit import fit as run_fit  # imports the networks: not before the options are right
    from ossl.fit import load_run

    changed = None
    with _progress(quiet) as progress, _memory(cache, progress, always=bool(said)) as memory:
        metrics = run_fit(
            config,
            out,
            progress,
            resume=resume,
            overwrite=overwrite,
            memory=memory,
            truth=truth,
            corrections=said,
        )
        if metrics and said is not None and begin is not None:
            from ossl.correct import changes

            runs = [load_run(run, None, memory) for run in (begin, out)]
            changed = changes(runs, said, truth, progress)
    if metrics:
        print(fit_summary(metrics, out, config.data, RunFolder(out).read_json("pictures.json")))
    if changed is not None:
        print(changes_summary(changed))


def evaluate(
    run: Run,
    as_json: Json = False,
    data_root: Folder = None,
    truth: File = None,
    unseen: Names = None,
    posthoc: Names = None,
    device: DeviceName = None,
    cache: Folder = None,
) -> None:
    """Work out a run's figures again from its files and its test pictures.

    A run on folders has no figures of its own; with --truth it is judged on its pool. A label there
    that is none of the run's classes means an outlier.

    Example: ossl evaluate RUN --json

    Example: ossl evaluate RUN --truth truth.csv

    Example: ossl evaluate RUN --unseen svhn,scenes

    Example: ossl evaluate RUN --posthoc all

    Args:
        run: A finished run.
        as_json: Print one JSON object; figures are fractions, null where unknown.
        data_root: Where the preset's data, or the pool's folder, lie now if they were moved.
        truth: What the pool of a run on folders is: a CSV file with the columns file and label.
        unseen: Other data sets below the data root, to tell from a benchmark's known test pictures.
        posthoc: Scores that need no training, to compare with: msp, energy, knn, mahalanobis,
            relative_mahalanobis, vim, react, or all of them.
        device: Where to compute. Default: auto.
        cache: A folder that remembers a frozen encoder's features, as for ossl fit.
    """
    from ossl.compute import create_accelerator
    from ossl.fit import load_run
    from ossl.posthoc.scores import check as check_scores
    from ossl.rundir import json_text
    from ossl.summary import metrics_summary

    where = one_of("device", device or "auto", Device)
    asked = listed(posthoc or "")
    check_scores(asked)  # before anything is loaded
    with _progress(quiet=as_json) as progress, _memory(cache, progress) as memory:
        loaded = load_run(run, create_accelerator(cast(Device, where)), memory)
        metrics = loaded.evaluate(progress, data_root, truth, listed(unseen or ""), asked)
    print(json_text(metrics) if as_json else metrics_summary(metrics))


def list_(what: Word) -> None:
    """Show what there is: methods, backbones, presets or data.

    Example: ossl list presets

    Args:
        what: methods, backbones, presets or data.
    """
    from ossl.listing import LISTINGS

    if what not in LISTINGS:
        raise unknown_name("list topic", what, LISTINGS)
    print(LISTINGS[what]())


VERBS: dict[str, Verb] = {
    "demo": demo,
    "fit": fit,
    "sort": sort,
    "evaluate": evaluate,
    "report": report,
    "reproduce": reproduce,
    "export": export,
    "push": push,
    "bench": bench,
    "list": list_,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0 done, 2 the input is wrong, 1 a fault of ours, 130 stopped from outside."""
    return run_command(list(sys.argv[1:] if arguments is None else arguments), VERBS)


def _progress(quiet: bool = False) -> Any:
    from ossl.progress import Progress

    return Progress(quiet=quiet or int(os.environ.get("RANK", "0")) > 0)


def _corrected(
    out: Path, corrections: Path | None, begin: Path | None
) -> tuple[RunConfig, Corrections]:
    if corrections is None or begin is None:
        lacks = "--corrections FILE" if corrections is None else "--from RUN"
        raise InputError(f"fit needs {lacks} too: --corrections FILE --from RUN --out NEWRUN.")
    from ossl.correct import corrected_run

    return corrected_run(begin, corrections, out)


def _memory(folder: Path | None, progress: Any, always: bool = False) -> Any:
    from contextlib import nullcontext

    from ossl.models.memory import FeatureMemory

    if folder is None:  # in memory alone: two runs on one pool
        return FeatureMemory() if always else nullcontext()
    return FeatureMemory(folder, progress.say)
