"""A run's figures: what `metrics.json` holds and `ossl evaluate RUN --json` prints."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from accelerate import Accelerator

from ossl.config import RunConfig
from ossl.data.task import Judged
from ossl.evaluate import auroc, judge
from ossl.methods.base import Method
from ossl.models.teacher import Ema
from ossl.progress import Progress
from ossl.score import predict_pictures, simple_scores


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
