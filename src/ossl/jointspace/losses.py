"""The losses of the joint space and of the two prompts (rows 12 and 13).

All features here are S(f) already. Centres are statistics: no loss moves them.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from ossl.jointspace.apollonius import Centres
from ossl.jointspace.numerics import at_least_float32, distance

ConsistencyForm = Literal["signed", "absolute"]

_SOFT_CENTRE = 1e-4
"""a share of the distance between the centres; the log of a distance is rounded off below it"""


def consistency(
    student: Tensor, teacher: Tensor, centres: Centres, form: ConsistencyForm
) -> Tensor:
    """Return L_C, the mean over the batch of features f_s and f_t [n, D] (row 12).

    signed (the paper): d(k_ic, f_s) + d(k_oc, f_s) − d(k_ic, f_t) − d(k_oc, f_t); it has no floor
    at zero and pulls every feature onto the segment between the centres.
    absolute: |d(k_ic, f_s) − d(k_ic, f_t)| + |d(k_oc, f_s) − d(k_oc, f_t)|.
    """
    if form not in get_args(ConsistencyForm):
        raise ValueError(
            f"no consistency is called {form!r}: choose one of {get_args(ConsistencyForm)}"
        )
    if student.shape != teacher.shape:
        raise ValueError(
            f"student {list(student.shape)} and teacher {list(teacher.shape)} "
            "must be features of the same pictures"
        )
    if len(student) == 0:
        return at_least_float32(student).sum() * 0
    teacher, centres = teacher.detach(), centres.detach()
    to_known = distance(student, centres.known) - distance(teacher, centres.known)
    to_outlier = distance(student, centres.outlier) - distance(teacher, centres.outlier)
    if form == "absolute":
        to_known, to_outlier = to_known.abs(), to_outlier.abs()
    return (to_known + to_outlier).mean()


def prompt_contrast(prompt: Tensor, outlier_prompt: Tensor, margin: float = 0.0) -> Tensor:
    """Return L_CL = max(0, cos(v, v̄) − margin), a scalar; v̄ does not learn from it (row 13).

    The paper's 1 − L_COS with L_COS the cosine *loss* 1 − cos. Unhinged it would drive v to −v̄.
    A prompt that is all zero (a common start) has no direction: cos = 0, without a gradient.
    """
    v = at_least_float32(prompt).flatten()
    v_bar = at_least_float32(outlier_prompt.detach()).flatten()
    if v.shape != v_bar.shape:
        raise ValueError(f"the prompts have {len(v)} and {len(v_bar)} parameters: they must match")
    norms = torch.linalg.vector_norm(v) * torch.linalg.vector_norm(v_bar)
    # torch's cosine_similarity guards a zero norm with 1e-8, so that the gradient at an all-zero
    # prompt is the other prompt times 1e8: a step that no learning rate survives.
    has_direction = norms > 0
    cosine = (v * v_bar).sum() / torch.where(has_direction, norms, torch.ones_like(norms))
    return F.relu(torch.where(has_direction, cosine, torch.zeros_like(cosine)) - margin)


def gap(
    features: Tensor,
    centres: Centres,
    limit: float,
    confident_known: Tensor,
    confident_outlier: Tensor,
    margin: float,
) -> Tensor:
    """Return the loss that pushes log(d1/d2) away from log λ on the side that is sure of itself.

    With s = log d1 − log d2 − log λ (zero on the circle, positive outside):
    ½ (mean over confident known of softplus(margin + s)
       + mean over confident outliers of softplus(margin − s)).
    Each side is averaged by itself, so that a few outliers weigh as much as many known; a side
    without any counts as zero. The masks are bool [n] over features [n, D]; who is in neither is
    left alone. Not in the paper: DESIGN.md section 3, point 6, in place of the signed L_C.

    log d is ½ log(d² + ε²) with ε = 1e-4 of ‖k_ic − k_oc‖: at a centre its gradient is zero.
    """
    if not limit > 0:
        raise ValueError(f"λ must be positive to have a logarithm, not {limit}")
    if len(features) == 0:
        return at_least_float32(features).sum() * 0
    centres = centres.detach()
    softening = (_SOFT_CENTRE * distance(centres.known, centres.outlier)) ** 2
    softening = softening.clamp(min=torch.finfo(softening.dtype).tiny)
    d1_squared = (at_least_float32(features) - centres.known).square().sum(dim=-1)
    d2_squared = (at_least_float32(features) - centres.outlier).square().sum(dim=-1)
    log_ratio = 0.5 * ((d1_squared + softening).log() - (d2_squared + softening).log())
    beyond = log_ratio - math.log(limit)
    known_side = _mean_where(F.softplus(margin + beyond), confident_known)
    outlier_side = _mean_where(F.softplus(margin - beyond), confident_outlier)
    return 0.5 * (known_side + outlier_side)


def _mean_where(values: Tensor, mask: Tensor) -> Tensor:
    """Return the mean of the values under the mask, 0 for an empty mask, without a device sync."""
    total = torch.where(mask, values, torch.zeros_like(values)).sum()
    return total / mask.sum().clamp(min=1)
