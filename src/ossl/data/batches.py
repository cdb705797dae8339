"""Endless paired batches of labelled and pool pictures, the same stream on any number of processes.

Which pictures come, and how each is augmented, is drawn for the *global* batch from generators
seeded by `seed_words`; a process then takes and augments only its own share.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ossl.data.augment import VIEWS, View, apply, draw


class Takes(Protocol):
    """What the batches need of a source: uint8 pictures by index, and their labels."""

    @property
    def labels(self) -> NDArray[np.int64]:
        """Return the class of every picture, -1 where unlabelled."""

    def __len__(self) -> int:
        """Return the number of pictures."""

    def take(self, indices: Tensor) -> Tensor:
        """Return the pictures at `indices`, uint8 [B,3,S,S]."""


@dataclass(frozen=True)
class Share:
    """Which part of every global batch is this process's."""

    rank: int = 0
    world: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world:
            raise ValueError(f"rank {self.rank} is not in 0 … {self.world - 1}")

    def of(self, count: int) -> slice:
        """Return this process's rows of a global batch of `count`."""
        if count % self.world:
            raise ValueError(
                f"a batch of {count} cannot be shared evenly by {self.world} processes; "
                f"take a multiple of {self.world}"
            )
        each = count // self.world
        return slice(self.rank * each, (self.rank + 1) * each)


@dataclass(frozen=True)
class Plan:
    """What a global batch is made of; 0 pictures of a side leaves that side out."""

    labelled: int = 64
    pool: int = 128
    labelled_views: tuple[View, ...] = ("weak",)
    pool_views: tuple[View, ...] = ("weak", "strong")
    flip: bool = True  # False for pictures with a reading direction, such as digits
    # A second draw from the pool, independent of the first: from what a method has selected.
    selected: int = 0
    selected_views: tuple[View, ...] = ("weak", "strong")

    def __post_init__(self) -> None:
        sizes = (self.labelled, self.pool, self.selected)
        if min(sizes) < 0 or self.labelled + self.pool == 0:
            raise ValueError(
                f"a batch of {self.labelled} labelled and {self.pool} pool pictures is none"
            )
        for view in (*self.labelled_views, *self.pool_views, *self.selected_views):
            if view not in VIEWS:
                raise ValueError(f"view {view!r} is not one of {', '.join(VIEWS)}")


@dataclass(frozen=True)
class Batch:
    """One process's share of a batch: named views, all uint8 [B,3,S,S], of the same pictures.

    A view's name is its kind, and a repeated kind is counted: "weak", "weak2". An absent side has
    no views and empty tensors.
    """

    labelled: dict[str, Tensor]
    labels: Tensor  # int64 [B], of the labelled pictures
    labelled_index: Tensor  # int64 [B], their places in the labelled source
    pool: dict[str, Tensor]
    pool_index: Tensor  # int64 [B], places in the pool
    # of pictures drawn from those of the pool that a method selected, and their places in the pool
    selected: dict[str, Tensor] = field(default_factory=dict)
    selected_index: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))

    def to(self, device: torch.device | str) -> "Batch":
        """Return the batch with every tensor on `device`."""
        return Batch(
            labelled={name: view.to(device) for name, view in self.labelled.items()},
            labels=self.labels.to(device),
            labelled_index=self.labelled_index.to(device),
            pool={name: view.to(device) for name, view in self.pool.items()},
            pool_index=self.pool_index.to(device),
            selected={name: view.to(device) for name, view in self.selected.items()},
            selected_index=self.selected_index.to(device),
        )


def endless_indices(
    population: int | Tensor, batch_size: int, generator: torch.Generator
) -> Iterator[Tensor]:
    """Return an endless iterator of int64 [batch_size] indices, one permutation after another.

    `population` is a size, or the indices to draw from. No index repeats within an epoch (one pass
    over the population); a batch that spans the end of one goes on into the next, as often as it
    takes, so a population smaller than a batch works too.
    """
    members = torch.arange(population) if isinstance(population, int) else population.cpu().long()
    if not len(members):
        raise ValueError("there are no pictures to draw batches from")
    if batch_size < 1:
        raise ValueError(f"a batch of {batch_size} pictures is none")
    return _wrapped_permutations(members, batch_size, generator)


def _wrapped_permutations(
    members: Tensor, batch_size: int, generator: torch.Generator
) -> Iterator[Tensor]:
    """Return the iterator behind `endless_indices`, whose arguments are known to be good."""
    queue = members[:0]
    while True:
        while len(queue) < batch_size:
            order = torch.randperm(len(members), generator=generator)
            queue = torch.cat([queue, members[order]])
        yield queue[:batch_size]
        queue = queue[batch_size:]


