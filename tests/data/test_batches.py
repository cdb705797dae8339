"""Endless batches: what comes, how often, and that no number of processes changes it."""

from itertools import islice

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from ossl.data.batches import Batch, Batches, Plan, Share, endless_indices, generators


class Held:
    """A source in memory of noise that counts how many pictures were taken from it."""

    def __init__(self, count: int, seed: int = 0) -> None:
        source = torch.Generator().manual_seed(seed)
        self.pictures = torch.randint(0, 256, (count, 3, 16, 16), generator=source).to(torch.uint8)
        self.labels: NDArray[np.int64] = np.arange(count, dtype=np.int64) % 3
        self.taken = 0

    def __len__(self) -> int:
        return len(self.pictures)

    def take(self, indices: Tensor) -> Tensor:
        self.taken += len(indices)
        return self.pictures[indices]


PLAN = Plan(labelled=8, pool=12, labelled_views=("weak", "weak"), pool_views=("plain", "strong"))


def batches(
    plan: Plan = PLAN,
    words: tuple[int, ...] = (0, 1),
    share: Share | None = None,
    pool: Held | None = None,
) -> Batches:
    return Batches(Held(10), pool or Held(50, 1), plan, words, share)


def tensors(batch: Batch) -> list[Tensor]:
    index = [batch.labels, batch.labelled_index, batch.pool_index]
    return [*index, *batch.labelled.values(), *batch.pool.values()]


def equal(one: Batch, other: Batch) -> bool:
    return all(torch.equal(a, b) for a, b in zip(tensors(one), tensors(other), strict=True))


def test_indices_do_not_repeat_within_an_epoch() -> None:
    stream = endless_indices(20, 6, torch.Generator().manual_seed(0))
    drawn = torch.cat(list(islice(stream, 20)))  # six epochs
    epochs = drawn.view(6, 20)
    assert torch.equal(epochs.sort(1).values, torch.arange(20).expand(6, 20))
    assert len({tuple(epoch) for epoch in epochs.tolist()}) == 6


def test_a_population_smaller_than_the_batch_wraps() -> None:
    stream = endless_indices(3, 8, torch.Generator().manual_seed(0))
    first = next(stream)
    assert first.dtype == torch.int64
    assert len(first) == 8
    for epoch in first[:6].view(2, 3):
        assert sorted(epoch.tolist()) == [0, 1, 2]


def test_a_population_may_be_indices() -> None:
    chosen = torch.tensor([4, 9, 40])
    drawn = next(endless_indices(chosen, 3, torch.Generator()))
    assert sorted(drawn.tolist()) == [4, 9, 40]


@pytest.mark.parametrize("population", [0, torch.empty(0, dtype=torch.int64)])
def test_an_empty_population_is_refused_at_once(population: int | Tensor) -> None:
    with pytest.raises(ValueError, match="no pictures"):
        endless_indices(population, 4, torch.Generator())
    with pytest.raises(ValueError, match="batch of 0"):
        endless_indices(4, 0, torch.Generator())


def test_share_is_even_or_refused() -> None:
    assert [Share(rank, 4).of(12) for rank in range(4)] == [
        slice(0, 3),
        slice(3, 6),
        slice(6, 9),
        slice(9, 12),
    ]
    with pytest.raises(ValueError, match="multiple of 4"):
        Share(0, 4).of(10)
    with pytest.raises(ValueError, match="rank"):
        Share(2, 2)


def test_a_batch_holds_its_named_views() -> None:
    source = Held(50, 1)
    batch = next(batches(pool=source))
    assert list(batch.labelled) == ["weak", "weak2"]
    assert list(batch.pool) == ["plain", "strong"]
    assert not torch.equal(batch.labelled["weak"], batch.labelled["weak2"])
    for view in (*batch.labelled.values(), *batch.pool.values()):
        assert view.dtype == torch.uint8
        assert view.shape[1:] == (3, 16, 16)
    assert torch.equal(batch.pool["plain"], source.take(batch.pool_index))
    assert torch.equal(batch.labels, batch.labelled_index % 3)
    assert (len(batch.labels), len(batch.pool_index)) == (8, 12)
    assert equal(batch, batch.to("cpu"))


@pytest.mark.parametrize("world", [2, 4])
def test_shares_together_are_the_batch_of_one_process(world: int) -> None:
    whole = batches()
    parts = [batches(share=Share(rank, world)) for rank in range(world)]
    for _ in range(4):
        pieces = [tensors(next(part)) for part in parts]
        together = [torch.cat(piece) for piece in zip(*pieces, strict=True)]
        for got, wanted in zip(together, tensors(next(whole)), strict=True):
            assert torch.equal(got, wanted)


def test_a_process_takes_only_its_share() -> None:
    pool = Held(50)
    next(Batches(None, pool, Plan(labelled=0, pool=12), [0], Share(1, 3)))
    assert pool.taken == 4


def test_seed_words_make_the_stream() -> None:
    assert equal(next(batches()), next(batches()))
    for words in ((0, 2), (1, 1), (0, 1, 0), (0,)):
        assert not equal(next(batches()), next(batches(words=words)))


def test_neighbouring_seeds_share_nothing() -> None:
    first = torch.stack(
        [
            torch.rand(200, generator=source)
            for words in ([0], [1], [0, 0], [0, 1], [1, 0])
            for source in generators(words, 4)
        ]
    )
    correlation = torch.corrcoef(first) - torch.eye(len(first))
    assert correlation.abs().max() < 0.3


def test_a_view_more_on_one_side_leaves_the_other_alone() -> None:
    more = Plan(labelled=8, pool=12, labelled_views=("weak",), pool_views=("plain", "strong"))
    one, other = batches(), batches(more)
    for _ in range(3):
        a, b = next(one), next(other)
        assert torch.equal(a.pool["strong"], b.pool["strong"])
        assert torch.equal(a.labelled_index, b.labelled_index)


def test_skipping_is_going_on() -> None:
    source = Held(50, 1)
    straight, resumed = batches(), batches(pool=source)
    for _ in range(9):
        next(straight)
    resumed.skip(9)
    assert source.taken == 0
    assert equal(next(straight), next(resumed))


def test_pool_choice_is_kept_to() -> None:
    chosen = torch.tensor([3, 7, 30, 31, 49])
    stream = Batches(None, Held(50), Plan(labelled=0, pool=4), [0], pool_choice=chosen)
    seen = torch.cat([next(stream).pool_index for _ in range(10)])
    assert set(seen.tolist()) == set(chosen.tolist())


def test_one_side_alone() -> None:
    batch = next(Batches(Held(10), None, Plan(labelled=4, pool=0), [0]))
    assert batch.pool == {}
    assert len(batch.pool_index) == 0
    assert len(batch.labels) == 4
    batch = next(Batches(None, Held(10), Plan(labelled=0, pool=4), [0]))
    assert batch.labelled == {}
    assert list(batch.pool) == ["weak", "strong"]


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="no such source"):
        Batches(None, Held(4), PLAN, [0])
    with pytest.raises(ValueError, match="no pool"):
        Batches(Held(4), None, PLAN, [0])
    with pytest.raises(ValueError, match="is none"):
        Plan(labelled=0, pool=0)
    with pytest.raises(ValueError, match="mild"):
        Plan(pool_views=("mild",))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="multiple of 5"):
        Batches(Held(4), Held(4), PLAN, [0], Share(0, 5))
