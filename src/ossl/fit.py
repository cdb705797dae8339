"""A run from its configuration to its folder: load, train, judge, write."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from accelerate import Accelerator
from torch import Tensor

from ossl.compute import compute_dtype, create_accelerator
from ossl.config import (
    ArrayData,
    DataConfig,
    DigitsData,
    FolderData,
    RunConfig,
    with_data_root,
)
from ossl.data.corrections import Corrections
from ossl.data.folders import FlatFolder
from ossl.data.pictures import Rejected, Source
from ossl.data.task import (
    NOT_A_PICTURE,
    REJECTED_FILE,
    Judged,
    Task,
    load_judged,
    load_labelled,
    load_pool,
    load_task,
)
from ossl.data.unseen import find_unseen
from ossl.errors import InputError
from ossl.estimate import in_words, seconds_to_fit
from ossl.files import write_text
from ossl.measure import measure
from ossl.methods import METHODS, create_encoder, create_method
from ossl.methods.base import Method
from ossl.models.memory import FeatureMemory
from ossl.posthoc.run import posthoc_metrics
from ossl.posthoc.scores import check as check_scores
from ossl.progress import Progress
from ossl.rundir import RunFolder
from ossl.score import Verdicts, predict_pictures, score_source
from ossl.sort.demo import write_sorted_demo
from ossl.sort.predictions import prediction_table, write_predictions, write_rejected
from ossl.sort.report import Facts, write_report
from ossl.train.loop import TrainingDivergedError, train


def fit(
    config: RunConfig,
    out: Path,
    progress: Progress,
    *,
    resume: bool = False,
    overwrite: bool = False,
    accelerator: Accelerator | None = None,
    memory: FeatureMemory | None = None,
    truth: Path | None = None,
    unseen: Sequence[str] = (),
    pictures: Callable[[int], Task] | None = None,
    corrections: Corrections | None = None,
) -> dict[str, Any]:
    """The run's metrics, after training as configured and writing everything to `out`.

    `pictures` gives those that lie in memory, at a size in pixels, for a config that says so.
    Figures alone come from `truth`, a run on folders' CSV file of what its pool is, and from
    `unseen`, other data sets by name against a benchmark's known test pictures. `corrections` are
    kept in the run; on resuming they are read from there.
    """
    started = time.monotonic()
    accelerator = accelerator or create_accelerator(config.device)
    folder = RunFolder(out)
    if accelerator.is_main_process:
        folder.check(resume=resume, overwrite=overwrite)

    # 1. What can be refused at once, before any picture is loaded and anything is replaced.
    dtype = compute_dtype(config.precision, accelerator.device)
    check_batches(config, accelerator.num_processes)
    encoder = create_encoder(config)
    create_method(config, encoder, 2, dtype)
    others = find_unseen(config.data, unseen)
    # 2. The pictures.
    told = METHODS[config.method].learns_from_truth
    size = encoder.image_size
    task = (
        pictures(size)
        if pictures
        else load_task(config.data, size, config.seed, progress, corrections, all_labels=told)
    )
    check_pool(config, task)
    for line in task.report():
        progress.say(line)
    judged = task.judged
    if truth is not None:
        judged = judged_pool(config.data, encoder.image_size, task.classes, truth, progress)
    if accelerator.is_main_process:
        if resume:
            check_same_pictures(folder, task)
        else:
            folder.clear()
        folder.write_config(config)
        if corrections is not None:
            write_text(folder.corrections_file, corrections.text())
        if task.split is not None:
            folder.write_split(task.split.to_json())
        folder.write_json("pictures.json", task.fingerprint())
        write_rejected(out / REJECTED_FILE, task.rejected)
    accelerator.wait_for_everyone()

    # 3. The training, the judging, and what stays of them.
    method = create_method(config, encoder, len(task.classes), dtype)
    if task.marks is not None:
        method.heed(task.marks)
    if accelerator.is_main_process and not resume:
        seconds = seconds_to_fit(
            method, encoder, task.labelled, task.pool, accelerator.device, dtype, config
        )
        less = "; less where --cache remembers" if memory is not None and memory.folder else ""
        progress.say(f"this takes {in_words(seconds)} on this machine{less}")
    accelerator.wait_for_everyone()
    if memory is not None:
        method.remember(memory)
    before = memory.counts if memory else (0, 0)
    try:
        train(
            method,
            task.labelled,
            task.pool,
            out,
            seed=config.seed,
            accelerator=accelerator,
            progress=progress,
            resume=resume,
        )
    except TrainingDivergedError as error:  # the settings, not the code
        raise InputError(str(error)) from error
    metrics: dict[str, Any] = {}
    if accelerator.is_main_process:
        folder.write_model(method.state_dict(), method.joint_space(), task.classes)
        spent = round(time.monotonic() - started, 1)
        counts = memory.counts if memory else None
        metrics = measure(
            config,
            method,
            judged,
            task.where,
            accelerator,
            progress,
            spent,
            others,
            memory,
        )
        if counts is not None:  # of the time in `seconds`
            metrics["features_remembered"] = counts[0] - before[0]
            metrics["features_computed"] = counts[1] - before[1]
        folder.write_json("metrics.json", metrics)
        if isinstance(config.data, DigitsData):
            predictions = predict_pictures(method, task.pool, accelerator.device)
            table = prediction_table(
                list(task.pool.names), predictions, task.classes, method.threshold
            )
            write_predictions(out, table, task.rejected)
            write_sorted_demo(out, table, task, method, progress)
    accelerator.wait_for_everyone()
    return metrics


def check_same_pictures(folder: RunFolder, task: Task) -> None:
    """None when a run goes on with the pictures it began with, else an InputError."""
    then, now = folder.read_json("pictures.json"), task.fingerprint()
    if then is not None and then != now:
        raise InputError(
            f"--resume: the pictures are not those {folder.path} began with "
            f"({then.get('labelled')} labelled and {then.get('pool')} in the pool then, "
            f"{now['labelled']} and {now['pool']} now); put them back, or begin again with "
            "--overwrite."
        )


def check_batches(config: RunConfig, processes: int) -> None:
    """None when every batch can be shared evenly by the processes, else an InputError."""
    part, sizes = _batch_sizes(config)
    for name, count in sizes.items():
        if count % processes:
            fitting = max(count // processes, 1) * processes
            raise InputError(
                f"{part}.{name} = {count} cannot be shared evenly by {processes} processes; "
                f"give --set {part}.{name}={fitting}."
            )


def check_pool(config: RunConfig, task: Task) -> None:
    """None when a baseline's pool fills a batch, else an InputError; OpenPrompt takes any."""
    size = len(task.pool)
    if config.baseline is not None and size < config.baseline.pool_batch:
        raise InputError(
            f"the pool has {size} pictures, fewer than a batch of {config.baseline.pool_batch}; "
            f"give more pictures or --set baseline.pool_batch={size}."
        )


