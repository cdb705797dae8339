"""How much time a fit may take: what `--budget` means, and how many pictures it costs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ossl.baseline_presets import OPENPROMPT
from ossl.config import Budget, PromptConfig, RecipeConfig, RunConfig, ScheduleConfig, View
from ossl.errors import InputError
from ossl.options import one_of

TUNED = PromptConfig(size_at_224=16, start="zero")  # 9 pixels at 128: under 1 % of lite0's numbers
ALL_VIEWS: tuple[View, ...] = ("bare", "mirrored", "prompted", "prompted_mirrored")
MEANS: dict[Budget, tuple[int, tuple[View, ...]]] = {  # epochs of tuning, views
    "fast": (0, ("prompted",)),  # of a prompt without pixels
    "balanced": (5, ("bare", "mirrored", "prompted")),
    "best": (14, ALL_VIEWS),
}
WITH_GRADIENT = 3.0
"""times the work of a picture that is only seen (measured 2.8 with Lite0 in bf16 on one core)"""


@dataclass(frozen=True)
class Cost:
    """How many pictures go through the encoder in a fit."""

    forward: int  # only seen
    backward: int  # with a gradient to the prompt

    @property
    def passes(self) -> float:
        """The same work as so many pictures that are only seen."""
        return self.forward + WITH_GRADIENT * self.backward


def with_budget(config: RunConfig, name: str | None) -> RunConfig:
    """`config` with what a budget means for it; an InputError where none is to be had."""
    if name is None:
        return config
    one_of("budget", name, Budget)
    if config.baseline is not None:
        raise InputError(f"--budget is for method {OPENPROMPT}; leave it away.")
    if config.recipe_name != "default":
        raise InputError("--budget goes with --recipe default; leave it away.")
    budget = next(known for known in MEANS if known == name)
    epochs, views = MEANS[budget]
    prompt = TUNED if epochs else config.recipe.prompt
    return replace(
        config,
        budget=budget,
        recipe=replace(config.recipe, prompt=prompt, views=views),
        schedule=replace(config.schedule, tuning_epochs=epochs),
    )


def fit_cost(recipe: RecipeConfig, schedule: ScheduleConfig, labelled: int, pool: int) -> Cost:
    """What a fit of so many labelled and pool pictures costs on a frozen encoder.

    A memory of features saves some of it. Judging and sorting take one picture a view each.
    """
    views = {view for view in recipe.views if schedule.flip or "mirrored" not in view}
    epochs = schedule.tuning_epochs
    if epochs:
        views.add("bare")  # what is compared with
    steps = epochs * schedule.tuning_steps
    return Cost(
        forward=len(views) * (labelled + pool) + epochs * labelled,
        backward=steps * (schedule.tuning_labelled + schedule.tuning_pool),
    )
