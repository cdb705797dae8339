"""The splits: counts, cover, seeds, official numbers, and values that must never change."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ossl.data.protocols import (
    CIFAR100_CLASSES,
    CIFAR100_COARSE,
    CIFAR100_SUPERCLASSES,
    IMAGENET30_CLASSES,
    RULES,
    Split,
    SplitRule,
    cifar100,
    size_note,
    split,
    split_rule,
)
from ossl.errors import InputError

# As published with CIFAR-100: the superclass of each class, by number.
OFFICIAL_COARSE = """
    4 1 14 8 0 6 7 7 18 3 3 14 9 18 7 11 3 9 7 11 6 11 5 10 7 6 13 15 3 15 0 11 1 10 12 14 16 9 11
    5 5 19 8 8 15 13 14 17 18 10 16 4 17 4 2 0 17 4 18 17 10 3 2 12 12 16 12 1 9 19 2 10 0 1 16 12
    9 13 15 13 16 19 2 4 6 19 5 5 8 19 18 1 2 15 6 0 17 8 14 13
"""


def labels_of(rule: SplitRule, per_class: int, seed: int = 0) -> list[int]:
    every = np.repeat(np.arange(rule.class_count), per_class)
    return [int(c) for c in np.random.default_rng(seed).permutation(every)]


def test_the_superclasses_are_the_official_ones() -> None:
    assert [int(c) for c in OFFICIAL_COARSE.split()] == list(CIFAR100_COARSE)
    assert len(set(CIFAR100_CLASSES)) == 100
    assert list(CIFAR100_SUPERCLASSES) == sorted(CIFAR100_SUPERCLASSES)
    assert all(CIFAR100_COARSE.count(c) == 5 for c in range(20))


def test_the_known_classes_are_the_papers() -> None:
    assert split_rule("cifar10-50").known == (2, 3, 4, 5, 6, 7)
    animals = ("bird", "cat", "deer", "dog", "frog", "horse")
    assert split_rule("cifar10-50").classes == animals
    for count in (80, 55):
        rule = cifar100(count, 50)
        assert len(rule.known) == count
        supers = {CIFAR100_COARSE[c] for c in rule.known}
        assert supers == set(range(count // 5))
        assert rule.classes == tuple(CIFAR100_CLASSES[c] for c in rule.known)
    thirty = split_rule("imagenet30")
    assert thirty.classes == IMAGENET30_CLASSES[:20]
    assert sorted(IMAGENET30_CLASSES) == list(IMAGENET30_CLASSES)
    assert len(set(IMAGENET30_CLASSES)) == 30
    assert (thirty.labelled_per_class, thirty.validation_per_class) == (130, 130)
    with pytest.raises(InputError, match="did you mean"):
        split_rule("cifar10-5")


@pytest.mark.parametrize("name", RULES)
def test_a_split_is_disjoint_and_covers(name: str) -> None:
    rule = split_rule(name)
    per_class = rule.labelled_per_class + rule.validation_per_class + 7
    train, test = np.asarray(labels_of(rule, per_class)), np.asarray(labels_of(rule, 3, 1))
    s = split(rule, train, test, seed=1)
    together = np.concatenate([s.labelled, s.validation, s.pool])
    assert np.array_equal(np.sort(together), np.arange(len(train)))
    known = len(rule.known)
    for part, count in (
        (s.labelled, rule.labelled_per_class),
        (s.validation, rule.validation_per_class),
    ):
        assert np.bincount(s.train_labels[part], minlength=known).tolist() == [count] * known
        assert np.array_equal(np.asarray(rule.known)[s.train_labels[part]], train[part])
    # Nothing of the pool's truth is in what trains.
    assert (s.train_labels[s.pool] == -1).all()
    truth = [rule.known.index(c) if c in rule.known else -1 for c in train[s.pool]]
    assert s.pool_truth.tolist() == truth
    assert len(s.test_labels) == len(s.test)
    if rule.test_is_pool:
        assert np.array_equal(s.test, s.pool)
        assert np.array_equal(s.test_labels, s.pool_truth)
    else:
        assert np.array_equal(s.test, np.arange(len(test)))
        mapped = [rule.known.index(c) if c in rule.known else -1 for c in test]
        assert s.test_labels.tolist() == mapped


def test_the_full_cifar_counts_of_the_paper() -> None:
    rule = split_rule("cifar10-100")
    s = split(rule, labels_of(rule, 5000), labels_of(rule, 1000), 0)
    assert (len(s.labelled), len(s.validation), len(s.pool)) == (600, 300, 49_100)
    assert (s.test_labels == -1).sum() == 4000
    assert s.shortfall is None


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**31), other=st.integers(0, 2**31))
def test_the_seed_decides(seed: int, other: int) -> None:
    rule = split_rule("cifar10-50")
    train = labels_of(rule, 300)
    first, again = split(rule, train, [0], seed), split(rule, train, [0], seed)
    assert first.to_json() == again.to_json()
    if other != seed:
        assert not np.array_equal(first.labelled, split(rule, train, [0], other).labelled)
    more = split(split_rule("cifar10-100"), train, [0], seed)
    assert set(first.labelled) < set(more.labelled)
    assert np.array_equal(first.validation, more.validation)


FROZEN_DIGITS = [
    110,
    30,
    130,
    20,
    150,
    71,
    101,
    181,
    41,
    111,
    142,
    2,
    42,
    62,
    32,
    83,
    93,
    133,
    43,
    163,
    124,
    54,
    14,
    114,
    24,
    85,
    195,
    65,
    45,
    115,
]
FROZEN_CIFAR = [322, 642, 672, 112, 1022, 1032]
FROZEN_SUM = 310650


def test_frozen_values() -> None:
    """These indices are in people's run folders: a change here changes published results."""
    rule = split_rule("digits")
    s = split(rule, np.arange(200) % 10, None, seed=0)
    assert s.labelled.tolist() == FROZEN_DIGITS
    c = split(split_rule("cifar10-50"), np.arange(2000) % 10, [0], seed=2)
    assert c.labelled[:6].tolist() == FROZEN_CIFAR
    assert int(c.validation.sum()) == FROZEN_SUM


