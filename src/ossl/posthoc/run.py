"""Post-hoc scores of a trained method: fitted on its labelled pictures, judged by AUROC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ossl.data.store import Pictures
from ossl.data.task import Judged
from ossl.evaluate import auroc
from ossl.methods.base import Method
from ossl.posthoc.scores import SCORES, Fitted
from ossl.progress import Progress
from ossl.score import BATCH


@dataclass(frozen=True)
class Seen:
    """Pictures as the network sees them, on the CPU."""

    features: Tensor  # [n, D]
    logits: Tensor  # [n, K]


def posthoc_metrics(
    method: Method,
    labelled: Pictures,
    judged: Judged,
    names: Sequence[str],
    device: torch.device,
    progress: Progress,
) -> dict[str, Any]:
    """`posthoc`, the AUROC by name, and `posthoc_source`, whose code each score is."""
    known = see(method, labelled, device, "labelled pictures for the post-hoc scores", progress)
    test = see(method, judged.pictures, device, f"{judged.name} for the post-hoc scores", progress)
    fitted = Fitted(
        known.features,
        known.logits,
        torch.as_tensor(labelled.labels, dtype=torch.int64),
        lambda features: method.classify(features.to(device)).detach().float().cpu(),
        method.last_layer,
    )
    found: dict[str, float | None] = {}
    source: dict[str, str] = {}
    task = progress.task("post-hoc scores", len(names), "scores")
    for name in names:
        score, source[name] = SCORES[name](fitted)
        found[name] = auroc(judged.truth, score(test.features, test.logits).numpy())
        task.advance(1)
    task.finish()
    return {"posthoc": found, "posthoc_source": source}


@torch.no_grad()
def see(
    method: Method, pictures: Pictures, device: torch.device, what: str, progress: Progress
) -> Seen:
    """What a method's classifier takes and gives for pictures, in order."""
    task = progress.task(what, len(pictures))
    features, logits = [], []
    for low in range(0, len(pictures), BATCH):
        indices = torch.arange(low, min(low + BATCH, len(pictures)))
        seen = method.penultimate(pictures.take(indices).to(device))
        features.append(seen.float().cpu().clone())  # of inference mode, it could not be used on
        logits.append(method.classify(seen).float().cpu().clone())
        task.advance(len(indices))
    task.finish()
    return Seen(torch.cat(features), torch.cat(logits))
