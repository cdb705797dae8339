"""A mixture of known and outlier scores that hidden labelled pictures anchor."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from ossl.jointspace.anchored import anchored_mixture
from tests.jointspace.drawn import close, examples, normal, seeds, shuffled
from tests.reference import evidence as slow


@examples
@given(seeds, st.integers(2, 30), st.integers(0, 5), st.integers(1, 6))
def test_the_mixture_is_the_loop(seed: int, n: int, hidden: int, steps: int) -> None:
    pool, known = normal(n, seed=seed), normal(hidden, seed=seed + 1)
    pool[: n // 3] += 4
    by_hand = slow.anchored_mixture(pool.tolist(), known.tolist(), steps)
    close(anchored_mixture(pool, known, steps=steps), by_hand, 1e-6)


@examples
@given(seeds)
def test_the_order_of_the_pool_and_of_the_known_does_not_matter(seed: int) -> None:
    pool, known = normal(20, seed=seed), normal(6, seed=seed + 1)
    order = shuffled(20, seed)
    found = anchored_mixture(pool, known)
    close(anchored_mixture(pool[order], known[shuffled(6, seed)]), found[order], 1e-6)


def test_two_groups_far_apart_are_told_apart_with_and_without_anchors() -> None:
    pool = torch.cat([normal(70, seed=0), normal(30, seed=1) + 12])
    for known in (normal(10, seed=2), pool[:0], pool[:1]):
        found = anchored_mixture(pool, known)
        assert (found.round() == (torch.arange(100) >= 70)).all()


def test_one_picture_equal_pictures_and_equal_anchors_give_chances() -> None:
    for pool in (torch.ones(1), torch.ones(2), torch.ones(9), torch.tensor([0.0, 1e6])):
        for known in (torch.empty(0), torch.ones(1), torch.ones(5)):
            found = anchored_mixture(pool, known)
            assert ((found >= 0) & (found <= 1)).all()
