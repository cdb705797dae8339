"""The card of a run on a hub, written from what the run knows of itself."""

from __future__ import annotations

from typing import Any

from ossl.fit import LoadedRun
from ossl.summary import percent

CLASSES_SHOWN = 40

CARD = """\
---
library_name: ossl
pipeline_tag: image-classification
tags:
- ossl
- open-set-recognition
- semi-supervised-learning
- out-of-distribution-detection
- image-classification
---

# {title}

Gives a picture one of {count} known classes, or puts it aside as an outlier: a picture of none of
them. Made by [ossl](https://pypi.org/project/ossl/), with the recipe *{recipe}* on the frozen or
trained encoder *{backbone}*, from a few labelled pictures per class and a pool of unlabelled ones.

Known classes: {classes}.

## Use

```python
from ossl import OpenPrompt

model = OpenPrompt.from_pretrained("{repo}")
table = model.predict("pictures/")   # a folder, a list of paths, or a uint8 array
table.outliers.to_pandas()
```

Pictures are turned upright, cropped to their centre square and resized to {size}×{size} pixels.
`label` is the most likely known class, also for an outlier; a **higher** outlier score is more
outlying, and above {threshold} a picture is called an outlier.

## How good it is

{figures}

## What to know before relying on it

- It has learnt what lies in **one** pool. Outliers unlike any of that pool are found less well.
- The boundary follows the estimated share of outliers in that pool; for other pictures, look at the
  scores and move it (`table.at(threshold)`).
- `jointspace.safetensors` holds features of labelled and pool pictures (no pictures). Who may not
  share what the pictures show should not share these either.
- The licence is for the owner to choose; that of the encoder's weights applies too.

The files are `config.json` (every setting), `model.safetensors`, `jointspace.safetensors` and
`metrics.json`. None of them is a pickle.
"""


def model_card(run: LoadedRun, metrics: dict[str, Any], repo: str) -> str:
    """The text of the repository's README.md; figures are in percent, unknown ones say so."""
    names = [_plain(name) for name in run.classes]
    classes = ", ".join(names[:CLASSES_SHOWN])
    if len(names) > CLASSES_SHOWN:
        classes += f", … ({len(names)} in all)"
    return CARD.format(
        title=_plain(repo.rpartition("/")[2] or "a run of ossl"),
        count=len(names),
        recipe=run.config.recipe_name,
        backbone=run.config.backbone.name,
        classes=classes,
        repo=repo,
        size=run.method.image_size,
        threshold=f"{run.method.threshold:.4g}",
        figures=_figures(metrics),
    )


def _figures(metrics: dict[str, Any]) -> str:
    share = metrics.get("outlier_share")
    interval = metrics.get("outlier_share_interval")
    pool = ""
    if share is not None:
        between = (
            f" (nine times of ten between {percent(interval[0])} and {percent(interval[1])})"
            if interval
            else ""
        )
        pool = f"Estimated share of outliers in its pool: {percent(share)}{between}."
    if metrics.get("auroc") is None:
        said = (
            "**Not measured.** The run was fitted on pictures whose truth nobody has given, so "
            "there is no accuracy and no AUROC to print."
        )
        return f"{said} {pool}".strip()
    rows = [
        ("AUROC of known against outliers", metrics.get("auroc")),
        ("Known pictures put aside where 95 % of outliers are", metrics.get("fpr95")),
        ("Accuracy on known classes", metrics.get("known_accuracy")),
        ("Accuracy with *outlier* as one more class", metrics.get("open_accuracy")),
        ("True share of outliers in the pool", metrics.get("outlier_share_true")),
    ]
    table = "\n".join(f"| {name} | {percent(value)} |" for name, value in rows)
    data = metrics.get("data")
    where = f"On {data}, seed {metrics.get('seed')}, one run." if data else "One run, one seed."
    return f"{where} {pool}\n\n| figure | value |\n|---|---|\n{table}"


def _plain(text: str) -> str:
    """Text that is no markup: a class may be called anything."""
    return "".join(f"\\{c}" if c in "\\`*_[]<>#|!" else c for c in " ".join(text.split()))
