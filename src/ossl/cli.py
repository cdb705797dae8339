"""The verbs of the command line; they read options, call the library and print what it says."""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import tyro

from ossl.config import (
    BackboneConfig,
    Device,
    FolderData,
    Precision,
    Profile,
    RecipeName,
    RunConfig,
    with_settings,
)
from ossl.errors import InputError, nearest, unknown_name

app = tyro.extras.SubcommandApp()
VERBS: dict[str, Callable[..., None]] = {}


def verb(function: Callable[..., None]) -> Callable[..., None]:
    """The function itself, made known to the command line under its name."""

    @functools.wraps(function)
    def deferred(*values: Any, **options: Any) -> Callable[[], None]:
        # Parsing only: the verb runs later, when nobody listens to standard error any more.
        return functools.partial(function, *values, **options)

    name = function.__name__.rstrip("_")
    app.command(name=name)(deferred)
    VERBS[name] = function
    return function


RunPath = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]


@verb
def demo(
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("ossl-demo"), seed: int = 0
) -> None:
    """Do the main job on pictures and a backbone that come with the install.

    scikit-learn's digits: 0 to 5 are known, with five labelled pictures each; the other pictures
    are the pool, in which 6 to 9 are the outliers.

    Example: ossl demo --out my-demo

    Args:
        out: Where the run and its predictions go; an earlier demo there is replaced.
        seed: Chooses the labelled pictures and every random start.
    """
    from ossl.config import DigitsData
    from ossl.fit import fit as run_fit
    from ossl.presets import demo_config
    from ossl.rundir import RunFolder
    from ossl.summary import demo_summary

    config = replace(demo_config(), seed=seed)
    folder = RunFolder(out)
    again = folder.config_file.exists() and isinstance(folder.read_config().data, DigitsData)
    with _progress() as progress:
        metrics = run_fit(config, out, progress, overwrite=again)
    print(demo_summary(metrics, out))


@verb
def fit(
    out: Annotated[Path | None, tyro.conf.arg(metavar="RUN")] = None,
    labelled: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
    unlabelled: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
    preset: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None,
    profile: Annotated[str | None, tyro.conf.arg(metavar="desk|full")] = None,
    data_root: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
    recipe: Annotated[str, tyro.conf.arg(metavar="default|paper")] = "default",
    backbone: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None,
    weights: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    image_size: Annotated[int | None, tyro.conf.arg(metavar="N")] = None,
    seed: int | None = None,
    device: Annotated[str | None, tyro.conf.arg(metavar="auto|cpu|cuda|mps")] = None,
    precision: Annotated[str | None, tyro.conf.arg(metavar="auto|fp32|bf16")] = None,
    settings: Annotated[
        tyro.conf.UseAppendAction[tuple[str, ...]],
        tyro.conf.arg(name="set", metavar="NAME=VALUE"),
    ] = (),
    resume: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
    overwrite: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
    quiet: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
) -> None:
    """Learn the known classes and the outliers from labelled pictures and a pool.

    Examples:
      ossl fit --labelled labelled/ --unlabelled pool/ --out RUN
      ossl fit --preset table1/cifar10-100 --profile desk --recipe paper --data-root DIR --out RUN
      ossl fit --resume --out RUN

    Args:
        out: The folder for the run.
        labelled: A folder with one sub-folder of pictures per class.
        unlabelled: A folder of pictures, outliers among them.
        preset: A benchmark's cell in place of folders; `ossl list presets` shows them.
        profile: The preset's size: desk (32 pixels, minutes) or full (the paper's). Default: desk.
        data_root: Where the preset's data lie: the hub's parquet, torchvision's or class folders.
        recipe: default is ours; paper is the published method to the letter.
        backbone: The encoder; `ossl list backbones` shows them. Default: lite0, or the preset's.
        weights: The encoder's weights, a safetensors file.
        image_size: Side of the pictures in pixels. Default: the backbone's or the preset's.
        seed: Chooses the split and every random start. Default: 0.
        device: Where to compute. Default: auto.
        precision: Of the frozen network's numbers; auto takes bf16 where it is fast.
        settings: One setting of config.json, such as recipe.circle_limit=0.3; may be repeated.
        resume: Go on with the run in RUN from its newest checkpoint.
        overwrite: Replace the run in RUN.
        quiet: Print the result only.
    """
    from ossl.fit import fit as run_fit
    from ossl.rundir import RunFolder
    from ossl.summary import fit_summary

    if out is None:
        raise InputError("fit needs --out RUN, the folder to write to; see ossl fit --help.")
    if resume:
        if overwrite:
            raise InputError("--resume and --overwrite exclude each other; give one.")
        if labelled or unlabelled or preset or settings or backbone or weights:
            raise InputError(
                f"--resume goes on with the settings in {out}/config.json; give only --out with it."
            )
        RunFolder(out).claim(resume=True)
        config = RunFolder(out).read_config()
    else:
        config = _run_config(labelled, unlabelled, preset, profile, data_root, recipe, seed or 0)
        chosen = BackboneConfig(
            name=backbone or config.backbone.name,
            weights=str(weights) if weights else None,
            # Another backbone has another natural size than the preset's.
            image_size=image_size or (None if backbone else config.backbone.image_size),
        )
        config = replace(config, backbone=chosen)
        config = with_settings(config, _pairs(settings))
    if device is not None:
        config = replace(config, device=cast(Device, _one_of("device", device, Device)))
    if precision is not None:
        config = replace(config, precision=cast(Precision, _one_of("precision", precision, Precision)))
    with _progress(quiet) as progress:
        metrics = run_fit(config, out, progress, resume=resume, overwrite=overwrite)
    if metrics:
        print(fit_summary(metrics, out))


