"""Two linear heads, each fitted on one half of the labelled pictures to judge the other half.

What a head says of pictures that it was fitted on is too good; what it says of the other half is
how well its features serve for pictures to come. Whatever learns from that, though, makes it too
good in its turn: so some pictures, the referees, are in neither half and are learnt from by nobody.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ossl.jointspace.folds import assign_folds
from ossl.jointspace.linear_head import fit_linear_head

HALVES = 2
REFEREE = -1  # in place of a half
ONE_IN = 4  # labelled pictures is a referee
LEAST_REFEREES = 20  # fewer cannot tell better from worse
TEMPERATURES = (-0.5, 3.5, 41)  # tried, as powers of ten


@dataclass
class CrossHeads:
    """Two linear heads with the half of the labelled pictures that each was fitted on."""

    side: Tensor  # int64 [n], 0 or 1: in which head's fit a labelled picture was; or REFEREE
    weight: Tensor  # [2, K, D], divided by the temperature like the bias
    bias: Tensor  # [2, K]
    shrinkage: tuple[float, float]

    def unseen(self, features: Tensor, index: Tensor) -> Tensor:
        """Return the logits of labelled pictures at `index`, by the head that has not seen them."""
        both = self.both(features)
        return torch.where((self.side[index] == 0)[:, None], both[1], both[0])

    def both(self, features: Tensor) -> Tensor:
        """Return the logits [2, N, K] by either head."""
        logits: Tensor = features @ self.weight.mT + self.bias[:, None]
        return logits


def fit_cross_heads(
    features: Tensor,
    labels: Tensor,
    classes: int,
    side: Tensor,
    shrinkage: tuple[float, float] | None = None,
) -> CrossHeads:
    """Return the heads of labelled features [n, D], at the temperature at which they judge best."""
    device = features.device
    features, labels, side = features.cpu(), labels.cpu(), side.cpu()
    fitted = [
        fit_linear_head(
            features[side == k], labels[side == k], classes, shrinkage[k] if shrinkage else None
        )
        for k in (0, 1)
    ]
    heads = CrossHeads(
        side,
        torch.stack([head.weight for head in fitted]),
        torch.stack([head.bias for head in fitted]),
        (fitted[0].shrinkage, fitted[1].shrinkage),
    )
    judged = (side != REFEREE).nonzero().squeeze(1)
    said = heads.unseen(features[judged], judged)
    tried = torch.logspace(*TEMPERATURES)
    losses = torch.stack([F.cross_entropy(said / t, labels[judged]) for t in tried])
    best = tried[int(losses.argmin())]
    return CrossHeads(
        side.to(device),
        (heads.weight / best).to(device),
        (heads.bias / best).to(device),
        heads.shrinkage,
    )


def tuning_losses(
    heads: CrossHeads,
    labelled: Tensor,
    labels: Tensor,
    index: Tensor,
    pool: Tensor,
    pseudo: Tensor,
) -> dict[str, Tensor]:
    """Return the two cross-entropies of features under the prompt.

    `index` says which labelled pictures they are of; referees among them do not count. The pool's
    is by the mean logits of both heads, for neither has seen it.
    """
    said = heads.unseen(labelled, index)
    counts = (heads.side[index] != REFEREE).float()
    total = counts.sum().clamp_min(1)
    loss = F.cross_entropy(said, labels, reduction="none")
    return {
        "labelled_loss": (loss * counts).sum() / total,
        "pseudo_loss": F.cross_entropy(heads.both(pool).mean(dim=0), pseudo),
        "labelled_accuracy": ((said.argmax(dim=1) == labels) * counts).sum() / total,
    }


def draw_sides(labels: Tensor, classes: int, seed: int, picked: int = 0) -> Tensor | None:
    """Return a half, 0 or 1, or `REFEREE` for every labelled picture, even over classes, int64 [n].

    None where there are too few: of referees, or of a class for either half. The last `picked`
    pictures were picked by a person, are no fair draw of their classes and so no referees.
    """
    generator = torch.Generator().manual_seed(seed)
    labels = labels.cpu()
    side = torch.full_like(labels, REFEREE)
    fold = torch.ones_like(labels)
    fair = len(labels) - picked
    fold[:fair] = assign_folds(labels[:fair], ONE_IN, generator)
    others = (fold != 0).nonzero().squeeze(1)
    if len(labels) - len(others) < LEAST_REFEREES:
        return None
    if int(torch.bincount(labels[others], minlength=classes).min()) < HALVES:
        return None
    side[others] = assign_folds(labels[others], HALVES, generator)
    if min(int((side == half).sum()) for half in range(HALVES)) <= classes:
        return None
    return side
