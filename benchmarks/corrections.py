"""What corrections are worth: figures on the pictures that were not corrected, before and after.

A person's marks are played by the truth, on the pictures nearest to the boundary ("boundary", where
the page sends them) or on any ("random"). Figures are in percent: AUROC, accuracy on known classes,
pictures that got their class or were rightly put aside, and the estimated share of outliers.

    python benchmarks/corrections.py photos --labelled DIR --pool DIR --truth truth.csv
    python benchmarks/corrections.py cifar10-25 --data-root DIR --pool-size 2000
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ossl.config import BackboneConfig, DataConfig, FolderData, ProtocolData, RunConfig
from ossl.data.store import Pictures, SelectedPictures
from ossl.data.task import load_task
from ossl.data.truth import read_truth
from ossl.evaluate import auroc
from ossl.jointspace.marks import Marks
from ossl.methods import create_encoder, create_method
from ossl.methods.openprompt import OpenPrompt
from ossl.models.backbone import Backbone
from ossl.models.frozen import freeze
from ossl.presets import everyday_config
from ossl.progress import Progress

COUNTS = (20, 50, 100)


class Features:
    """A scan over features that were taken once."""

    def __init__(self, labelled: Tensor, labels: Tensor, pool: Tensor) -> None:
        self.parts = {"labelled": labelled, "pool": pool}
        self.labels = labels

    def __call__(self, which: str, _: object) -> Tensor:
        """The features of all pictures of one side."""
        return self.parts[which]


@torch.inference_mode()
def encoded(encoder: Backbone, pictures: Pictures) -> Tensor:
    """The features of all pictures."""
    parts: list[Tensor] = []
    for low in range(0, len(pictures), 256):
        some = pictures.take(list(range(low, min(low + 256, len(pictures)))))
        parts.append(encoder(encoder.normalise(some)))
    return torch.cat(parts).clone()


def figures(method: OpenPrompt, features: Tensor, truth: np.ndarray, asked: np.ndarray) -> str:
    """A run's figures on some pictures."""
    score = method.detector.score(features).numpy()
    label = method.logits(features).argmax(1).numpy()
    said = np.where(score > method.threshold, -1, label)
    known = asked & (truth >= 0)
    return (
        f"{100 * (auroc(truth[asked], score[asked]) or 0):6.2f} "
        f"{100 * (label == truth)[known].mean():6.2f} {100 * (said == truth)[asked].mean():6.2f}"
    )


def fitted(
    encoder: Backbone,
    config: RunConfig,
    labelled: Tensor,
    labels: Tensor,
    pool: Tensor,
    classes: int,
    marks: Marks | None,
) -> OpenPrompt:
    """The default recipe, fitted on features."""
    method = create_method(config, encoder, classes, torch.float32)
    assert isinstance(method, OpenPrompt)
    if marks is not None:
        method.heed(marks)
        taken = ~marks.outlying
        labelled = torch.cat([labelled, pool[marks.rows[taken]]])
        labels = torch.cat([labels, marks.labels[taken]])
    method.enter(method.stages[1])
    method.begin(method.stages[1], Features(labelled, labels, pool))  # type: ignore[arg-type]
    return method


def main() -> None:
    """Print a line for every seed, number of marks and way to choose them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("case")
    parser.add_argument("--labelled")
    parser.add_argument("--pool")
    parser.add_argument("--truth", type=Path)
    parser.add_argument("--data-root")
    parser.add_argument("--pool-size", type=int, default=0)
    parser.add_argument("--image-size", type=int)
    parser.add_argument("--seeds", default="0,1,2")
    given = parser.parse_args()
    data: DataConfig = ProtocolData(split=given.case, data_root=given.data_root)
    if given.labelled:
        data = FolderData(labelled=given.labelled, unlabelled=given.pool)
    print(
        "case seed choice marks outliers | before: AUROC known right share | after: the same",
        end="",
    )
    print(" | as marked | test before | test after")
    for seed in map(int, given.seeds.split(",")):
        config = replace(everyday_config(data), seed=seed)
        if given.image_size:
            config = replace(config, backbone=BackboneConfig(image_size=given.image_size))
        encoder = create_encoder(config)
        task = load_task(data, encoder.image_size, seed, Progress(quiet=True))
        frozen = freeze(encoder)
        truth = (
            read_truth(given.truth, list(task.pool.names), task.classes)
            if given.truth
            else task.split.pool_truth  # type: ignore[union-attr]
        )
        test = None
        if task.judged:
            test = (encoded(frozen, task.judged[0].pictures), task.judged[0].truth)
        draw = torch.Generator().manual_seed(seed)
        chosen = task.pool
        if given.pool_size:
            some = torch.randperm(len(chosen), generator=draw)[: given.pool_size]
            chosen, truth = SelectedPictures(chosen, some), truth[some.numpy()]
        labelled, pool = encoded(frozen, task.labelled), encoded(frozen, chosen)
        labels = torch.as_tensor(task.labelled.labels)

        known = (encoder, config, labelled, labels, pool, len(task.classes))
        before = fitted(*known, None)
        score = before.detector.score(pool)
        for choice in ("boundary", "random"):
            order = (score - before.threshold).abs().argsort()
            if choice == "random":
                order = torch.randperm(len(pool), generator=draw)
            for count in COUNTS:
                rows = order[:count]
                names = torch.as_tensor(truth)[rows]
                known_first = (names < 0).int().argsort(stable=True)
                marks = Marks(rows[known_first], names[known_first])
                after = fitted(*known, marks)
                asked = np.ones(len(truth), dtype=bool)
                asked[rows.numpy()] = False
                aside = after.detector.score(pool[rows]) > after.threshold
                said = torch.where(aside, -1, after.logits(pool[rows]).argmax(1))
                line = [
                    f"{given.case} {seed} {choice:8} {count:4} {int(marks.outlying.sum()):4}",
                    *(
                        f"{figures(m, pool, truth, asked)} {100 * (m.outlier_share or 0):5.1f}"
                        for m in (before, after)
                    ),
                    f"{int((said == names).sum()):3}",
                ]
                if test is not None:
                    everything = np.ones(len(test[1]), dtype=bool)
                    line += [figures(m, *test, everything) for m in (before, after)]
                print(" | ".join(line), flush=True)
        print(f"{given.case} {seed} true share {100 * (truth < 0).mean():.1f}", flush=True)


if __name__ == "__main__":
    main()
