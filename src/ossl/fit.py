"""A run from its configuration to its folder: load, train, judge, write."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from accelerate import Accelerator

from ossl.compute import compute_dtype, create_accelerator
from ossl.config import DigitsData, RunConfig, with_data_root
from ossl.data.pictures import Source
from ossl.data.task import Judged, load_judged, load_task
from ossl.errors import InputError
from ossl.evaluate import auroc, judge
from ossl.methods import create_encoder, create_method
from ossl.methods.base import Method, Predictions
from ossl.models.teacher import Ema
from ossl.progress import Progress
from ossl.rundir import RunFolder
from ossl.score import predict_pictures, predict_source, simple_scores
from ossl.sort.predictions import prediction_table, write_predictions
from ossl.train.loop import train


def fit(
    config: RunConfig,
    out: Path,
    progress: Progress,
    *,
    resume: bool = False,
    overwrite: bool = False,
    accelerator: Accelerator | None = None,
) -> dict[str, Any]:
    """The run's metrics, after training as configured and writing everything to `out`."""
    started = time.monotonic()
    accelerator = accelerator or create_accelerator(config.device)
    folder = RunFolder(out)
    if accelerator.is_main_process:
        folder.claim(resume=resume, overwrite=overwrite)
    accelerator.wait_for_everyone()

    dtype = compute_dtype(config.precision, accelerator.device)
    # Made first, because a wrong name or file should not wait for the pictures to load.
    encoder = create_encoder(config)
    task = load_task(config.data, encoder.image_size, config.seed, progress)
    for line in task.report():
        progress.say(line)
    if accelerator.is_main_process:
        folder.write_config(config)
        if task.split is not None:
            folder.write_split(task.split.to_json())

    method = create_method(config, encoder, len(task.classes), dtype)
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
    metrics: dict[str, Any] = {}
    if accelerator.is_main_process:
        folder.write_model(method.state_dict(), method.joint_space(), task.classes)
        seconds = round(time.monotonic() - started, 1)
        metrics = measure(config, method, task.judged, task.where, accelerator, progress, seconds)
        folder.write_json("metrics.json", metrics)
        if isinstance(config.data, DigitsData):
            predictions = predict_pictures(method, task.pool, accelerator.device)
            table = prediction_table(
                list(task.pool.names), predictions, task.classes, method.threshold
            )
            write_predictions(out, table, task.pool.rejected)
    accelerator.wait_for_everyone()
    return metrics


def load_run(out: Path, accelerator: Accelerator | None = None) -> LoadedRun:
    """A finished run, ready to predict."""
    folder = RunFolder(out)
    config = folder.read_config()
    accelerator = accelerator or create_accelerator(config.device)
    dtype = compute_dtype(config.precision, accelerator.device)
    model, joint_space, classes = folder.read_model()
    encoder = create_encoder(config, for_training=False)
    method = create_method(config, encoder, len(classes), dtype)
    try:
        method.load_state_dict(model)
    except RuntimeError as error:
        raise InputError(
            f"{out}/model.safetensors does not fit {out}/config.json: was one of them changed? "
            "Fit the run again."
        ) from error
    method.to(accelerator.device)
    method.load_joint_space({k: v.to(accelerator.device) for k, v in joint_space.items()})
    method.enter(method.stages[-1])
    method.eval()
    return LoadedRun(folder, config, method, classes, accelerator)


@dataclass(frozen=True)
class LoadedRun:
    """A finished run in memory."""

    folder: RunFolder
    config: RunConfig
    method: Method
    classes: tuple[str, ...]
    accelerator: Accelerator

    def evaluate(self, progress: Progress, data_root: str | None = None) -> dict[str, Any]:
        """The run's metrics, worked out again from its files and its test pictures."""
        recorded = self.folder.read_json("metrics.json") or {}
        config = with_data_root(self.config, data_root) if data_root else self.config
        judged, where = load_judged(
            config.data, self.method.image_size, self.folder.read_split(), progress
        )
        return measure(
            self.config,
            self.method,
            judged,
            recorded.get("data") or where,
            self.accelerator,
            progress,
            recorded.get("seconds"),
        )

    def sort(self, source: Source, out: Path, threshold: float | None, progress: Progress) -> int:
        """The number of pictures put aside, after writing predictions for every file of a source."""
        task = progress.task("sorting", len(source))
        parts, indices, rejected = [], [], []
        for scored in predict_source(
            self.method, source, self.method.image_size, self.accelerator.device
        ):
            if scored.predictions is not None:
                parts.append(scored.predictions)
            indices += scored.indices
            rejected += scored.rejected
            task.advance(len(scored.indices) + len(scored.rejected))
        task.finish()
        if not parts:
            raise InputError(f"none of the {len(source):,} files of {source.where} can be read.")
        limit = self.method.threshold if threshold is None else threshold
        predictions = Predictions.joined(parts)
        names = [source.names[index] for index in indices]
        table = prediction_table(names, predictions, self.classes, limit)
        write_predictions(out, table, rejected)
        return int((predictions.outlier_score > limit).sum())


def measure(
    config: RunConfig,
    method: Method,
    judged: Sequence[Judged],
    where: str,
    accelerator: Accelerator,
    progress: Progress,
    seconds: float | None,
) -> dict[str, Any]:
    """What `ossl evaluate RUN --json` prints; null where there is no truth to judge by."""
    trained, total, by_stage = parameter_counts(method)
    metrics: dict[str, Any] = {
        "auroc": None,
        "known_accuracy": None,
        "open_accuracy": None,
        "fpr95": None,
        "aupr": None,
        "outlier_share": method.outlier_share,
        "outlier_share_true": None,
        "threshold": method.threshold,
        "trainable_parameters": trained,
        "total_parameters": total,
        "trainable_parameters_by_stage": by_stage,
        "seconds": seconds,
        "images_per_second": None,
        "recipe": config.recipe_name,
        "method": config.method,
        "backbone": config.backbone.name,
        "image_size": method.image_size,
        "preset": config.preset,
        "profile": config.profile,
        "seed": config.seed,
        "data": where,
    }
    for part in judged:
        task = progress.task(f"judging on {part.name}", len(part.pictures))
        started = time.monotonic()
        predictions = predict_pictures(
            method, part.pictures, accelerator.device, advance=task.advance
        )
        spent = time.monotonic() - started
        task.finish()
        label = predictions.logits.argmax(dim=1).numpy()
        score = predictions.outlier_score.numpy()
        metrics |= asdict(judge(part.truth, label, score, method.threshold))
        metrics["outlier_share_true"] = part.pool_share
        metrics["images_per_second"] = round(len(part.pictures) / max(spent, 1e-9), 1)
        metrics["simple_scores"] = {
            name: auroc(part.truth, simple.numpy())
            for name, simple in simple_scores(predictions.logits).items()
        }
    return metrics


def parameter_counts(method: Method) -> tuple[int, int, dict[str, int]]:
    """What learns beside the encoder, what the student has in all, and what learns by stage.

    A teacher is a moving average, not learnt, and so not counted.
    """
    copies = {
        id(parameter)
        for module in method.modules()
        if isinstance(module, Ema)
        for parameter in module.parameters()
    }
    total = sum(p.numel() for p in method.parameters() if id(p) not in copies)
    learning: dict[str, int] = {}
    by_stage: dict[str, int] = {}
    for stage in method.stages:
        named = {k: p for phase in stage.phases for k, p in method.trained(phase).items()}
        by_stage[stage.name] = sum(p.numel() for p in named.values())
        learning |= {k: p.numel() for k, p in named.items() if not k.startswith("encoder.")}
    return sum(learning.values()), total, by_stage


