"""Whole jobs against their network: a fit of the default recipe, and the sorting of a folder."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from PIL import Image

from ossl.compute import compute_dtype, create_accelerator
from ossl.config import BackboneConfig, Device, DigitsData, Precision
from ossl.data.arrays import ArrayPictures
from ossl.data.folders import FlatFolder
from ossl.data.store import MemoryPictures, Pictures, load, stream
from ossl.errors import InputError
from ossl.methods import create_encoder, create_method
from ossl.methods.base import Method
from ossl.methods.openprompt import OpenPrompt
from ossl.presets import everyday_config
from ossl.score import BATCH, score_source
from ossl.train.distributed import DataScan

CLASSES, LABELLED = 6, 50  # as in CIFAR-10 6/4 with 50 labels a class
SCAN_BATCH = 256  # pictures, as the training loop takes them
FILE_SIDE = 256  # pixels of the pictures in the folder


def bench_fit(
    backbone: str, image_size: int, pictures: int, precision: Precision, device: Device
) -> dict[str, Any]:
    """The time of a fit without prompt, loading left out, over one bare forward pass of its pool.

    The fit has everything after loading: features of labelled pictures and pool, joint space,
    share, classifier.
    """
    accelerator = create_accelerator(device)
    method = _method(backbone, image_size, precision, device)
    labelled = _coloured(CLASSES * LABELLED, image_size, outliers=False)
    pool = _coloured(pictures, image_size, outliers=True)
    stage = method.stages[-1]
    method.enter(stage)
    net = method.frozen_encoder

    def bare(some: Pictures) -> float:
        started = _now(accelerator.device)
        with torch.inference_mode():
            for low in range(0, len(some), SCAN_BATCH):
                indices = torch.arange(low, min(low + SCAN_BATCH, len(some)))
                net(method.encoder.normalise(some.take(indices).to(accelerator.device)))
        return _now(accelerator.device) - started

    bare(labelled)  # warms up
    floor = bare(pool)
    started = _now(accelerator.device)
    method.eval()
    method.begin(stage, DataScan(labelled, pool, accelerator, SCAN_BATCH))
    spent = _now(accelerator.device) - started
    # Before and after: a machine that slows down meanwhile is not the fit's fault.
    floor = (floor + bare(pool)) / 2
    return _result("fit", spent, floor, backbone, method, pictures)


def bench_score(
    backbone: str, image_size: int, pictures: int, precision: Precision, device: Device
) -> dict[str, Any]:
    """The time of scoring a folder over decoding its files and one bare forward pass."""
    accelerator = create_accelerator(device)
    method = _method(backbone, image_size, precision, device)
    labelled = _coloured(CLASSES * LABELLED, image_size, outliers=False)
    stage = method.stages[-1]
    method.enter(stage)
    method.eval()
    pool = _coloured(1000, image_size, outliers=True)
    method.begin(stage, DataScan(labelled, pool, accelerator, SCAN_BATCH))
    net = method.frozen_encoder
    with TemporaryDirectory() as folder:
        _write(Path(folder), pictures)
        source = FlatFolder(folder)
        list(stream(source, image_size, BATCH))  # the files are in the system's memory from here on

        def floor() -> float:
            started = _now(accelerator.device)
            parts = [some for _, some, _ in stream(source, image_size, BATCH)]
            with torch.inference_mode():
                for part in parts:
                    net(method.encoder.normalise(part.to(accelerator.device)))
            return _now(accelerator.device) - started

        first = floor()
        started = _now(accelerator.device)
        score_source(method, source, accelerator.device, lambda _: None)
        spent = _now(accelerator.device) - started
        alone = (first + floor()) / 2
    return _result("score", spent, alone, backbone, method, pictures)


def whole_summary(result: dict[str, Any]) -> str:
    """What was measured, in one line."""
    what, floor = {
        "fit": ("a fit", "one pass over its pool"),
        "score": ("scoring a folder", "decoding it and one pass over it"),
    }[result["bench"]]
    return (
        f"{what} takes {result['ratio']:.3f} times {floor}: {result['seconds']:.1f} s against "
        f"{result['floor_seconds']:.1f} s ({result['backbone']}, {result['pictures']:,} pictures "
        f"of {result['image_size']} pixels, {result['precision']}, {result['device']})"
    )


def _method(backbone: str, image_size: int, precision: Precision, device: Device) -> OpenPrompt:
    named = BackboneConfig(name=backbone, image_size=image_size)
    config = replace(everyday_config(DigitsData()), backbone=named)
    encoder = create_encoder(config)
    if not encoder.pretrained:
        raise InputError(
            f"--backbone {backbone} has no pretrained weights, and a fit trains it: bench step "
            "measures that; take --backbone lite0 here."
        )
    accelerator = create_accelerator(device)
    dtype = compute_dtype(precision, accelerator.device)
    method = create_method(config, encoder, CLASSES, dtype)
    assert isinstance(method, OpenPrompt)
    return method.to(accelerator.device)


def _coloured(count: int, size: int, *, outliers: bool) -> MemoryPictures:
    """Noise around a colour of each class; with outliers, four in ten are of other colours."""
    generator = np.random.default_rng(count)
    kinds = CLASSES + (CLASSES * 2 // 3 if outliers else 0)
    labels = np.arange(count) % kinds
    colours = np.random.default_rng(0).integers(30, 226, (CLASSES * 2, 3))
    values = np.empty((count, size, size, 3), dtype=np.uint8)
    for place, label in enumerate(labels):
        coarse = colours[label] + generator.integers(-60, 61, (8, 8, 3))
        small = Image.fromarray(coarse.clip(0, 255).astype(np.uint8))
        values[place] = np.asarray(small.resize((size, size), Image.Resampling.BICUBIC))
    known = np.minimum(labels, CLASSES - 1)
    names = tuple(f"class {number}" for number in range(CLASSES))
    made = load(ArrayPictures(torch.from_numpy(values), known.tolist(), names), size)
    assert isinstance(made, MemoryPictures)
    return made


def _write(folder: Path, count: int) -> None:
    some = _coloured(min(count, 256), FILE_SIDE, outliers=True).data.permute(0, 2, 3, 1).numpy()
    for number in range(count):
        Image.fromarray(some[number % len(some)]).save(folder / f"{number:07d}.jpg", quality=90)


def _result(
    bench: str, seconds: float, floor: float, backbone: str, method: Method, pictures: int
) -> dict[str, Any]:
    assert isinstance(method, OpenPrompt)
    return {
        "bench": bench,
        "ratio": round(seconds / floor, 4),
        "seconds": round(seconds, 3),
        "floor_seconds": round(floor, 3),
        "pictures": pictures,
        "pictures_per_second": round(pictures / seconds, 1),
        "backbone": backbone,
        "image_size": method.image_size,
        "precision": str(method.dtype).removeprefix("torch."),
        "device": str(next(method.parameters()).device),
        "threads": torch.get_num_threads(),
    }


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
