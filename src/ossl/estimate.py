"""How long a fit will take, told beforehand: measured for a moment on this very machine."""

from __future__ import annotations

import time

import torch

from ossl.budgets import fit_cost
from ossl.config import RunConfig
from ossl.data.store import Pictures
from ossl.methods.base import Method
from ossl.models.backbone import Backbone
from ossl.models.frozen import freeze

MEASURED = 64  # pictures at most, after as many to warm up
BACKWARD = 3  # a picture that is learnt from costs as much as so many that are only seen
# The fits in closed form, in products of two matrices of 1,024 rows and columns:
FITS = 60.0
FITS_PER_PICTURE = 0.045  # of the pool, up to MOST
MOST = 20_000
VIEWS_COMPARED = 4  # fits of a budget above fast: of each choice of views, and of the one taken


def seconds_to_fit(
    method: Method,
    encoder: Backbone,
    labelled: Pictures,
    pool: Pictures,
    device: torch.device,
    dtype: torch.dtype,
    config: RunConfig | None = None,
) -> float:
    """The seconds that training takes from here, roughly; features remembered save some of it.

    `config` says where everything is looked at several times: a budget compares views, and rounds
    begin with a pass.
    """
    rate = pictures_per_second(encoder, pool, device, dtype)
    count, fits = float(len(labelled) + len(pool)), FITS
    fits += FITS_PER_PICTURE * min(len(pool), MOST)
    seen = count
    if config is not None and config.baseline is None:
        if config.schedule.tuning_epochs:
            cost = fit_cost(config.recipe, config.schedule, len(labelled), len(pool))
            times = VIEWS_COMPARED * fits * seconds_of_a_product()
            return cost.passes / rate + times
        if any(stage.hill for stage in method.stages):
            seen += count * config.schedule.rounds
            fits *= 1 + config.schedule.rounds
    for stage in method.stages:
        for phase in stage.phases:
            plan = phase.plan
            each = plan.labelled * len(plan.labelled_views) + plan.pool * len(plan.pool_views)
            seen += BACKWARD * stage.epochs * phase.steps * each
    return seen / rate + fits * seconds_of_a_product()


@torch.no_grad()
def pictures_per_second(
    encoder: Backbone, pictures: Pictures, device: torch.device, dtype: torch.dtype
) -> float:
    """How many pictures go through the frozen encoder in a second."""
    count = min(MEASURED, max(1, len(pictures) // 8))
    some = pictures.take(list(range(count))).to(device)
    frozen = freeze(encoder.to(device), dtype=dtype)
    for _ in range(2):  # the first time warms up
        started = _now(device)
        frozen(frozen.normalise(some))
        spent = _now(device) - started
    return count / max(spent, 1e-6)


def seconds_of_a_product() -> float:
    """How long the processor takes for a product of two matrices of 1,024 rows and columns."""
    square = torch.ones(1024, 1024)
    square @ square
    started = time.perf_counter()
    square @ square
    return time.perf_counter() - started


def in_words(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 20:
        return "a few seconds" if seconds < 8 else "about 15 s"
    if seconds < 50:
        return f"about {round(seconds / 10) * 10} s"
    if seconds < 90:
        return "about a minute"
    if seconds < 5400:
        return f"about {round(seconds / 60)} min"
    return f"about {seconds / 3600:.1f} hours"


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
