"""Tuning a prompt on a frozen encoder: what learns, how far a step goes, and when it is used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from torch import Tensor

from ossl.config import PromptConfig, RecipeConfig, View
from ossl.data.batches import Batch
from ossl.data.store import MemoryPictures
from ossl.errors import InputError
from ossl.jointspace.cross_heads import LEAST_REFEREES, REFEREE
from ossl.methods.base import LogValues, Phase
from ossl.methods.openprompt import OpenPrompt
from ossl.methods.prompt_tuning import Choice, PromptTuning
from ossl.models.views import VIEWS, mean_of
from ossl.train.step import train_step
from tests.methods import tiny
from tests.train.runs import InterruptedRunError, journal, run, same

RECIPE = RecipeConfig(
    prompt=PromptConfig(size=3, start="zero"),
    views=("bare", "prompted"),
    contrast=False,
    train_encoder="auto",
    detector="evidence",
    head="closed_form",
)
SCHEDULE = replace(tiny.SCHEDULE, tuning_epochs=3, tuning_steps=2, tuning_labelled=6, tuning_pool=4)
EACH = 28  # labelled pictures of a class: with fewer there are no referees
NAN = float("nan")


@pytest.fixture(autouse=True)
def alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many pictures of classes so alike that no head is sure: else nothing would be learnt."""
    colourful = tiny.pictures

    def grey(labels: list[int], seed: int = 0, size: int = tiny.SIZE) -> MemoryPictures:
        plain = colourful([-1] * len(labels), seed, size)
        made = colourful(labels, seed, size)
        mixed = (0.9 * plain.data.float() + 0.1 * made.data.float()).round().to(torch.uint8)
        made.data = mixed
        return made

    monkeypatch.setattr(tiny, "pictures", grey)
    monkeypatch.setattr(tiny, "labelled_pictures", lambda: grey([0, 1, 2] * EACH))


def tuned(schedule: Any = SCHEDULE, **changes: Any) -> OpenPrompt:
    return tiny.method(RECIPE, schedule, on=tiny.encoder(pretrained=True), **changes)


def in_tuning(**changes: Any) -> OpenPrompt:
    made = tuned(**changes)
    made.enter(made.stages[1])
    made.eval()
    made.begin(made.stages[1], tiny.scan())
    return made.train()


def test_its_stage_is_between_the_papers_two() -> None:
    made = tuned()
    assert [stage.name for stage in made.stages] == ["labelled", "tuning", "pool"]
    assert [stage.epochs for stage in made.stages] == [0, 3, 0]
    assert made.fits_head
    assert made.stages[1].rate_factor(0) == 1
    assert made.stages[1].rate_factor(2, 1.0) == pytest.approx(0, abs=1e-9)


def test_the_prompt_alone_learns() -> None:
    made = in_tuning()
    before = tiny.snapshot(made)
    tiny.take_steps(made, "tuning", 2)
    assert tiny.changed(before, made) == {"prompt.values"}


class Scaled(OpenPrompt):
    """Losses a thousand times as large."""

    def forward(self, batch: Batch, phase: Phase) -> dict[str, Tensor]:
        return {name: 1000 * part for name, part in super().forward(batch, phase).items()}


@pytest.mark.parametrize("kind", [OpenPrompt, Scaled])
def test_a_step_is_as_long_as_the_rate_says(kind: type[OpenPrompt]) -> None:
    made = in_tuning()
    made.__class__ = kind
    _, phase = tiny.phase_of(made, "tuning")
    for number, rate in enumerate((0.5, 0.03)):
        before = made.prompt.values.detach().clone()
        optimiser = torch.optim.SGD(made.trained(phase).values(), lr=rate)
        _, finite = train_step(
            made,
            tiny.batch_of(made, "tuning", number),
            phase,
            optimiser,
            Accelerator(cpu=True),
            made.stages[1],
        )
        assert finite
        assert (made.prompt.values - before).norm().item() == pytest.approx(rate, rel=1e-4)


def test_a_step_goes_down_the_gradient_of_the_losses_sum() -> None:
    made = in_tuning()
    _, phase = tiny.phase_of(made, "tuning")
    batch = tiny.batch_of(made, "tuning")
    parts = made(batch, phase)
    (slope,) = torch.autograd.grad(
        parts["labelled_loss"] + parts["pseudo_loss"], made.prompt.values
    )
    optimiser = torch.optim.SGD(made.trained(phase).values(), lr=0.1)
    train_step(made, batch, phase, optimiser, Accelerator(cpu=True), made.stages[1])
    torch.testing.assert_close(made.prompt.values.detach(), -0.1 * slope / slope.norm())


def test_only_sure_and_likely_known_pictures_are_learnt_from() -> None:
    made = tuned()
    assert made.tuning is not None
    labels = torch.arange(3).repeat(EACH)
    features = torch.randn(3 * EACH, 5, generator=torch.Generator().manual_seed(0))
    logits = torch.tensor([[9.0, 0, 0], [0, 9.0, 0], [0, 0, 0.1], [0, 0, 9.0]])
    known = torch.tensor([0.9, 0.6, 0.9, 0.71])
    made.tuning.start(features, labels, torch.zeros(4, 5), known, logits)
    assert made.tuning.pool_choice.tolist() == [0, 3]
    assert made.tuning.state.pseudo is not None
    assert made.tuning.state.pseudo.tolist() == [0, -1, -1, 2]


