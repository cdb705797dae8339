"""Marked pictures: that the fits heed them, what they pull over, and every edge of their number."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ossl.jointspace import marks as module
from ossl.jointspace.kernel_head import fit_kernel_head, gaussian, place
from ossl.jointspace.marks import MARGIN, REACHES, RIDGES, Marks, fit_pull
from ossl.jointspace.stacking import StackedSpace, fit_stacked_space
from ossl.jointspace.state import from_tensors, to_tensors
from tests.jointspace.clusters import Clusters, auroc, clusters
from tests.jointspace.drawn import close, normal
from tests.jointspace.test_stacking import sane


def near_the_boundary(made: Clusters, space: StackedSpace, count: int) -> Marks:
    """What a person would say of the pictures nearest to the boundary."""
    rows = (space.outlier_score(made.pool) - space.threshold()).abs().argsort()[:count]
    nearest = torch.cdist(made.pool[rows], made.labelled).argmin(1)
    return Marks(rows, made.labels[nearest].where(~made.outlier[rows], -1))


@pytest.mark.parametrize("count", [20, 60])
def test_marks_help_the_pictures_beside_them(count: int) -> None:
    before: list[float] = []
    after: list[float] = []
    sides = []
    for seed in range(4):
        made = clusters(4, 10, 400, 0.4, seed, apart=3.0)
        space = fit_stacked_space(made.labelled, made.labels, made.pool)
        marks = near_the_boundary(made, space, count)
        told = fit_stacked_space(made.labelled, made.labels, made.pool, marks=marks)
        sane(told, made.pool)
        others = torch.ones(400, dtype=torch.bool)
        others[marks.rows] = False
        for fitted, found in ((space, before), (told, after)):
            score = fitted.outlier_score(made.pool)
            found.append(auroc(score[others], made.outlier[others]))
        aside = told.outlier_score(made.pool[marks.rows]) > told.threshold()
        sides.append(float((aside == marks.outlying).float().mean()))
    assert sum(after) / 4 > sum(before) / 4
    assert sum(sides) / 4 > 0.9


def test_known_outliers_alone_help_too() -> None:
    made = clusters(4, 10, 400, 0.4, seed=1, apart=3.0)
    space = fit_stacked_space(made.labelled, made.labels, made.pool)
    score = space.outlier_score(made.pool)
    rows = torch.argsort(score.where(made.outlier, torch.inf))[:30]  # taken for known, and are not
    told = fit_stacked_space(
        made.labelled, made.labels, made.pool, marks=Marks(rows, torch.full((30,), -1))
    )
    others = torch.ones(400, dtype=torch.bool)
    others[rows] = False
    new = told.outlier_score(made.pool)
    assert auroc(new[others], made.outlier[others]) > auroc(score[others], made.outlier[others])
    assert (new[rows] > told.threshold()).sum() > (score[rows] > space.threshold()).sum()


def test_no_marks_change_nothing() -> None:
    made = clusters(3, 8, 200, 0.3, seed=0)
    one = fit_stacked_space(made.labelled, made.labels, made.pool)
    other = fit_stacked_space(made.labelled, made.labels, made.pool, marks=Marks.none())
    for name, tensor in to_tensors(one).items():
        assert torch.equal(tensor, to_tensors(other)[name]), name
    assert one.pull is None


@pytest.mark.parametrize("count", [1, 2, 5, 100, 118])
@pytest.mark.parametrize("which", ["known", "outliers", "both"])
@pytest.mark.parametrize("per_class", [1, 6])
def test_any_number_of_marks(count: int, which: str, per_class: int) -> None:
    made = clusters(3, per_class, 120, 0.5, seed=2, size=8)
    allowed = {"known": ~made.outlier, "outliers": made.outlier, "both": made.outlier | True}[which]
    rows = allowed.nonzero().squeeze(1)[:count]
    labels = torch.where(made.outlier[rows], -1, torch.arange(len(rows)) % 3)
    told = fit_stacked_space(made.labelled, made.labels, made.pool, marks=Marks(rows, labels))
    sane(told, made.pool)


def test_a_space_with_marks_is_kept() -> None:
    made = clusters(4, 10, 300, 0.4, seed=0, apart=3.0)
    space = fit_stacked_space(made.labelled, made.labels, made.pool)
    marks = near_the_boundary(made, space, 40)
    told = fit_stacked_space(made.labelled, made.labels, made.pool, marks=marks)
    assert told.pull is not None
    again = from_tensors(StackedSpace, to_tensors(told))
    assert torch.equal(again.outlier_score(made.pool), told.outlier_score(made.pool))


def slow_pull(features: Tensor, scores: Tensor, outlying: Tensor, limit: float) -> Tensor | None:
    """f at the marks themselves, by leaving out one after the other and solving anew."""
    points = place(features, False)
    spread = float((points - points.mean(0)).square().sum(1).mean())
    side = [1.0 if one else -1.0 for one in outlying.tolist()]
    missing = torch.tensor(
        [
            s * max(0.0, MARGIN - s * (float(score) - limit))
            for s, score in zip(side, scores, strict=True)
        ]
    )

    def loss(moved: Tensor) -> float:
        beyond = torch.tensor(side) * (scores + moved - limit)
        return float((1 + (-beyond).exp()).log().mean())

    best, found = loss(torch.zeros(len(points))), None
    for part in REACHES:
        kernel = gaussian(points, points, part * spread)
        for ridge in RIDGES:
            left_out = []
            for one in range(len(points)):
                rest = torch.arange(len(points)) != one
                system = kernel[rest][:, rest] + ridge * torch.eye(len(points) - 1)
                solved = torch.linalg.solve(system, missing[rest])
                left_out.append(kernel[one][rest] @ solved)
            if loss(torch.stack(left_out)) < best - 1e-7:
                best = loss(torch.stack(left_out))
                system = kernel + ridge * torch.eye(len(points))
                found = kernel @ torch.linalg.solve(system, missing)
    return found


@pytest.mark.parametrize("seed", range(4))
def test_the_pull_is_what_leaving_one_out_says(seed: int) -> None:
    centre = torch.where(torch.arange(14)[:, None] < 7, 2.0, -2.0)
    features = centre + normal(14, 5, seed=seed).float()
    outlying = torch.arange(14) < 7
    scores = normal(14, seed=seed + 9).float()
    pull = fit_pull(features, scores, outlying, 0.2, features)
    expected = slow_pull(features, scores, outlying, 0.2)
    assert pull is not None
    assert expected is not None
    close(pull(features), expected, 1e-4)
    assert bool((pull(features)[:7] >= -1e-3).all())


def test_marks_that_do_not_help_each_other_pull_nothing() -> None:
    features, outlying = torch.eye(8), torch.arange(8) % 2 == 0
    scores = torch.where(outlying, 5.0, -5.0)  # all are far on their side
    assert fit_pull(features, scores, outlying, 0.0, features) is None
    few = module.FEWEST - 1
    assert fit_pull(features[:few], -scores[:few], outlying[:few], 0.0, features) is None


def test_marked_pictures_teach_the_classifier_and_are_not_measured_on() -> None:
    made = clusters(3, 8, 120, 0.0, seed=3, apart=4.0)
    wrong = (made.labels[:6] + 1) % 3  # whoever marks may err
    x, y = torch.cat([made.labelled, made.pool[:6]]), torch.cat([made.labels, wrong])
    known = torch.ones(120)
    plain = fit_kernel_head(made.labelled, made.labels, 3, made.pool, known)
    told = fit_kernel_head(x, y, 3, made.pool, known, marked=6)
    as_labels = fit_kernel_head(x, y, 3, made.pool, known)
    assert plain.held_out_accuracy is not None
    assert told.held_out_accuracy is not None
    assert as_labels.held_out_accuracy is not None
    assert told.held_out_accuracy > as_labels.held_out_accuracy
    assert not torch.equal(told(made.pool), plain(made.pool))
    far = 50 * torch.nn.functional.normalize(made.labelled[:1], dim=1) * torch.tensor([[-1.0]])
    taught = fit_kernel_head(
        torch.cat([made.labelled, far]),
        torch.cat([made.labels, torch.tensor([2])]),
        3,
        made.pool,
        known,
        marked=1,
    )
    assert int(taught(far).argmax()) == 2
