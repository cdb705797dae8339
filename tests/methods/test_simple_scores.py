"""The simple scores beside a method's own: fitted with the boundary, kept with the joint space."""

from __future__ import annotations

import torch

from ossl.config import RecipeConfig
from ossl.jointspace.simple import LOGIT_SCORES, SIMPLE_SCORES, fit_simple_scores
from ossl.methods.evidence_detector import EvidenceDetector
from ossl.methods.openprompt import OpenPrompt
from tests.methods import tiny
from tests.models.test_memory import FROZEN


def fitted() -> OpenPrompt:
    return tiny.in_stage_two(tiny.method(FROZEN, on=tiny.encoder(pretrained=True))).eval()


def test_a_run_with_evidence_has_all_five() -> None:
    made, data = fitted(), tiny.pool_pictures().data
    said, simple = made.predict_with_simple(data)
    assert tuple(simple) == SIMPLE_SCORES
    plain = made.predict(data)
    assert torch.equal(said.outlier_score, plain.outlier_score)
    assert torch.equal(said.logits, plain.logits)
    with torch.no_grad():
        labelled, pool = made._scan_features(tiny.scan())
    labels = torch.as_tensor(tiny.labelled_pictures().labels)
    expected = fit_simple_scores(labelled, labels, pool, tiny.CLASSES)(pool)
    for name, score in expected.items():
        torch.testing.assert_close(simple[name], score, rtol=1e-4, atol=1e-4)


def test_a_loaded_run_has_the_same() -> None:
    made, data = fitted(), tiny.pool_pictures().data
    other = tiny.method(FROZEN, on=tiny.encoder(pretrained=True), seed=3)
    other.load_state_dict(made.state_dict())
    other.load_joint_space(made.joint_space())
    other.enter(other.stages[-1])
    other.eval()
    _, simple = made.predict_with_simple(data)
    _, again = other.predict_with_simple(data)
    assert all(torch.equal(again[name], score) for name, score in simple.items())


def test_an_older_run_has_those_of_the_logits() -> None:
    made = fitted()
    kept = {k: v for k, v in made.joint_space().items() if not k.startswith("simple.")}
    made.detector = EvidenceDetector(RecipeConfig(), 0)
    made.load_joint_space(kept)
    _, simple = made.predict_with_simple(tiny.pool_pictures().data)
    assert tuple(simple) == LOGIT_SCORES


def test_the_papers_run_has_those_of_the_logits() -> None:
    made = tiny.in_stage_two(tiny.method()).eval()
    said, simple = made.predict_with_simple(tiny.pool_pictures().data)
    assert tuple(simple) == LOGIT_SCORES
    torch.testing.assert_close(simple["energy"], -said.logits.logsumexp(dim=1))
