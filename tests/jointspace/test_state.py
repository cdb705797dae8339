"""A tree of dataclasses as named tensors and back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from ossl.jointspace.state import from_tensors, to_tensors


@dataclass
class Leaf:
    values: Tensor
    size: int
    ready: bool = True


@dataclass
class Tree:
    leaves: list[Leaf]
    pairs: list[tuple[int, Leaf]]
    ends: tuple[float, float]
    counts: tuple[int, ...]
    maybe: Leaf | None = None
    none: list[Tensor] | None = None


def tree(count: int) -> Tree:
    leaves = [Leaf(torch.arange(place + 1.0), place, place % 2 == 0) for place in range(count)]
    pairs = [(7 * leaf.size, leaf) for leaf in leaves]
    return Tree(leaves, pairs, (0.1, 1 / 3), (3, 1, 2), maybe=leaves[0])


def test_a_tree_comes_back_from_its_file(tmp_path: Path) -> None:
    made = tree(12)  # more than ten: places are numbers, not words
    kept = to_tensors(made, "joint")
    assert all(name.startswith("joint.") for name in kept)
    save_file({name: tensor.clone() for name, tensor in kept.items()}, tmp_path / "tree")
    again = from_tensors(Tree, load_file(tmp_path / "tree"), "joint")
    assert [leaf.size for leaf in again.leaves] == list(range(12))
    assert [leaf.ready for leaf in again.leaves] == [leaf.ready for leaf in made.leaves]
    assert all(
        torch.equal(one.values, other.values)
        for one, other in zip(again.leaves, made.leaves, strict=True)
    )
    assert [count for count, _ in again.pairs] == [7 * place for place in range(12)]
    assert (again.ends, again.counts) == (made.ends, made.counts)
    assert again.none is None
    assert again.maybe is not None
    assert type(again.maybe.size) is int
    assert type(again.maybe.ready) is bool


def test_what_is_none_and_what_is_empty_stay_so() -> None:
    made = Tree([], [], (0.0, 1.0), (1,))
    again = from_tensors(Tree, to_tensors(made))
    assert (again.leaves, again.pairs, again.maybe, again.none) == ([], [], None, None)
    empty = from_tensors(Leaf, to_tensors(Leaf(torch.empty(0), 0)))
    assert empty.values.shape == (0,)
    assert to_tensors(None) == {}
