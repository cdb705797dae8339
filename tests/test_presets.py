"""Every preset is a run that can be written, read again and built."""

from __future__ import annotations

from typing import get_args

import pytest

from ossl.config import Profile, RecipeName, RunConfig, from_json, to_json
from ossl.data.protocols import split_rule
from ossl.errors import InputError
from ossl.models.prompt import prompt_parameter_count, prompt_size_for
from ossl.presets import (
    PRESETS,
    RECIPES,
    SCHEDULES,
    demo_config,
    everyday_config,
    preset_config,
    recipe,
)

RECIPE_NAMES: tuple[RecipeName, ...] = get_args(RecipeName)
PROFILES: tuple[Profile, ...] = get_args(Profile)


def _all() -> list[RunConfig]:
    return [
        preset_config(name, profile=profile, recipe_name=recipe_name, seed=2)
        for name in PRESETS
        for profile in PROFILES
        for recipe_name in RECIPE_NAMES
    ] + [demo_config(), *(everyday_config(demo_config().data, name) for name in RECIPE_NAMES)]


def test_names_agree() -> None:
    assert set(RECIPES) == set(RECIPE_NAMES)
    assert set(SCHEDULES) == set(PROFILES)
    assert all(name == preset.name for name, preset in PRESETS.items())


def test_every_preset_round_trips() -> None:
    for config in _all():
        assert from_json(to_json(config), "config.json") == config


def test_every_preset_has_its_data_and_a_prompt_that_fits() -> None:
    for config in _all():
        if config.data.kind == "protocol":
            assert split_rule(config.data.split).class_count in (10, 30, 100)
        size = config.backbone.image_size
        if size is not None:
            p = prompt_size_for(size, config.recipe.prompt.size_at_224)
            assert 0 < 2 * p < size


def test_the_papers_prompt() -> None:
    full = preset_config("table1/cifar10-100", profile="full", recipe_name="paper")
    assert full.backbone.image_size == 224
    assert prompt_parameter_count(224, full.recipe.prompt.size_at_224) == 88_320
    desk = preset_config("table1/cifar10-100", recipe_name="paper")
    assert prompt_size_for(desk.backbone.image_size or 0, 40) == 6


def test_an_ablation_is_the_papers_recipe_but_for_one_thing() -> None:
    for name, preset in PRESETS.items():
        if name.startswith("ablation/"):
            config = preset_config(name, recipe_name="default")
            assert config.recipe_name == "paper"
            changed = [
                key
                for key, value in vars(RECIPES["paper"]).items()
                if not key.startswith("_") and vars(preset.recipe)[key] != value
            ]
            assert len(changed) <= 1, name


def test_unknown_names() -> None:
    with pytest.raises(InputError, match="did you mean 'table1/cifar10-100'"):
        preset_config("table1/cifar10-10")
    with pytest.raises(InputError, match="did you mean 'paper'"):
        recipe("papper")
