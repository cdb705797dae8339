"""`ossl bench step`: it runs, and its floor is the very work of the network in a step."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from ossl.bench import step as bench
from ossl.cli import main
from ossl.config import Precision
from ossl.errors import InputError
from ossl.models.frozen import FrozenBackbone
from ossl.models.wide_resnet import WideResNet

SMALL = ("--image-size", "16", "--labelled-batch", "2", "--pool-batch", "4", "--device", "cpu")


def test_it_prints_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "step", "--json", "--steps", "2", *SMALL]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["ratio"] > 0
    assert result["step_seconds"] > 0
    assert result["floor_seconds"] > 0
    assert result["pool_pictures_per_second"] > 0
    told = ("bench", "steps", "backbone", "image_size", "labelled_batch", "pool_batch", "device")
    assert [result[name] for name in told] == ["step", 2, "wrn-28-2", 16, 2, 4, "cpu"]


def test_it_prints_a_line_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "step", "--steps", "1", "--precision", "fp32", *SMALL]) == 0
    out = capsys.readouterr().out
    assert "times its network alone" in out
    assert "2 + 4 pictures of 16 pixels, float32, cpu" in out


def test_no_step_is_no_time() -> None:
    with pytest.raises(InputError, match="at least one step"):
        bench.bench_step("wrn-28-2", 16, 2, 4, 0, "fp32", "cpu")


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_floor_is_the_steps_own_network(
    precision: Precision, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same calls: shapes, precision, memory format, and whether a gradient comes back."""
    calls: dict[str, list[tuple[object, ...]]] = {"step": [], "floor": []}
    now = ""
    forward = FrozenBackbone.forward

    def watched(net: FrozenBackbone, pictures: Tensor) -> Tensor:
        given = pictures.to(net.dtype, memory_format=torch.channels_last)
        backwards = torch.is_grad_enabled() and pictures.requires_grad
        if now:
            calls[now].append((id(net), tuple(given.shape), given.dtype, backwards))
        return forward(net, pictures)

    def in_turn(
        work: dict[str, Callable[[], None]], rounds: int, device: torch.device
    ) -> dict[str, list[float]]:
        nonlocal now
        del rounds, device
        for name, run in work.items():
            now = name
            run()
        now = ""
        return {name: [1.0] for name in work}

    monkeypatch.setattr(FrozenBackbone, "forward", watched)
    monkeypatch.setattr(bench, "_in_turn", in_turn)
    bench.bench_step("wrn-28-2", 16, 2, 4, 1, precision, "cpu")
    assert len(calls["floor"]) == 2
    assert sorted(calls["step"], key=str) == sorted(calls["floor"], key=str)
    assert sorted(call[1][0] for call in calls["floor"]) == [4, 6]  # type: ignore[index]
    assert [call[3] for call in calls["floor"] if call[1][0] == 6] == [True]  # type: ignore[index]


@pytest.mark.parametrize(("method", "pictures"), [("fixmatch", 2 + 8), ("openmatch", 4 + 16)])
def test_a_baselines_step(method: str, pictures: int, capsys: pytest.CaptureFixture[str]) -> None:
    """The floor passes as many pictures through the network as the step does."""
    seen: list[int] = []
    forward = WideResNet.forward

    def watched(net: WideResNet, x: Tensor) -> Tensor:
        if net.training:
            seen.append(len(x))
        return forward(net, x)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WideResNet, "forward", watched)
        assert main(["bench", "step", "--method", method, "--json", "--steps", "1", *SMALL]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["method"] == method
    assert result["pictures"] == pictures
    assert set(seen) == {pictures}
    assert len(seen) == 1 + 2 * (bench.WARM_UP + 1)  # one to see what a step passes
    assert main(["bench", "step", "--method", method, "--steps", "1", *SMALL]) == 0
    assert f"{method}, {pictures} pictures a step" in capsys.readouterr().out


@pytest.mark.parametrize("topic", ["fit", "score"])
def test_whole_jobs_are_timed_against_their_network(
    topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["bench", topic, "--pictures", "60", "--image-size", "64", "--device", "cpu"]
    assert main([*words, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["ratio"] == pytest.approx(result["seconds"] / result["floor_seconds"], rel=0.03)
    told = ("bench", "pictures", "backbone", "image_size", "device")
    assert [result[name] for name in told] == [topic, 60, "lite0", 64, "cpu"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("fit", "--backbone", "wrn-28-2"), "no pretrained weights"),
        (("score", "--steps", "3"), "has no steps"),
        (("step", "--pictures", "3"), "bench fit and bench score"),
        (("fit", "--pictures", "0"), "above 0"),
    ],
)
def test_what_cannot_be_measured(
    words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *words]) == 2
    assert says in capsys.readouterr().err
