"""What lies around a picture: how far the known are, and how outlying its neighbours.

The directions of the joint space are those that tell this pool's outliers from the known. Outliers
that the pool has none of need not lie along them; they still lie far from everything known. And a
picture is most likely what the pictures nearest to it are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional

from ossl.jointspace.marks import Marks
from ossl.jointspace.numerics import pieces

ROWS = 2048
"""pictures; so many are compared with all references at a time"""
SAME = 1 - 1e-5
"""cosine; a reference that is this near is the picture itself"""


@dataclass
class Neighbourhood:
    """Reference features of unit length: labelled pictures and some of the pool."""

    reference: Tensor  # (M, D)
    known: Tensor  # (M,) bool
    score: Tensor  # (M,) in units of known pictures' spread
    neighbours: int

    def look(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return 1 - mean cosine to the nearest known references (N,), and the nearest of all.

        The nearest are (N, neighbours) places in ``reference``, -1 where there are too few. The
        picture itself and its copies do not count; with nothing known beside them it is 0 away.
        """
        distances, places = [], []
        for some in pieces(features, ROWS):
            unit = functional.normalize(some.to(self.reference), dim=1)
            cosine = unit @ self.reference.T
            cosine.masked_fill_(cosine > SAME, -2.0)
            nearest = cosine.topk(min(self.neighbours, len(self.reference)), dim=1)
            places.append(nearest.indices.where(nearest.values > -2, -1))
            cosine.masked_fill_(~self.known, -2.0)
            few = cosine.topk(min(self.neighbours, self.known_count), dim=1).values
            counts = few > -2
            distances.append(((1 - few) * counts).sum(1) / counts.sum(1).clamp_min(1))
        return torch.cat(distances), torch.cat(places)

    @cached_property
    def known_count(self) -> int:
        """Return how many references are taken for known."""
        return int(self.known.sum())

    def around(self, places: Tensor) -> Tensor:
        """Return the mean score of the references at these places, (N,)."""
        there = (places >= 0).to(self.score)
        total = (self.score[places.clamp_min(0)] * there).sum(1)
        return total / there.sum(1).clamp_min(1.0)


def fit_neighbourhood(
    labelled: Tensor,
    pool: Tensor,
    known: Tensor,
    candidates: Tensor,
    most: int,
    neighbours: int,
    generator: torch.Generator,
    marks: Marks | None = None,
) -> tuple[Neighbourhood, Tensor, Tensor]:
    """Return the neighbourhood without scores, and which labelled and pool pictures it refers to.

    ``known`` says of each pool picture whether it is taken for known; the pool's references are
    the first of ``candidates``. The marked stand between the labelled and the pool's.
    """
    rows = torch.empty(0, dtype=torch.int64) if marks is None else marks.rows
    sure = torch.empty(0, dtype=torch.bool) if marks is None else ~marks.outlying
    own = torch.randperm(len(labelled), generator=generator)[: most // 2]
    chosen = candidates[:most]
    reference = functional.normalize(torch.cat([labelled[own], pool[rows], pool[chosen]]), dim=1)
    is_known = torch.cat([torch.ones(len(own), dtype=torch.bool), sure, known[chosen]])
    return Neighbourhood(reference, is_known, torch.zeros(len(reference)), neighbours), own, chosen
