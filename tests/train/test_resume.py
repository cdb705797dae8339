"""Interrupted and resumed is uninterrupted, to the last bit, wherever it stops."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open

from ossl.config import PromptConfig
from ossl.errors import InputError
from ossl.files import read_tensors, write_tensors
from ossl.train.checkpoint import Position, latest_checkpoint, read_position
from ossl.train.loop import TrainingDivergedError
from tests.methods import tiny
from tests.train.runs import InterruptedRunError, journal, run, same, sick

EPOCHS = 6  # three of each stage

KINDS: dict[str, dict[str, Any]] = {
    "paper": {},
    "default": {"space": "whitened_unit", "threshold": "mixture", "centre_rounds": 3},
    "discriminator": {"detector": "discriminator"},
    "random_patch": {"prompt": PromptConfig(size=4, template="random_patch")},
}


@pytest.fixture(scope="module", params=KINDS)
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("whole")
    return KINDS[request.param], run(folder, **KINDS[request.param]), journal(folder)


@pytest.mark.parametrize("every", [0.0, 1e9], ids=["each epoch saved", "stages' ends saved"])
def test_stopped_after_each_epoch(whole: Any, tmp_path: Path, every: float) -> None:
    changes, uninterrupted, lines = whole
    for stop in range(1, EPOCHS):
        folder = tmp_path / str(stop)
        with pytest.raises(InterruptedRunError):
            run(folder, stop_after=stop, checkpoint_every=every, **changes)
        resumed = run(folder, resume=True, checkpoint_every=every, **changes)
        assert same(resumed, uninterrupted), stop
        assert journal(folder) == lines, stop
        shutil.rmtree(folder)


def test_stopped_again_and_again(tmp_path: Path) -> None:
    uninterrupted = run(tmp_path / "whole")
    folder = tmp_path / "stopped"
    for _ in range(EPOCHS):
        with pytest.raises(InterruptedRunError):
            run(folder, resume=True, stop_after=1)
    assert same(run(folder, resume=True), uninterrupted)
    assert journal(folder) == journal(tmp_path / "whole")


def test_going_on_with_a_finished_run_changes_nothing(tmp_path: Path) -> None:
    uninterrupted = run(tmp_path)
    lines = journal(tmp_path)
    assert same(run(tmp_path, resume=True), uninterrupted)
    assert journal(tmp_path) == lines


def test_momentum_is_kept(tmp_path: Path) -> None:
    """Without it the next step would be another one."""
    with pytest.raises(InterruptedRunError):
        run(tmp_path, stop_after=2)
    path = latest_checkpoint(tmp_path / "checkpoints")
    assert path is not None
    tensors = read_tensors(path)
    momenta = [name for name in tensors if name.startswith("optimiser/labelled/")]
    trained = tiny.method().trained(tiny.method().stages[0].phases[0])
    assert sorted(momenta) == sorted(f"optimiser/labelled/{name}" for name in trained)
    with safe_open(path, "pt") as file:
        header = file.metadata()
    without = {name: tensor for name, tensor in tensors.items() if name not in momenta}
    shutil.copytree(tmp_path, tmp_path / "without")
    write_tensors(tmp_path / "without" / "checkpoints" / path.name, without, header)
    assert not same(run(tmp_path / "without", resume=True), run(tmp_path, resume=True))


def test_the_random_patchs_draws_go_on(tmp_path: Path) -> None:
    made = run(tmp_path, **KINDS["random_patch"])
    assert int(made.state_dict()["prompt.draws"]) > 9


def test_the_bad_steps_of_the_epochs_before_still_count(tmp_path: Path) -> None:
    """The third in a row comes after the interruption, and stops the run all the same."""
    with pytest.raises(InterruptedRunError):
        run(tmp_path, sick(lambda name, _: name == "outlier_prompt"), stop_after=4)
    path = latest_checkpoint(tmp_path / "checkpoints")
    assert path is not None
    assert read_position(path).bad == {"student": 0, "outlier_prompt": 2}
    made = sick(lambda name, _: name == "outlier_prompt")
    with pytest.raises(TrainingDivergedError):
        run(tmp_path, made, resume=True)
    assert made.calls["outlier_prompt"] == 1


def test_two_checkpoints_are_kept_and_nothing_half_written(tmp_path: Path) -> None:
    seen: list[list[str]] = []
    run(
        tmp_path,
        watch=lambda _: seen.append(sorted(p.name for p in (tmp_path / "checkpoints").iterdir())),
    )
    assert [len(names) for names in seen] == [1, 2, 2, 2, 2, 2]
    assert seen[-1] == [f"stage1-epoch00000{n}.safetensors" for n in (2, 3)]


def test_between_two_savings_there_is_no_checkpoint_but_at_a_stages_end(tmp_path: Path) -> None:
    run(tmp_path, checkpoint_every=1e9)
    names = sorted(p.name for p in (tmp_path / "checkpoints").iterdir())
    assert names == [f"stage{n}-epoch000003.safetensors" for n in (0, 1)]


def test_a_spoilt_checkpoint_is_one_line(tmp_path: Path) -> None:
    run(tmp_path)
    path = latest_checkpoint(tmp_path / "checkpoints")
    assert path is not None
    whole = path.read_bytes()
    for spoilt in (b"", whole[:100], b"\xff" * 200):
        path.write_bytes(spoilt)
        with pytest.raises(InputError, match="remove it to resume from the one before"):
            run(tmp_path, resume=True)
    path.unlink()
    run(tmp_path, resume=True)


def test_another_network_is_one_line(tmp_path: Path) -> None:
    run(tmp_path)
    other = tiny.method(contrast=False)
    with pytest.raises(InputError, match=r"does not fit the run's config\.json"):
        run(tmp_path, other, resume=True)


def test_an_older_checkpoint_has_no_count_of_bad_steps() -> None:
    assert Position(stage=1, epoch=2, step=3, journal=4).bad == {}


def test_stage_two_alone_resumes(tmp_path: Path) -> None:
    schedule = replace(tiny.SCHEDULE, labelled_epochs=0)
    uninterrupted = run(tmp_path / "whole", tiny.method(schedule=schedule))
    folder = tmp_path / "stopped"
    with pytest.raises(InterruptedRunError):
        run(folder, tiny.method(schedule=schedule), stop_after=1)
    resumed = run(folder, tiny.method(schedule=schedule), resume=True)
    assert same(resumed, uninterrupted)


def test_momentum_has_the_parameters_memory_format(tmp_path: Path) -> None:
    """In another one it might be added up by other instructions, and so not to the last bit."""
    with pytest.raises(InterruptedRunError):
        run(tmp_path, stop_after=1)
    formats: list[bool] = []
    made = tiny.method()
    step = torch.optim.SGD.step

    def watched(optimiser: Any, *rest: Any) -> Any:
        for parameter, state in optimiser.state.items():
            formats.append(state["momentum_buffer"].stride() == parameter.stride())
        return step(optimiser, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.optim.SGD, "step", watched)
        run(tmp_path, made, resume=True)
    assert formats
    assert all(formats)
