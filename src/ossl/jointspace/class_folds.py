"""How far each evidence can be trusted, learnt by leaving known classes out.

The labels of some known classes are hidden; an evidence that then tells held-out pictures of the
kept classes from those of the hidden ones is one that sees new classes. No outlier is needed, so it
also works for a pool that has hardly any.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ossl.jointspace.bank import fit_bank
from ossl.jointspace.principal import PrincipalSpace, StackSettings


def trust_by_class_folds(
    space: PrincipalSpace, x: Tensor, y: Tensor, pool: Tensor, settings: StackSettings
) -> Tensor:
    """Return weights of the bank's evidence that add up to one, from projected (x, y) and pool.

    Even weights where there is one class only, or one picture a class.
    """
    classes = int(y.max()) + 1
    found = []
    folds = min(settings.folds, classes)
    for fold in range(folds if classes > 1 else 0):
        kept = y % folds != fold
        halves = _alternating(y)
        for half in range(2):
            reference, known = kept & (halves == half), kept & (halves != half)
            if not known.any() or not reference.any():
                continue
            labels: Tensor = torch.unique(y[reference], return_inverse=True)[1]
            bank = fit_bank(space, x[reference], labels, pool, settings)
            found.append(_auroc(bank(x[known]), bank(x[~kept])))
    if not found:
        count = fit_bank(space, x, y, pool, settings)(x[:1]).shape[1]
        return torch.full((count,), 1 / count)
    better = (torch.stack(found).mean(0) - 0.5).clamp_min(0.01)
    trust = better.pow(settings.trust_power)
    return trust / trust.sum()


def _alternating(labels: Tensor) -> Tensor:
    """Return 0 and 1 in turn within each class."""
    one_hot = torch.nn.functional.one_hot(labels)
    return (one_hot.cumsum(0).gather(1, labels[:, None]).squeeze(1) - 1) % 2


def _auroc(known: Tensor, outlier: Tensor) -> Tensor:
    """Return how often each column is higher for an outlier than for a known picture, (E,).

    Equal values count half, so that a column that says the same of all pictures has 1/2.
    """
    ordered, asked = known.T.sort(1).values.contiguous(), outlier.T.contiguous()
    below = torch.searchsorted(ordered, asked) + torch.searchsorted(ordered, asked, right=True)
    return below.to(known.dtype).mean(1) / (2 * len(known))