def test_json_there_and_back() -> None:
    rule = split_rule("digits")
    s = split(rule, labels_of(rule, 20), None, 3)
    back = Split.from_json(s.to_json())
    assert back.to_json() == s.to_json()
    assert back.pool.dtype == np.int64
    assert isinstance(back.classes, tuple)
    wrong = json.loads(s.to_json())
    wrong["more"] = 1
    for text in (json.dumps(wrong), "{}", "[]", "not json"):
        with pytest.raises(InputError, match="not a split"):
            Split.from_json(text)


def test_too_few_pictures_and_wrong_labels() -> None:
    rule = split_rule("cifar10-50")
    train = [c for c in labels_of(rule, 120) if c != 4] + [4] * 99
    with pytest.raises(InputError, match=r"class 'deer' has 99 .* 50 labelled \+ 50 validation"):
        split(rule, train, [0], 0)
    for wrong in ([10], [-1]):
        with pytest.raises(InputError, match="classes 0 to 9"):
            split(rule, labels_of(rule, 120) + wrong, [0], 0)
    with pytest.raises(InputError, match="no training pictures"):
        split(rule, [], [0], 0)
    with pytest.raises(InputError, match="labels of the test pictures"):
        split(rule, labels_of(rule, 120), None, 0)


def test_the_size_note() -> None:
    rule = split_rule("cifar10-100")
    assert size_note(rule, 20_000, 19_100, 5_000) == "pool=19k of 50k, test=5k of 10k"
    assert size_note(rule, 20_000, 19_100, 10_000) == "pool=19k of 50k"
    assert size_note(rule, 50_000, 49_100, 10_000) is None
    assert size_note(split_rule("digits"), 1797, 1767, 1767) is None
    assert size_note(replace(rule, dataset="imagenet30"), 900, 800, 3000) == "pool=800 of 39k"


@pytest.mark.parametrize("percent", [0, 1, 20, 42, 90])
def test_a_pool_is_thinned_to_its_part_of_junk(percent: int) -> None:
    labels = np.repeat(np.arange(10), 300)
    rule = split_rule(f"cifar10-25-junk{percent}")
    whole = split(split_rule("cifar10-25"), labels, labels[:100], 3)
    thin = split(rule, labels, labels[:100], 3)
    assert abs(float((thin.pool_truth < 0).mean()) - percent / 100) < 0.002
    assert set(thin.pool) < set(whole.pool)
    assert (np.diff(thin.pool) > 0).all()
    assert np.array_equal(thin.labelled, whole.labelled)
    assert (thin.train_labels[thin.pool] == -1).all()
    assert (thin.train_labels == whole.train_labels).all()  # what was left out has no label either
    again = split(rule, labels, labels[:100], 3)
    assert np.array_equal(thin.pool, again.pool)
    full = (thin.pool_truth >= 0).sum() == (whole.pool_truth >= 0).sum()
    assert full or (thin.pool_truth < 0).sum() == (whole.pool_truth < 0).sum()


@pytest.mark.parametrize("name", ["cifar10-25-junk100", "cifar10-25-junk", "cifar10-25-junkmail"])
def test_a_part_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="whole percent"):
        split_rule(name)