def _batch_sizes(config: RunConfig) -> tuple[str, dict[str, int]]:
    """Where the sizes of batches stand in the settings, and what they are by name."""
    if config.baseline is None:
        part, labelled, pool = (
            "schedule",
            config.schedule.labelled_batch,
            config.schedule.pool_batch,
        )
    else:
        part, labelled, pool = (
            "baseline",
            config.baseline.labelled_batch,
            config.baseline.pool_batch,
        )
    sizes = {"labelled_batch": labelled, "pool_batch": pool}
    if config.baseline is None and config.schedule.tuning_epochs:
        sizes["tuning_labelled"] = config.schedule.tuning_labelled
        sizes["tuning_pool"] = config.schedule.tuning_pool
    return part, sizes


def judged_pool(
    data: DataConfig, size: int, classes: tuple[str, ...], truth: Path, progress: Progress
) -> tuple[Judged, ...]:
    """The pool of a run on folders, to be judged by a person's file; an InputError for another."""
    if not isinstance(data, FolderData):
        raise InputError("--truth is for a run on folders; this one's truth is known.")
    return load_pool(data, size, classes, truth, progress)


def load_run(
    out: Path, accelerator: Accelerator | None = None, memory: FeatureMemory | None = None
) -> LoadedRun:
    """A finished run, ready to predict."""
    folder = RunFolder(out)
    config = folder.read_config()
    accelerator = accelerator or create_accelerator(config.device)
    model, joint_space, classes = folder.read_model()
    method = restored(config, model, joint_space, classes, accelerator, out)
    if memory is not None:
        method.remember(memory)
    return LoadedRun(folder, config, method, classes, accelerator, memory)


