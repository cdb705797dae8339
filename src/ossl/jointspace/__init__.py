"""The joint space: pure functions on features, without nets, files or devices of their own.

In the order in which they are used: a space S, the tangents that start the detection, the
Apollonius circle that carries it on, the losses drawn from it, and the mixture that reads a share
and a threshold from the scores.
"""

from __future__ import annotations

from ossl.jointspace.apollonius import (
    Centres,
    apollonius_circle,
    apollonius_ratio,
    is_outlier,
    update_centres,
)
from ossl.jointspace.losses import ConsistencyForm, consistency, gap, prompt_contrast
from ossl.jointspace.mixture import TwoGaussians, fit_two_gaussians
from ossl.jointspace.spaces import Moments, Space, SpaceKind, fit_space
from ossl.jointspace.tangents import (
    choose_candidate,
    known_centre,
    outliers_by_tangent,
    radius,
    tangent_directions,
    tangent_values,
)

__all__ = [
    "Centres",
    "ConsistencyForm",
    "Moments",
    "Space",
    "SpaceKind",
    "TwoGaussians",
    "apollonius_circle",
    "apollonius_ratio",
    "choose_candidate",
    "consistency",
    "fit_space",
    "fit_two_gaussians",
    "gap",
    "is_outlier",
    "known_centre",
    "outliers_by_tangent",
    "prompt_contrast",
    "radius",
    "tangent_directions",
    "tangent_values",
    "update_centres",
]
