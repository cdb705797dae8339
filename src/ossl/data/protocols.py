"""The benchmark splits: pure functions of the labels and a seed."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ossl.data.pictures import UNLABELLED
from ossl.errors import InputError, unknown_name

_CIFAR10 = "airplane automobile bird cat deer dog frog horse ship truck"
CIFAR10_CLASSES = tuple(_CIFAR10.split())

# The official superclasses in the official order (0 to 19), each with its five classes.
CIFAR100_SUPERCLASSES = {
    "aquatic_mammals": "beaver dolphin otter seal whale",
    "fish": "aquarium_fish flatfish ray shark trout",
    "flowers": "orchid poppy rose sunflower tulip",
    "food_containers": "bottle bowl can cup plate",
    "fruit_and_vegetables": "apple mushroom orange pear sweet_pepper",
    "household_electrical_devices": "clock keyboard lamp telephone television",
    "household_furniture": "bed chair couch table wardrobe",
    "insects": "bee beetle butterfly caterpillar cockroach",
    "large_carnivores": "bear leopard lion tiger wolf",
    "large_man-made_outdoor_things": "bridge castle house road skyscraper",
    "large_natural_outdoor_scenes": "cloud forest mountain plain sea",
    "large_omnivores_and_herbivores": "camel cattle chimpanzee elephant kangaroo",
    "medium_mammals": "fox porcupine possum raccoon skunk",
    "non-insect_invertebrates": "crab lobster snail spider worm",
    "people": "baby boy girl man woman",
    "reptiles": "crocodile dinosaur lizard snake turtle",
    "small_mammals": "hamster mouse rabbit shrew squirrel",
    "trees": "maple_tree oak_tree palm_tree pine_tree willow_tree",
    "vehicles_1": "bicycle bus motorcycle pickup_truck train",
    "vehicles_2": "lawn_mower rocket streetcar tank tractor",
}
CIFAR100_CLASSES = tuple(sorted(" ".join(CIFAR100_SUPERCLASSES.values()).split()))
# The superclass of each class, both by official number.
CIFAR100_COARSE = tuple(
    next(c for c, fine in enumerate(CIFAR100_SUPERCLASSES.values()) if name in fine.split())
    for name in CIFAR100_CLASSES
)

_IMAGENET30 = """
    acorn airliner ambulance american_alligator banjo barn bikini digital_clock dragonfly dumbbell
    forklift goblet grand_piano hotdog hourglass manhole_cover mosque nail parking_meter pillow
    revolver rotary_dial_telephone schooner snowmobile soccer_ball stingray strawberry tank toaster
    volcano
