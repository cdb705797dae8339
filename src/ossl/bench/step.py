"""Speed as ratios within one run: what a command does against what the network alone must do."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from ossl.baseline_presets import baseline_of
from ossl.compute import compute_dtype, create_accelerator, keep_freed_memory
from ossl.config import (
    BackboneConfig,
    Device,
    DigitsData,
    Precision,
    RecipeConfig,
    RunConfig,
    ScheduleConfig,
)
from ossl.data.arrays import ArrayPictures
from ossl.data.batches import Batches
from ossl.data.store import load
from ossl.errors import InputError
from ossl.methods import create_encoder, create_method
from ossl.methods.base import Phase, Stage
from ossl.methods.baseline import Baseline
from ossl.methods.openprompt import OpenPrompt
from ossl.train.distributed import DataScan
from ossl.train.journal import Journal
from ossl.train.loop import optimisers_of
from ossl.train.step import log_step, train_step

CLASSES = 6
WARM_UP = 3  # steps


def bench_step(
    backbone: str,
    image_size: int,
    labelled_batch: int,
    pool_batch: int,
    steps: int,
    precision: Precision,
    device: Device,
) -> dict[str, Any]:
    """The time of a stage-2 step over that of its network alone, step by step in turn.

    The step is the training loop's own: batches, augmentation, losses, optimiser, teacher, journal.
    The floor is student forward, backward to the prompted pictures, and teacher forward, by the
    same frozen folded network on random tensors of the same shapes and precision.
    """
    if steps < 1:
        raise InputError(f"--steps {steps}: at least one step is needed to time one.")
    accelerator = create_accelerator(device)
    keep_freed_memory(accelerator.device)  # as the training loop does
    dtype = compute_dtype(precision, accelerator.device)
    schedule = ScheduleConfig(labelled_batch=labelled_batch, pool_batch=pool_batch)
    config = RunConfig(
        data=DigitsData(),
        recipe=RecipeConfig(),
        schedule=schedule,
        backbone=BackboneConfig(name=backbone, image_size=image_size),
    )
    encoder = create_encoder(config, for_training=False)
    method = create_method(config, encoder, CLASSES, dtype)
    assert isinstance(method, OpenPrompt)
    method.to(accelerator.device)
    labelled, pool = (
        _noise(labelled_batch * 2, image_size, 0),
        _noise(pool_batch * 4, image_size, 1),
    )
    stage = method.stages[1]
    phase = stage.phases[0]
    method.enter(stage)
    method.begin(stage, DataScan(labelled, pool, accelerator, pool_batch))
    method.train()
    parameters = method.trained(phase)
    optimiser = torch.optim.SGD(parameters.values(), lr=phase.learning_rate, momentum=0.9)
    batches = Batches(labelled, pool, phase.plan, [0], device=accelerator.device)

    net = method.frozen_encoder
    shape = (3, image_size, image_size)
    student = torch.randn(labelled_batch + pool_batch, *shape, device=accelerator.device)
    teacher = torch.randn(pool_batch, *shape, device=accelerator.device)
    student = student.to(dtype, memory_format=torch.channels_last)
    teacher = teacher.to(dtype, memory_format=torch.channels_last)

    def floor() -> None:
        with torch.no_grad():
            net(teacher)
        pictures = student.detach().requires_grad_()
        torch.autograd.grad(net(pictures).sum(), pictures)

    def take() -> dict[str, Tensor]:
        return train_step(method, next(batches), phase, optimiser, accelerator, stage)[0]

    spent = _timed(take, floor, steps, stage, phase, accelerator)
    return _figures(spent, config, accelerator.device, dtype, steps, None)


def bench_baseline_step(
    method_name: str,
    backbone: str,
    image_size: int,
    labelled_batch: int,
    pool_batch: int,
    steps: int,
    precision: Precision,
    device: Device,
) -> dict[str, Any]:
    """The time of a baseline's step over that of its network alone, step by step in turn.

    The floor is the step's own passes through the network, forward and (where it learns by them)
    backward, on random pictures, under the same autocast and in channels-last memory. Where a step
    has a third side (OpenMatch's pseudo-inliers), the whole pool counts as selected.
    """
    if steps < 1:
        raise InputError(f"--steps {steps}: at least one step is needed to time one.")
    accelerator = create_accelerator(device)
    keep_freed_memory(accelerator.device)  # as the training loop does
    dtype = compute_dtype(precision, accelerator.device)
    settings = baseline_of(method_name, "full")
    assert settings is not None
    config = RunConfig(
        data=DigitsData(),
        method=method_name,
        baseline=replace(
            settings,
            labelled_batch=labelled_batch,
            pool_batch=pool_batch,
            train_encoder="always",
        ),
        backbone=BackboneConfig(name=backbone, image_size=image_size),
    )
    method = create_method(config, create_encoder(config, for_training=False), CLASSES, dtype)
    assert isinstance(method, Baseline)
    method.to(accelerator.device)
    labelled = _noise(labelled_batch * 2, image_size, 0)
    pool = _noise(pool_batch * 4, image_size, 1)
    stage = method.stages[0]
    phase = stage.phases[-1]
    method.enter(stage)
    method.eval()
    method.begin(stage, DataScan(labelled, pool, accelerator, pool_batch))
    method.train()
    optimisers = optimisers_of(method, stage)
    optimiser, _ = optimisers[phase.name]
    everything = torch.arange(len(pool))
    batches = Batches(
        labelled, pool, phase.plan, [0], selected=everything, device=accelerator.device
    )
    passes = _passes(
        method,
        lambda: train_step(method, next(batches), phase, optimiser, accelerator, stage),
    )
    pictures = sum(len(noise) for _, noise, _ in passes)
    weights = [p for p in method.encoder.parameters() if p.requires_grad]

    def floor() -> None:
        with torch.autocast(
            accelerator.device.type, dtype=torch.bfloat16, enabled=stage.mixed_precision
        ):
            for net, noise, learns in passes:
                with torch.set_grad_enabled(learns):
                    features = net(noise)
                if learns:
                    torch.autograd.grad(features.sum(), weights)

    def take() -> dict[str, Tensor]:
        return train_step(method, next(batches), phase, optimiser, accelerator, stage)[0]

    spent = _timed(take, floor, steps, stage, phase, accelerator)
    return _figures(spent, config, accelerator.device, dtype, steps, pictures)


def _timed(
    take: Callable[[], dict[str, Tensor]],
    floor: Callable[[], None],
    steps: int,
    stage: Stage,
    phase: Phase,
    accelerator: Accelerator,
) -> dict[str, list[float]]:
    """The seconds of steps, each logged as the training loop does, and of the floor, in turn."""
    where = {"stage": stage.name, "phase": phase.name, "rate": phase.learning_rate}
    with TemporaryDirectory() as folder:
        journal = Journal(Path(folder), tensorboard=False)

        def step() -> None:
            log_step(journal, where, 1, [take()], accelerator)

        spent = _in_turn({"step": step, "floor": floor}, steps, accelerator.device)
        journal.close()
    return spent


def _figures(
    spent: dict[str, list[float]],
    config: RunConfig,
    device: torch.device,
    dtype: torch.dtype,
    steps: int,
    pictures: int | None,
) -> dict[str, Any]:
    """What was measured; `pictures` are those of a baseline's step, None for openprompt's."""
    middle = {name: statistics.median(times) for name, times in spent.items()}
    ratios = [a / b for a, b in zip(spent["step"], spent["floor"], strict=True)]
    batches = config.schedule if config.baseline is None else config.baseline
    result: dict[str, Any] = {
        "bench": "step",
        "method": config.method,
        "ratio": round(statistics.median(ratios), 4),
        "step_seconds": round(middle["step"], 5),
        "floor_seconds": round(middle["floor"], 5),
    }
    if pictures is None:
        result["pool_pictures_per_second"] = round(batches.pool_batch / middle["step"], 1)
    else:
        result["pictures"] = pictures
        result["pictures_per_second"] = round(pictures / middle["step"], 1)
    return result | {
        "steps": steps,
        "backbone": config.backbone.name,
        "image_size": config.backbone.image_size,
        "labelled_batch": batches.labelled_batch,
        "pool_batch": batches.pool_batch,
        "precision": str(dtype).removeprefix("torch."),
        "device": str(device),
        "threads": torch.get_num_threads(),
    }


def _passes(
    method: Baseline, step: Callable[[], object]
) -> list[tuple[nn.Module, torch.Tensor, bool]]:
    """The network, random pictures, and whether it learns, of each of a step's passes."""
    seen: list[tuple[nn.Module, torch.Tensor, bool]] = []

    def watch(net: nn.Module, given: tuple[torch.Tensor, ...]) -> None:
        noise = torch.randn_like(given[0].detach(), memory_format=torch.channels_last)
        seen.append((net, noise, torch.is_grad_enabled()))

    handles = [
        net.register_forward_pre_hook(watch) for net in (method.encoder, method.average["encoder"])
    ]
    step()
    for handle in handles:
        handle.remove()
    return seen


def bench_summary(result: dict[str, Any]) -> str:
    """What `bench_step` measured, in one line."""
    return (
        f"a step takes {result['ratio']:.3f} times its network alone: "
        f"{1000 * result['step_seconds']:.1f} ms against {1000 * result['floor_seconds']:.1f} ms "
        f"({result['backbone']}, {_batch_in_words(result)} of "
        f"{result['image_size']} pixels, {result['precision']}, {result['device']})"
    )


def _batch_in_words(result: dict[str, Any]) -> str:
    if "pictures" in result:
        each = f"{result['pictures_per_second']:,.0f} a second"
        return f"{result['method']}, {result['pictures']} pictures a step, {each},"
    return f"{result['labelled_batch']} + {result['pool_batch']} pictures"


def _in_turn(
    work: dict[str, Callable[[], None]], rounds: int, device: torch.device
) -> dict[str, list[float]]:
    """Seconds per round of each piece of work; in turn, so that a busy machine slows them alike."""
    spent: dict[str, list[float]] = {name: [] for name in work}
    for number in range(WARM_UP + rounds):
        for name, run in work.items():
            started = time.perf_counter()
            run()
            if device.type != "cpu":
                torch.accelerator.synchronize()
            if number >= WARM_UP:
                spent[name].append(time.perf_counter() - started)
    return spent


def _noise(count: int, size: int, seed: int) -> Any:
    generator = torch.Generator().manual_seed(seed)
    pictures = torch.randint(0, 256, (count, size, size, 3), generator=generator, dtype=torch.uint8)
    labels = [index % CLASSES for index in range(count)]
    return load(ArrayPictures(pictures, labels, tuple("abcdef")), size)
