"""Every setting of the recipe changes what it says it changes, and only a tested one may exist."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
import torch
from torch import Tensor

from ossl.config import PromptConfig, RecipeConfig
from ossl.methods.detectors import CircleDetector, DiscriminatorDetector
from ossl.methods.evidence_detector import EvidenceDetector
from ossl.methods.openprompt import OpenPrompt
from tests.methods import tiny

LABELLED = torch.tensor([[3.0, 0.2], [3.0, -0.1], [2.5, 0.9], [2.0, 0.1]])
POOL = torch.tensor([[3.0, 0.0], [2.0, 0.5], [1.0, 0.8], [0.5, 1.5], [0.0, 2.0], [-1.0, 2.5]])


def circle(**changes: Any) -> CircleDetector:
    detector = tiny.method(**changes).detector
    assert isinstance(detector, CircleDetector)
    return detector


def drawn(**changes: Any) -> tuple[CircleDetector, dict[str, float | str]]:
    detector = circle(**changes)
    return detector, detector.initialise(LABELLED, POOL, torch.zeros(0))


def in_stage_two(**changes: Any) -> OpenPrompt:
    return tiny.in_stage_two(tiny.method(**changes))


def prompt() -> None:
    """Rows 1 and 2."""
    four = tiny.method(prompt=PromptConfig(size=4))
    assert four.prompt.values.numel() == 2 * 3 * 4 * (2 * tiny.SIZE - 2 * 4)
    scaled = tiny.method(prompt=PromptConfig(size_at_224=40))
    assert scaled.prompt.size == round(tiny.SIZE * 40 / 224)
    assert tiny.method(prompt=PromptConfig(size_at_224=80)).prompt.size == 6
    patch = tiny.method(prompt=PromptConfig(size=4, template="fixed_patch"))
    assert patch.prompt.values.numel() == 3 * 4 * 4
    anywhere = tiny.method(prompt=PromptConfig(size=4, template="random_patch"))
    assert anywhere.prompt.template == "random_patch"
    zero = tiny.method(prompt=PromptConfig(size=4, start="zero"))
    assert not zero.prompt.values.any()
    assert four.prompt.values.std() > 0.8
    around = tiny.method(prompt=PromptConfig(size=4, placement="surround"))
    assert not torch.allclose(encoded(four), encoded(around))
    for made in (four, scaled, patch, anywhere, zero):
        assert made.outlier_prompt is not None
        assert made.outlier_prompt.values.shape == made.prompt.values.shape


def encoded(made: OpenPrompt) -> Tensor:
    made.eval()
    with torch.no_grad():
        return made.features(tiny.pool_pictures().data[:4], made.prompt)


def train_encoder() -> None:
    """Row 4."""
    learns = {
        (setting, pretrained): tiny.method(
            on=tiny.encoder(pretrained=pretrained), train_encoder=setting
        ).trains_encoder
        for setting in ("always", "auto", "never")
        for pretrained in (True, False)
    }
    assert [key for key, value in learns.items() if value] == [
        ("always", True),
        ("always", False),
        ("auto", False),
    ]


def candidates() -> None:
    """Rows 6 and 8: the furthest lies up, the outliers to the right, as a later tangent sees."""
    labelled = torch.tensor([[0.0, 1.2], [0.0, -1.2], [1.0, 0.0], [-1.0, 0.0]])
    pool = torch.tensor([[3.0, 0.0], [4.0, 0.0], [0.0, 0.0], [0.0, 0.01]])
    one = circle(space="raw", candidates=1).initialise(labelled, pool, torch.zeros(0))
    four = circle(space="raw", candidates=4).initialise(labelled, pool, torch.zeros(0))
    assert (one["tangent"], one["tangent_outlier_rate"]) == (0, 0.0)
    assert (four["tangent"], four["tangent_outlier_rate"]) == (2, 0.5)


def space() -> None:
    """Row 7."""
    lengths = {}
    for kind in ("raw", "unit", "scaled", "whitened", "whitened_unit"):
        detector, _ = drawn(space=kind)
        assert detector.space is not None
        lengths[kind] = detector.space(POOL).norm(dim=1)
    one = torch.ones(len(POOL))
    torch.testing.assert_close(lengths["raw"], POOL.norm(dim=1))
    torch.testing.assert_close(lengths["unit"], one)
    torch.testing.assert_close(lengths["whitened_unit"], one)
    reach = (LABELLED - LABELLED.mean(dim=0)).norm(dim=1).max()
    torch.testing.assert_close(lengths["scaled"], POOL.norm(dim=1) / reach)
    assert not torch.allclose(lengths["whitened"], lengths["raw"])


def ridge() -> None:
    """Whitened spaces only: with all of it only the scale is left, with none all is whitened."""
    spread = {}
    for share in (0.0, 0.5, 1.0):
        detector, _ = drawn(space="whitened", ridge=share)
        assert detector.space is not None
        points = detector.space(torch.cat([LABELLED, POOL]))
        values = torch.linalg.eigvalsh(torch.cov(points.T))
        spread[share] = float(values[-1] / values[0])
    assert spread[0.0] == pytest.approx(1, rel=1e-3)
    assert spread[0.0] < spread[0.5] < spread[1.0]
    assert torch.equal(drawn(ridge=0.0)[0].score(POOL), drawn(ridge=0.9)[0].score(POOL))


def tangent_tolerance() -> None:
    """Row 7: the narrower the band, the more are outliers."""
    rates = [float(drawn(tangent_tolerance=t)[1]["tangent_outlier_rate"]) for t in (0.05, 0.5, 9.0)]
    assert rates[0] > rates[1] > rates[2] == 0


def circle_limit() -> None:
    """Row 9: the larger λ, the more are known; λ = 1 needs no circle."""
    found = {}
    for limit in (0.2, 1.0, 5.0):
        detector = circle(circle_limit=limit)
        detector.initialise(LABELLED, POOL, torch.zeros(0))
        found[limit] = int(detector.detect(POOL).sum())
        assert detector.limit == limit
    assert found[0.2] > found[1.0] >= found[5.0]
    assert in_stage_two(circle_limit=0.2).threshold == 0.2


def threshold() -> None:
    """Where λ comes from: given, or from the pool's scores."""
    given, _ = drawn(threshold="circle", circle_limit=0.7)
    measured, _ = drawn(threshold="mixture", circle_limit=0.7)
    assert given.limit == 0.7
    assert measured.limit != 0.7
    assert given.share == float(given.detect(POOL).float().mean())
    assert measured.share is not None


