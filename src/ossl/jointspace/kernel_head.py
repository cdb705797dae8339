"""The classifier on frozen features: kernel ridge regression that the pool's known correct.

1. Labelled pictures alone: the ridge solution (K + λ/w)c = Y − ȳ in the Gaussian kernel, in closed
   form. Leaving one picture out, also in closed form, gives the temperature of a fair confidence.
2. Its confident word on the pool, weighed by P(known), is what a second, smaller ridge regression
   learns the correction from. Folds of the labelled pictures say how much of that correction is
   taken: as much as classifies held-out pictures no worse than none.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from ossl.jointspace.numerics import at_least_float32, pieces

RIDGE = 0.1  # λ of the labelled pictures
POOL_RIDGE = 0.3  # of the correction, on which the kernel's norm is the penalty
LANDMARKS = 1000  # pictures that the correction is built on, half of them labelled at most
MOST_POOL = 20_000  # pictures of the pool that the correction learns from
BALANCE = 0.5  # how far pseudo-labels are pulled to even classes: 0 not at all, 1 fully
FOLDS = 3
MARKED = 0.3  # weight of a picture that a person picked, in those of its class's others
PARTS = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the correction
SHARPEST = 200.0  # inverse temperature
USUAL = 20.0  # inverse temperature, and how far from it most data lie (log-normal deviation):
USUAL_SPREAD = 0.4  # of a few pictures alone it comes out near 1, and the pool learns nothing
ROWS = 4096  # pictures compared with all points at a time


@dataclass
class KernelHead:
    """Logits bias + Σ_i exp(−‖g(f) − point_i‖²/reach) coefficient_i of features f."""

    points: Tensor  # [P, D]
    coefficients: Tensor  # [P, K]
    bias: Tensor  # [K]
    reach: float
    roots: bool  # whether g takes the square root, for features that are never negative
    pool_part: float  # how much of the pool's correction was taken, 0–1
    held_out_accuracy: float | None  # fraction; None with one picture a class

    def __call__(self, features: Tensor) -> Tensor:
        """Return the logits of features, (N, K); their softmax is a fair confidence."""
        found = [
            self.bias
            + gaussian(place(some, self.roots), self.points, self.reach) @ self.coefficients
            for some in pieces(features, ROWS)
        ]
        return torch.cat(found) if found else self.bias.new_zeros(0, len(self.bias))

    @property
    def parameter_count(self) -> int:
        """Return how many numbers were solved for."""
        return self.coefficients.numel() + self.bias.numel()


def place(features: Tensor, roots: bool) -> Tensor:
    """Return g(f): features on the unit sphere, after a square root where they are never negative.

    The root evens out the few channels of a rectified network that are far larger than the others.
    """
    features = at_least_float32(features)
    return functional.normalize(features.clamp_min(0).sqrt() if roots else features, dim=1)


def gaussian(a: Tensor, b: Tensor, reach: float) -> Tensor:
    """Return exp(−‖a_i − b_j‖²/reach), (N, M)."""
    squared = a.square().sum(1)[:, None] + b.square().sum(1) - 2 * (a @ b.T)
    return squared.clamp_min_(0).mul_(-1 / reach).exp_()


def fit_kernel_head(
    labelled: Tensor,
    labels: Tensor,
    classes: int,
    pool: Tensor,
    known: Tensor,
    fair: Tensor | None = None,
    seed: int = 0,
    marked: int = 0,
) -> KernelHead:
    """Return the classifier of labelled features (n, D), labels 0..K−1 and a pool (N, D).

    ``known`` is how likely each pool picture is of a known class, (N,). Every class is there. The
    last ``marked`` labelled pictures were picked by a person: they count less, and nothing is
    measured on them. ``fair`` are the labelled pictures that held-out figures are taken from,
    where the network has learnt the others by their labels.
    """
    generator = torch.Generator().manual_seed(seed)
    if len(pool) > MOST_POOL:
        rows = torch.randperm(len(pool), generator=generator)[:MOST_POOL]
        pool, known = pool[rows], known[rows]
    roots = bool((labelled >= 0).all()) and bool((pool >= 0).all())
    x, p = place(labelled, roots), place(pool, roots)
    fair = torch.arange(len(x) - marked) if fair is None else fair
    ridge = _LabelledRidge.of(x, labels, classes, fair, marked)
    correction = _Correction.of(x, p, known, ridge, generator)
    part, sharpness, accuracy = _choose(ridge, correction, labels, fair, marked)

    everything = torch.arange(len(x))
    change = part * correction.learn(ridge.coefficients, everything, ridge)
    coefficients = ridge.coefficients.clone()
    own = len(correction.own)
    coefficients[correction.own] += change[:own]
    return KernelHead(
        torch.cat([x, correction.landmarks]),
        sharpness * torch.cat([coefficients, change[own:]]),
        sharpness * (ridge.even - correction.middle @ change),
        ridge.reach,
        roots,
        part,
        accuracy,
    )


@dataclass
class _LabelledRidge:
    """Kernel ridge regression of labelled pictures, every class of the same weight."""

    x: Tensor  # [n, D]
    targets: Tensor  # [n, K], one-hot less the even class shares
    even: Tensor  # [K]
    weight: Tensor  # [n]
    reach: float
    kernel: Tensor  # [n, n]
    inverse: Tensor  # of kernel + λ/weight
    coefficients: Tensor  # [n, K]
    sharpness: float  # inverse temperature, from pictures left out one by one

    @classmethod
    def of(
        cls, x: Tensor, labels: Tensor, classes: int, fair: Tensor | None = None, marked: int = 0
    ) -> _LabelledRidge:
        """Return the regression and its leave-one-out temperature."""
        unpicked = len(x) - marked
        fair = torch.arange(unpicked) if fair is None else fair
        counts = torch.bincount(labels[:unpicked], minlength=classes).float()
        weight = (unpicked / (classes * counts))[labels]
        weight[unpicked:] *= MARKED
        even = torch.full((classes,), 1 / classes)
        targets = functional.one_hot(labels, classes).float() - even
        reach = max(float((x - x.mean(0)).square().sum(1).mean()), 1e-6)
        kernel = gaussian(x, x, reach)
        inverse = torch.linalg.inv((kernel + RIDGE * torch.diag(1 / weight)).double()).float()
        coefficients = inverse @ targets
        left_out = targets - coefficients / inverse.diagonal()[:, None]
        several = bool(counts.min() > 1)
        sharpness = _sharpness(left_out[fair], labels[fair], weight[fair])[0] if several else USUAL
        return cls(x, targets, even, weight, reach, kernel, inverse, coefficients, sharpness)

    def without(self, held_out: Tensor) -> Tensor:
        """Return the coefficients as if ``held_out`` had never been seen, zero for them."""
        block = self.inverse[held_out][:, held_out]
        solved = torch.linalg.solve(block.double(), self.coefficients[held_out].double()).float()
        fewer: Tensor = self.coefficients - self.inverse[:, held_out] @ solved
        fewer[held_out] = 0
        return fewer


@dataclass
class _Correction:
    """What the pool's likely known pictures add, a ridge regression on a few landmarks."""

    own: Tensor  # which labelled pictures are landmarks
    landmarks: Tensor  # [m, D], of the pool
    middle: Tensor  # [M], the mean kernel over the pool's known pictures
    of_labelled: Tensor  # [n, M], centred kernel
    of_pool: Tensor  # [N, M], centred kernel
    to_labelled: Tensor  # [N, n], kernel of the pool to all labelled pictures
    known: Tensor  # [N]
    gram: Tensor  # [M, M] of the pool, weighed by known
    penalty: Tensor  # [M, M]

    @classmethod
    def of(
        cls, x: Tensor, p: Tensor, known: Tensor, ridge: _LabelledRidge, generator: torch.Generator
    ) -> _Correction:
        """Return the kernels and the part of the solution that no pseudo-label changes."""
        own = torch.randperm(len(x), generator=generator)[: LANDMARKS // 2]
        likely = int((known > 0).sum())
        chosen = torch.empty(0, dtype=torch.int64)
        if likely:
            count = min(LANDMARKS - len(own), likely)
            chosen = torch.multinomial(known.clamp_min(0), count, generator=generator)
        landmarks = p[chosen]
        to_labelled = gaussian(p, x, ridge.reach)
        of_labelled = torch.cat([ridge.kernel[:, own], gaussian(x, landmarks, ridge.reach)], 1)
        of_pool = torch.cat([to_labelled[:, own], gaussian(p, landmarks, ridge.reach)], 1)
        among = torch.cat([of_labelled[own], of_pool[chosen]])
        middle = (known @ of_pool) / known.sum().clamp_min(1e-6)
        of_labelled, of_pool = of_labelled - middle, of_pool - middle
        gram = (of_pool * known[:, None]).T @ of_pool
        penalty = POOL_RIDGE * (among + 1e-2 * torch.eye(len(among)))
        return cls(own, landmarks, middle, of_labelled, of_pool, to_labelled, known, gram, penalty)

    def learn(self, coefficients: Tensor, rows: Tensor, ridge: _LabelledRidge) -> Tensor:
        """Return the correction [M, K] of a labelled head, from its pseudo-labels of the pool.

        Labelled pictures outside of ``rows`` are not looked at.
        """
        said = self.to_labelled @ coefficients
        believed = balanced((said * ridge.sharpness).softmax(1), self.known, ridge.even)
        seen, weight = self.of_labelled[rows], ridge.weight[rows, None]
        missed = ridge.targets[rows] - ridge.kernel[rows] @ coefficients
        pull = (seen * weight).T @ missed
        pull += self.of_pool.T @ ((believed - ridge.even - said) * self.known[:, None])
        system = (self.gram + (seen * weight).T @ seen + self.penalty).double()
        solved: Tensor = torch.linalg.solve(system, pull.double())
        return solved.float()


def balanced(probabilities: Tensor, weight: Tensor, target: Tensor, steps: int = 20) -> Tensor:
    """Return probabilities (N, K) whose weighted class shares are moved `BALANCE` towards a target.

    One factor per class, found by proportional fitting and taken to the power `BALANCE`.
    """
    logs = probabilities.clamp_min(1e-9).log()
    factor = torch.zeros_like(target)
    total = weight.sum().clamp_min(1e-6)
    for _ in range(steps):
        have = (weight @ (logs + factor).softmax(1)) / total
        factor = factor + (target / have.clamp_min(1e-6)).log()
    return (logs + BALANCE * factor).softmax(1)


def _choose(
    ridge: _LabelledRidge, correction: _Correction, labels: Tensor, fair: Tensor, marked: int
) -> tuple[float, float, float | None]:
    """Return how much of the correction is taken, the inverse temperature, held-out accuracy.

    Asked are the ``fair`` pictures, and never those that a person picked.
    """
    unpicked = labels[: len(labels) - marked]
    truth, weight = labels[fair], ridge.weight[fair] / ridge.weight[fair].mean()
    if float(correction.known.sum()) < 1:
        return 0.0, ridge.sharpness, None
    if int(torch.bincount(unpicked).min()) < 2:
        return 1.0, ridge.sharpness, None
    seen = functional.one_hot(labels).cumsum(0).gather(1, labels[:, None]).squeeze(1) - 1
    base, change = torch.zeros_like(ridge.targets), torch.zeros_like(ridge.targets)
    for fold in range(FOLDS):
        held = (seen % FOLDS == fold) & (torch.arange(len(labels)) < len(unpicked))
        out, kept = held.nonzero()[:, 0], (~held).nonzero()[:, 0]
        if len(out):
            fewer = ridge.without(out)
            base[out] = ridge.kernel[out] @ fewer
            change[out] = correction.of_labelled[out] @ correction.learn(fewer, kept, ridge)
    hits = [
        float((((base + part * change)[fair].argmax(1) == truth) * weight).mean()) for part in PARTS
    ]
    best = max(place for place, hit in enumerate(hits) if hit >= hits[0] - 1e-9)
    sharpness = _sharpness((base + PARTS[best] * change)[fair], truth, weight)[0]
    return PARTS[best], sharpness, hits[best]


def _sharpness(scores: Tensor, labels: Tensor, weight: Tensor) -> tuple[float, float]:
    """Return the likeliest inverse temperature of held-out scores, and the loss at it."""
    tried = torch.logspace(0, torch.tensor(SHARPEST).log10().item(), 47)
    unusual = (tried.log() - torch.tensor(USUAL).log()).square() / (2 * USUAL_SPREAD**2)
    losses = torch.stack(
        [
            (functional.cross_entropy(scores * sharp, labels, reduction="none") * weight).mean()
            for sharp in tried
        ]
    )
    best = int((losses + unusual / len(labels)).argmin())
    return float(tried[best]), float(losses[best])
