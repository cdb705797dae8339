"""The time told beforehand: it grows with the work, and is said as people say it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from ossl import estimate
from ossl.estimate import in_words, pictures_per_second, seconds_to_fit
from tests.methods import tiny

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (1, "a few seconds"),
        (12, "about 15 s"),
        (34, "about 30 s"),
        (70, "about a minute"),
        (130, "about 2 min"),
        (3500, "about 58 min"),
        (7200, "about 2.0 hours"),
    ],
)
def test_words(seconds: float, words: str) -> None:
    assert in_words(seconds) == words


def test_more_steps_and_more_pictures_take_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "pictures_per_second", lambda *_: 100.0)
    monkeypatch.setattr(estimate, "seconds_of_a_product", lambda: 0.01)

    def told(steps: int, pool: int) -> float:
        net = tiny.encoder()
        method = tiny.method(schedule=replace(tiny.SCHEDULE, pool_steps=steps), on=net)
        many = tiny.pictures([0] * pool)
        return seconds_to_fit(method, net, tiny.labelled_pictures(), many, CPU, torch.float32)

    assert told(10, 40) > told(3, 40)
    assert told(3, 80) == pytest.approx(told(3, 40) + 40 / 100 + 40 * 0.045 * 0.01)


def test_measuring_leaves_the_network_as_it_was() -> None:
    net = tiny.encoder()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    drawn = torch.get_rng_state()
    assert pictures_per_second(net, tiny.pool_pictures(), CPU, torch.float32) > 0
    assert net.training
    for name, tensor in net.state_dict().items():
        assert torch.equal(tensor, before[name])
    assert torch.equal(torch.get_rng_state(), drawn)
