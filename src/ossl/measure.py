"""A run's figures: what `metrics.json` holds and `ossl evaluate RUN --json` prints."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor

from ossl.config import RunConfig
from ossl.data.task import Judged
from ossl.data.unseen import Unseen
from ossl.evaluate import auroc, judge
from ossl.methods.base import Method
from ossl.models.memory import FeatureMemory
from ossl.models.teacher import Ema
from ossl.progress import Progress
from ossl.score import compare_pictures

OWN = "outlier_score"  # the method's own, among the simple ones


def measure(
    config: RunConfig,
    method: Method,
    judged: Sequence[Judged],
    where: str,
    accelerator: Accelerator,
    progress: Progress,
    seconds: float | None,
    unseen: Sequence[Unseen] = (),
    memory: FeatureMemory | None = None,
) -> dict[str, Any]:
    """What `ossl evaluate RUN --json` prints; null where there is no truth to judge by.

    The known pictures that the run is judged on are also set against each `unseen` set, whole.
    """
    trained, total, by_stage = parameter_counts(method)
    metrics: dict[str, Any] = {
        "auroc": None,
        "known_accuracy": None,
        "open_accuracy": None,
        "fpr95": None,
        "aupr": None,
        "outlier_share": method.outlier_share,
        "outlier_share_interval": method.outlier_share_interval,
        "outlier_share_true": None,
        "held_out_accuracy": method.held_out_accuracy,
        "threshold": method.threshold,
        "trainable_parameters": trained,
        "total_parameters": total,
        "trainable_parameters_by_stage": by_stage,
        "seconds": seconds,
        "features_remembered": None,
        "features_computed": None,
        "images_per_second": None,
        "recipe": config.recipe_name if config.baseline is None else None,
        "budget": config.budget,
        "remark": method.remark,
        "method": config.method,
        "backbone": config.backbone.name,
        "image_size": method.image_size,
        "preset": config.preset,
        "profile": config.profile,
        "seed": config.seed,
        "data": where,
        "unseen": None,
    }
    for part in judged:
        task = progress.task(f"judging on {part.name}", len(part.pictures))
        started = time.monotonic()
        remembered = memory.remembered if memory else 0
        predictions, simple = compare_pictures(
            method, part.pictures, accelerator.device, advance=task.advance
        )
        spent = time.monotonic() - started
        task.finish()
        label = predictions.logits.argmax(dim=1).numpy()
        score = predictions.outlier_score.numpy()
        metrics |= asdict(judge(part.truth, label, score, method.threshold))
        metrics["outlier_share_true"] = part.pool_share
        if memory is None or memory.remembered == remembered:  # else the network was not timed
            metrics["images_per_second"] = round(len(part.pictures) / max(spent, 1e-9), 1)
        metrics["simple_scores"] = {
            name: auroc(part.truth, values.numpy()) for name, values in simple.items()
        }
        if unseen:
            known = torch.from_numpy(part.truth >= 0)
            scores = {OWN: predictions.outlier_score[known]}
            scores |= {name: values[known] for name, values in simple.items()}
            found = {
                other.name: _against(scores, method, other, accelerator.device, progress)
                for other in unseen
            }
            metrics["unseen"] = {name: by_score.pop(OWN) for name, by_score in found.items()}
            metrics["unseen_simple_scores"] = found
    return metrics


def _against(
    known: dict[str, Tensor],
    method: Method,
    other: Unseen,
    device: torch.device,
    progress: Progress,
) -> dict[str, float | None]:
    """The AUROC of every score of known pictures against those of a whole other set."""
    pictures = other.load(method.image_size, progress)
    task = progress.task(f"judging on {other.name}", len(pictures))
    predictions, simple = compare_pictures(method, pictures, device, advance=task.advance)
    task.finish()
    outlying = {OWN: predictions.outlier_score} | simple
    truth = np.repeat([0, -1], [len(known[OWN]), len(pictures)])
    return {
        name: auroc(truth, torch.cat([values, outlying[name]]).numpy())
        for name, values in known.items()
    }


def parameter_counts(method: Method) -> tuple[int, int, dict[str, int]]:
    """What learns beside the encoder, what the student has in all, and what learns by stage.

    A teacher is a moving average, not learnt, and so not counted; what a fit in closed form solves
    for is.
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
    solved = method.closed_form_parameters
    return sum(learning.values()) + solved, total + solved, by_stage


def learnt_parameters(method: Method) -> tuple[int, int]:
    """What gradients move in any stage, the encoder too where it learns, and what there is in all.

    As above a moving average is not counted.
    """
    learning = {
        id(parameter): parameter.numel()
        for stage in method.stages
        for phase in stage.phases
        for parameter in method.trained(phase).values()
    }
    return sum(learning.values()), parameter_counts(method)[1]