def centre_rounds() -> None:
    """Row 10: two rounds are one and another."""
    once, _ = drawn(centre_rounds=1, circle_limit=1.2)
    twice, _ = drawn(centre_rounds=2, circle_limit=1.2)
    assert once.centres is not None
    assert twice.centres is not None
    assert not torch.equal(once.centres.known, twice.centres.known)
    once.update(LABELLED, POOL)
    assert torch.equal(once.centres.known, twice.centres.known)


def detector() -> None:
    """Row 17."""
    made = in_stage_two(detector="discriminator")
    assert isinstance(made.detector, DiscriminatorDetector)
    before = tiny.snapshot(made.detector)
    parts = tiny.take_steps(made, "student")
    assert "detector_loss" in parts
    assert tiny.changed(before, made.detector) == set(before)  # it learns beside the prompt
    assert made.threshold == 0.5
    assert "detector_loss" not in tiny.take_steps(in_stage_two(), "student")


def pseudo_threshold() -> None:
    """Row 11: η at nothing takes every known picture, at one hardly any."""
    loose = tiny.take_steps(in_stage_two(pseudo_threshold=0.0, circle_limit=1.2), "student")
    strict = tiny.take_steps(in_stage_two(pseudo_threshold=1.0, circle_limit=1.2), "student")
    assert float(loose["known_share"]) > 0
    assert loose["pseudo_labelled_share"] == loose["known_share"]
    assert float(strict["pseudo_labelled_share"]) == 0
    assert float(strict["supervised_loss"]) == 0


