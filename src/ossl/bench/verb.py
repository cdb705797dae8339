"""The verb `ossl bench`; it reads options, has this machine measured, and prints what came out."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, cast

from ossl.config import Device, Precision
from ossl.errors import InputError
from ossl.options import DeviceName, Json, Name, Number, PrecisionName, Word, one_of


def bench(
    what: Word,
    method: Name = None,
    backbone: Name = None,
    image_size: Number = None,
    labelled_batch: Number = None,
    pool_batch: Number = None,
    steps: Number = None,
    pictures: Number = None,
    precision: PrecisionName = None,
    device: DeviceName = None,
    as_json: Json = False,
) -> None:
    """Measure this machine: a command's work against its network's alone.

    Example: ossl bench step --json

    Example: ossl bench step --method openmatch

    Example: ossl bench fit --pictures 20000

    Args:
        what: step: a step of training (of openprompt, of its stage 2) against its passes through
            the network. fit: the default recipe on a pool against one pass over it. score: sorting
            a folder against reading its files and one pass over them.
        method: What learns, for step; `ossl list methods` shows them. Default: openprompt.
        backbone: The encoder. Default: wrn-28-2 for step, else lite0.
        image_size: Side of the pictures in pixels. Default: 32 for step, else 128.
        labelled_batch: Labelled pictures a step. Default: 64.
        pool_batch: Pool pictures a step. Default: 128.
        steps: Steps to time; the median counts. Default: 20.
        pictures: In the pool, for fit, or in the folder, for score. Default: 2000.
        precision: Of the frozen network's numbers. Default: auto.
        device: Where to compute. Default: auto.
        as_json: Print one JSON object.
    """
    topic = one_of("bench topic", what, Literal["step", "fit", "score"])
    sizes = {
        "image-size": image_size,
        "labelled-batch": labelled_batch,
        "pool-batch": pool_batch,
        "pictures": pictures,
    }
    for name, value in sizes.items():
        if value is not None and value < 1:
            raise InputError(f"--{name} {value}: give a number above 0.")
    numbers = cast(Precision, one_of("precision", precision or "auto", Precision))
    where = cast(Device, one_of("device", device or "auto", Device))
    if topic == "step":
        if pictures is not None:
            raise InputError("--pictures is for bench fit and bench score; leave it away.")
        result, said = _step(
            method, backbone, image_size, labelled_batch, pool_batch, steps, numbers, where
        )
    else:
        if any(option is not None for option in (method, labelled_batch, pool_batch, steps)):
            raise InputError(f"bench {topic} has no steps; leave the options of a step away.")
        from ossl.bench.whole import bench_fit, bench_score, whole_summary

        measure = bench_fit if topic == "fit" else bench_score
        result = measure(backbone or "lite0", image_size or 128, pictures or 2000, numbers, where)
        said = whole_summary(result)
    print(json.dumps(result) if as_json else said)


def _step(
    method: str | None,
    backbone: str | None,
    image_size: int | None,
    labelled_batch: int | None,
    pool_batch: int | None,
    steps: int | None,
    precision: Precision,
    device: Device,
) -> tuple[dict[str, Any], str]:
    from ossl.baseline_presets import OPENPROMPT, baseline_of
    from ossl.bench.step import bench_baseline_step, bench_step, bench_summary

    learner = method or OPENPROMPT
    measure: Callable[..., dict[str, Any]] = bench_step
    if baseline_of(learner, None) is not None:
        measure = partial(bench_baseline_step, learner)
    result = measure(
        backbone or "wrn-28-2",
        image_size or 32,
        labelled_batch or 64,
        pool_batch or 128,
        20 if steps is None else steps,
        precision,
        device,
    )
    return result, bench_summary(result)
