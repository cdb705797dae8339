"""The paper's losses of a batch: of stage 1, of the student's prompt and of the outlier prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from ossl.data.batches import Batch
from ossl.jointspace.losses import prompt_contrast

if TYPE_CHECKING:
    from ossl.methods.openprompt import OpenPrompt


def labelled_losses(made: OpenPrompt, batch: Batch) -> dict[str, Tensor]:
    """L_l: cross-entropy on the labelled pictures (row 4)."""
    logits = made.logits(made.features(batch.labelled["weak"], made.prompt))
    hits = (logits.argmax(dim=1) == batch.labels).float().mean()
    return {"labelled_loss": F.cross_entropy(logits, batch.labels), "labelled_accuracy": hits}


def student_losses(made: OpenPrompt, batch: Batch) -> dict[str, Tensor]:
    """L_l + L_S + L_C + L_CL (rows 11–13)."""
    weak, strong = batch.pool["weak"], batch.pool["strong"]
    with torch.no_grad():
        teacher_features = made.features(weak, made.teacher["prompt"])
        known = ~made.detector.detect(teacher_features)
        judge = teacher_features
        if made.recipe.pseudo_labels == "student":
            judge = made.features(weak, made.prompt)
        confidence, pseudo = made.logits(judge).softmax(dim=1).max(dim=1)
        used = (known & (confidence >= made.recipe.pseudo_threshold)).float()

    features = made.features(torch.cat([batch.labelled["weak"], strong]), made.prompt)
    labelled_features, pool_features = features.tensor_split([len(batch.labels)])
    logits = made.logits(features)
    labelled_logits, pool_logits = logits.tensor_split([len(batch.labels)])
    pseudo_loss = F.cross_entropy(pool_logits, pseudo, reduction="none")
    losses = {
        "labelled_loss": F.cross_entropy(labelled_logits, batch.labels),
        "supervised_loss": (pseudo_loss * used).mean(),
        "consistency_loss": made.detector.consistency(pool_features, teacher_features),
        "known_share": known.float().mean(),
        "pseudo_labelled_share": used.mean(),
    }
    if made.outlier_prompt is not None:
        losses["contrast_loss"] = prompt_contrast(
            made.prompt.values, made.outlier_prompt.values, made.recipe.contrast_margin
        )
    detector_loss = made.detector.detector_loss(labelled_features, teacher_features)
    if detector_loss is not None:
        losses["detector_loss"] = detector_loss
    return losses


def outlier_prompt_losses(made: OpenPrompt, batch: Batch) -> dict[str, Tensor]:
    """L_C alone, through the outlier prompt, on detected outliers (row 14)."""
    assert made.outlier_prompt is not None
    with torch.no_grad():
        teacher = made.features(batch.pool["weak"], made.teacher["outlier_prompt"])
    student = made.features(batch.pool["strong"], made.outlier_prompt)
    return {"consistency_loss": made.detector.consistency(student, teacher)}
