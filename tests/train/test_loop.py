"""The loop: what it logs, that it repeats itself, and that it stops when it must."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from ossl.train.loop import NAN_TOLERANCE, TrainingDivergedError
from tests.methods import tiny
from tests.train.runs import journal, left, run, same, sick


def test_the_same_seed_repeats_itself_and_another_differs(tmp_path: Path) -> None:
    one, again = run(tmp_path / "one"), run(tmp_path / "again")
    assert same(one, again)
    assert journal(tmp_path / "one") == journal(tmp_path / "again")
    other = run(tmp_path / "other", seed=1)
    assert journal(tmp_path / "one", "step") != journal(tmp_path / "other", "step")
    for name in ("prompt.values", "outlier_prompt.values", "head.weight"):
        assert not torch.equal(left(one)[name], left(other)[name]), name


def test_global_randomness_is_neither_used_nor_changed(tmp_path: Path) -> None:
    torch.manual_seed(1)
    state = torch.random.get_rng_state()
    one = run(tmp_path / "one")
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.manual_seed(2)
    assert same(one, run(tmp_path / "two"))


def test_it_learns(tmp_path: Path) -> None:
    made = tiny.method(schedule=replace(tiny.SCHEDULE, labelled_epochs=12, labelled_steps=8))
    run(tmp_path, made)
    steps = [line for line in journal(tmp_path, "step") if line["stage"] == "labelled"]
    assert steps[-1]["labelled_loss"] < 0.5 * steps[0]["labelled_loss"]
    known = tiny.pool_pictures().data[:20]
    truth = torch.tensor([0, 1, 2, 0, 1] * 4)
    assert (made.predict(known).logits.argmax(dim=1) == truth).float().mean() > 0.9


def test_every_line_says_what_it_should(tmp_path: Path) -> None:
    schedule = replace(tiny.SCHEDULE, labelled_steps=12, labelled_epochs=5)
    run(tmp_path, tiny.method(schedule=schedule))
    text = (tmp_path / "journal.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert {line["event"] for line in lines} >= {"begin", "step", "epoch"}
    steps = [line for line in lines if line["event"] == "step"]
    losses = {
        "labelled": {"labelled_loss", "labelled_accuracy"},
        "student": {
            "labelled_loss",
            "supervised_loss",
            "consistency_loss",
            "contrast_loss",
            "known_share",
            "pseudo_labelled_share",
        },
        "outlier_prompt": {"consistency_loss"},
    }
    for line in steps:
        assert line["steps_per_second"] > 0
        assert losses[line["phase"]] < line.keys()
        decayed = line["phase"] == "labelled" and line["epoch"] == 5
        assert line["rate"] == pytest.approx(0.005 if decayed else 0.05)
    first = [line["step"] for line in steps if line["stage"] == "labelled"]
    assert first == [10, 12, 22, 24, 34, 36, 46, 48, 58, 60]  # each tenth, and each epoch's last
    ends = [line for line in lines if line["event"] == "epoch" and line["phase"] == "student"]
    assert [line["epoch"] for line in ends] == [1, 2, 3]
    assert all("detected_outlier_share" in line for line in ends)


def test_a_phase_without_pictures_is_skipped_and_the_note_is_in_the_journal(
    tmp_path: Path,
) -> None:
    made = run(tmp_path, circle_limit=1e9)  # nothing is an outlier
    assert len(made.outliers) == 0
    skipped = journal(tmp_path, "skipped")
    assert [(line["phase"], line["epoch"]) for line in skipped] == [
        ("outlier_prompt", epoch) for epoch in (1, 2, 3)
    ]
    notes = [line.get("note") for line in journal(tmp_path, "epoch") if line["phase"] == "student"]
    assert notes == ["no outlier was detected: the outlier centre stays"] * 3


def test_stages_without_epochs(tmp_path: Path) -> None:
    schedule = replace(tiny.SCHEDULE, labelled_epochs=0, pool_epochs=0)
    made = run(tmp_path, tiny.method(schedule=schedule))
    assert made.outlier_share is not None
    assert [line["stage"] for line in journal(tmp_path)] == ["labelled", "pool"]


# --- numbers that are none --------------------------------------------------------------------


def test_a_single_bad_step_is_skipped_and_logged(tmp_path: Path) -> None:
    made = run(tmp_path, sick(lambda phase, call: phase == "labelled" and call == 2))
    (bad,) = journal(tmp_path, "bad_step")
    assert (bad["step"], bad["in_a_row"], bad["labelled_loss"]) == (2, 1, None)
    for name, value in left(made).items():
        assert torch.isfinite(value.double()).all(), name
    first = journal(tmp_path, "step")[0]
    assert first["labelled_loss"] > 0  # the mean over the steps that were taken
    assert "NaN" not in (tmp_path / "journal.jsonl").read_text()


def test_a_bad_step_changes_nothing(tmp_path: Path) -> None:
    """Steps 8, 9 and 10 are bad and leave all as step 7 did, BatchNorm's statistics too."""
    made = sick(lambda phase, call: phase == "labelled" and call > 7)
    states: list[dict[str, Tensor]] = []
    with pytest.raises(TrainingDivergedError):
        made.stages = (replace(made.stages[0], epochs=4),)
        run(tmp_path, made, watch=lambda _: states.append(tiny.snapshot(made)))
    assert not tiny.changed(states[2], made)


@pytest.mark.parametrize("phase", ["labelled", "student", "outlier_prompt"])
def test_the_third_in_a_row_stops_it(tmp_path: Path, phase: str) -> None:
    """The outlier prompt has two steps an epoch: only over epochs are there three in a row."""
    made = sick(lambda name, call: name == phase and call >= 2)
    with pytest.raises(TrainingDivergedError) as stopped:
        run(tmp_path, made)
    assert made.calls[phase] == 1 + NAN_TOLERANCE
    message = str(stopped.value)
    assert "\n" not in message
    assert f"phase {phase}" in message
    assert "learning rate 0.05" in message
    assert "nan" in message
    assert [line["in_a_row"] for line in journal(tmp_path, "bad_step")] == [1, 2, 3]


def test_two_in_a_row_again_and_again_do_not(tmp_path: Path) -> None:
    run(tmp_path, sick(lambda name, call: name == "student" and call % 3 != 0))
    assert {line["in_a_row"] for line in journal(tmp_path, "bad_step")} == {1, 2}


def test_a_loss_without_a_finite_gradient_is_bad_too(tmp_path: Path) -> None:
    made = tiny.method()

    def poison(gradient: Tensor) -> Tensor:
        return gradient * torch.inf

    assert made.head is not None
    made.head.weight.register_hook(poison)  # type: ignore[no-untyped-call]
    with pytest.raises(TrainingDivergedError):
        run(tmp_path, made)