def test_a_whole_run(tmp_path: Path) -> None:
    made = run(tmp_path, tuned())
    assert made.prompt.values.any()
    ends = [line for line in journal(tmp_path, "epoch") if line["phase"] == "tuning"]
    assert len(ends) == 3
    assert all(line["cross_entropy"] > 0 for line in ends)
    (end,) = (line for line in journal(tmp_path, "begin") if line["stage"] == "pool")
    assert end["views"] in ("bare", "bare, prompted")
    names = ("bare", "bare_prompted")
    pairs = [(end[f"referee_accuracy_{n}"], end[f"referee_auroc_{n}"]) for n in names]
    used = pairs[1] != pairs[0] and all(b >= a for a, b in zip(*pairs, strict=True))
    assert made.remark.startswith("the prompt is used" if used else "the prompt is tuned, but not")
    assert ("prompted" in end["views"]) is used
    again = run(tmp_path / "again", tuned())
    assert same(made, again)


@pytest.mark.parametrize(
    "views", [("bare", "prompted"), pytest.param(VIEWS, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("every", [0.0, 1e9], ids=["each epoch saved", "stages' ends saved"])
def test_stopped_after_each_epoch(tmp_path: Path, views: tuple[View, ...], every: float) -> None:
    uninterrupted = run(tmp_path / "whole", tuned(views=views))
    for stop in (1, 2, 3):
        folder = tmp_path / str(stop)
        with pytest.raises(InterruptedRunError):
            run(folder, tuned(views=views), stop_after=stop, checkpoint_every=every)
        resumed = run(folder, tuned(views=views), resume=True, checkpoint_every=every)
        assert same(resumed, uninterrupted)
        assert journal(folder) == journal(tmp_path / "whole")
    assert same(run(folder, tuned(views=views), resume=True), uninterrupted)


def test_features_are_the_mean_over_the_views_that_were_chosen(tmp_path: Path) -> None:
    made = run(tmp_path, tuned(views=VIEWS))
    assert made.tuning is not None
    pictures = tiny.pool_pictures().data
    made.eval()
    assert made.prompt.values.any()
    for place, views in enumerate(made.tuning.candidates):
        made.tuning.state.choice = Choice(place, [0.5] * 3, [0.5] * 3)
        expected = mean_of([made.encode(pictures, view) for view in views])
        assert torch.equal(made.penultimate(pictures), expected)
    assert made.tuning.candidates == [("bare",), ("bare", "mirrored"), VIEWS]


def test_nothing_is_mirrored_where_nothing_may_be() -> None:
    made = tuned(replace(SCHEDULE, flip=False), views=VIEWS)
    assert made.tuning is not None
    assert made.tuning.candidates == [("bare",), ("bare", "prompted")]
    assert not made.stages[1].phases[0].plan.flip


# --- the rule ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("figures", "taken"),
    [
        ([(0.8, 0.7), (0.81, 0.7)], 1),
        ([(0.8, 0.7), (0.8, 0.71)], 1),
        ([(0.8, 0.7), (0.8, 0.7)], 0),  # a pass more for nothing
        ([(0.8, 0.7), (0.9, 0.69)], 0),
        ([(0.8, 0.7), (0.79, 0.9)], 0),
        ([(0.8, 0.7), (0.81, 0.71), (0.8, 0.9)], 1),  # against the best so far
        ([(0.8, 0.7), (0.7, 0.7), (0.8, 0.71)], 2),
        ([(NAN, 0.7), (NAN, 0.9)], 0),
        ([(0.8, NAN), (0.9, NAN)], 0),
        ([(0.8, 0.7)], 0),
    ],
)
def test_views_are_added_only_where_neither_figure_falls(
    figures: list[tuple[float, float]], taken: int
) -> None:
    assert Choice.of(figures).taken == taken


class Told:
    """Fits whose figures are told beforehand, by the mean of the features that they get."""

    def __init__(self, figures: dict[float, tuple[float, float]]) -> None:
        self.told, self.now, self.fits = figures, 1.0, 0

    def encode(self, pictures: Tensor, view: View) -> Tensor:
        return torch.full((len(pictures), 2), {"bare": 1.0, "prompted": 3.0}[view])

    def fit(self, labelled: Tensor, labels: Tensor, pool: Tensor) -> LogValues:
        assert len(labelled) == len(labels)
        self.now, self.fits = float(pool.mean()), self.fits + 1
        return {"fitted_on": self.now}

    def figures(
        self, labelled: Tensor, labels: Tensor, pool: Tensor, referees: Tensor
    ) -> tuple[float, float]:
        assert float(pool.mean()) == self.now
        assert LEAST_REFEREES <= int(referees.sum()) < len(labelled) == len(labels)
        return self.told[self.now]

    def joint_space(self) -> dict[str, Tensor]:
        return {"now": torch.tensor(self.now)}

    def load_joint_space(self, tensors: dict[str, Tensor]) -> None:
        self.now = float(tensors["now"])


@pytest.mark.parametrize("pays", [True, False])
def test_what_does_not_pay_is_taken_back(pays: bool) -> None:
    tuning = PromptTuning(("bare", "prompted"), tiny.CLASSES, seed=0)
    assert tuning.remark is None
    labels = tiny.scan().labels
    features = torch.randn(len(labels), 4, generator=torch.Generator().manual_seed(0))
    sure = 9 * torch.nn.functional.one_hot(labels, 3).float()
    tuning.start(features, labels, features, torch.ones(len(labels)), sure)
    tuning.bare = None  # as in a run that goes on
    told = Told({1.0: (0.8, 0.7), 2.0: (0.85 if pays else 0.79, 0.75)})
    values = tuning.choose(told, tiny.scan())
    assert told.fits == 1
    assert told.now == (2.0 if pays else 1.0)  # the mean of 1 and 3, or the bare ones again
    assert tuning.views == (("bare", "prompted") if pays else ("bare",))
    assert values["views"] == ("bare, prompted" if pays else "bare")
    assert ("fitted_on" in values) is pays
    assert tuning.remark is not None
    assert tuning.remark.startswith("the prompt is used:" if pays else "the prompt is tuned, but")
    assert "80.0 % right without" in tuning.remark
    assert tuning.state.heads is None  # of a finished run nothing stays but the choice


def test_with_too_few_labels_the_prompt_stays_as_it_is() -> None:
    tuning = PromptTuning(VIEWS, tiny.CLASSES, seed=0)
    labels = torch.arange(3).repeat(10)
    features, sure = torch.randn(30, 4), 9 * torch.eye(3).repeat(10, 1)
    noted = tuning.start(features, labels, features, torch.ones(30), sure)
    assert "too few labels" in str(noted["note"])
    assert not len(tuning.pool_choice)
    told = Told({})
    values = tuning.choose(told, tiny.scan())
    assert (told.fits, tuning.views) == (0, ("bare",))
    assert "learnt nothing" in str(values["note"])
    assert tuning.remark is not None
    assert "not tuned" in tuning.remark


# --- settings that do not fit -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"detector": "joint_space"}, "--recipe default"),
        ({"head": "gradient"}, "--recipe default"),
        ({"contrast": True}, "--recipe default"),
        ({"train_encoder": "always"}, "--backbone lite0"),
        ({"prompt": PromptConfig(size=0)}, "--budget balanced"),
    ],
)
def test_what_cannot_be_tuned_is_one_line(changes: dict[str, Any], what: str) -> None:
    with pytest.raises(InputError, match=what):
        tuned(**changes)