def pseudo_labels() -> None:
    """Row 11: whose answer to the weak view is learnt; with a teacher apart the two differ."""
    said = {}
    for who in ("teacher", "student"):
        made = in_stage_two(pseudo_labels=who, pseudo_threshold=0.0, circle_limit=9.0)
        with torch.no_grad():
            made.prompt.values.mul_(-30)
        batch = tiny.batch_of(made, "student")
        judge = made.teacher["prompt"] if who == "teacher" else made.prompt
        with torch.no_grad():
            pseudo = made.logits(made.features(batch.pool["weak"], judge)).argmax(dim=1)
            logits = made.logits(made.features(batch.pool["strong"], made.prompt))
        parts = made(batch, made.stages[1].phases[0])
        expected = torch.nn.functional.cross_entropy(logits, pseudo)
        torch.testing.assert_close(parts["supervised_loss"].detach(), expected)
        said[who] = float(expected)
    assert said["teacher"] != said["student"]


def consistency() -> None:
    """Row 12: the signed form can fall below zero, the absolute cannot."""
    losses = {}
    for form in ("signed", "absolute"):
        made = in_stage_two(consistency=form)
        losses[form] = float(tiny.take_steps(made, "student")["consistency_loss"])
    assert losses["absolute"] > 0
    assert losses["absolute"] >= abs(losses["signed"])
    assert losses["absolute"] != losses["signed"]


def contrast() -> None:
    """Row 13: the ablation has neither the loss nor the prompt."""
    assert "contrast_loss" in tiny.take_steps(in_stage_two(), "student")
    made = in_stage_two(contrast=False)
    assert "contrast_loss" not in tiny.take_steps(made, "student")
    assert made.outlier_prompt is None


def contrast_margin() -> None:
    """Row 13: above the margin the cosine counts, below it nothing does."""
    for margin in (-1.0, 0.0, 0.5):
        made = in_stage_two(contrast_margin=margin)
        assert made.outlier_prompt is not None
        for sign, cosine in ((1.0, 1.0), (-1.0, -1.0)):
            with torch.no_grad():
                made.outlier_prompt.values.copy_(sign * made.prompt.values)
            parts = made(tiny.batch_of(made, "student"), made.stages[1].phases[0])
            expected = max(0.0, cosine - margin)
            assert float(parts["contrast_loss"].detach()) == pytest.approx(expected, abs=1e-5)


def ema_decay() -> None:
    """Row 15: at zero the teacher is the student, at one it stays."""
    for decay, follows in ((0.0, True), (1.0, False)):
        made = in_stage_two(ema_decay=decay)
        start = made.prompt.values.detach().clone()
        tiny.take_steps(made, "student", 2)
        teacher = made.teacher["prompt"].state_dict()["values"]
        torch.testing.assert_close(teacher, made.prompt.values.detach() if follows else start)


def predict_with() -> None:
    """Whose prompt the predictions come from."""
    pictures = tiny.pool_pictures().data[:5]
    for who in ("teacher", "student"):
        made = in_stage_two(predict_with=who)
        with torch.no_grad():
            made.prompt.values.mul_(-30)
        made.eval()
        chosen = made.prompt if who == "student" else made.teacher["prompt"]
        with torch.no_grad():
            expected = made.logits(made.features(pictures, chosen))
        torch.testing.assert_close(made.predict(pictures).logits, expected)


