"""What lies around a picture."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from ossl.jointspace import neighbourhood
from ossl.jointspace.neighbourhood import SAME, Neighbourhood, fit_neighbourhood
from tests.jointspace.drawn import (
    close,
    examples,
    normal,
    rotation,
    scales,
    seeds,
    shuffled,
    sizes,
    source,
)
from tests.reference import evidence as slow


def made(seed: int, count: int, size: int, neighbours: int) -> Neighbourhood:
    reference = functional.normalize(normal(count, size, seed=seed), dim=1)
    known = torch.arange(count) % 2 == 0
    return Neighbourhood(reference, known, normal(count, seed=seed + 1), neighbours)


@examples
@given(seeds, sizes, st.integers(1, 9), st.integers(2, 5), st.integers(1, 6))
def test_looking_is_the_loop(seed: int, n: int, count: int, size: int, neighbours: int) -> None:
    around = made(seed, count, size, neighbours)
    features = torch.cat([normal(n, size, seed=seed + 2), 3 * around.reference[:1]])
    distances, places = around.look(features)
    rows, known = around.reference.tolist(), around.known.tolist()
    for f, distance, there in zip(features.tolist(), distances, places.tolist(), strict=True):
        by_hand, nearest = slow.look(f, rows, known, neighbours, SAME)
        close(distance, by_hand, 1e-7)
        assert [place for place in there if place >= 0] == nearest


@examples
@given(seeds, sizes)
def test_what_lies_around_is_the_mean_of_those_that_are_there(seed: int, n: int) -> None:
    around = made(seed, 6, 3, 4)
    places = torch.randint(-1, 6, (n, 4), generator=source(seed))
    by_hand = []
    for there in places.tolist():
        scores = [float(around.score[place]) for place in there if place >= 0]
        by_hand.append(sum(scores) / len(scores) if scores else 0.0)
    close(around.around(places), by_hand)


@examples
@given(seeds, scales)
def test_distances_do_not_see_scale_rotation_or_order(seed: int, scale: float) -> None:
    around, features = made(seed, 9, 4, 3), normal(8, 4, seed=seed + 2)
    turn, order = rotation(4, seed + 3), shuffled(9, seed)
    moved = Neighbourhood(around.reference[order] @ turn, around.known[order], around.score, 3)
    close(moved.look(scale * features @ turn)[0], around.look(features)[0])


def test_copies_do_not_count_and_leave_no_gap_in_the_mean() -> None:
    picture, other = torch.tensor([1.0, 0.0]), torch.tensor([0.6, 0.8])
    known = torch.ones(4, dtype=torch.bool)
    reference = torch.stack([picture, picture, picture, other])
    distance, places = Neighbourhood(reference, known, torch.arange(4.0), 3).look(picture[None])
    close(distance, [0.4], 1e-6)
    assert places.tolist() == [[3, -1, -1]]
    copies = Neighbourhood(reference[:3], known[:3], torch.ones(3), 8)
    distance, places = copies.look(picture[None])
    assert distance.tolist() == [0.0]
    assert copies.around(places).tolist() == [0.0]


def test_more_pictures_than_are_compared_at_a_time() -> None:
    around, features = made(0, 9, 4, 3), normal(neighbourhood.ROWS + 3, 4, seed=1)
    distances, places = around.look(features)
    close(distances[-5:], around.look(features[-5:])[0])
    assert torch.equal(places[-5:], around.look(features[-5:])[1])


def test_references_are_some_of_both() -> None:
    labelled, pool = normal(30, 3, seed=0), normal(50, 3, seed=1)
    known = torch.arange(50) % 3 == 0
    candidates = shuffled(50, 2)
    around, own, chosen = fit_neighbourhood(labelled, pool, known, candidates, 20, 5, source(0))
    assert len(own) == len(set(own.tolist())) == 10
    assert torch.equal(chosen, candidates[:20])
    close(around.reference, functional.normalize(torch.cat([labelled[own], pool[chosen]]), dim=1))
    assert around.known.tolist() == [True] * 10 + known[chosen].tolist()
