"""One named configuration per cell of the paper's tables, per ablation and per everyday use."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from ossl.baseline_presets import OPENPROMPT, baseline_of
from ossl.config import (
    BackboneConfig,
    DataConfig,
    DigitsData,
    FolderData,
    Profile,
    PromptConfig,
    ProtocolData,
    RecipeConfig,
    RecipeName,
    RunConfig,
    ScheduleConfig,
    with_value,
)
from ossl.errors import InputError, unknown_name

# The paper's method to the letter where the letter can run, and the one given without asking:
# known and outlier centres in a whitened space, with evidence weighed from the data at hand.
RECIPES: dict[str, RecipeConfig] = {
    "paper": RecipeConfig(),
    "default": RecipeConfig(
        prompt=PromptConfig(size=0),
        contrast=False,
        train_encoder="auto",
        detector="evidence",
        head="closed_form",
    ),
}

# Steps and epochs: the paper gives neither. `full` follows its figure (the rate is cut at epoch
# 400 of 500) and one epoch is one pass over CIFAR's pool; `desk` ends within 20 minutes on 2 cores.
FULL = ScheduleConfig(
    labelled_epochs=100, labelled_steps=100, pool_epochs=500, pool_steps=380, outlier_steps=40
)
DESK = ScheduleConfig(
    labelled_epochs=12, labelled_steps=100, pool_epochs=4, pool_steps=50, outlier_steps=10
)
# With a pretrained encoder only the prompt and the linear classifier learn in stage 1.
EVERYDAY = ScheduleConfig(
    labelled_epochs=2,
    labelled_steps=20,
    pool_epochs=1,
    pool_steps=10,
    outlier_steps=2,
    labelled_batch=32,
    pool_batch=32,
    learning_rate=0.1,
)
SCHEDULES: dict[str, ScheduleConfig] = {"full": FULL, "desk": DESK}
# The default recipe learns step by step only with an encoder that has no pretrained weights: 40 %
# of the pictures are labelled ones, the others are seen in three rounds over the pool. On 2 cores
# WRN-28-2 at 32 pixels takes 15 minutes (docs/decisions/0004 has what else was tried).
ROUNDS = ScheduleConfig(
    labelled_epochs=11,
    labelled_steps=100,
    labelled_batch=128,
    rounds=3,
    round_steps=270,
    pool_epochs=0,
    pool_batch=128,
    learning_rate=0.2,
    weight_decay=5e-4,
)
DEFAULT_SCHEDULES: dict[str, ScheduleConfig] = {
    "desk": ROUNDS,
    "full": replace(ROUNDS, labelled_epochs=100, round_steps=2500),
}


@dataclass(frozen=True)
class Preset:
    """A benchmark's cell: its data, its network, and what the paper reports for its method."""

    name: str
    summary: str
    data: ProtocolData
    backbone: str
    paper_auroc: float | None = None  # fraction; the paper's own row "Ours"
    recipe: RecipeConfig | None = None  # an ablation's change of the paper's recipe


def _cell(split: str, auroc: float, backbone: str = "wrn-28-2") -> Preset:
    return Preset(
        f"table1/{split}", f"Table 1, split {split}", ProtocolData(split=split), backbone, auroc
    )


TABLE1 = (
    _cell("cifar10-50", 0.994),
    _cell("cifar10-100", 0.997),
    _cell("cifar10-400", 0.992),
    _cell("cifar100-55-50", 0.872),
    _cell("cifar100-55-100", 0.870),
    _cell("cifar100-80-50", 0.865),
    _cell("cifar100-80-100", 0.873),
    _cell("imagenet30", 0.971, "resnet18"),
)


def _ablation(name: str, summary: str, recipe: RecipeConfig) -> Preset:
    base = TABLE1[1]
    return Preset(
        f"ablation/{name}", f"{summary}, on {base.name}", base.data, base.backbone, recipe=recipe
    )


PAPER = RECIPES["paper"]
ABLATIONS = (
    _ablation(
        "no-joint-space",
        "a discriminator in place of the joint space",
        replace(PAPER, detector="discriminator"),
    ),
    _ablation("no-contrast", "without the outlier prompt and L_CL", replace(PAPER, contrast=False)),
    *(
        _ablation(
            f"prompt-{p}",
            f"prompt size {p} of 224 pixels",
            replace(PAPER, prompt=PromptConfig(size_at_224=p)),
        )
        for p in (10, 20, 40, 100)
    ),
    *(
        _ablation(f"candidates-{n}", f"N = {n} tangents", replace(PAPER, candidates=n))
        for n in (1, 3, 5, 7, 9)
    ),
    *(
        _ablation(f"lambda-{limit}", f"λ = {limit}", replace(PAPER, circle_limit=limit))
        for limit in (0.1, 0.3, 0.5, 0.8, 1.0)
    ),
)
PRESETS: dict[str, Preset] = {preset.name: preset for preset in (*TABLE1, *ABLATIONS)}

DESK_IMAGE_SIZE = 32  # pixels
FULL_IMAGE_SIZE = 224  # pixels: at no other size does a border of 40 have the paper's 0.088 M


def recipe(name: str) -> RecipeConfig:
    """The recipe of this name."""
    if name not in RECIPES:
        raise unknown_name("recipe", name, RECIPES)
    return RECIPES[name]


