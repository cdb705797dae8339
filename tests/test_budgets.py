"""What a budget means, what it costs, whom it is refused, and that it works by the real command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from ossl.budgets import MEANS, fit_cost, with_budget
from ossl.cli import main
from ossl.config import RunConfig, ScheduleConfig, from_json, to_json
from ossl.errors import InputError
from ossl.files import read_tensors
from ossl.models.frozen import FrozenBackbone
from ossl.models.prompt import prompt_parameter_count, prompt_size_for
from ossl.presets import demo_config, preset_config
from ossl.reproduce.results import run_hash
from tests.methods.test_prompt_tuning import EACH, SCHEDULE, alike, tuned
from tests.shapes import make_folders
from tests.train.runs import run

SHORT = ("tuning_epochs=2", "tuning_steps=2", "tuning_labelled=6", "tuning_pool=4")

__all__ = ["alike"]  # the fixture makes classes of tiny pictures hard to tell


def test_fast_is_what_there_is_without_a_budget() -> None:
    plain = demo_config()
    fast = with_budget(plain, "fast")
    assert replace(fast, budget=None) == plain
    assert with_budget(plain, None) == plain


@pytest.mark.parametrize("name", ["balanced", "best"])
def test_the_others_tune_a_prompt_and_say_so_in_the_config(name: str) -> None:
    config = with_budget(demo_config(), name)
    assert config.budget == name
    assert config.schedule.tuning_epochs * config.schedule.tuning_steps >= 250
    assert from_json(to_json(config), "here") == config
    size = prompt_size_for(128, config.recipe.prompt.size_at_224)
    assert (size, config.recipe.prompt.start) == (9, "zero")
    assert prompt_parameter_count(128, size) < 0.01 * 3_371_008  # of lite0


def test_every_budget_costs_more_than_the_one_before() -> None:
    made = [with_budget(demo_config(), name) for name in MEANS]
    costs = [fit_cost(c.recipe, c.schedule, 300, 15_000) for c in made]
    assert [cost.backward for cost in costs] == [0, 250 * 128, 700 * 128]
    assert costs[0].forward == 15_300  # one pass
    assert costs[0].passes < costs[1].passes < costs[2].passes


@pytest.mark.parametrize("flip", [True, False])
@pytest.mark.parametrize("views", [views for _, views in MEANS.values()])
def test_the_cost_is_what_a_run_takes(
    views: tuple[str, ...], flip: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {True: 0, False: 0}
    plain = FrozenBackbone.forward

    def counting(net: FrozenBackbone, pictures: Tensor) -> Tensor:
        seen[pictures.requires_grad and torch.is_grad_enabled()] += len(pictures)
        return plain(net, pictures)

    monkeypatch.setattr(FrozenBackbone, "forward", counting)
    schedule = replace(SCHEDULE, flip=flip)
    made = run(tmp_path, tuned(schedule, views=views))
    cost = fit_cost(made.recipe, schedule, labelled=3 * EACH, pool=31)
    assert (seen[False], seen[True]) == (cost.forward, cost.backward)


@pytest.mark.parametrize(
    ("config", "name", "what"),
    [
        (demo_config(), "fats", "unknown budget 'fats': did you mean 'fast'?"),
        (preset_config("table1/cifar10-100", recipe_name="paper"), "fast", "--recipe default"),
        (preset_config("ablation/no-contrast"), "best", "--recipe default"),
        (preset_config("table1/cifar10-100", method="fixmatch"), "best", "method openprompt"),
    ],
)
def test_whom_it_is_refused(config: RunConfig, name: str, what: str) -> None:
    with pytest.raises(InputError) as caught:
        with_budget(config, name)
    assert what in str(caught.value)


def test_what_a_budget_changes_is_another_run() -> None:
    config = preset_config("table1/cifar10-100")
    tuning = ScheduleConfig(tuning_epochs=3)
    changed = [
        config,
        with_budget(config, "fast"),
        with_budget(config, "best"),
        replace(config, schedule=replace(config.schedule, tuning_epochs=tuning.tuning_epochs)),
        replace(config, recipe=replace(config.recipe, views=("bare",))),
    ]
    hashes = [run_hash(one, (), None) for one in changed]
    assert len(set(hashes)) == len(hashes)


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(words) == 2
    return capsys.readouterr().err.splitlines()[-1]


def test_a_budget_that_does_not_fit_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labelled, pool, _ = make_folders(tmp_path)
    out = tmp_path / "run"
    words = ["fit", "--labelled", str(labelled), "--unlabelled", str(pool), "--out", str(out)]
    said = refused([*words, "--budget", "best", "--backbone", "wrn-28-2"], capsys)
    assert "--weights FILE" in said
    assert "--budget fast" in said
    assert "--recipe default" in refused([*words, "--budget", "best", "--recipe", "paper"], capsys)
    assert not out.exists()
    resumed = refused(["fit", "--resume", "--budget", "best", "--out", str(out)], capsys)
    assert "give only --out with it" in resumed
    odd = refused([*words, "--budget", "best", "--set", "recipe.views=[]"], capsys)
    assert "recipe.views" in odd


@pytest.mark.slow
@pytest.mark.parametrize("budget", ["balanced", "best"])
def test_a_fit_by_the_real_command(
    budget: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labelled, pool, truth = make_folders(tmp_path, labelled=28, known=8, junk=8)
    out = tmp_path / "run"
    words = ["--labelled", str(labelled), "--unlabelled", str(pool), "--out", str(out)]
    words += ["--image-size", "32", "--budget", budget, "--cache", str(tmp_path / "cache")]
    for setting in SHORT:
        words += ["--set", f"schedule.{setting}"]
    assert main(["fit", *words]) == 0
    shown = capsys.readouterr().out
    assert "the prompt is used" in shown or "the prompt is tuned" in shown
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["budget"] == budget
    assert metrics["remark"] in shown
    lines = [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]
    (end,) = (x for x in lines if x["event"] == "begin" and x["stage"] == "pool")
    assert "referee_auroc_bare" in end
    # The tuned prompt is the run's own, and whoever judges the run again sees it the same way.
    assert "prompt.values" in read_tensors(out / "model.safetensors")
    assert main(["evaluate", str(out), "--truth", str(truth), "--json"]) == 0
    judged = json.loads(capsys.readouterr().out)
    assert judged["remark"] == metrics["remark"]
    assert 0 <= judged["auroc"] <= 1
    assert main(["sort", str(out), "--images", str(pool), "--out", str(tmp_path / "s")]) == 0
    assert main(["fit", "--resume", "--out", str(out), "--quiet"]) == 0
    assert json.loads((out / "metrics.json").read_text())["remark"] == metrics["remark"]
