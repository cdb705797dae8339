"""Post-hoc scores on real features: pytorch-ood's against our formulas, and their direction."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from ossl.errors import InputError
from ossl.evaluate import auroc
from ossl.jointspace.evidence import knn_distance
from ossl.jointspace.evidence import max_softmax as our_max_softmax
from ossl.models.head import Head
from ossl.posthoc import formulas
from ossl.posthoc.scores import OURS, REACT_PART, SCORES, THEIRS, Fitted, check

pytest.importorskip("pytorch_ood", reason="the extra `ood` is not installed")
CLASSES, EACH, WIDTH = 6, 30, 16


@dataclass(frozen=True)
class Case:
    """Digits as the bundled network sees them: 0–5 known, the rest outliers."""

    fitted: Fitted
    features: Tensor
    logits: Tensor
    truth: Tensor


@pytest.fixture(scope="module")
def case() -> Case:
    """Sixteen principal directions of the features, and a linear classifier fitted on them."""
    from sklearn.datasets import load_digits

    from ossl.models.backbone import create_backbone

    digits = load_digits()
    labels = torch.as_tensor(digits.target)
    chosen = torch.cat([(labels == k).nonzero().squeeze(1)[: 2 * EACH] for k in range(10)])
    labels = labels[chosen]
    images = torch.as_tensor(digits.images)[chosen] * 15
    pictures = images.to(torch.uint8)[:, None].expand(-1, 3, -1, -1)
    pictures = torch.nn.functional.interpolate(pictures, size=48)
    encoder = create_backbone("lite0", image_size=48).eval()
    with torch.no_grad():
        features = torch.cat(
            [encoder(encoder.normalise(some)) for some in torch.split(pictures, 100)]
        )
    features = (features - features.mean(0)) / features.std()
    _, _, directions = torch.linalg.svd(features, full_matrices=False)
    features = features @ directions[:WIDTH].T
    first = torch.arange(len(labels)) % (2 * EACH) < EACH
    train, test = first & (labels < CLASSES), ~first
    head = Head(WIDTH, CLASSES)
    with torch.no_grad():  # ridge regression, so that its logits say something
        x = torch.cat([features[train], torch.ones(int(train.sum()), 1)], dim=1)
        y = 5 * torch.nn.functional.one_hot(labels[train], CLASSES).float()
        solved = torch.linalg.solve(x.T @ x + 0.1 * torch.eye(WIDTH + 1), x.T @ y)
        # Rows that sum to zero, as these do, leave W⁺ to rounding; those of a trained head do not.
        noise = torch.randn(WIDTH, CLASSES, generator=torch.Generator().manual_seed(0))
        head.weight.copy_((solved[:-1] + 0.05 * noise).T)
        head.bias.copy_(solved[-1])
        logits = head(features)

    def classify(some: Tensor) -> Tensor:
        with torch.no_grad():
            found: Tensor = head(some)
        return found

    fitted = Fitted(features[train], logits[train], labels[train], classify, head)
    truth = torch.where(labels < CLASSES, labels, -1)[test]
    return Case(fitted, features[test], logits[test], truth)


def ranks(values: Tensor) -> Tensor:
    return values.double().argsort().argsort().double()


def agreement(a: Tensor, b: Tensor) -> float:
    """Spearman's correlation."""
    return float(torch.corrcoef(torch.stack([ranks(a), ranks(b)]))[0, 1])


def test_gaussians_are_ours(case: Case) -> None:
    known, labels = case.fitted.features, case.fitted.labels
    for name, ours in (
        ("mahalanobis", formulas.mahalanobis),
        ("relative_mahalanobis", formulas.relative_mahalanobis),
    ):
        score, source = SCORES[name](case.fitted)
        assert source == THEIRS
        found = score(case.features, case.logits)
        expected = ours(case.features, known, labels, 0.0)
        # theirs is by the scatter, n times the covariance, and half the distance for the one
        factor = len(known) * (2 if name == "mahalanobis" else 1)
        torch.testing.assert_close(factor * found, expected, rtol=1e-2, atol=1e-2)
        assert agreement(found, expected) > 0.999


def test_vim_is_ours(case: Case) -> None:
    score, source = SCORES["vim"](case.fitted)
    last = case.fitted.last_layer
    assert source == THEIRS
    assert last is not None
    origin = formulas.vim_origin(last.weight.detach(), last.bias.detach())
    expected = formulas.vim(
        case.features, case.logits, case.fitted.features, case.fitted.logits, origin, WIDTH // 2
    )
    torch.testing.assert_close(score(case.features, case.logits), expected, rtol=1e-3, atol=1e-3)


def test_the_others_are_ours(case: Case) -> None:
    fitted = case.fitted
    found = {name: SCORES[name](fitted)[0](case.features, case.logits) for name in SCORES}
    cut = formulas.react(case.features, fitted.features, fitted.classify, REACT_PART)
    torch.testing.assert_close(found["react"], cut, rtol=1e-4, atol=1e-4)
    logits = case.logits.double()
    torch.testing.assert_close(found["energy"], -logits.logsumexp(1))
    torch.testing.assert_close(found["msp"], our_max_softmax(logits))
    cosine = torch.nn.functional.normalize(case.features.double(), dim=1) @ (
        torch.nn.functional.normalize(fitted.features.double(), dim=1).T
    )
    fifth = cosine.topk(5, dim=1).values[:, -1]
    torch.testing.assert_close(found["knn"], (2 - 2 * fifth).sqrt(), rtol=1e-3, atol=1e-3)
    mean_of_five = knn_distance(case.features, fitted.features, 5)
    assert agreement(found["knn"], mean_of_five) > 0.95


def test_all_are_higher_for_outliers(case: Case) -> None:
    for name, fit in SCORES.items():
        found = fit(case.fitted)[0](case.features, case.logits)
        assert found.shape == case.truth.shape
        area = auroc(case.truth.numpy(), found.numpy())
        assert area is not None
        assert area > 0.6, name


def test_few_pictures_and_a_missing_class_are_no_obstacle(case: Case) -> None:
    whole = case.fitted
    for rows in (torch.arange(0, len(whole.labels), EACH), (whole.labels != 2).nonzero()[:, 0]):
        part = Fitted(
            whole.features[rows], whole.logits[rows], whole.labels[rows], whole.classify, None
        )
        for name, fit in SCORES.items():
            score, source = fit(part)
            assert torch.isfinite(score(case.features, case.logits)).all(), name
            if name in ("mahalanobis", "relative_mahalanobis", "vim"):
                assert source == OURS


def test_without_a_linear_classifier_vim_still_ranks_alike(case: Case) -> None:
    score, _ = SCORES["vim"](case.fitted)
    whole = case.fitted
    nonlinear = Fitted(whole.features, whole.logits, whole.labels, whole.classify, None)
    other, source = SCORES["vim"](nonlinear)
    assert source == OURS
    assert agreement(score(case.features, case.logits), other(case.features, case.logits)) > 0.8


def test_names_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check(["all"]) == tuple(SCORES)
    assert check(["vim", "msp", "vim"]) == ("vim", "msp")
    assert check([]) == ()
    with pytest.raises(InputError, match="did you mean 'mahalanobis'"):
        check(["mahalanobi"])
    monkeypatch.setattr("ossl.posthoc.scores.find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"pip install 'ossl\[ood\]'"):
        check(["msp"])
    assert check([]) == ()