"""
IMAGENET30_CLASSES = tuple(_IMAGENET30.split())
DIGITS_CLASSES = tuple("0123456789")

# Training and test pictures of the sets the paper used.
PAPER_SIZE = {
    "cifar10": (50_000, 10_000),
    "cifar100": (50_000, 10_000),
    "imagenet30": (39_000, 3_000),
}


@dataclass(frozen=True)
class SplitRule:
    """How a data set is split: which classes are known, and how many pictures have a label."""

    name: str
    dataset: str
    known: tuple[int, ...]  # the set's own class numbers; the place in here is the new label
    classes: tuple[str, ...]  # names of the known classes, in that order
    class_count: int  # classes of the whole set
    labelled_per_class: int
    validation_per_class: int
    test_is_pool: bool = False  # no test set: the pool itself is what is evaluated
    junk: float | None = None  # the pool is thinned until this part of it is outliers


@dataclass(frozen=True, eq=False)
class Split:
    """One drawing of a rule: indices into the training and test pictures, and labels by them."""

    rule: str
    seed: int
    classes: tuple[str, ...]  # the known classes; the place in here is the label
    labelled: NDArray[np.int64]  # indices into the training pictures, class by class
    validation: NDArray[np.int64]  # the same; known classes only
    pool: NDArray[np.int64]  # every other training picture, in order
    test: NDArray[np.int64]  # indices into the test pictures; the pool again if `test_is_pool`
    train_labels: NDArray[np.int64]  # by training picture: its class if labelled or validation,
    # -1 (unlabelled) for all of the pool, so that nothing that trains can see the pool's truth
    pool_truth: NDArray[np.int64]  # by place in `pool`, -1 = outlier; for evaluation alone
    test_labels: NDArray[np.int64]  # by place in `test`, -1 = outlier
    test_is_pool: bool
    shortfall: str | None  # `pool=19k of 50k, ...` on a subset of the paper's data, else None

    def to_json(self) -> str:
        """The split as a JSON object."""
        values = asdict(self)
        plain = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in values.items()}
        return json.dumps(plain)

    @classmethod
    def from_json(cls, text: str) -> Split:
        """The split that `to_json` wrote; an InputError when it is something else."""
        try:
            values = json.loads(text)
            names = {field.name for field in fields(cls)}
            if not isinstance(values, dict) or set(values) != names:
                raise ValueError("other fields than a split has")
            arrays = {f.name for f in fields(cls) if "NDArray" in str(f.type)}
            values |= {name: np.asarray(values[name], dtype=np.int64) for name in arrays}
            return cls(**{**values, "classes": tuple(values["classes"])})
        except (ValueError, TypeError) as problem:
            raise InputError(f"split: not a split written by ossl ({problem}): fit again") from None


def cifar10(labelled_per_class: int) -> SplitRule:
    """CIFAR-10 6/4: the six animals are known."""
    known = (2, 3, 4, 5, 6, 7)
    names = tuple(CIFAR10_CLASSES[c] for c in known)
    return SplitRule(
        f"cifar10-{labelled_per_class}", "cifar10", known, names, 10, labelled_per_class, 50
    )


def cifar100(known_classes: int, labelled_per_class: int) -> SplitRule:
    """CIFAR-100 80/20 or 55/45: superclasses 0 to 15, or 0 to 10, are known."""
    if known_classes not in (80, 55):
        raise unknown_name("number of known CIFAR-100 classes", str(known_classes), ("80", "55"))
    known = tuple(c for c, coarse in enumerate(CIFAR100_COARSE) if coarse < known_classes // 5)
    return SplitRule(
        f"cifar100-{known_classes}-{labelled_per_class}",
        "cifar100",
        known,
        tuple(CIFAR100_CLASSES[c] for c in known),
        100,
        labelled_per_class,
        50,
    )


def imagenet30() -> SplitRule:
    """ImageNet-30 20/10: the first twenty classes by the alphabet, 10 % labelled."""
    return SplitRule(
        "imagenet30", "imagenet30", tuple(range(20)), IMAGENET30_CLASSES[:20], 30, 130, 130
    )


def digits() -> SplitRule:
    """The demo: digits 0 to 5 known by five pictures each, all others the pool."""
    return SplitRule(
        "digits", "digits", tuple(range(6)), DIGITS_CLASSES[:6], 10, 5, 0, test_is_pool=True
    )


RULES: dict[str, SplitRule] = {
    rule.name: rule
    for rule in (
        *(cifar10(count) for count in (25, 50, 100, 400)),
        *(cifar100(known, count) for known in (80, 55) for count in (50, 100)),
        imagenet30(),
        digits(),
    )
}


def split_rule(name: str) -> SplitRule:
    """The rule of this name; an InputError that offers the nearest for another.

    `cifar10-50-junk20` is `cifar10-50` with a pool of which 20 % are outliers.
    """
    base, junk, percent = name.partition("-junk")
    if base not in RULES:
        raise unknown_name("split", name, RULES)
    if not junk:
        return RULES[base]
    if not (percent.isascii() and percent.isdigit() and int(percent) < 100):
        raise InputError(f"split {name}: after -junk give whole percent from 0 to 99.")
    return replace(RULES[base], name=name, junk=int(percent) / 100)


def split(
    rule: SplitRule, train_labels: ArrayLike, test_labels: ArrayLike | None, seed: int
) -> Split:
    """The rule's split of pictures with these labels (the set's own numbers), drawn by the seed.

    Per class: validation first, then the labelled ones, so that for one seed 50 labels are among
    the 100 and all have the same validation pictures.
    """
    train = _whole_labels(train_labels, rule, "training")
    drawn = [_draw(train, rule, place, seed) for place in range(len(rule.known))]
    validation = _joined([order[: rule.validation_per_class] for order in drawn])
    labelled = _joined([order[rule.validation_per_class :] for order in drawn])
    in_pool = np.ones(len(train), dtype=bool)
    in_pool[labelled] = in_pool[validation] = False
    truth = _known_labels(train, rule)
    pool = _thinned(np.flatnonzero(in_pool).astype(np.int64), truth, rule, seed)
    if rule.test_is_pool:
        test, test_truth = pool, truth[pool]
    elif test_labels is None:
        raise InputError(f"split {rule.name}: it needs the labels of the test pictures: give them")
    else:
        test_truth = _known_labels(_whole_labels(test_labels, rule, "test"), rule)
        test = np.arange(len(test_truth), dtype=np.int64)
    return Split(
        rule=rule.name,
        seed=seed,
        classes=rule.classes,
        labelled=labelled,
        validation=validation,
        pool=pool,
        test=test,
        train_labels=np.where(in_pool, UNLABELLED, truth),
        pool_truth=truth[pool],
        test_labels=test_truth,
        test_is_pool=rule.test_is_pool,
        shortfall=size_note(rule, len(train), len(pool), len(test)),
    )


def _thinned(
    pool: NDArray[np.int64], truth: NDArray[np.int64], rule: SplitRule, seed: int
) -> NDArray[np.int64]:
    """As many of the pool's pictures as can be, so that the rule's part of them is outliers."""
    if rule.junk is None:
        return pool
    outlying = truth[pool] < 0
    known, others = int((~outlying).sum()), int(outlying.sum())
    most = min(known / (1 - rule.junk), others / rule.junk if rule.junk else np.inf)
    bits = np.random.PCG64([seed, len(pool)]).random_raw(len(pool))
    order = np.argsort(bits, kind="stable")  # see _draw
    wanted_known, wanted_others = round(most * (1 - rule.junk)), round(most * rule.junk)
    kept = [order[~outlying[order]][:wanted_known], order[outlying[order]][:wanted_others]]
    return pool[np.sort(np.concatenate(kept))]


def size_note(rule: SplitRule, train: int, pool: int, test: int) -> str | None:
    """`pool=19k of 50k, test=5k of 10k` where there are fewer pictures than the paper had.

    "Of" is the size of the whole training or test set, as published. None when nothing is short.
    """
    if rule.dataset not in PAPER_SIZE:
        return None
    full_train, full_test = PAPER_SIZE[rule.dataset]
    notes = []
    if train < full_train:
        notes.append(f"pool={_short(pool)} of {_short(full_train)}")
    if test < full_test:
        notes.append(f"test={_short(test)} of {_short(full_test)}")
    return ", ".join(notes) or None


def _draw(train: NDArray[np.int64], rule: SplitRule, place: int, seed: int) -> NDArray[np.int64]:
    """The pictures of one known class that get a label, validation first, in random order."""
    there = np.flatnonzero(train == rule.known[place])
    wanted = rule.validation_per_class + rule.labelled_per_class
    if len(there) < wanted:
        raise InputError(
            f"split {rule.name}: class {rule.classes[place]!r} has {len(there)} training pictures "
            f"and {rule.labelled_per_class} labelled + {rule.validation_per_class} validation are "
            "wanted: use a preset with fewer labels or more data"
        )
    # A stream per class, and the sort of raw bits rather than Generator.permutation: numpy
    # promises that PCG64's bits stay the same in every version, and of permutation it does not.
    bits = np.random.PCG64([seed, rule.known[place]]).random_raw(len(there))
    return there[np.argsort(bits, kind="stable")[:wanted]].astype(np.int64)


def _whole_labels(labels: ArrayLike, rule: SplitRule, part: str) -> NDArray[np.int64]:
    """The labels as int64, checked to be true classes of the rule's data set."""
    result = np.asarray(labels, dtype=np.int64)
    if not len(result):
        raise InputError(f"split {rule.name}: there are no {part} pictures: check the data")
    if result.min() < 0 or result.max() >= rule.class_count:
        raise InputError(
            f"split {rule.name}: {part} labels run from {result.min()} to {result.max()}, the set "
            f"has classes 0 to {rule.class_count - 1}: give {rule.dataset} with all its labels"
        )
    return result


def _known_labels(labels: NDArray[np.int64], rule: SplitRule) -> NDArray[np.int64]:
    """Each label's place among the known classes, -1 for a class that is not known."""
    table = np.full(rule.class_count, UNLABELLED, dtype=np.int64)
    table[list(rule.known)] = np.arange(len(rule.known))
    return table[labels]


def _joined(parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate(parts).astype(np.int64)


def _short(count: int) -> str:
    return f"{count / 1000:.0f}k" if count >= 1000 else str(count)
