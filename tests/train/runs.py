"""Whole tiny runs of the training loop, and what is left of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor

from ossl.data.batches import Batch
from ossl.methods.base import Method, Phase
from ossl.methods.openprompt import OpenPrompt
from ossl.progress import Progress
from ossl.train.checkpoint import Position
from ossl.train.loop import train
from ossl.train.step import running_statistics
from tests.methods import tiny

CLOCK = {"seconds", "steps_per_second"}


class InterruptedRunError(Exception):
    """A run was stopped from outside."""


def run(
    folder: Path,
    made: Method | None = None,
    *,
    seed: int = 0,
    resume: bool = False,
    checkpoint_every: float = 0.0,
    stop_after: int | None = None,
    watch: Callable[[Position], None] | None = None,
    **changes: Any,
) -> Any:
    """The trained method; `stop_after` so many epochs of all stages it is interrupted."""
    folder.mkdir(exist_ok=True)
    made = made or tiny.method(seed=seed, **changes)
    done = 0

    def after_epoch(position: Position) -> None:
        nonlocal done
        done += 1
        if watch is not None:
            watch(position)
        if done == stop_after:
            raise InterruptedRunError

    train(
        made,
        tiny.labelled_pictures(),
        tiny.pool_pictures(),
        folder,
        seed=seed,
        accelerator=Accelerator(cpu=True),
        progress=Progress(quiet=True),
        resume=resume,
        checkpoint_every=checkpoint_every,
        after_epoch=after_epoch,
    )
    return made


def left(made: Method) -> dict[str, Tensor]:
    """Everything that a run writes into its two safetensors files."""
    return {**made.state_dict(), **{f"joint/{k}": v for k, v in made.joint_space().items()}}


def same(one: Method, other: Method) -> bool:
    """Whether two methods are the same, to the last bit."""
    a, b = left(one), left(other)
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def journal(folder: Path, *events: str) -> list[dict[str, Any]]:
    """The lines of these events, or all, without what a clock says."""
    text = (folder / "journal.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    return [
        {name: value for name, value in line.items() if name not in CLOCK}
        for line in lines
        if not events or line["event"] in events
    ]


class Sick(OpenPrompt):
    """OpenPrompt whose losses are no numbers at some calls of some phases."""

    when: Callable[[str, int], bool]
    calls: dict[str, int]

    def forward(self, batch: Batch, phase: Phase) -> dict[str, Tensor]:
        parts = super().forward(batch, phase)
        call = self.calls[phase.name] = self.calls.get(phase.name, 0) + 1
        if self.when(phase.name, call):
            parts = {name: part * torch.nan for name, part in parts.items()}
            for buffer in running_statistics(self):
                buffer.data.fill_(
                    torch.nan if buffer.is_floating_point() else -1
                )  # as BatchNorm does with such a batch
        return parts


def sick(when: Callable[[str, int], bool]) -> Sick:
    """A method that is sick at the calls, counted from one by phase, for which `when` is true."""
    made = Sick(tiny.encoder(), tiny.CLASSES, tiny.RECIPE, tiny.SCHEDULE, 0)
    made.when, made.calls = when, {}
    return made
