"""Predictions of a trained method for many pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ossl.data.pictures import Rejected, Source
from ossl.data.store import Pictures, stream
from ossl.errors import InputError
from ossl.methods.base import Method, Predictions

BATCH = 128  # pictures


def predict_pictures(
    method: Method,
    pictures: Pictures,
    device: torch.device,
    advance: Callable[[int], None] | None = None,
) -> Predictions:
    """The predictions for decoded pictures, in order, on the CPU."""
    batches = _batches(pictures, device, advance)
    return Predictions.joined([_on_cpu(method.predict(batch)) for batch in batches])


def compare_pictures(
    method: Method,
    pictures: Pictures,
    device: torch.device,
    advance: Callable[[int], None] | None = None,
) -> tuple[Predictions, dict[str, Tensor]]:
    """The same, and beside them the simple outlier scores by name."""
    parts: list[Predictions] = []
    simple: dict[str, list[Tensor]] = {}
    for batch in _batches(pictures, device, advance):
        predictions, scores = method.predict_with_simple(batch)
        parts.append(_on_cpu(predictions))
        for name, score in scores.items():
            simple.setdefault(name, []).append(score.float().cpu().clone())
    return Predictions.joined(parts), {name: torch.cat(some) for name, some in simple.items()}


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


@dataclass(frozen=True)
class Verdicts:
    """What was said of a source: a row for each picture that could be read, a reason for others."""

    names: list[str]
    indices: list[int]  # of those pictures in the source
    predictions: Predictions
    rejected: list[Rejected]


def score_source(
    method: Method, source: Source, device: torch.device, advance: Callable[[int], None]
) -> Verdicts:
    """The predictions for a whole source; an InputError where nothing of it can be read."""
    parts, indices, rejected = [], [], []
    for scored in predict_source(method, source, method.image_size, device):
        if scored.predictions is not None:
            parts.append(scored.predictions)
        indices += scored.indices
        rejected += scored.rejected
        advance(len(scored.indices) + len(scored.rejected))
    if not parts:
        raise InputError(
            f"none of the {len(source):,} files of {source.where} can be read; "
            f"the first is {rejected[0].path}: {rejected[0].reason}."
        )
    names = [source.names[index] for index in indices]
    return Verdicts(names, indices, Predictions.joined(parts), rejected)


def _batches(
    pictures: Pictures, device: torch.device, advance: Callable[[int], None] | None
) -> Iterator[Tensor]:
    """All pictures in order, on the device; `advance` is told of each batch that is done with."""
    for low in range(0, len(pictures), BATCH):
        indices = torch.arange(low, min(low + BATCH, len(pictures)))
        yield pictures.take(indices).to(device)
        if advance is not None:
            advance(len(indices))


def _on_cpu(predictions: Predictions) -> Predictions:
    return Predictions(
        predictions.logits.float().cpu().clone(), predictions.outlier_score.float().cpu().clone()
    )
