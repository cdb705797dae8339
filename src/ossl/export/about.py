"""What stands in the header of an exported run: all that its user needs beside its numbers."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.metadata import version
from pathlib import PurePath

from torch import Tensor

from ossl.config import FolderData, ProtocolData, RunConfig, to_json
from ossl.fit import LoadedRun
from ossl.models.backbone import Backbone

INPUT = "pictures"
OUTPUTS = ("probabilities", "outlier_score", "is_outlier")


def about(run: LoadedRun) -> dict[str, str]:
    """The header's entries by name; what is not text is JSON."""
    encoder = next(part for part in run.method.modules() if isinstance(part, Backbone))
    return {
        "made_by": f"ossl {version('ossl')}",
        "classes": json.dumps(run.classes, ensure_ascii=False),
        "image_size": str(run.method.image_size),
        "preparation": (
            "turn upright, crop the centre square, resize it to image_size x image_size "
            "(bicubic, antialiased), RGB; normalisation is inside"
        ),
        "normalisation": json.dumps({"mean": rounded(encoder.mean), "std": rounded(encoder.std)}),
        "threshold": repr(run.method.threshold),
        "scores": "a higher outlier score is more outlying; above threshold it is an outlier",
        "recipe": run.config.recipe_name,
        "method": run.config.method,
        "backbone": run.config.backbone.name,
    }


def rounded(values: Tensor) -> list[float]:
    """A tensor's numbers as they were written down, before float32."""
    return [round(value, 6) for value in values.tolist()]


def public_config(config: RunConfig) -> RunConfig:
    """`config` without the folders of the machine that it was fitted on, but for their names."""
    data = config.data
    if isinstance(data, FolderData):
        data = replace(data, labelled=_name(data.labelled), unlabelled=_name(data.unlabelled))
    elif isinstance(data, ProtocolData):
        data = replace(data, data_root=None)
    weights = config.backbone.weights
    backbone = replace(config.backbone, weights=_name(weights) if weights else None)
    return replace(config, data=data, backbone=backbone)


def public_config_text(config: RunConfig) -> str:
    """The text of `config.json` as it may be shown to others."""
    return to_json(public_config(config))


def _name(path: str) -> str:
    return PurePath(path).name