def clusters() -> tuple[Tensor, Tensor, Tensor]:
    """Labelled features of two classes, their labels, and a pool with 30 % of a third kind."""
    generator = torch.Generator().manual_seed(0)
    middles = 4 * torch.eye(3, 6)
    labels = torch.arange(240) % 2
    kinds = torch.cat([torch.arange(630) % 2, torch.full((270,), 2)])
    return (
        middles[labels] + torch.randn(240, 6, generator=generator),
        labels,
        middles[kinds] + torch.randn(900, 6, generator=generator),
    )


def put_aside(**changes: Any) -> tuple[Tensor, Tensor]:
    """What the default recipe's detector puts aside of the labelled pictures and the pool."""
    labelled, labels, pool = clusters()
    detector = EvidenceDetector(RecipeConfig(**changes), seed=0)
    detector.initialise(labelled, pool, labels)
    return detector.detect(labelled), detector.detect(pool)


def outlier_share() -> None:
    """So much of the pool is put aside, whatever the estimate."""
    for share in (0.0, 0.1, 0.6):
        _, pool = put_aside(outlier_share=share)
        assert float(pool.float().mean()) == pytest.approx(share, abs=0.01)
    _, pool = put_aside()
    assert float(pool.float().mean()) == pytest.approx(0.3, abs=0.05)


def max_false_rejects() -> None:
    """The boundary moves with the part of the known that may be lost."""
    shares = [put_aside(max_false_rejects=part)[1].float().mean() for part in (0.0, 0.05, 0.5)]
    assert shares[0] < shares[1] < shares[2]
    labelled, _ = put_aside(max_false_rejects=0.05)
    assert float(labelled.float().mean()) <= 0.06


def head() -> None:
    """Row 4: in closed form only where no gradient moves the features."""
    for train, size, closed in (("never", 0, True), ("never", 2, False), ("always", 0, False)):
        made = tiny.method(head="closed_form", train_encoder=train, prompt=PromptConfig(size=size))
        assert made.fits_head is closed
        assert (made.stages[0].epochs == 0) is closed
    assert not tiny.method(train_encoder="never", prompt=PromptConfig(size=0)).fits_head
    made = tiny.method(head="closed_form", train_encoder="never", prompt=PromptConfig(size=0))
    assert made.head is None
    made.enter(made.stages[1])
    made.begin(made.stages[1], tiny.scan())
    pictures = tiny.labelled_pictures()
    said = made.logits(made.features(pictures.data, made.prompt)).argmax(dim=1)
    assert (said == torch.as_tensor(pictures.labels)).float().mean() > 0.5


def views() -> None:
    """A feature is the mean over the views; tests of the tuning have the rest."""
    changes: dict[str, Any] = {"head": "closed_form", "detector": "evidence", "contrast": False}
    changes |= {"train_encoder": "never", "prompt": PromptConfig(size=0)}
    made = [tiny.method(views=v, **changes) for v in (("bare",), ("bare", "mirrored"))]
    for one in made:
        one.enter(one.stages[1])
        one.eval()
    pictures = tiny.pool_pictures().data
    bare, both = (each.penultimate(pictures) for each in made)
    mirrored = made[0].penultimate(pictures.flip(3))
    assert not torch.allclose(bare, mirrored)
    torch.testing.assert_close(both, (bare + mirrored) / 2)


CHECKS: dict[str, Callable[[], None]] = {
    check.__name__: check
    for check in (
        prompt,
        views,
        train_encoder,
        candidates,
        space,
        ridge,
        tangent_tolerance,
        circle_limit,
        threshold,
        centre_rounds,
        detector,
        outlier_share,
        max_false_rejects,
        head,
        pseudo_threshold,
        pseudo_labels,
        consistency,
        contrast,
        contrast_margin,
        ema_decay,
        predict_with,
    )
}


@pytest.mark.parametrize("name", [field.name for field in fields(RecipeConfig)])
def test_a_setting_changes_what_it_says(name: str) -> None:
    assert name in CHECKS, f"write a check of what recipe.{name} changes"
    CHECKS[name]()
