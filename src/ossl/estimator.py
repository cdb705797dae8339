"""scikit-learn's face: the default recipe's joint space and classifier on feature vectors."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    assert_all_finite,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)
from torch import Tensor

from ossl.jointspace.class_distance import ClassDistance, fit_class_distance
from ossl.jointspace.kernel_head import fit_kernel_head
from ossl.jointspace.principal import StackSettings
from ossl.jointspace.stacking import StackedSpace, fit_stacked_space

UNLABELLED = -1
LEAST_POOL = 20  # unlabelled samples; of fewer nothing is learnt about outliers


class OpenSetClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classifier that learns from labelled and unlabelled samples, and puts outliers aside.

    ``y == -1`` means *unlabelled* in ``fit`` (also ``None``, and ``"-1"`` among text labels: NumPy
    makes that of ``["cat", -1]``). ``predict`` gives a class, or ``outlier_label`` for a sample of
    none of them. -1 can therefore be no class.

    With fewer than 20 unlabelled samples nothing is learnt about outliers: the score is then the
    distance to the nearest class, and what lies more than twice as far as the furthest labelled
    sample is an outlier.

    Parameters
    ----------
    outlier_share : float, default=None
        Put this part of the unlabelled samples aside; None for what is estimated.
    max_false_rejects : float, default=None
        Put aside no more than this part of the known samples; excludes ``outlier_share``.
    embedding : bool, default=False
        Whether X is a network's features, whose direction alone counts, as in ``OpenPrompt``.
        Otherwise the columns are standardised first, and the length counts too.
    outlier_label : int or str, default=-1
        What ``predict`` says of an outlier; as text where the classes are text.
    random_state : int or RandomState, default=0
        Chooses folds and starts; None is 0. Equal seeds give equal results.

    Attributes
    ----------
    classes_ : array of the known classes, without -1.
    outlier_share_ : the estimated share of outliers among the unlabelled samples.
    threshold_ : the outlier score (``score_samples`` negated) above which a sample is put aside.
    n_features_in_, feature_names_in_ : as everywhere in scikit-learn.

    Notes
    -----
    Everywhere else in this library a higher outlier score is more outlying. Here alone
    ``score_samples`` and ``decision_function`` follow scikit-learn's outlier detectors: *higher is
    more normal*, and below 0 ``decision_function`` means an outlier.

    ``score`` is the accuracy over the samples whose y is a class. An unlabelled one has no truth to
    be right about, so that cross-validation may run over labelled and unlabelled together.
    """

    def __init__(
        self,
        outlier_share: float | None = None,
        max_false_rejects: float | None = None,
        embedding: bool = False,
        outlier_label: int | str = UNLABELLED,
        random_state: Any = 0,
    ) -> None:
        self.outlier_share = outlier_share
        self.max_false_rejects = max_false_rejects
        self.embedding = embedding
        self.outlier_label = outlier_label
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> OpenSetClassifier:
        """The estimator itself, having learnt from samples X (n, D) and labels y (n,)."""
        self._check_parameters()
        if y is None:
            validate_data(self, X, y)  # says that y is missing
        samples = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        labels = _column(y)
        check_consistent_length(samples, labels)
        given = ~unlabelled(labels)
        if not given.any():
            raise ValueError("y has no class: every sample is unlabelled (-1); label some.")
        known = np.asarray(labels[given].tolist()) if labels.dtype == object else labels[given]
        assert_all_finite(known, input_name="y")
        check_classification_targets(known)
        self.classes_, numbers = np.unique(known, return_inverse=True)
        self._fit_scale(samples)

        seed = 0 if self.random_state is None else self.random_state
        if not isinstance(seed, Integral):
            seed = int(check_random_state(seed).randint(2**31 - 1))
        features = self._scaled(samples)
        labelled, pool = features[torch.from_numpy(given)], features[torch.from_numpy(~given)]
        targets = torch.from_numpy(numbers.astype(np.int64))
        self._space: StackedSpace | ClassDistance
        if len(pool) < LEAST_POOL or not bool((labelled != labelled[0]).any()):
            self._space = fit_class_distance(labelled.double(), targets)
        else:
            settings = StackSettings(seed=int(seed) % 2**31)
            self._space = fit_stacked_space(labelled, targets, pool, settings)
        self.outlier_share_ = float(self._space.share)
        self.threshold_ = self._space.threshold(self.outlier_share, self.max_false_rejects)
        likely = (self._outlier_score(pool) <= self.threshold_).float()
        self._head = fit_kernel_head(labelled, targets, len(self.classes_), pool, likely)
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class of each sample, or `outlier_label`, (n,)."""
        features = self._features(X)
        names = self.classes_[self._logits(features).argmax(1).numpy()]
        outliers = (self._outlier_score(features) > self.threshold_).numpy()
        kind = self.classes_.dtype.kind
        if kind in "US":  # scikit-learn's metrics refuse text and numbers in one array
            label: Any = str(self.outlier_label)
            wide = np.result_type(self.classes_.dtype, np.asarray(label).dtype)
            return np.where(outliers, np.asarray(label, dtype=wide), names.astype(wide))
        if isinstance(self.outlier_label, str):
            return np.where(outliers, self.outlier_label, names.astype(str))
        if not outliers.any() and kind == "b":
            return np.asarray(names)
        wide = np.result_type(self.classes_.dtype, np.int64 if kind in "iub" else np.float64)
        return np.where(outliers, self.outlier_label, names.astype(wide))

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """How likely each known class is, (n, K), if the sample is of a known class at all."""
        probabilities = self._logits(self._features(X)).softmax(1)
        return np.asarray(probabilities.numpy(), dtype=np.float64)

    def score_samples(self, X: ArrayLike) -> NDArray[np.float64]:
        """How normal each sample is, (n,): the negated outlier score, *higher is more normal*."""
        return -np.asarray(self._outlier_score(self._features(X)).numpy(), dtype=np.float64)

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """`score_samples` from the boundary on, (n,): an outlier is *below zero*."""
        return self.score_samples(X) + self.threshold_

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """The accuracy over samples with a class in y; one that is put aside counts as wrong."""
        said, labels = self.predict(X), _column(y)
        check_consistent_length(said, labels)
        given = ~unlabelled(labels)
        if not given.any():
            return float("nan")
        right = said[given].astype(str) == labels[given].astype(str)
        if self.classes_.dtype.kind not in "USO":
            right = said[given] == labels[given].astype(said.dtype)
        weights = None if sample_weight is None else np.asarray(sample_weight)[given]
        return float(np.average(right, weights=weights))

    # --- inside -------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        if self.outlier_share is not None and self.max_false_rejects is not None:
            raise ValueError("outlier_share and max_false_rejects exclude each other; give one.")
        for name in ("outlier_share", "max_false_rejects"):
            value = {"outlier_share": self.outlier_share}.get(name, self.max_false_rejects)
            if value is not None and not 0 <= value <= 1:
                raise ValueError(f"{name} = {value!r}: give a part between 0 and 1, or None.")

    def _fit_scale(self, samples: NDArray[np.float64]) -> None:
        if self.embedding:
            return
        self._middle = samples.mean(axis=0)
        spread = samples.std(axis=0)
        # A column that is the same everywhere says nothing; what rounding leaves of it neither.
        tiny = 10 * np.finfo(np.float64).eps * np.abs(samples).max(axis=0, initial=0)
        self._spread = np.where(spread > tiny, spread, np.inf)

    def _scaled(self, samples: NDArray[np.float64]) -> Tensor:
        """The features that the joint space sees, float32."""
        if self.embedding:
            return torch.from_numpy(samples.astype(np.float32))
        standard = (samples - self._middle) / self._spread / np.sqrt(samples.shape[1])
        # One more column, always 1: directions are compared, and now they tell lengths as well.
        ones = np.ones((len(samples), 1))
        return torch.from_numpy(np.hstack([standard, ones]).astype(np.float32))

    def _logits(self, features: Tensor) -> Tensor:
        """In float64, so that a sample's say does not depend on its batch."""
        head = self._head
        exact = replace(
            head,
            points=head.points.double(),
            coefficients=head.coefficients.double(),
            bias=head.bias.double(),
        )
        return exact(features.double())

    def _outlier_score(self, features: Tensor) -> Tensor:
        """Higher is more outlying; float64 where that is cheap, so that it does not round."""
        space = self._space
        exact = features.double() if isinstance(space, ClassDistance) else features
        return space.outlier_score(exact)

    def _features(self, X: ArrayLike) -> Tensor:
        check_is_fitted(self)
        return self._scaled(validate_data(self, X, dtype=np.float64, reset=False))


def unlabelled(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Which labels say that a sample has none: -1, "-1" or None."""
    if labels.dtype.kind in "iuf":
        return np.asarray(labels == UNLABELLED)
    text = str(UNLABELLED)
    return np.asarray(
        [
            label is None or (not isinstance(label, bool) and str(label) == text)
            for label in labels.tolist()
        ],
        dtype=bool,
    )


def _column(y: ArrayLike) -> NDArray[Any]:
    labels = np.asarray(y)
    return np.asarray(column_or_1d(labels, warn=True))