def restored(
    config: RunConfig,
    model: dict[str, Tensor],
    joint_space: dict[str, Tensor],
    classes: tuple[str, ...],
    accelerator: Accelerator,
    where: Path,
) -> Method:
    """The method that was written as these tensors, ready to predict; `where` is for errors."""
    dtype = compute_dtype(config.precision, accelerator.device)
    encoder = create_encoder(config, for_training=False)
    method = create_method(config, encoder, len(classes), dtype)
    try:
        method.load_state_dict(model)
        method.to(accelerator.device)
        method.load_joint_space({k: v.to(accelerator.device) for k, v in joint_space.items()})
    except (RuntimeError, KeyError, ValueError) as error:
        raise InputError(
            f"{where}: its model.safetensors and jointspace.safetensors do not fit its "
            "config.json: was one of them changed? Fit the run again."
        ) from error
    method.enter(method.stages[-1])
    method.eval()
    return method


@dataclass(frozen=True)
class LoadedRun:
    """A finished run in memory."""

    folder: RunFolder
    config: RunConfig
    method: Method
    classes: tuple[str, ...]
    accelerator: Accelerator
    memory: FeatureMemory | None = None

    def evaluate(
        self,
        progress: Progress,
        data_root: Path | None = None,
        truth: Path | None = None,
        unseen: Sequence[str] = (),
        posthoc: Sequence[str] = (),
    ) -> dict[str, Any]:
        """The run's metrics, worked out again from its files and its test pictures.

        `posthoc` names outlier scores that any network gives, to be compared with the run's own.
        """
        asked = check_scores(posthoc)
        recorded = self.folder.read_json("metrics.json") or {}
        root = str(data_root.absolute()) if data_root else None
        data = (with_data_root(self.config, root) if root else self.config).data
        size, drawn = self.method.image_size, self.folder.read_split()
        others = find_unseen(data, unseen)
        judged: tuple[Judged, ...] = ()
        where = ""
        if truth is not None:
            judged = judged_pool(data, size, self.classes, truth, progress)
        elif isinstance(data, FolderData | ArrayData):
            if asked:
                raise InputError(
                    "--posthoc compares scores by the truth, and nobody has said what this run's "
                    "pool is: add --truth FILE."
                )
        elif drawn is None:
            raise InputError(f"{self.folder.path} has lost its split.json; fit the run again.")
        else:
            judged, where = load_judged(data, size, drawn, progress)
        where = recorded.get("data") or where
        metrics = measure(
            self.config,
            self.method,
            judged,
            where,
            self.accelerator,
            progress,
            recorded.get("seconds"),
            others,
            self.memory,
        )
        for name in ("features_remembered", "features_computed"):  # these belong to `seconds`
            metrics[name] = recorded.get(name)
        if asked:
            labelled = load_labelled(data, size, drawn, progress)
            device = self.accelerator.device
            for part in judged:
                metrics |= posthoc_metrics(self.method, labelled, part, asked, device, progress)
        return metrics

    def score(self, source: Source, progress: Progress) -> Verdicts:
        """What the run says of every picture of a source."""
        task = progress.task("sorting", len(source))
        said = score_source(self.method, source, self.accelerator.device, task.advance)
        task.finish()
        return said

    def sort(
        self, source: FlatFolder, out: Path, threshold: float | None, progress: Progress
    ) -> Sorted:
        """The counts, after writing predictions or a reason for every file of a folder."""
        said = self.score(source, progress)
        names, predictions = said.names, said.predictions
        rejected = [*said.rejected, *(Rejected(name, NOT_A_PICTURE) for name in source.ignored)]
        limit = self.method.threshold if threshold is None else threshold
        table = prediction_table(names, predictions, self.classes, limit)
        write_predictions(out, table, rejected)
        facts = Facts.of(self.method, self.folder.path, self.classes, limit, source.root)
        places = {name: index for index, name in enumerate(source.names)}
        write_report(out, facts, progress, lambda name: source.open(places[name]))
        aside = int((predictions.outlier_score > limit).sum())
        files = [source.path(places[name]) for name in names]
        return Sorted(len(names), aside, len(rejected), table, files, limit)


@dataclass(frozen=True)
class Sorted:
    """How many pictures were sorted, how many of them put aside, how many files left out."""

    pictures: int
    aside: int
    rejected: int
    table: pa.Table  # as in predictions.parquet
    files: list[Path]  # by row of the table
    threshold: float
