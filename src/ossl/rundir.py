"""The folder of a run: what lies in it, and who may write there.

config.json              the whole RunConfig
split.json               which pictures were labelled, pool and test (benchmarks)
pictures.json            how many pictures the run learns from, and a hash of their names
model.safetensors        encoder, classifier, prompts and teacher; class names in its header
jointspace.safetensors   the space, the centres and λ
report.html              the page of `ossl report RUN`
metrics.json             what `ossl evaluate RUN --json` prints
rejected_files.csv       the labelled and pool files that could not be read, each with a reason
corrections.csv          what a person said of pool pictures (fits with --corrections)
journal.jsonl, tensorboard/, checkpoints/   written by the training loop
"""

from __future__ import annotations

import json
import math
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import safe_open
from torch import Tensor

from ossl.config import RunConfig, from_json, to_json
from ossl.data.protocols import Split
from ossl.errors import InputError
from ossl.files import check_writable, make_folder, read_tensors, write_tensors, write_text

_OWN = (
    "config.json",
    "split.json",
    "pictures.json",
    "model.safetensors",
    "jointspace.safetensors",
    "metrics.json",
    "journal.jsonl",
    "predictions.csv",
    "predictions.parquet",
    "report.html",
    "corrections.csv",
    "rejected_files.csv",
    "tensorboard",
    "checkpoints",
)


@dataclass(frozen=True)
class RunFolder:
    """The paths of a run, and reading and writing what they hold."""

    path: Path

    @property
    def config_file(self) -> Path:
        return self.path / "config.json"

    @property
    def corrections_file(self) -> Path:
        return self.path / "corrections.csv"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def check(self, *, resume: bool = False, overwrite: bool = False) -> None:
        """Refuse in one line what may not be written to; nothing is touched."""
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"--out {self.path} is a file; name a folder.")
        if resume:
            if not self.config_file.exists():
                raise InputError(
                    f"--resume: {self.path} holds no run; leave --resume away to start one."
                )
            return
        held = sorted(p.name for p in self.path.iterdir()) if self.path.exists() else []
        own = self._own()
        if own and not overwrite:
            raise InputError(
                f"--out {self.path} already holds a run; go on with it by --resume, replace it by "
                "--overwrite, or name another folder."
            )
        if held and not own:
            raise InputError(
                f"--out {self.path} holds other files ({held[0]}, …); name a new or empty folder."
            )
        check_writable(self.path)

    def clear(self) -> None:
        """Make the folder, without an earlier run in it; other files stay."""
        for name in self._own():
            place = self.path / name
            if place.is_dir() and not place.is_symlink():
                shutil.rmtree(place)
            else:
                place.unlink()
        make_folder(self.path)

    def _own(self) -> list[str]:
        return [name for name in _OWN if os.path.lexists(self.path / name)]

    def write_config(self, config: RunConfig) -> None:
        """Write `config.json`."""
        write_text(self.config_file, to_json(config))

    def read_config(self) -> RunConfig:
        """The run's configuration."""
        try:
            text = self.config_file.read_text(encoding="utf-8")
        except FileNotFoundError as error:
            raise InputError(
                f"{self.path} is not a run: it has no config.json; name a folder that "
                "`ossl fit --out` has made."
            ) from error
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"{self.config_file} cannot be read ({error}); mend it or fit the run again."
            ) from error
        return from_json(text, str(self.config_file))

    def write_split(self, text: str) -> None:
        """Write `split.json`."""
        write_text(self.path / "split.json", text + "\n")

    def read_split(self) -> Split | None:
        """The run's split, or None for a run on folders."""
        path = self.path / "split.json"
        if not path.exists():
            return None
        try:
            return Split.from_json(path.read_text(encoding="utf-8"))
        except (InputError, OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path} cannot be read ({error}); fit the run again.") from error

    def write_model(
        self, model: dict[str, Tensor], joint_space: dict[str, Tensor], classes: tuple[str, ...]
    ) -> None:
        """Write `model.safetensors` and `jointspace.safetensors`."""
        header = {"classes": json.dumps(classes)}  # one key: two come in any order
        write_tensors(self.path / "model.safetensors", model, header)
        write_tensors(self.path / "jointspace.safetensors", joint_space, {"format": "pt"})

    def read_model(self) -> tuple[dict[str, Tensor], dict[str, Tensor], tuple[str, ...]]:
        """The model's tensors, the joint space's, and the class names."""
        path = self.path / "model.safetensors"
        if self.config_file.exists() and not path.exists():
            raise InputError(
                f"{self.path} is not finished: it has no model yet; "
                f"go on with `ossl fit --resume --out {self.path}`."
            )
        model = read_tensors(path)
        with safe_open(path, "pt") as file:
            header = file.metadata() or {}
        if "classes" not in header:
            raise InputError(f"{path} does not name its classes; fit the run again.")
        classes = tuple(json.loads(header["classes"]))
        return model, read_tensors(self.path / "jointspace.safetensors"), classes

    def write_json(self, name: str, values: Any) -> None:
        """Write one of the run's JSON files."""
        write_text(self.path / name, json_text(values, indent=2) + "\n")

    def read_json(self, name: str) -> Any:
        """What one of the run's JSON files holds, or None when it is not there."""
        path = self.path / name
        if not path.exists():
            return None
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{path} is not JSON ({error}); fit the run again.") from error


def json_text(values: Any, indent: int | None = None) -> str:
    """The values as JSON; what is no finite number is null, as JSON knows no other."""
    return json.dumps(_finite(values), indent=indent, ensure_ascii=False, allow_nan=False)


def _finite(values: Any) -> Any:
    if isinstance(values, dict):
        return {name: _finite(value) for name, value in values.items()}
    return None if isinstance(values, float) and not math.isfinite(values) else values
