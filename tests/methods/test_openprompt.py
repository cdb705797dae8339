"""What learns when, what stays as it is, and who teaches whom: rows 4, 11, 14 and 15."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from ossl.config import (
    BackboneConfig,
    DigitsData,
    PromptConfig,
    RecipeConfig,
    RunConfig,
)
from ossl.errors import InputError
from ossl.methods import METHODS, create_encoder, create_method
from ossl.methods.base import Method, MethodInfo
from ossl.methods.openprompt import OpenPrompt
from tests.methods import tiny

TEACHER = {"teacher.copies.prompt.values", "teacher.updates"}
OUTLIER_TEACHER = {"teacher.copies.outlier_prompt.values", "teacher.updates"}


def finished_stage_one() -> OpenPrompt:
    made = tiny.method()
    made.enter(made.stages[0])
    made.train()
    tiny.take_steps(made, "labelled", 3)
    return made


def names(made: nn.Module, part: str) -> set[str]:
    return {name for name in made.state_dict() if name.startswith(part)}


def test_stage_one_trains_encoder_classifier_and_prompt() -> None:
    made = tiny.method()
    before = tiny.snapshot(made)
    made.enter(made.stages[0])
    made.train()
    tiny.take_steps(made, "labelled", 2)
    learnt = names(made, "encoder.") | names(made, "head.") | {"prompt.values"}
    assert tiny.changed(before, made) == learnt


@pytest.mark.parametrize("setting", ["never", "auto"])
def test_a_frozen_encoder_stays_in_stage_one_too(setting: str) -> None:
    made = tiny.method(on=tiny.encoder(pretrained=True), train_encoder=setting)
    before = tiny.snapshot(made)
    made.enter(made.stages[0])
    made.train()
    tiny.take_steps(made, "labelled", 2)
    assert tiny.changed(before, made) == names(made, "head.") | {"prompt.values"}


def test_stage_two_trains_the_two_prompts_alone() -> None:
    made = tiny.in_stage_two(finished_stage_one())
    before = tiny.snapshot(made)
    frozen = {name: value.clone() for name, value in made.frozen_encoder.state_dict().items()}
    tiny.take_steps(made, "student", 2)
    assert tiny.changed(before, made) == {"prompt.values"} | TEACHER
    before = tiny.snapshot(made)
    tiny.take_steps(made, "outlier_prompt", 2)
    assert tiny.changed(before, made) == {"outlier_prompt.values"} | OUTLIER_TEACHER
    made.end_phase(made.stages[1].phases[0], tiny.scan())
    made.predict(tiny.pool_pictures().data)
    assert not tiny.changed(frozen, made.frozen_encoder)
    # Neither do the gradients of stage 1's last step lie about in memory.
    assert made.head is not None
    for module in (made.encoder, made.frozen_encoder, made.head, made.teacher):
        assert all(p.grad is None and not p.requires_grad for p in module.parameters())


def test_the_teacher_starts_where_the_student_is() -> None:
    made = finished_stage_one()
    teacher = dict(made.teacher["prompt"].named_parameters())["values"]
    assert not torch.equal(teacher, made.prompt.values)  # stage 1 has no teacher
    tiny.in_stage_two(made)
    assert torch.equal(teacher, made.prompt.values)
    assert int(made.teacher.updates) == 0


def test_the_teacher_is_the_average_of_each_prompts_own_steps() -> None:
    made = tiny.in_stage_two(tiny.method(ema_decay=0.5))
    assert made.outlier_prompt is not None
    teachers = [made.teacher["prompt"], made.teacher["outlier_prompt"]]
    students = [made.prompt, made.outlier_prompt]
    for place, name in enumerate(("student", "outlier_prompt")):
        start = [t.state_dict()["values"].clone() for t in teachers]
        tiny.take_steps(made, name, 1)
        expected = 0.5 * start[place] + 0.5 * students[place].values.detach()
        torch.testing.assert_close(teachers[place].state_dict()["values"], expected)
        assert torch.equal(teachers[1 - place].state_dict()["values"], start[1 - place])


def test_the_outlier_prompt_learns_from_detected_outliers_alone() -> None:
    made = tiny.in_stage_two(tiny.method())
    phase = tiny.phase_of(made, "outlier_prompt")[1]
    made.outliers = torch.tensor([3, 7, 20])
    assert torch.equal(made.pool_choice(phase), made.outliers)  # type: ignore[arg-type]
    assert set(tiny.batch_of(made, "outlier_prompt").pool_index.tolist()) <= {3, 7, 20}
    assert made.pool_choice(tiny.phase_of(made, "student")[1]) is None


def test_the_epochs_end_collects_what_the_detector_puts_aside() -> None:
    made = tiny.in_stage_two(tiny.method(space="whitened_unit", threshold="mixture"))
    student, outlier_prompt = made.stages[1].phases
    assert [student.name, outlier_prompt.name] == ["student", "outlier_prompt"]  # in this order
    with torch.no_grad():
        made.teacher["prompt"].load_state_dict({"values": made.prompt.values + 1})
    made.eval()
    values = made.end_phase(student, tiny.scan())
    score = made.predict(tiny.pool_pictures().data).outlier_score
    assert torch.equal(made.outliers, (score > made.threshold).nonzero().squeeze(1))
    share = values["detected_outlier_share"]
    assert share == pytest.approx(len(made.outliers) / len(score))
    assert made.end_phase(outlier_prompt, tiny.scan()) == {}


def test_without_contrast_there_is_no_outlier_prompt_at_all() -> None:
    made = tiny.in_stage_two(tiny.method(contrast=False))
    assert made.outlier_prompt is None
    assert not [name for name in made.state_dict() if "outlier_prompt" in name]
    assert [phase.name for phase in made.stages[1].phases] == ["student"]
    assert "contrast_loss" not in tiny.take_steps(made, "student")


def test_a_prompt_without_pixels_can_run() -> None:
    made = tiny.method(prompt=PromptConfig(size=0))
    made.enter(made.stages[0])
    made.train()
    tiny.take_steps(made, "labelled")
    tiny.in_stage_two(made)
    before = tiny.snapshot(made)
    tiny.take_steps(made, "student")
    assert tiny.changed(before, made) == {"teacher.updates"}


def test_dead_features_are_the_users_one_line() -> None:
    made = tiny.method()
    with torch.no_grad():
        for parameter in made.encoder.parameters():
            parameter.zero_()
    made.enter(made.stages[1])
    made.eval()
    with pytest.raises(InputError, match="learning_rate"):
        made.begin(made.stages[1], tiny.scan())


def test_predictions_do_not_depend_on_the_batch() -> None:
    made = tiny.in_stage_two(tiny.method()).eval()
    data = tiny.pool_pictures().data
    whole, part = made.predict(data), made.predict(data[5:9])
    torch.testing.assert_close(part.logits, whole.logits[5:9], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(part.outlier_score, whole.outlier_score[5:9], rtol=1e-4, atol=1e-5)
    assert not whole.logits.requires_grad


def test_what_is_saved_scores_the_same() -> None:
    made = tiny.in_stage_two(finished_stage_one()).eval()
    other = tiny.method(seed=9)
    other.load_state_dict(made.state_dict())
    other.load_joint_space(made.joint_space())
    other.enter(other.stages[-1])
    other.eval()
    data = tiny.pool_pictures().data
    assert torch.equal(other.predict(data).outlier_score, made.predict(data).outlier_score)
    assert torch.equal(other.predict(data).logits, made.predict(data).logits)
    assert (other.threshold, other.outlier_share) == (made.threshold, made.outlier_share)
    assert torch.equal(other.outliers, made.outliers)


def test_the_scan_gives_one_feature_a_picture_on_the_device() -> None:
    made = tiny.in_stage_two(tiny.method()).eval()
    pool, prompt = tiny.pool_pictures(), made.prompt
    with torch.no_grad():
        found = tiny.scan(pool=pool)("pool", lambda x: made.features(x, prompt))  # in threes
        expected = made.features(pool.data, prompt)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert found.device == made.prompt.values.device
    assert not found.requires_grad


# --- by name, from a configuration ------------------------------------------------------------


def config(recipe: RecipeConfig, backbone: BackboneConfig) -> RunConfig:
    return RunConfig(data=DigitsData(), recipe=recipe, backbone=backbone)


def test_every_method_says_where_it_comes_from() -> None:
    for name, kind in METHODS.items():
        assert issubclass(kind, Method)
        assert isinstance(kind.info, MethodInfo)
        assert kind.info.name == name
        assert kind.info.title
        assert kind.info.paper
        assert 2000 < kind.info.year < 2100
        assert kind.info.trains


def test_an_unknown_method_offers_the_nearest() -> None:
    wrong = replace(config(tiny.RECIPE, BackboneConfig()), method="openpromt")
    with pytest.raises(InputError, match="did you mean 'openprompt'"):
        create_method(wrong, tiny.encoder(), 3, torch.float32)


def test_a_network_without_weights_cannot_stay_untrained() -> None:
    never = replace(tiny.RECIPE, train_encoder="never")
    with pytest.raises(InputError, match="never trains it"):
        create_encoder(config(never, BackboneConfig("wrn-28-2", image_size=32)))


@pytest.mark.parametrize("setting", ["auto", "never"])
def test_a_loaded_run_learns_what_the_fitted_one_did(setting: str) -> None:
    """The encoder of a loaded run has no weights yet, but had some at the start (row 4)."""
    recipe = replace(tiny.RECIPE, train_encoder=setting)  # type: ignore[arg-type]
    asked = config(recipe, BackboneConfig("lite0", image_size=32))
    loaded = create_encoder(asked, for_training=False)
    assert loaded.pretrained
    made = create_method(asked, loaded, 3, torch.float32)
    trained = made.trained(made.stages[0].phases[0])
    assert not [name for name in trained if name.startswith("encoder.")]
    scratch = config(replace(recipe, train_encoder="auto"), BackboneConfig("wrn-28-2"))
    assert not create_encoder(scratch, for_training=False).pretrained
