"""The baselines on the loop: what learns, what is selected, what is kept, and what is predicted."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from ossl.baseline_presets import baseline_of
from ossl.config import BackboneConfig, DigitsData, RunConfig
from ossl.data.batches import Batches
from ossl.measure import learnt_parameters, parameter_counts
from ossl.method_config import BASELINES
from ossl.methods import METHODS, create_method
from ossl.methods.baseline import Baseline
from ossl.methods.openmatch import OpenMatch
from ossl.models.head import OneVsAllHead
from ossl.train.loop import optimisers_of
from tests.methods import tiny
from tests.train.runs import InterruptedRunError, journal, run, same

SHORT: dict[str, Any] = {
    "epochs": 3,
    "epoch_steps": 2,
    "labelled_batch": 6,
    "pool_batch": 8,
    "learning_rate": 0.05,
}
OWN: dict[str, dict[str, Any]] = {
    "openmatch": {"pseudo_from_epoch": 1},
    "mtc": {"outlier_epochs": 1, "learning_rate": 0.002},
    "ssb": {"detector_from": 0.3, "hidden": 8},
    "iomatch": {"projection": 8},
}


def made(name: str, *, pretrained: bool = False, **changes: Any) -> Baseline:
    """A baseline on the tiny encoder."""
    settings = replace(baseline_of(name, "desk"), **(SHORT | OWN.get(name, {}) | changes))  # type: ignore[type-var]
    config = RunConfig(
        data=DigitsData(), method=name, baseline=settings, backbone=BackboneConfig(name="wrn-28-2")
    )
    method = create_method(config, tiny.encoder(pretrained=pretrained), 3, torch.float32)
    assert isinstance(method, Baseline)
    return method


@pytest.mark.parametrize("name", BASELINES)
def test_stopped_and_resumed_is_uninterrupted(name: str, tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", made(name))
    for stop in (1, 2):
        folder = tmp_path / str(stop)
        with pytest.raises(InterruptedRunError):
            run(folder, made(name), stop_after=stop)
        resumed = run(folder, made(name), resume=True)
        assert same(resumed, whole), stop
        assert journal(folder) == journal(tmp_path / "whole"), stop


@pytest.mark.parametrize("name", BASELINES)
def test_it_learns_the_classes_and_says_how_outlying(name: str, tmp_path: Path) -> None:
    method = run(tmp_path, made(name, epochs=6, epoch_steps=10, ema_decay=0.8))
    pictures = tiny.labelled_pictures()
    found = method.predict(pictures.take(range(12)))
    assert found.logits.shape == (12, 3)
    assert found.outlier_score.shape == (12,)
    assert torch.isfinite(found.outlier_score).all()
    hits = (found.logits.argmax(dim=1).numpy() == pictures.labels).mean()
    assert hits > 0.6
    assert method.outlier_share is not None
    assert 0 <= method.outlier_share <= 1
    scores = method.pool_scores(tiny.scan())[1]
    assert method.outlier_share == pytest.approx(
        float((scores > method.threshold).float().mean()), abs=1e-6
    )


@pytest.mark.parametrize("name", BASELINES)
def test_a_frozen_encoder_stays_and_its_heads_learn(name: str, tmp_path: Path) -> None:
    method = made(name, pretrained=True)
    before = {key: value.clone() for key, value in method.encoder.state_dict().items()}
    heads = {key: value.clone() for key, value in method.heads.state_dict().items()}
    run(tmp_path, method)
    assert all(
        torch.equal(value, before[key]) for key, value in method.encoder.state_dict().items()
    )
    assert not all(
        torch.equal(value, heads[key]) for key, value in method.heads.state_dict().items()
    )
    learnt, total = learnt_parameters(method)
    assert 0 < learnt < total
    assert parameter_counts(method)[:2] == (learnt, total)


def test_what_is_counted_as_learnt_holds_the_encoder() -> None:
    method = made("fixmatch")
    trained, total, by_stage = parameter_counts(method)
    assert trained == total == sum(by_stage.values())
    assert total == sum(
        p.numel() for p in (*method.encoder.parameters(), *method.heads.parameters())
    )


def test_the_average_follows_the_network_by_its_decay() -> None:
    method = made("labeled_only", ema_decay=0.75, ema_warm_up=False)
    weight = method.encoder.net[0].weight  # type: ignore[index]
    before = weight.detach().clone()
    with torch.no_grad():
        weight.add_(1.0)
    method.after_step(method.stages[0].phases[0])
    averaged = method.average["encoder"].net[0].weight  # type: ignore[union-attr, index]
    torch.testing.assert_close(averaged, 0.75 * before + 0.25 * weight.detach())


def test_biases_and_norms_do_not_decay() -> None:
    method = made("openmatch", weight_decay=5e-4)
    optimiser, named = next(iter(optimisers_of(method, method.stages[0]).values()))
    decayed, spared = optimiser.param_groups
    assert (decayed["weight_decay"], spared["weight_decay"]) == (5e-4, 0.0)
    assert decayed["nesterov"] and spared["nesterov"]
    names = {id(parameter): name for name, parameter in named.items()}
    for parameter in spared["params"]:
        assert (
            names[id(parameter)].endswith("bias")
            or ".net.1." in names[id(parameter)]
            or (".net.4." in names[id(parameter)])
        )
    assert all(names[id(p)].endswith("weight") for p in decayed["params"])
    assert len(decayed["params"]) + len(spared["params"]) == len(named)


def test_the_rate_falls_by_the_cosine_step_by_step(tmp_path: Path) -> None:
    method = made("labeled_only", epochs=4, epoch_steps=10)
    stage = method.stages[0]
    assert stage.rate_factor(0, 0.0) == 1
    assert stage.rate_factor(2, 0.5) == pytest.approx(math.cos(7 * math.pi / 16 * 2.5 / 4))
    run(tmp_path, method)
    rates = [line["rate"] for line in journal(tmp_path, "step")]
    wanted = [0.05 * math.cos(7 * math.pi / 16 * (10 * e + 9) / 40) for e in range(4)]
    assert rates == pytest.approx(wanted)


def test_openmatch_with_nothing_selected_goes_on(tmp_path: Path) -> None:
    method = made("openmatch")
    assert isinstance(method, OpenMatch)
    head = method.heads["detector"]
    assert isinstance(head, OneVsAllHead)

    class AllOutlying(OneVsAllHead):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            logits = super().forward(input)
            return logits * 0 + torch.tensor([5.0, -5.0], device=input.device)[:, None]

    method.heads["detector"].__class__ = AllOutlying
    method.average["heads"]["detector"].__class__ = AllOutlying  # type: ignore[index]
    run(tmp_path, method)
    assert len(method.known) == 0
    assert method.outlier_share == 1.0
    assert all(line["pseudo_loss"] == 0 for line in journal(tmp_path, "step"))


def test_openmatch_selects_what_its_average_takes_for_known(tmp_path: Path) -> None:
    method = run(tmp_path, made("openmatch", epochs=6, epoch_steps=10, ema_decay=0.8))
    assert isinstance(method, OpenMatch)
    pool = tiny.pool_pictures()
    said = method.predict(pool.take(range(len(pool))))
    known = (said.outlier_score <= 0.5).nonzero().squeeze(1)
    assert torch.equal(method.known, known)
    lines = journal(tmp_path, "step")
    assert lines[0]["pseudo_loss"] == 0
    assert any(line["pseudo_loss"] > 0 for line in lines[1:])


def test_only_selected_pictures_are_drawn_for_the_third_side() -> None:
    method = made("openmatch")
    plan = method.plan()
    chosen = torch.tensor([3, 5, 30])
    pool = tiny.pool_pictures()
    batches = Batches(tiny.labelled_pictures(), pool, plan, [0], selected=chosen)
    plain = Batches(tiny.labelled_pictures(), pool, plan, [0])
    batch, without = next(batches), next(plain)
    assert set(batch.selected_index.tolist()) == {3, 5, 30}
    assert set(batch.selected) == {"weak", "strong"}
    assert set(batch.labelled) == {"flip", "weak"}
    assert set(batch.pool) == {"weak", "weak2"}
    assert without.selected == {}
    assert torch.equal(batch.pool["weak"], without.pool["weak"])  # a side more changes no other


def test_names_are_those_of_the_settings() -> None:
    assert set(METHODS) == {"openprompt", *BASELINES}
    for name, kind in METHODS.items():
        assert kind.info.name == name


def test_published_numbers() -> None:
    """Of FixMatch's table 4 and of OpenMatch's `utils/parser.py`."""
    full = baseline_of("openmatch", "full", "cifar10-100")
    assert full is not None
    assert (full.epochs * full.epoch_steps, full.labelled_batch, full.pool_batch) == (
        2**19,
        64,
        128,
    )
    assert (full.learning_rate, full.momentum, full.weight_decay) == (0.03, 0.9, 5e-4)
    assert (full.cosine_cycles, full.ema_decay, full.ema_warm_up) == (7 / 16, 0.999, False)
    assert (full.entropy_weight, full.consistency_weight, full.pseudo_from_epoch) == (0.1, 0.5, 10)  # type: ignore[union-attr]
    other = baseline_of("openmatch", "full", "cifar100-80-50")
    assert other is not None
    assert other.consistency_weight == 1.0  # type: ignore[union-attr]
    assert baseline_of("fixmatch", "full").pseudo_threshold == 0.95  # type: ignore[union-attr]
