"""The one training loop: stages, epochs, phases, steps. It never knows a method's name.

A run's folder while it trains:
    journal.jsonl    one line every `LOG_EVERY` steps and one for each epoch's end
    tensorboard/     the same, when TensorBoard is installed
    checkpoints/     the whole state after an epoch; the newest two are kept
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from ossl.compute import keep_freed_memory
from ossl.data.batches import Batches, Share
from ossl.data.store import Pictures
from ossl.methods.base import Method, Phase, Stage
from ossl.progress import Progress
from ossl.train.checkpoint import (
    Optimisers,
    Position,
    latest_checkpoint,
    read_position,
    restore_model,
    restore_optimisers,
    save_checkpoint,
)
from ossl.train.distributed import DataScan, sync_batch_norms
from ossl.train.journal import Journal
from ossl.train.step import log_step, running_statistics, train_step

LOG_EVERY = 10  # steps
SCAN_BATCH = 256  # pictures
NAN_TOLERANCE = 3  # steps of a phase in a row without a finite loss and gradient
CHECKPOINT_EVERY = 30.0  # seconds; a stage's end is always kept


class TrainingDivergedError(RuntimeError):
    """The loss or its gradient was not a finite number several steps in a row."""


def train(
    method: Method,
    labelled: Pictures,
    pool: Pictures,
    run: Path,
    *,
    seed: int,
    accelerator: Accelerator,
    progress: Progress,
    resume: bool = False,
    checkpoint_every: float = CHECKPOINT_EVERY,
    after_epoch: Callable[[Position], None] | None = None,
) -> None:
    """Train `method` through all its stages; with `resume`, from the newest checkpoint on."""
    method.to(accelerator.device)
    if any(stage.epochs for stage in method.stages):
        keep_freed_memory(accelerator.device)

    # 1. Where to start. Without a checkpoint a resumed run is one that starts again.
    checkpoint = latest_checkpoint(run / "checkpoints") if resume else None
    position = Position()
    if checkpoint is not None:
        position = read_position(checkpoint)
        restore_model(checkpoint, method, accelerator.device)
        progress.say(f"going on from {checkpoint.name}")
    accelerator.wait_for_everyone()  # all have read the newest before the main process adds one
    journal = None
    if accelerator.is_main_process:
        journal = Journal(run, kept=position.journal, step=position.step)
    if accelerator.num_processes > 1:
        unsynced = sync_batch_norms(method)
        _write(journal, "distributed", {"processes": accelerator.num_processes, "local": unsynced})

    # 2. Stage by stage.
    scan = DataScan(labelled, pool, accelerator, SCAN_BATCH)
    last_saved = time.monotonic()
    try:
        for index in range(position.stage, len(method.stages)):
            stage = method.stages[index]
            method.enter(stage)
            fresh = position.stage != index or position.epoch == 0
            if fresh:
                method.eval()
                _write(journal, "begin", {"stage": stage.name, **method.begin(stage, scan)})
                position = Position(index, 0, position.step)
            optimisers = optimisers_of(method, stage)
            if not fresh and checkpoint is not None:
                restore_optimisers(checkpoint, optimisers)
            steps = sum(phase.steps for phase in stage.phases)
            task = progress.task(stage.title, (stage.epochs - position.epoch) * steps, "steps")
            work = _Work(method, stage, optimisers, accelerator, journal, dict(position.bad))

            # 3. Epoch by epoch; every epoch draws from a seed of its own, so none needs another's.
            for epoch in range(position.epoch, stage.epochs):
                step = position.step
                for number, phase in enumerate(stage.phases):
                    words = [seed, index, number, epoch]
                    batches = _batches(method, phase, labelled, pool, words, accelerator)
                    step = _run_phase(work, phase, epoch, step, batches, task.advance)
                    method.eval()
                    values = method.end_phase(phase, scan)
                    where = {"stage": stage.name, "phase": phase.name, "epoch": epoch + 1}
                    _write(journal, "epoch", {**where, **values}, step)
                written = journal.position() if journal else 0
                position = Position(index, epoch + 1, step, written, dict(work.bad))
                last = epoch + 1 == stage.epochs
                if accelerator.is_main_process and (
                    last or time.monotonic() - last_saved >= checkpoint_every
                ):
                    save_checkpoint(run / "checkpoints", position, method, optimisers)
                    last_saved = time.monotonic()
                if after_epoch is not None:
                    after_epoch(position)
            task.finish()
        accelerator.wait_for_everyone()
    finally:
        if journal is not None:
            journal.close()
    method.eval()


@dataclass(frozen=True)
class _Work:
    """What the phases of a stage have in common."""

    method: Method
    stage: Stage
    optimisers: Optimisers
    accelerator: Accelerator
    journal: Journal | None
    # By phase, how many of its last steps in a row were not finite. Kept from epoch to epoch: a
    # phase of fewer than NAN_TOLERANCE steps would never be stopped otherwise.
    bad: dict[str, int]


def _run_phase(
    work: _Work,
    phase: Phase,
    epoch: int,
    step: int,
    batches: Batches | None,
    advance: Callable[[int, str | None], None],
) -> int:
    """The number of steps of the whole run after one phase of one epoch."""
    where = {"stage": work.stage.name, "phase": phase.name, "epoch": epoch + 1}
    if batches is None:
        advance(phase.steps, None)
        why = "there is nothing of the pool for it to learn from"
        _write(work.journal, "skipped", {**where, "why": why}, step)
        return step
    optimiser, _ = work.optimisers[phase.name]
    work.method.train()
    statistics = running_statistics(work.method)
    logged: list[dict[str, Tensor]] = []
    done, started = 0, time.monotonic()
    for number in range(phase.steps):
        rate = phase.learning_rate * work.stage.rate_factor(epoch, number / phase.steps)
        for group in optimiser.param_groups:
            group["lr"] = rate
        losses, finite = train_step(
            work.method, next(batches), phase, optimiser, work.accelerator, work.stage, statistics
        )
        step += 1
        done += 1
        if finite:
            logged.append(losses)
            work.bad[phase.name] = 0
        else:
            _count_bad_step(work, phase, where, step, rate, losses)
        if (number + 1) % LOG_EVERY == 0 or number + 1 == phase.steps:
            speed = done / max(time.monotonic() - started, 1e-9)
            note = None
            if logged:
                values = {**where, "rate": rate, "steps_per_second": round(speed, 3)}
                note = f"loss {log_step(work.journal, values, step, logged, work.accelerator):.3f}"
            advance(done, note)
            logged, done, started = [], 0, time.monotonic()
    return step


def _count_bad_step(
    work: _Work,
    phase: Phase,
    where: Mapping[str, object],
    step: int,
    rate: float,
    losses: dict[str, Tensor],
) -> None:
    """Log a step that was not taken; stop at the last one that is borne."""
    values = {name: float(value) for name, value in losses.items()}
    in_a_row = work.bad[phase.name] = work.bad.get(phase.name, 0) + 1
    _write(work.journal, "bad_step", {**where, "rate": rate, "in_a_row": in_a_row, **values}, step)
    if in_a_row >= NAN_TOLERANCE:
        shown = ", ".join(f"{name} {value:.3g}" for name, value in values.items())
        raise TrainingDivergedError(
            f"training diverged: {NAN_TOLERANCE} steps in a row without a finite loss and gradient "
            f"(stage {work.stage.name}, phase {phase.name}, step {step}, learning rate {rate:g}; "
            f"{shown}). A smaller --set {work.method.rate_setting} usually mends it."
        )


def _batches(
    method: Method,
    phase: Phase,
    labelled: Pictures,
    pool: Pictures,
    words: list[int],
    accelerator: Accelerator,
) -> Batches | None:
    choice = method.pool_choice(phase)
    if choice is not None and len(choice) == 0:
        return None
    share = Share(accelerator.process_index, accelerator.num_processes)
    return Batches(
        labelled,
        pool,
        phase.plan,
        words,
        share,
        pool_choice=choice,
        selected=method.selected(phase),
        device=accelerator.device,
    )


def optimisers_of(method: Method, stage: Stage) -> Optimisers:
    """An optimiser for every phase of a stage, with the parameters it moves by name."""
    optimisers: Optimisers = {}
    for phase in stage.phases if stage.epochs else ():  # what is never stepped need not learn
        parameters = method.trained(phase)
        groups = _groups(parameters, phase)
        optimiser: torch.optim.Optimizer
        if phase.optimiser == "adamw":
            optimiser = torch.optim.AdamW(
                groups, lr=phase.learning_rate, weight_decay=phase.weight_decay
            )
        else:
            optimiser = torch.optim.SGD(
                groups,
                lr=phase.learning_rate,
                momentum=phase.momentum,
                weight_decay=phase.weight_decay,
                nesterov=phase.nesterov,
            )
        optimisers[phase.name] = (optimiser, parameters)
    return optimisers


def _groups(parameters: Mapping[str, nn.Parameter], phase: Phase) -> list[dict[str, Any]]:
    """The parameters, those apart that no weight decay is for: biases and normalisations."""
    spared = [] if phase.decays_all else [p for p in parameters.values() if p.dim() < 2]
    rest = [p for p in parameters.values() if phase.decays_all or p.dim() >= 2]
    groups: list[dict[str, Any]] = [{"params": rest}]
    return groups + ([{"params": spared, "weight_decay": 0.0}] if spared else [])


def _write(
    journal: Journal | None, event: str, values: Mapping[str, object], step: int | None = None
) -> None:
    if journal is not None:
        journal.write(event, values, step)
