"""OpenMatch's one-vs-all detector: K classifiers that each tell their class from everything else.

Its logits are [B, 2, K]: outlying at 0, of the class at 1; a softmax over the two of them gives
p_k(outlier | x) and p_k(inlier | x). Equations are numbered as in arXiv:2105.14148.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def one_vs_all_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Return L_ova (eq. 1): each picture's own class, and its hardest wrong one.

    mean over x of −log p_y(inlier | x) + max over k ≠ y of −log p_k(outlier | x).
    """
    log_p = F.log_softmax(logits.float(), dim=1)
    own = labels[:, None]
    inlier = -log_p[:, 1].gather(1, own).squeeze(1)
    # the own class cannot be the hardest: nothing is below 0, which is what the code masks it with
    hardest = (-log_p[:, 0]).scatter(1, own, 0.0).amax(dim=1)
    return (inlier + hardest).mean()


def open_entropy(logits: Tensor) -> Tensor:
    """Return L_em (eq. 2): the entropy of every one-vs-all classifier, mean over classes and x.

    −Σ over t in {inlier, outlier} of p_k(t | x) log p_k(t | x); the code takes the mean over k
    where the paper prints a sum.
    """
    log_p = F.log_softmax(logits.float(), dim=1)
    return -(log_p.exp() * log_p).sum(dim=1).mean()


def soft_consistency(first: Tensor, second: Tensor) -> Tensor:
    """Return L_oc (eq. 3) of two views: mean over x of Σ_k Σ_t |p_k(t | x₁) − p_k(t | x₂)|²."""
    gap = first.float().softmax(dim=1) - second.float().softmax(dim=1)
    return gap.square().sum(dim=(1, 2)).mean()


def inlier_probability(logits: Tensor) -> Tensor:
    """Return p_k(inlier | x), [B, K]."""
    return torch.sigmoid(logits[:, 1].float() - logits[:, 0].float())


def one_vs_all_score(open_logits: Tensor, class_logits: Tensor) -> Tensor:
    """Return p_ŷ(outlier | x) of the most likely class ŷ, [B]; higher is more outlying.

    From the logits' difference, so that it is not 1 − a number rounded to 1.
    """
    best = class_logits.argmax(dim=1, keepdim=True)
    margin = (open_logits[:, 0].float() - open_logits[:, 1].float()).gather(1, best)
    return torch.sigmoid(margin.squeeze(1))
