"""The baselines' settings by method, profile and data: published, for a desk, and for folders.

`full` is what the papers and their code say (`method_config.py`). `desk` gives every method the
same budget: about a million pictures forward and backward in all, forty minutes on two cores for
WRN-28-2 at 32 pixels. A step of n pictures is thus taken 1e6 / n times; methods that converge in
less (the labelled pictures alone) take fewer.
"""

from __future__ import annotations

from typing import Any

from ossl.config import Profile
from ossl.errors import unknown_name
from ossl.method_config import BASELINES, AnyBaseline

OPENPROMPT = "openprompt"
# A schedule of thousands of steps in place of half a million: the averages follow accordingly.
_SHORT: dict[str, Any] = {"ema_warm_up": True, "norm_momentum": 0.01}
DESK: dict[str, dict[str, Any]] = {
    "labeled_only": {"epochs": 40, "epoch_steps": 100},  # 64 pictures a step
    "supervised": {"epochs": 80, "epoch_steps": 100},  # 64
    "fixmatch": {"epochs": 32, "epoch_steps": 100},  # 320
    # 384 pictures a step, 640 from epoch 10 on, and 16 passes over the pool
    "openmatch": {"epochs": 26, "epoch_steps": 64},
    # 128 pictures a step in the first 13 epochs, then 320, and 128 more without gradient
    "mtc": {"epochs": 36, "epoch_steps": 100, "outlier_epochs": 13, "ramp_epochs": 23},
    "iomatch": {"epochs": 32, "epoch_steps": 100, "pool_batch": 128},  # 320
    # 320 pictures a step, and 640 in the last 8 epochs
    "ssb": {"epochs": 24, "epoch_steps": 100, "detector_from": 0.68},
}
# A person's folders and a pretrained encoder: the heads alone learn, and soon.
EVERYDAY: dict[str, Any] = {
    **_SHORT,
    "epochs": 10,
    "epoch_steps": 20,
    "labelled_batch": 32,
    "pool_batch": 32,
    "learning_rate": 0.01,  # with 0.1 a head on frozen features is too sure of itself
}
EVERYDAY_OF: dict[str, dict[str, Any]] = {
    "openmatch": {"pseudo_from_epoch": 3},
    "mtc": {"learning_rate": 0.002, "outlier_epochs": 3, "window": 3, "ramp_epochs": 820},
    "ssb": {"detector_from": 0.5},
}
# What the authors' code changes by data set: OpenMatch's and SSB's consistency weight
# (`utils/parser.py`, `fix_ssb.sh`) and SSB's wider projections, IOMatch's `config/openset_cv`.
BY_DATASET: dict[str, dict[str, dict[str, Any]]] = {
    "cifar100": {
        "openmatch": {"consistency_weight": 1.0},
        "iomatch": {"weight_decay": 1e-3, "align": True},
        "ssb": {"consistency_weight": 1.0},
    },
    "imagenet30": {"ssb": {"hidden": 4096}},
}


def baseline_of(
    method: str, profile: Profile | None, split: str | None = None
) -> AnyBaseline | None:
    """The settings of a method in a profile, on a benchmark's split; a profile of None: folders.

    None for OpenPrompt, whose settings are its recipe and schedule.
    """
    if method == OPENPROMPT:
        return None
    if method not in BASELINES:
        raise unknown_name("method", method, (OPENPROMPT, *BASELINES))
    values: dict[str, Any] = {}
    if profile is None:
        values = EVERYDAY | EVERYDAY_OF.get(method, {})
    elif profile == "desk":
        values = _SHORT | DESK[method]
    dataset = (split or "").partition("-")[0]
    values = values | BY_DATASET.get(dataset, {}).get(method, {})
    made: AnyBaseline = BASELINES[method](**values)  # type: ignore[assignment]
    return made