@verb
def sort(
    run: RunPath,
    images: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
    out: Annotated[Path | None, tyro.conf.arg(metavar="OUT")] = None,
    threshold: Annotated[float | None, tyro.conf.arg(metavar="X")] = None,
    device: Annotated[str, tyro.conf.arg(metavar="auto|cpu|cuda|mps")] = "auto",
) -> None:
    """Give every picture of a folder a class, or put it aside as an outlier.

    Example: ossl sort RUN --images pool/ --out sorted/

    Args:
        run: A finished run.
        images: A folder of pictures, nested or not.
        out: Where predictions.parquet, predictions.csv and rejected_files.csv go.
        threshold: The outlier score above which a picture is put aside. Default: the run's own.
        device: Where to compute.
    """
    from ossl.compute import create_accelerator
    from ossl.data.folders import FlatFolder
    from ossl.fit import load_run
    from ossl.summary import sort_summary

    if images is None or out is None:
        raise InputError("sort needs --images DIR and --out OUT; see ossl sort --help.")
    if (out / "predictions.csv").exists():
        raise InputError(f"--out {out} already holds predictions; name another folder.")
    source = FlatFolder(images)
    accelerator = create_accelerator(cast(Device, _one_of("device", device, Device)))
    loaded = load_run(run, accelerator)
    with _progress() as progress:
        aside = loaded.sort(source, out, threshold, progress)
    print(sort_summary(len(source), aside, out))


@verb
def evaluate(
    run: RunPath,
    as_json: Annotated[bool, tyro.conf.arg(name="json"), tyro.conf.FlagCreatePairsOff] = False,
    data_root: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
) -> None:
    """Work out a run's figures again from its files and its test pictures.

    Example: ossl evaluate RUN --json

    Args:
        run: A finished run.
        as_json: Print one JSON object; figures are fractions, null where unknown.
        data_root: Where the preset's data lie now, if not where they lay at the fit.
    """
    from ossl.fit import load_run
    from ossl.summary import metrics_summary

    loaded = load_run(run)
    with _progress(quiet=as_json) as progress:
        metrics = loaded.evaluate(progress, str(data_root) if data_root else None)
    print(json.dumps(metrics, ensure_ascii=False) if as_json else metrics_summary(metrics))


@verb
def bench(
    what: Annotated[Literal["step"], tyro.conf.Positional],
    backbone: Annotated[str, tyro.conf.arg(metavar="NAME")] = "wrn-28-2",
    image_size: Annotated[int, tyro.conf.arg(metavar="N")] = 32,
    labelled_batch: int = 64,
    pool_batch: int = 128,
    steps: int = 20,
    precision: Annotated[str, tyro.conf.arg(metavar="auto|fp32|bf16")] = "auto",
    device: Annotated[str, tyro.conf.arg(metavar="auto|cpu|cuda|mps")] = "auto",
    as_json: Annotated[bool, tyro.conf.arg(name="json"), tyro.conf.FlagCreatePairsOff] = False,
) -> None:
    """Measure this machine: a stage-2 step against the network alone, in one run.

    Example: ossl bench step --json

    Args:
        what: step is one step of stage 2.
        backbone: The encoder.
        image_size: Side of the pictures in pixels.
        labelled_batch: Labelled pictures a step.
        pool_batch: Pool pictures a step.
        steps: Steps to time; the median counts.
        precision: Of the frozen network's numbers.
        device: Where to compute.
        as_json: Print one JSON object.
    """
    from ossl.bench import bench_step, bench_summary

    del what
    result = bench_step(
        backbone,
        image_size,
        labelled_batch,
        pool_batch,
        steps,
        cast(Precision, _one_of("precision", precision, Precision)),
        cast(Device, _one_of("device", device, Device)),
    )
    print(json.dumps(result) if as_json else bench_summary(result))


