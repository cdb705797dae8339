"""The EMA teacher against its closed form."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from ossl.models.head import Head
from ossl.models.prompt import VisualPrompt
from ossl.models.teacher import Ema


def _walk(ema: Ema, parameter: Tensor, steps: int) -> list[Tensor]:
    """The student's values after each of its steps, the teacher following."""
    values = []
    for step in range(steps):
        with torch.no_grad():
            parameter.add_(0.1 * (step + 1))
        values.append(parameter.detach().clone())
        ema.update()
    return values


def test_closed_form() -> None:
    prompt = VisualPrompt(8, 2)
    start = prompt.values.detach().clone()
    ema = Ema({"prompt": prompt}, decay=0.9)
    walked = _walk(ema, prompt.values, 6)
    # θ_t = mⁿ θ_0 + (1 − m) Σ mⁿ⁻¹⁻ⁱ θ_i
    expected = 0.9**6 * start + sum(0.1 * 0.9 ** (5 - i) * v for i, v in enumerate(walked))
    torch.testing.assert_close(dict(ema["prompt"].named_parameters())["values"], expected)


def test_warm_up_follows_the_student_at_first() -> None:
    head = Head(3, 2)
    ema = Ema(head, decay=0.5, warm_up=True)
    expected = head.weight.detach().clone()
    for step, value in enumerate(_walk(ema, head.weight, 12)):
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * value
    torch.testing.assert_close(dict(ema.module.named_parameters())["weight"], expected)
    assert ema.current_decay() == 0.5


def test_copies_have_no_gradient_stay_in_evaluation_and_are_apart() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 2))
    ema = Ema(net)
    parent = nn.ModuleList([ema]).train()
    assert not any(module.training for module in ema.modules())
    assert not any(p.requires_grad for p in parent.parameters())
    assert net.training
    assert all(p.requires_grad for p in net.parameters())
    assert not {p.data_ptr() for p in net.parameters()} & {p.data_ptr() for p in ema.parameters()}
    # The student is not saved with its teacher.
    assert len(ema.state_dict()) == len(net.state_dict()) + 1


def test_buffers_are_copied() -> None:
    net = nn.BatchNorm2d(2)
    ema = Ema(net, decay=0.999)
    net(torch.randn(4, 2, 3, 3, generator=torch.Generator().manual_seed(0)))
    ema.update()
    copied = dict(ema.module.named_buffers())
    assert all(torch.equal(copied[name], buffer) for name, buffer in net.named_buffers())


def test_state_round_trip() -> None:
    head = Head(3, 2)
    ema = Ema({"prompt": VisualPrompt(8, 2), "head": head}, decay=0.9, warm_up=True)
    _walk(ema, head.weight, 3)
    other = Ema({"prompt": VisualPrompt(8, 2, seed=5), "head": Head(3, 2, seed=5)}, warm_up=True)
    other.load_state_dict(ema.state_dict())
    saved, loaded = ema.state_dict(), other.state_dict()
    assert int(loaded["updates"]) == 3
    assert all(torch.equal(saved[key], loaded[key]) for key in saved)


def test_decay_outside_its_range_is_refused() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        Ema(Head(3, 2), decay=1.5)