def generators(seed_words: Sequence[int], count: int) -> list[torch.Generator]:
    """Return `count` independent CPU generators for these words, the same on every machine.

    Hashed, so neighbouring seeds, stages or epochs share nothing. The number of words goes in too,
    for the hash alone takes (1,) and (1, 0) for the same.
    """
    sequence = np.random.SeedSequence([len(seed_words), *seed_words])
    states = [child.generate_state(1, np.uint64)[0] for child in sequence.spawn(count)]
    return [torch.Generator().manual_seed(int(state)) for state in states]


@dataclass
class _Side:
    """One half of the batches: a source, the order of its pictures, and their views' draws."""

    source: Takes
    size: int
    views: tuple[View, ...]
    flip: bool
    order: Iterator[Tensor]
    generator: torch.Generator
    names: list[str] = field(init=False)

    def __post_init__(self) -> None:
        nth = [self.views[: place + 1].count(view) for place, view in enumerate(self.views)]
        self.names = [f"{v}{n}" if n > 1 else v for v, n in zip(self.views, nth, strict=True)]

    def next(self, rows: slice, device: torch.device) -> tuple[dict[str, Tensor], Tensor]:
        """Return this share's views and indices of the next global batch."""
        index = next(self.order)[rows]
        draws = [draw(view, self.size, self.generator, flip=self.flip) for view in self.views]
        pictures = self.source.take(index).to(device)
        views = {n: apply(pictures, d[rows]) for n, d in zip(self.names, draws, strict=True)}
        return views, index

    def skip(self) -> None:
        """Move past one global batch without touching a picture."""
        next(self.order)
        for view in self.views:
            draw(view, self.size, self.generator, flip=self.flip)


class Batches(Iterator[Batch]):
    """Endless batches of labelled and pool pictures, augmented on `device`.

    `pool_choice` restricts the pool to some of its indices (detected outliers, say), `selected` is
    what the plan's third side draws from; both are counted in the whole pool. With nothing selected
    that side is absent. An iterator that has skipped n batches goes on exactly as one
    that has handed out n.
    """

    def __init__(
        self,
        labelled: Takes | None,
        pool: Takes | None,
        plan: Plan,
        seed_words: Sequence[int],
        share: Share | None = None,
        *,
        pool_choice: Tensor | None = None,
        selected: Tensor | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        share = share or Share()
        self.device = torch.device(device)
        # a generator for every purpose: a view more on one side leaves the other as it was
        orders_l, views_l, orders_p, views_p, orders_s, views_s = generators(seed_words, 6)
        self._labelled: _Side | None = None
        self._pool: _Side | None = None
        self._selected: _Side | None = None
        self._labelled_rows, self._pool_rows = share.of(plan.labelled), share.of(plan.pool)
        self._selected_rows = share.of(plan.selected)
        if plan.labelled:
            if labelled is None:
                raise ValueError("the plan asks for labelled pictures, but there is no such source")
            order = endless_indices(len(labelled), plan.labelled, orders_l)
            self._labelled = _Side(
                labelled, plan.labelled, plan.labelled_views, plan.flip, order, views_l
            )
            self._labels = torch.as_tensor(labelled.labels, dtype=torch.int64)
        if plan.pool:
            if pool is None:
                raise ValueError("the plan asks for pool pictures, but there is no pool")
            members = len(pool) if pool_choice is None else pool_choice
            order = endless_indices(members, plan.pool, orders_p)
            self._pool = _Side(pool, plan.pool, plan.pool_views, plan.flip, order, views_p)
        if plan.selected and selected is not None and len(selected):
            if pool is None:
                raise ValueError("the plan asks for selected pool pictures, but there is no pool")
            order = endless_indices(selected, plan.selected, orders_s)
            views = plan.selected_views
            self._selected = _Side(pool, plan.selected, views, plan.flip, order, views_s)

    def __next__(self) -> Batch:
        """Return this process's share of the next batch, on the device."""
        none = torch.empty(0, dtype=torch.int64)
        labelled: dict[str, Tensor] = {}
        pool: dict[str, Tensor] = {}
        selected: dict[str, Tensor] = {}
        labels = labelled_index = pool_index = selected_index = none
        if self._labelled is not None:
            labelled, labelled_index = self._labelled.next(self._labelled_rows, self.device)
            labels = self._labels[labelled_index]
        if self._pool is not None:
            pool, pool_index = self._pool.next(self._pool_rows, self.device)
        if self._selected is not None:
            selected, selected_index = self._selected.next(self._selected_rows, self.device)
        batch = Batch(labelled, labels, labelled_index, pool, pool_index, selected, selected_index)
        return batch.to(self.device)

    def skip(self, count: int) -> None:
        """Move past `count` global batches, as a resumed run does, without touching a picture."""
        for _ in range(count):
            for side in (self._labelled, self._pool, self._selected):
                if side is not None:
                    side.skip()
