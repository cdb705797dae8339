"""The classifier in closed form."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from torch import Tensor

from ossl.jointspace.kernel_head import (
    BALANCE,
    RIDGE,
    KernelHead,
    _LabelledRidge,
    balanced,
    fit_kernel_head,
    gaussian,
    place,
)
from ossl.jointspace.state import from_tensors, to_tensors
from tests.jointspace.clusters import Clusters, clusters
from tests.jointspace.drawn import close, examples, normal, seeds
from tests.reference import kernel_head as slow


def fitted(drawn: Clusters, known: Tensor | None = None, seed: int = 0) -> KernelHead:
    known = (~drawn.outlier).float() if known is None else known
    classes = int(drawn.labels.max()) + 1
    return fit_kernel_head(drawn.labelled, drawn.labels, classes, drawn.pool, known, seed=seed)


@examples
@given(seeds)
def test_kernel_and_logits_are_what_plain_loops_say(seed: int) -> None:
    a, b = place(normal(5, 4, seed=seed), False), place(normal(3, 4, seed=seed + 1), False)
    close(gaussian(a, b, 0.7), slow.gaussian(a.tolist(), b.tolist(), 0.7), 1e-5)
    coefficients, bias = normal(3, 2, seed=seed), normal(2, seed=seed)
    head = KernelHead(b, coefficients, bias, 0.7, False, 1.0, None)
    expected = slow.logits(
        a.tolist(), b.tolist(), head.coefficients.tolist(), head.bias.tolist(), 0.7
    )
    close(head(a), expected, 1e-4)


@examples
@given(seeds)
def test_balancing_is_what_plain_loops_say(seed: int) -> None:
    probabilities = normal(6, 3, seed=seed).softmax(1)
    weight, target = normal(6, seed=seed + 1).sigmoid(), torch.tensor([0.5, 0.3, 0.2])
    expected = slow.balanced(probabilities.tolist(), weight.tolist(), target.tolist(), BALANCE)
    close(balanced(probabilities, weight, target), expected, 1e-5)


def test_features_that_are_never_negative_are_placed_by_their_roots() -> None:
    features = normal(6, 4, seed=1).abs()
    close(
        place(features, True),
        (features.sqrt() / features.sum(1, keepdim=True).sqrt()).tolist(),
        1e-5,
    )
    drawn = clusters(3, 6, 40, 0.2, seed=0)
    assert not fitted(drawn).roots
    lifted = Clusters(drawn.labelled.abs(), drawn.labels, drawn.pool.abs(), drawn.outlier)
    assert fitted(lifted).roots


def test_the_labelled_head_solves_its_system_and_forgets_exactly() -> None:
    drawn = clusters(3, 7, 10, 0.0, seed=2, apart=3.0)
    x = place(drawn.labelled, False)
    ridge = _LabelledRidge.of(x, drawn.labels, 3)
    system = ridge.kernel + RIDGE * torch.diag(1 / ridge.weight)
    close(system @ ridge.coefficients, ridge.targets.tolist(), 1e-4)
    out = torch.tensor([0, 8, 20])
    kept = torch.tensor([i for i in range(21) if i not in out.tolist()])
    again = torch.linalg.solve(system[kept][:, kept], ridge.targets[kept])
    fewer = ridge.without(out)
    close(fewer[kept], again.tolist(), 1e-3)
    assert not fewer[out].any()


def test_it_classifies_clusters_and_its_confidence_is_fair() -> None:
    drawn = clusters(5, 12, 400, 0.3, seed=3, apart=3.5)
    fresh = clusters(5, 200, 10, 0.0, seed=3, apart=3.5)
    logits = fitted(drawn)(fresh.labelled)
    hits = (logits.argmax(1) == fresh.labels).float()
    assert float(hits.mean()) > 0.8
    assert float(logits.softmax(1).amax(1).mean()) == pytest.approx(float(hits.mean()), abs=0.1)


def test_the_pool_helps_where_labels_are_few() -> None:
    gains = []
    for seed in range(6):
        drawn = clusters(4, 3, 600, 0.3, seed=seed, apart=3.0)
        fresh = clusters(4, 200, 10, 0.0, seed=seed, apart=3.0)
        nothing = torch.zeros(len(drawn.pool))
        both = [fitted(drawn), fitted(drawn, known=nothing)]
        accuracy = [
            float((h(fresh.labelled).argmax(1) == fresh.labels).float().mean()) for h in both
        ]
        assert both[1].pool_part == 0.0
        gains.append(accuracy[0] - accuracy[1])
    assert sum(gains) / len(gains) > 0.01


@pytest.mark.parametrize(
    ("classes", "per_class", "pool"),
    [(1, 1, 5), (1, 8, 30), (2, 1, 1), (4, 1, 60), (3, 2, 3), (30, 2, 20), (2, 40, 2)],
)
def test_edges_give_finite_logits(classes: int, per_class: int, pool: int) -> None:
    drawn = clusters(classes, per_class, pool, 0.3, seed=4)
    head = fitted(drawn, known=torch.full((pool,), 0.6))
    logits = head(torch.cat([drawn.labelled, drawn.pool]))
    assert logits.shape == (classes * per_class + pool, classes)
    assert bool(torch.isfinite(logits).all())
    assert (logits[: len(drawn.labels)].argmax(1) == drawn.labels).float().mean() > 0.9


def test_identical_pictures_do_not_break_it() -> None:
    drawn = clusters(2, 5, 30, 0.2, seed=5)
    same = Clusters(drawn.labelled[:1].repeat(10, 1), drawn.labels, drawn.pool, drawn.outlier)
    assert bool(torch.isfinite(fitted(same)(drawn.pool)).all())


def test_classes_with_many_labels_do_not_rule() -> None:
    drawn = clusters(2, 60, 200, 0.0, seed=6, apart=4.0)
    few = torch.cat([torch.arange(60), torch.arange(60, 66)])
    skewed = Clusters(drawn.labelled[few], drawn.labels[few], drawn.pool, drawn.outlier)
    fresh = clusters(2, 300, 10, 0.0, seed=6, apart=4.0)
    said = fitted(skewed)(fresh.labelled).argmax(1)
    assert 0.3 < float((said == 1).float().mean()) < 0.7


def test_it_repeats_exactly_and_survives_being_stored() -> None:
    drawn = clusters(3, 6, 80, 0.3, seed=7)
    state = torch.get_rng_state()
    head, again = fitted(drawn), fitted(drawn)
    assert torch.equal(state, torch.get_rng_state())
    assert torch.equal(head(drawn.pool), again(drawn.pool))
    back = from_tensors(KernelHead, to_tensors(head))
    assert torch.equal(head(drawn.pool), back(drawn.pool))
    assert back.roots is head.roots and back.held_out_accuracy == head.held_out_accuracy
    assert head.parameter_count == head.coefficients.numel() + 3
    assert len(head(drawn.pool[:0])) == 0


def test_a_large_pool_is_sampled() -> None:
    drawn = clusters(2, 4, 20_500, 0.1, seed=8, size=3)
    assert bool(torch.isfinite(fitted(drawn)(drawn.pool[:10])).all())
