"""The post-hoc scores by name, through pytorch-ood's detectors wherever these can be fitted.

pytorch-ood is an extra: nothing here imports it before `check` or `fit_scores` is called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from ossl.errors import InputError, unknown_name
from ossl.jointspace.simple import MAHALANOBIS_RIDGE, NEIGHBOURS
from ossl.posthoc import formulas

THEIRS, OURS = "pytorch-ood", "ossl"
REACT_PART = 0.9  # quantile of the values above which they are cut (Sun et al. 2021)

Score = Callable[[Tensor, Tensor], Tensor]  # of features [N, D] and logits [N, K]


@dataclass(frozen=True)
class Fitted:
    """What the scores are fitted on: the labelled pictures as the network sees them, on the CPU."""

    features: Tensor  # [n, D], what the classifier's last layer takes
    logits: Tensor  # [n, K]
    labels: Tensor  # [n]
    classify: Callable[[Tensor], Tensor]  # logits of features
    last_layer: nn.Linear | None  # the classifier, where it is linear


def msp(fitted: Fitted) -> tuple[Score, str]:
    """Maximum softmax probability (Hendrycks and Gimpel 2017), and whose it is."""
    del fitted
    from pytorch_ood.detector import MaxSoftmax

    # In float64, for in float32 many a probability rounds to the same 1.
    return lambda _, logits: _tensor(MaxSoftmax.score(logits.double())), THEIRS


def energy(fitted: Fitted) -> tuple[Score, str]:
    """Free energy of the logits (Liu et al. 2020), and whose it is."""
    del fitted
    from pytorch_ood.detector import EnergyBased

    return lambda _, logits: _tensor(EnergyBased.score(logits.double())), THEIRS


def knn(fitted: Fitted) -> tuple[Score, str]:
    """Distance to the k-th nearest labelled feature of length one (Sun et al. 2022).

    The paper's k = 50 is for 5,000 pictures a class; where there are tens, it is another class's.
    """
    from pytorch_ood.detector import KNN

    made = KNN(None, k=min(NEIGHBOURS, len(fitted.features)))
    made.fit_features(fitted.features, fitted.labels)
    return lambda features, _: _tensor(made.predict_features(features)), THEIRS


def mahalanobis(fitted: Fitted) -> tuple[Score, str]:
    """Distance to the nearest class's Gaussian of a shared covariance (Lee et al. 2018)."""
    from pytorch_ood.detector import Mahalanobis

    return _gaussians(fitted, Mahalanobis, formulas.mahalanobis)


def relative_mahalanobis(fitted: Fitted) -> tuple[Score, str]:
    """The same against one Gaussian of all labelled pictures (Ren et al. 2021)."""
    from pytorch_ood.detector import RMD

    return _gaussians(fitted, RMD, formulas.relative_mahalanobis)


def _gaussians(fitted: Fitted, detector: Any, ours: Callable[..., Tensor]) -> tuple[Score, str]:
    """pytorch-ood's detector, or our shrunk formula where its covariance has no inverse."""
    features, labels = fitted.features, fitted.labels
    every_class = bool((labels.bincount() > 0).all())
    if every_class and formulas.invertible(features, labels):
        made = detector(None).fit_features(features, labels)
        return lambda some, _: _tensor(made.predict_features(some)), THEIRS
    return lambda some, _: ours(some, features, labels, MAHALANOBIS_RIDGE), OURS


def vim(fitted: Fitted) -> tuple[Score, str]:
    """Virtual-logit matching (Wang et al. 2022); ours where the classifier is not linear."""
    # Half of the directions that the labelled pictures span; the other half is the residual.
    principal = max(1, min(fitted.features.shape[1], len(fitted.features) - 1) // 2)
    last = fitted.last_layer
    if last is not None:
        from pytorch_ood.detector import ViM

        bias = torch.zeros(last.out_features) if last.bias is None else last.bias
        made = ViM(None, principal, last.weight.detach().cpu(), bias.detach().cpu())
        made.fit_features(fitted.features, fitted.labels)
        return lambda features, _: _tensor(made.predict_features(features)), THEIRS
    centre = fitted.features.mean(dim=0)

    def score(features: Tensor, logits: Tensor) -> Tensor:
        return formulas.vim(features, logits, fitted.features, fitted.logits, centre, principal)

    return score, OURS


def react(fitted: Fitted) -> tuple[Score, str]:
    """The energy after large activations are cut (Sun et al. 2021)."""
    from pytorch_ood.detector import ReAct

    # The detector takes functions of pictures and of features; features are all it gets here.
    made = ReAct(lambda features: features, fitted.classify, percentile=REACT_PART)
    made.fit_feature_maps(fitted.features, fitted.labels)
    return lambda features, _: _tensor(made.predict_feature_maps(features)), THEIRS


SCORES: dict[str, Callable[[Fitted], tuple[Score, str]]] = {
    "msp": msp,
    "energy": energy,
    "knn": knn,
    "mahalanobis": mahalanobis,
    "relative_mahalanobis": relative_mahalanobis,
    "vim": vim,
    "react": react,
}


def check(names: Sequence[str]) -> tuple[str, ...]:
    """The names of the scores asked for, `all` spelt out; an InputError where one cannot be had."""
    asked = tuple(SCORES) if "all" in names else tuple(dict.fromkeys(names))
    for name in asked:
        if name not in SCORES:
            raise unknown_name("post-hoc score", name, ["all", *SCORES])
    if asked and find_spec("pytorch_ood") is None:
        raise InputError("--posthoc needs pytorch-ood: pip install 'ossl[ood]'.")
    return asked


def _tensor(values: Any) -> Tensor:
    """A detector's scores in float64, so that equal ranks are equal scores and nothing less."""
    return torch.as_tensor(values).detach().double().cpu()
