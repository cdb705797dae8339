"""config.json is strict, and says what is wrong with it."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ossl.config import (
    DigitsData,
    FolderData,
    ProtocolData,
    RecipeConfig,
    RunConfig,
    from_dict,
    from_json,
    to_json,
    with_data_root,
    with_settings,
    with_value,
)
from ossl.errors import InputError, nearest, unknown_name

CONFIG = RunConfig(data=DigitsData())


@given(
    st.builds(
        RunConfig,
        data=st.builds(FolderData, labelled=st.text(max_size=9), unlabelled=st.text(max_size=9)),
        recipe=st.builds(
            RecipeConfig, circle_limit=st.floats(0.01, 9), candidates=st.integers(1, 9)
        ),
        seed=st.integers(0, 2**32 - 1),
    )
)
@settings(max_examples=15, deadline=None)
def test_a_config_round_trips(config: RunConfig) -> None:
    assert from_json(to_json(config), "here") == config


def test_a_config_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        CONFIG.seed = 1  # type: ignore[misc]


def test_settings_are_typed() -> None:
    texts = {
        "recipe.circle_limit": "0.25",
        "recipe.contrast": "false",
        "recipe.prompt.size": "7",
        "recipe.prompt.placement": "surround",
        "backbone.image_size": "null",
    }
    changed = with_settings(CONFIG, texts)
    assert changed.recipe.circle_limit == 0.25
    assert changed.recipe.contrast is False
    assert changed.recipe.prompt.size == 7
    assert changed.recipe.prompt.placement == "surround"
    assert with_settings(changed, {}) == changed


@pytest.mark.parametrize(
    ("dotted", "value", "what"),
    [
        ("recipe.promt.size", 3, "did you mean 'recipe.prompt.size'?"),
        ("recipe", {}, "there is no such setting"),
        ("recipe.prompt.template", "paddin", "did you mean 'padding'?"),
        ("recipe.prompt.template", "qqq", "choose one of: padding, fixed_patch, random_patch"),
        ("recipe.circle_limit", -1, "greater than 0"),
        ("recipe.circle_limit", float("nan"), "circle_limit"),
        ("seed", 2**40, "seed"),
        ("backbone.name", ["x" * 100], "…"),
    ],
)
def test_wrong_settings(dotted: str, value: object, what: str) -> None:
    with pytest.raises(InputError) as caught:
        with_value(CONFIG, dotted, value, "--here")
    assert what in str(caught.value)
    assert str(caught.value).startswith("--here")


def test_unknown_keys_name_the_nearest() -> None:
    values = json.loads(to_json(CONFIG))
    for path, key, right in (
        ((), "sede", "seed"),
        (("schedule",), "pool_step", "pool_steps"),
        (("recipe", "prompt"), "palcement", "placement"),
        (("backbone",), "weight", "weights"),
        (("data",), "knd", None),
    ):
        spoilt = json.loads(json.dumps(values))
        place = spoilt
        for name in path:
            place = place[name]
        place[key] = 1
        with pytest.raises(InputError) as caught:
            from_dict(spoilt, "RUN/config.json")
        said = str(caught.value)
        assert said.startswith(f"RUN/config.json: unknown key '{'.'.join((*path, key))}'")
        if right:
            assert f"did you mean {right!r}?" in said


def test_data_that_moved() -> None:
    protocol = dataclasses.replace(CONFIG, data=ProtocolData())
    assert with_data_root(protocol, "/d").data == ProtocolData(data_root="/d")
    folders = dataclasses.replace(CONFIG, data=FolderData(labelled="/l", unlabelled="/u"))
    assert with_data_root(folders, "/d").data == FolderData(labelled="/l", unlabelled="/d")
    assert with_data_root(CONFIG, "/d") == CONFIG


def test_the_nearest_name() -> None:
    assert nearest("PAPER", ["paper", "default"]) == "paper"
    assert nearest("zzz", ["paper"]) is None
    assert "choose one of: a, b." in str(unknown_name("thing", "zzz", ["b", "a"]))
    assert "\n" not in str(InputError("two\nlines"))
