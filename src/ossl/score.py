"""Predictions of a trained method for many pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ossl.data.pictures import Rejected, Source
from ossl.data.store import Pictures, stream
from ossl.methods.base import Method, Predictions

BATCH = 128  # pictures


def predict_pictures(
    method: Method,
    pictures: Pictures,
    device: torch.device,
    advance: Callable[[int], None] | None = None,
) -> Predictions:
    """The predictions for decoded pictures, in order, on the CPU."""
    parts = []
    for low in range(0, len(pictures), BATCH):
        indices = torch.arange(low, min(low + BATCH, len(pictures)))
        parts.append(_on_cpu(method.predict(pictures.take(indices).to(device))))
        if advance is not None:
            advance(len(indices))
    return Predictions.joined(parts)


@dataclass(frozen=True)
class Scored:
    """Predictions for the readable pictures of a batch, and the files that could not be read."""

    indices: list[int]
    predictions: Predictions | None  # None when no picture of the batch could be read
    rejected: list[Rejected]


def predict_source(
    method: Method, source: Source, size: int, device: torch.device
) -> Iterator[Scored]:
    """The predictions for a source in one pass, decoded ahead in bounded memory."""
    for indices, pictures, rejected in stream(source, size, BATCH):
        said = _on_cpu(method.predict(pictures.to(device))) if len(indices) else None
        yield Scored(indices, said, rejected)


def simple_scores(logits: Tensor) -> dict[str, Tensor]:
    """The outlier scores anyone gets from the classifier alone, as a floor to compare with."""
    return {
        "max_softmax": 1 - logits.softmax(dim=1).amax(dim=1),
        "energy": -logits.logsumexp(dim=1),
    }


def _on_cpu(predictions: Predictions) -> Predictions:
    return Predictions(
        predictions.logits.float().cpu().clone(), predictions.outlier_score.float().cpu().clone()
    )
