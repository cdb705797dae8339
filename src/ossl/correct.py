"""Fitting a run again with what a person said of its pool, and what that changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ossl.config import FolderData, RunConfig
from ossl.data.corrections import Corrections, read_corrections
from ossl.data.folders import FlatFolder
from ossl.data.task import load_pictures
from ossl.data.truth import read_truth
from ossl.errors import InputError
from ossl.evaluate import auroc
from ossl.fit import LoadedRun
from ossl.progress import Progress
from ossl.rundir import RunFolder
from ossl.score import predict_pictures


def corrected_run(before: Path, file: Path, out: Path) -> tuple[RunConfig, Corrections]:
    """The settings of a run with corrections, those of the run before among them."""
    folder = RunFolder(before)
    config = folder.read_config()
    if not isinstance(config.data, FolderData):
        raise InputError(
            f"--from {before} is a benchmark's run, whose truth is known; "
            "corrections are for a run on folders."
        )
    folder.read_model()  # an unfinished run is refused before anything is done
    if out.resolve() == before.resolve():
        raise InputError(f"--out {out} is the run it begins from; name another folder.")
    said = read_corrections(file)
    if config.data.corrections is not None:
        said = said.over(read_corrections(Path(config.data.corrections)))
    if said.outliers and config.recipe.detector != "evidence":
        raise InputError(
            f"--corrections {file}: only the default recipe learns from known outliers, and "
            f"{before} has the {config.recipe_name} recipe; leave the outliers out of the file."
        )
    kept = str(RunFolder(out.absolute()).corrections_file)
    return replace(config, data=replace(config.data, corrections=kept)), said


@dataclass(frozen=True)
class Verdict:
    """What one run says of the pool, and of itself."""

    share: float | None
    label: NDArray[np.int64]
    aside: NDArray[np.bool_]
    held_out_accuracy: float | None  # on labelled pictures nobody picked
    score: NDArray[np.float32]


@dataclass(frozen=True)
class Changes:
    """Two runs' words on the same pool, and what a person said of some of it."""

    before: Verdict
    after: Verdict
    rows: NDArray[np.int64]  # of the marked pictures
    labels: NDArray[np.int64]  # as marked, -1 = outlier
    truth: NDArray[np.int64] | None  # of the whole pool, where it is known

    @property
    def put_aside(self) -> int:
        """Pictures that were known and are outliers now."""
        return int((~self.before.aside & self.after.aside).sum())

    @property
    def taken_back(self) -> int:
        """Pictures that were outliers and are known now."""
        return int((self.before.aside & ~self.after.aside).sum())

    @property
    def renamed(self) -> int:
        """Pictures that were known and are, under another class."""
        known = ~self.before.aside & ~self.after.aside
        return int((known & (self.before.label != self.after.label)).sum())

    def as_marked(self, verdict: Verdict) -> int:
        """How many marked pictures a run calls what the person does."""
        said = np.where(verdict.aside, -1, verdict.label)[self.rows]
        return int((said == self.labels).sum())

    def auroc(self, verdict: Verdict) -> float | None:
        """The AUROC on the pictures that were not marked; None without a truth."""
        if self.truth is None:
            return None
        others = np.ones(len(self.truth), dtype=bool)
        others[self.rows] = False
        return auroc(self.truth[others], verdict.score[others])

    def right(self, verdict: Verdict) -> float | None:
        """The part of the pictures not marked that got their class, or were rightly put aside."""
        if self.truth is None:
            return None
        others = np.ones(len(self.truth), dtype=bool)
        others[self.rows] = False
        said = np.where(verdict.aside, -1, verdict.label)
        return float((said == self.truth)[others].mean())


def changes(
    runs: Sequence[LoadedRun], said: Corrections, truth: Path | None, progress: Progress
) -> Changes:
    """What the second of two runs says otherwise of the pool."""
    before, after = runs
    assert isinstance(after.config.data, FolderData)
    source = FlatFolder(after.config.data.unlabelled)
    pool = load_pictures(source, after.method.image_size, "loading the pool", progress)
    left_out = {entry.path for entry in pool.rejected} | set(source.ignored)
    names = list(pool.names)
    verdicts = []
    for run, when in ((before, "before"), (after, "after")):
        task = progress.task(f"judging the pool {when}", len(pool))
        said_of = predict_pictures(run.method, pool, run.accelerator.device, task.advance)
        task.finish()
        score = said_of.outlier_score.numpy()
        verdicts.append(
            Verdict(
                run.method.outlier_share,
                said_of.logits.argmax(dim=1).numpy(),
                score > run.method.threshold,
                run.method.held_out_accuracy,
                score,
            )
        )
    marks = said.marks(names, after.classes, "")
    return Changes(
        verdicts[0],
        verdicts[1],
        marks.rows.numpy(),
        marks.labels.numpy(),
        None if truth is None else read_truth(truth, names, after.classes, left_out),
    )