@verb
def list_(what: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="WHAT")]) -> None:
    """Show what there is: methods, backbones, presets or data.

    Example: ossl list presets

    Args:
        what: methods, backbones, presets or data.
    """
    from ossl.listing import LISTINGS

    if what not in LISTINGS:
        raise unknown_name("list", what, LISTINGS)
    print(LISTINGS[what]())


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0 done, 2 the input is wrong, 1 a fault of ours, 130 stopped from outside."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    signal.signal(signal.SIGTERM, _stop)
    try:
        _parse(given)()
    except InputError as error:
        print(f"ossl: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("ossl: stopped; `ossl fit --resume --out RUN` goes on from the last checkpoint.",
              file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has gone, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if os.environ.get("OSSL_TRACEBACK"):
            raise
        text = " ".join(str(error).split())
        print(f"ossl: a fault of ours: {type(error).__name__}: {text} "
              "(OSSL_TRACEBACK=1 shows where)", file=sys.stderr)
        return 1
    return 0


def _parse(given: list[str]) -> Callable[[], None]:
    """The verb with its options, ready to run; what tyro says of a wrong option becomes one line."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            ready: Callable[[], None] = app.cli(prog="ossl", args=given or ["--help"])
            return ready
    except SystemExit as stop:
        if stop.code in (None, 0):  # --help
            return lambda: None
    if given and not given[0].startswith("-") and given[0] not in VERBS:
        raise unknown_name("command", given[0], VERBS)
    words = " ".join(re.sub(r"[─│╭╮╰╯]+", " ", said.getvalue()).split())
    wrong = re.search(r"Unrecognized options: (--[^\s,]+)", words)
    if wrong:
        verb_help = f"see ossl {given[0]} --help"
        raise InputError(f"unknown option {wrong[1]}: {_nearest_option(wrong[1], given[0])}{verb_help}.")
    raise InputError(words or "these options cannot be understood; see ossl --help.")


def _nearest_option(option: str, name: str) -> str:
    parameters = inspect.signature(VERBS[name]).parameters
    renamed = {"settings": "set", "as_json": "json"}
    options = ["--" + renamed.get(p, p).replace("_", "-") for p in parameters]
    guess = nearest(option, options)
    return f"did you mean {guess}? " if guess else ""


def _run_config(
    labelled: Path | None,
    unlabelled: Path | None,
    preset: str | None,
    profile: str | None,
    data_root: Path | None,
    recipe: str,
    seed: int,
) -> RunConfig:
    from ossl.presets import RECIPES, everyday_config, preset_config

    if recipe not in RECIPES:
        raise unknown_name("recipe", recipe, RECIPES)
    recipe_name = cast(RecipeName, recipe)
    if preset is not None:
        if labelled or unlabelled:
            raise InputError("--preset brings its own data; leave --labelled and --unlabelled away.")
        size = cast(Profile, _one_of("profile", profile or "desk", Profile))
        root = str(data_root) if data_root else None
        return preset_config(
            preset, profile=size, recipe_name=recipe_name, data_root=root, seed=seed
        )
    if labelled is None or unlabelled is None:
        raise InputError(
            "fit needs --labelled DIR and --unlabelled DIR, or --preset NAME; see ossl fit --help."
        )
    if data_root or profile:
        raise InputError("--data-root and --profile belong to --preset; leave them away.")
    data = FolderData(labelled=str(labelled), unlabelled=str(unlabelled))
    return replace(everyday_config(data, recipe_name), seed=seed)


def _pairs(settings: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise InputError(f"--set {setting}: write NAME=VALUE, such as recipe.circle_limit=0.3.")
        pairs[name] = value
    return pairs


def _one_of(kind: str, value: str, options: Any) -> str:
    names = options.__args__
    if value not in names:
        raise unknown_name(kind, value, names)
    return value


def _progress(quiet: bool = False) -> Any:
    from ossl.progress import Progress

    return Progress(quiet=quiet or int(os.environ.get("RANK", "0")) > 0)


def _stop(*_: object) -> None:
    raise KeyboardInterrupt

