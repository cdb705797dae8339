"""Every loss of OpenPrompt against loops in plain Python, and what each of them moves."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Literal

import pytest
import torch
from torch import Tensor

from ossl.config import PromptConfig, RecipeConfig
from ossl.data.batches import Batch
from ossl.methods.detectors import CircleDetector
from ossl.methods.openprompt import OpenPrompt
from ossl.models.prompt import VisualPrompt
from tests.methods import tiny
from tests.reference import methods as slow

SIZE, WIDTH = 8, 4


def drawn(recipe: RecipeConfig) -> tuple[OpenPrompt, slow.Model]:
    """A method in stage 2 whose prompts, teachers and centres all differ, and its plain numbers."""
    net = tiny.linear(3, SIZE, WIDTH)
    made = tiny.method(recipe, on=tiny.encoder(net, WIDTH, SIZE))
    passes = tiny.scan(
        tiny.pictures([0, 1, 2] * 4, size=SIZE), tiny.pictures([0, 1, 2, -1] * 5, 1, SIZE)
    )
    tiny.in_stage_two(made, passes)
    with torch.no_grad():
        made.prompt.values.add_(0.3)
        assert made.outlier_prompt is not None
        made.outlier_prompt.values.add_(made.prompt.values)
    detector, head = made.detector, made.head
    assert isinstance(detector, CircleDetector) and head is not None
    assert detector.centres is not None
    model = slow.Model(
        mean=made.encoder.mean.tolist(),
        std=made.encoder.std.tolist(),
        encoder_weight=net[1].weight.tolist(),  # type: ignore[index]
        encoder_bias=net[1].bias.tolist(),  # type: ignore[index]
        head_weight=head.weight.tolist(),
        head_bias=head.bias.tolist(),
        prompt=made.prompt.as_image().tolist(),
        teacher_prompt=image(made.teacher["prompt"]),
        outlier_prompt=made.outlier_prompt.as_image().tolist(),
        teacher_outlier_prompt=image(made.teacher["outlier_prompt"]),
        k_ic=detector.centres.known.tolist(),
        k_oc=detector.centres.outlier.tolist(),
        limit=detector.limit,
    )
    return made, model


def image(prompt: torch.nn.Module) -> list[list[list[float]]]:
    assert isinstance(prompt, VisualPrompt)
    values: list[list[list[float]]] = prompt.as_image().tolist()
    return values


def some_batch() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Labelled pictures with labels, and weak and strong views of pool pictures."""
    known = tiny.pictures([0, 1, 2, 0], 5, SIZE).data
    pool = tiny.pictures([0, 1, 2, -1, -1, 0], 6, SIZE).data
    return known, torch.tensor([0, 1, 2, 0]), pool, 255 - pool.flip(3)


def as_batch(labelled: Tensor, labels: Tensor, weak: Tensor, strong: Tensor) -> Batch:
    none = torch.empty(0, dtype=torch.int64)
    return Batch({"weak": labelled}, labels, none, {"weak": weak, "strong": strong}, none)


RECIPE = replace(tiny.RECIPE, prompt=PromptConfig(size=1), circle_limit=1.1)
CASES = list(itertools.product(("teacher", "student"), ("signed", "absolute"), (0.0, -1.0)))


@pytest.mark.parametrize(("pseudo_labels", "form", "margin"), CASES)
def test_stage_two_is_the_loops(
    pseudo_labels: Literal["teacher", "student"],
    form: Literal["signed", "absolute"],
    margin: float,
) -> None:
    recipe = replace(
        RECIPE,
        pseudo_labels=pseudo_labels,
        consistency=form,
        contrast_margin=margin,
        pseudo_threshold=0.5,
    )
    made, model = drawn(recipe)
    labelled, labels, weak, strong = some_batch()
    parts = made(as_batch(labelled, labels, weak, strong), made.stages[1].phases[0])
    lists = [values.tolist() for values in (labelled, labels, weak, strong)]
    expected = {
        "labelled_loss": slow.labelled_loss(model, lists[0], lists[1]),
        "supervised_loss": slow.supervised_loss(model, lists[2], lists[3], pseudo_labels, 0.5),
        "consistency_loss": slow.consistency_loss(
            model, lists[2], lists[3], form, model.prompt, model.teacher_prompt
        ),
        "contrast_loss": slow.contrast_loss(model, margin),
    }
    losses = {name: float(part.detach()) for name, part in parts.items() if name.endswith("_loss")}
    assert losses == pytest.approx(expected, rel=1e-4, abs=1e-5)
    assert min(abs(value) for value in losses.values()) > 1e-3  # nothing is trivially zero
    total = slow.stage_two_loss(
        model, *lists, pseudo_labels=pseudo_labels, threshold=0.5, form=form, margin=margin
    )
    assert sum(losses.values()) == pytest.approx(total, rel=1e-4)
    known = [
        slow.is_known(model, slow.feature(model, picture, model.teacher_prompt))
        for picture in lists[2]
    ]
    assert float(parts["known_share"]) == pytest.approx(sum(known) / len(known))
    assert 0 < sum(known) < len(known)  # the fixed batch has both sides


def test_stage_one_is_the_loop() -> None:
    made, model = drawn(RECIPE)
    made.enter(made.stages[0])
    labelled, labels, weak, strong = some_batch()
    parts = made(as_batch(labelled, labels, weak, strong), made.stages[0].phases[0])
    expected = slow.labelled_loss(model, labelled.tolist(), labels.tolist())
    assert float(parts["labelled_loss"].detach()) == pytest.approx(expected, rel=1e-4)
    assert [name for name in parts if name.endswith("_loss")] == ["labelled_loss"]


@pytest.mark.parametrize("form", ["signed", "absolute"])
def test_the_outlier_prompts_loss_is_the_loop(form: Literal["signed", "absolute"]) -> None:
    made, model = drawn(replace(RECIPE, consistency=form))
    labelled, labels, weak, strong = some_batch()
    parts = made(as_batch(labelled, labels, weak, strong), made.stages[1].phases[1])
    expected = slow.consistency_loss(
        model,
        weak.tolist(),
        strong.tolist(),
        form,
        model.outlier_prompt,
        model.teacher_outlier_prompt,
    )
    assert list(parts) == ["consistency_loss"]  # L_C only, row 14
    assert float(parts["consistency_loss"].detach()) == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_a_loss_moves_the_prompt_it_is_for_and_nothing_else() -> None:
    made, _ = drawn(RECIPE)
    assert made.outlier_prompt is not None
    batch = as_batch(*some_batch())
    for phase, moved in zip(made.stages[1].phases, ("prompt", "outlier_prompt"), strict=True):
        made.zero_grad(set_to_none=True)
        parts = made(batch, phase)
        torch.autograd.backward([part for name, part in parts.items() if name.endswith("_loss")])
        touched = {name for name, value in made.named_parameters() if value.grad is not None}
        assert touched == {f"{moved}.values"}


def test_every_loss_of_the_student_reaches_its_prompt() -> None:
    made, _ = drawn(RECIPE)
    batch = as_batch(*some_batch())
    for name in ("labelled_loss", "supervised_loss", "consistency_loss", "contrast_loss"):
        made.zero_grad(set_to_none=True)
        torch.autograd.backward(made(batch, made.stages[1].phases[0])[name])
        assert made.prompt.values.grad is not None, name
        assert made.prompt.values.grad.abs().sum() > 0, name
