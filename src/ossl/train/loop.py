"""The one training loop: stages, epochs, phases, steps. It never knows a method's name.

A run's folder while it trains:
    journal.jsonl    one line every `LOG_EVERY` steps and one for each epoch's end
    tensorboard/     the same, when TensorBoard is installed
    checkpoints/     the whole state after an epoch; the newest two are kept
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from accelerate import Accelerator
from torch import Tensor

from ossl.data.batches import Batch, Batches, Share
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
from ossl.train.distributed import make_scan, sync_batch_norms, sync_gradients
from ossl.train.journal import Journal

LOG_EVERY = 10  # steps
SCAN_BATCH = 256  # pictures
NAN_TOLERANCE = 3  # steps in a row without a finite loss and gradient
CHECKPOINT_EVERY = 30.0  # seconds; a stage's end is always kept


class TrainingDivergedError(RuntimeError):
    """The loss was not a finite number several steps in a row."""


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
    device = accelerator.device
    method.to(device)
    journal = Journal(run) if accelerator.is_main_process else None
    if accelerator.num_processes > 1:
        unsynced = sync_batch_norms(method)
        _write(journal, "distributed", {"processes": accelerator.num_processes, "local": unsynced})

    # 1. Where to start.
    checkpoint = latest_checkpoint(run / "checkpoints") if resume else None
    position = read_position(checkpoint) if checkpoint else Position()
    if checkpoint is not None:
        restore_model(checkpoint, method, device)
        if journal is not None:
            journal.rewind(position.journal)
        progress.say(f"going on from {checkpoint.name}")

    # 2. Stage by stage.
    scan = make_scan(labelled, pool, accelerator, SCAN_BATCH)
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
            optimisers = _optimisers(method, stage)
            if not fresh and checkpoint is not None:
                restore_optimisers(checkpoint, optimisers)
            steps = sum(phase.steps for phase in stage.phases)
            task = progress.task(stage.title, (stage.epochs - position.epoch) * steps, "steps")

            # 3. Epoch by epoch; every epoch draws from a seed of its own, so none needs another's.
            for epoch in range(position.epoch, stage.epochs):
                step = position.step
                for number, phase in enumerate(stage.phases):
                    words = [seed, index, number, epoch]
                    step = _run_phase(
                        method,
                        stage,
                        phase,
                        epoch,
                        step,
                        _batches(method, phase, labelled, pool, words, accelerator),
                        optimisers,
                        accelerator,
                        journal,
                        task.advance,
                    )
                    method.eval()
                    values = method.end_phase(phase, scan)
                    where = {"stage": stage.name, "phase": phase.name, "epoch": epoch + 1}
                    _write(journal, "epoch", {**where, **values}, step)
                written = journal.position() if journal else 0
                position = Position(index, epoch + 1, step, written)
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


def _run_phase(
    method: Method,
    stage: Stage,
    phase: Phase,
    epoch: int,
    step: int,
    batches: Batches | None,
    optimisers: Optimisers,
    accelerator: Accelerator,
    journal: Journal | None,
    advance: Callable[[int, str | None], None],
) -> int:
    """The number of steps of the whole run after one phase of one epoch."""
    if batches is None:
        advance(phase.steps, None)
        _write(journal, "skipped", {"phase": phase.name, "why": "its choice of the pool is empty"})
        return step
    optimiser, _ = optimisers[phase.name]
    rate = phase.learning_rate * stage.rate_factor(epoch)
    for group in optimiser.param_groups:
        group["lr"] = rate
    method.train()
    bad = 0
    logged: list[dict[str, Tensor]] = []
    started = time.monotonic()
    for number in range(phase.steps):
        batch = next(batches)
        losses, finite = train_step(method, batch, phase, optimiser, accelerator, stage)
        step += 1
        bad = 0 if finite else bad + 1
        if bad == NAN_TOLERANCE:
            raise TrainingDivergedError(_divergence(stage, phase, step, rate, losses))
        logged.append(losses)
        if (number + 1) % LOG_EVERY == 0 or number + 1 == phase.steps:
            seconds = time.monotonic() - started
            total = log_step(journal, stage, phase, epoch, step, rate, logged, seconds)
            advance(len(logged), f"loss {total:.3f}")
            logged, started = [], time.monotonic()
    return step


def log_step(
    journal: Journal | None,
    stage: Stage,
    phase: Phase,
    epoch: int,
    step: int,
    rate: float,
    logged: list[dict[str, Tensor]],
    seconds: float,
) -> float:
    """The summed loss, after writing the means of the last few steps to the journal."""
    means = {
        name: float(torch.stack([entry[name] for entry in logged]).mean()) for name in logged[0]
    }
    where = {"stage": stage.name, "phase": phase.name, "epoch": epoch + 1, "rate": rate}
    speed = {"steps_per_second": round(len(logged) / max(seconds, 1e-9), 3)}
    _write(journal, "step", {**where, **means, **speed}, step)
    return sum(value for name, value in means.items() if name.endswith("_loss"))


def train_step(
    method: Method,
    batch: Batch,
    phase: Phase,
    optimiser: torch.optim.Optimizer,
    accelerator: Accelerator,
    stage: Stage,
) -> tuple[dict[str, Tensor], bool]:
    """The named parts of one step, and whether it was finite and so taken."""
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    with torch.autocast(
        accelerator.device.type, dtype=torch.bfloat16, enabled=stage.mixed_precision
    ):
        parts = method(batch, phase)
    loss = torch.stack([part for name, part in parts.items() if name.endswith("_loss")]).sum()
    optimiser.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    sync_gradients(parameters, accelerator.num_processes)
    gradients = [p.grad for p in parameters if p.grad is not None]
    size = torch.nn.utils.get_total_norm(gradients) if gradients else loss.detach()
    finite = math.isfinite(float(size))  # the same in every process, as the gradients are
    if finite:
        optimiser.step()
        method.after_step(phase)
    return {name: part.detach() for name, part in parts.items()}, finite


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
        device=accelerator.device,
    )


def _optimisers(method: Method, stage: Stage) -> Optimisers:
    optimisers: Optimisers = {}
    for phase in stage.phases:
        parameters = method.trained(phase)
        optimiser = torch.optim.SGD(
            list(parameters.values()),
            lr=phase.learning_rate,
            momentum=phase.momentum,
            weight_decay=phase.weight_decay,
            nesterov=phase.nesterov,
        )
        optimisers[phase.name] = (optimiser, parameters)
    return optimisers


def _divergence(
    stage: Stage, phase: Phase, step: int, rate: float, losses: dict[str, Tensor]
) -> str:
    shown = ", ".join(f"{name} {float(value):.3g}" for name, value in losses.items())
    return (
        f"training diverged: {NAN_TOLERANCE} steps in a row without a finite loss and gradient "
        f"(stage {stage.name}, phase {phase.name}, step {step}, learning rate {rate:g}; {shown}). "
        "The last checkpoint is whole; a smaller schedule.learning_rate usually mends it."
    )


def _write(
    journal: Journal | None, event: str, values: Mapping[str, object], step: int | None = None
) -> None:
    if journal is not None:
        journal.write(event, dict(values), step)