def preset(name: str) -> Preset:
    """The preset of this name."""
    if name not in PRESETS:
        raise unknown_name("preset", name, PRESETS)
    return PRESETS[name]


def preset_config(
    name: str,
    *,
    profile: Profile = "desk",
    recipe_name: RecipeName = "default",
    data_root: str | None = None,
    seed: int = 0,
    method: str = OPENPROMPT,
) -> RunConfig:
    """The run of a preset in a profile."""
    chosen = preset(name)
    settings = recipe(recipe_name)
    if chosen.recipe is not None:
        if method != OPENPROMPT:
            raise InputError(
                f"preset {name} takes a part of {OPENPROMPT} away; with --method {method} give "
                f"--preset table1/{chosen.data.split}."
            )
        recipe_name, settings = "paper", chosen.recipe
    ours = method == OPENPROMPT and recipe_name == "default"
    size: int | None = DESK_IMAGE_SIZE if profile == "desk" else FULL_IMAGE_SIZE
    if method != OPENPROMPT and profile == "full":
        size = None  # 224 is for the prompt's sake; a baseline sees the backbone's own size
    return RunConfig(
        data=replace(chosen.data, data_root=data_root),
        recipe_name=recipe_name,
        recipe=settings,
        schedule=(DEFAULT_SCHEDULES if ours else SCHEDULES)[profile],
        backbone=BackboneConfig(
            name=chosen.backbone,
            image_size=size,
        ),
        method=method,
        baseline=baseline_of(method, profile, chosen.data.split),
        preset=name,
        profile=profile,
        seed=seed,
    )


def everyday_config(
    data: DataConfig, recipe_name: RecipeName = "default", method: str = OPENPROMPT
) -> RunConfig:
    """The run of a person's own folders: a frozen pretrained backbone and a short schedule."""
    return RunConfig(
        data=data,
        method=method,
        recipe_name=recipe_name,
        recipe=recipe(recipe_name),
        schedule=ROUNDS if method == OPENPROMPT and recipe_name == "default" else EVERYDAY,
        baseline=baseline_of(method, None),
    )


def demo_config() -> RunConfig:
    """The run of `ossl demo`: a digit in the mirror is another sign, so none is flipped."""
    config = everyday_config(DigitsData())
    return replace(
        config,
        schedule=replace(config.schedule, flip=False),
        backbone=BackboneConfig(image_size=96),
    )


def new_run(
    labelled: Path | None,
    unlabelled: Path | None,
    preset: str | None,
    profile: str | None,
    data_root: Path | None,
    recipe_name: str | None,
    method: str | None = None,
) -> RunConfig:
    """The run that a person asked for: two folders, or a preset."""
    chosen = recipe_name or "default"
    recipe(chosen)
    learner = method or OPENPROMPT
    if baseline_of(learner, None) is not None and recipe_name is not None:
        raise InputError(f"--recipe is for method {OPENPROMPT}; leave it away with {learner}.")
    if preset is not None:
        if labelled or unlabelled:
            raise InputError(
                "--preset brings its own data; leave --labelled and --unlabelled away."
            )
        if profile is not None and profile not in SCHEDULES:
            raise unknown_name("profile", profile, SCHEDULES)
        return preset_config(
            preset,
            profile=cast(Profile, profile or "desk"),
            recipe_name=cast(RecipeName, chosen),
            data_root=str(data_root.absolute()) if data_root else None,
            method=learner,
        )
    if labelled is not None and unlabelled is None:
        raise InputError(
            f"method {learner} needs a pool: name the folder of unlabelled pictures by "
            "--unlabelled DIR."
        )
    if labelled is None or unlabelled is None:
        raise InputError(
            "fit needs --labelled DIR and --unlabelled DIR, or --preset NAME; see ossl fit --help."
        )
    if data_root or profile:
        raise InputError("--data-root and --profile belong to --preset; leave them away.")
    # From the root on, so that the run can be judged and resumed from anywhere.
    data = FolderData(labelled=str(labelled.absolute()), unlabelled=str(unlabelled.absolute()))
    return everyday_config(data, cast(RecipeName, chosen), learner)


def with_backbone(
    config: RunConfig, name: str | None, weights: Path | None, image_size: int | None
) -> RunConfig:
    """`config` with another backbone, or other weights or another picture size for its own."""
    if name is not None:
        # Another backbone has another natural size than the preset's.
        config = replace(config, backbone=BackboneConfig(name=name))
    if weights is not None:
        config = with_value(config, "backbone.weights", str(weights.absolute()), "--weights")
    if image_size is not None:
        config = with_value(config, "backbone.image_size", image_size, "--image-size")
    return config


def with_boundary(
    config: RunConfig, outlier_share: float | None, max_false_rejects: float | None
) -> RunConfig:
    """`config` with the boundary where a person wants it, in place of the estimate."""
    if outlier_share is not None and max_false_rejects is not None:
        raise InputError("--outlier-share and --max-false-rejects exclude each other; give one.")
    given = {"outlier_share": outlier_share, "max_false_rejects": max_false_rejects}
    for name, value in given.items():
        if value is None:
            continue
        option = f"--{name.replace('_', '-')}"
        if config.baseline is not None:
            raise InputError(f"{option} is for method {OPENPROMPT}; leave it away.")
        config = with_value(config, f"recipe.{name}", value, option)
        if config.recipe.detector != "evidence":
            raise InputError(f"{option} goes with --recipe default; leave it away.")
    return config