def test_views_alone_need_no_tuning(tmp_path: Path) -> None:
    """The control: a picture and its mirror image, with nothing trained."""
    schedule = replace(SCHEDULE, tuning_epochs=0)
    made = run(tmp_path, tuned(schedule, prompt=PromptConfig(size=0), views=("bare", "mirrored")))
    assert made.remark is None
    assert [stage.name for stage in made.stages] == ["labelled", "pool"]
    pictures = tiny.pool_pictures().data
    parts = [made.encode(pictures, "bare"), made.encode(pictures, "mirrored")]
    assert torch.equal(made.penultimate(pictures), mean_of(parts))
    with pytest.raises(InputError, match="--recipe default"):
        tiny.method(views=("bare", "mirrored"))


def test_referees_are_neither_learnt_from_nor_fitted_on() -> None:
    made = in_tuning()
    assert made.tuning is not None
    assert made.tuning.state.heads is not None
    referee = made.tuning.state.heads.side == REFEREE
    _, phase = tiny.phase_of(made, "tuning")
    batch = tiny.batch_of(made, "tuning")
    spoilt = batch.labels.clone()
    of_batch = referee[batch.labelled_index]
    assert of_batch.any()
    spoilt[of_batch] = (spoilt[of_batch] + 1) % 3
    one, other = made(batch, phase), made(replace(batch, labels=spoilt), phase)
    assert torch.equal(one["labelled_loss"], other["labelled_loss"])
    # Nor by the fits that they judge: their own labels change what is right, and nothing else.
    labelled, pool = tiny.scan()("labelled", bare(made)), tiny.scan()("pool", bare(made))
    labels = tiny.scan().labels
    accuracy, auroc = made.figures(labelled, labels, pool, referee)
    wrong = torch.where(referee, (labels + 1) % 3, labels)
    less, same_auroc = made.figures(labelled, wrong, pool, referee)
    assert same_auroc == auroc
    assert less < accuracy
    assert 0.4 < auroc <= 1


def bare(made: OpenPrompt) -> Callable[[Tensor], Tensor]:
    return lambda pictures: made.encode(pictures, "bare")
