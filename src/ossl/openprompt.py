"""The Python face of what `ossl fit` and `ossl sort` do: the same code, without the words."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from ossl.compute import create_accelerator
from ossl.config import (
    ArrayData,
    Device,
    Precision,
    RunConfig,
    with_settings,
    with_value,
)
from ossl.data.given import given_pictures
from ossl.data.task import Task, given_task
from ossl.errors import InputError, unknown_name
from ossl.export.bundle import load_any, write_bundle
from ossl.fit import LoadedRun, load_run
from ossl.fit import fit as fit_run
from ossl.models.memory import FeatureMemory
from ossl.options import one_of
from ossl.presets import everyday_config, new_run, with_backbone, with_boundary
from ossl.progress import Progress
from ossl.results import ResultTable
from ossl.rundir import RunFolder
from ossl.sort.predictions import prediction_table

Place = str | PathLike[str]
Format = Literal["onnx", "safetensors"]
BESIDE = ("metrics.json", "split.json", "pictures.json", "journal.jsonl", "rejected_files.csv")


class OpenPrompt:
    """Learns the classes of a few labelled pictures, and what in a messy pool is of none of them.

    >>> model = OpenPrompt().fit("labelled/", "unlabelled/")   # labelled/cat/*.jpg, …
    >>> table = model.predict("unlabelled/")
    >>> table.outliers.to_pandas()

    Higher outlier scores are more outlying. The arguments are the options of `ossl fit`; `settings`
    are single settings of config.json such as {"recipe.circle_limit": 0.3}, and `quiet` leaves
    progress unsaid.
    """

    def __init__(
        self,
        recipe: str = "default",
        backbone: str | None = None,
        weights: Place | None = None,
        image_size: int | None = None,
        seed: int = 0,
        device: str = "auto",
        precision: str = "auto",
        outlier_share: float | None = None,
        max_false_rejects: float | None = None,
        cache: Place | None = None,
        settings: Mapping[str, Any] | None = None,
        quiet: bool = False,
    ) -> None:
        config = everyday_config(ArrayData(), one_of("recipe", recipe, Literal["default", "paper"]))  # type: ignore[arg-type]
        config = with_backbone(config, backbone, _path(weights), image_size)
        config = with_value(config, "seed", seed, "seed")
        config = with_boundary(config, outlier_share, max_false_rejects)
        config = with_settings(config, {k: _as_text(v) for k, v in (settings or {}).items()})
        config = with_value(config, "device", one_of("device", device, Device), "device")
        self.config: RunConfig = with_value(
            config, "precision", one_of("precision", precision, Precision), "precision"
        )
        self.cache = _path(cache)
        self.quiet = quiet
        self._run: LoadedRun | None = None
        self._metrics: dict[str, Any] = {}

    # --- learning -----------------------------------------------------------------------------

    def fit(
        self,
        labelled: Any,
        unlabelled: Any,
        pool: Any = None,
        *,
        out: Any = None,
        overwrite: bool = False,
    ) -> OpenPrompt:
        """This object, having learnt from two folders, or from pictures in memory.

        Folders: `fit("labelled/", "unlabelled/")`, one sub-folder per class in the first. In
        memory: `fit(pictures, labels, pool)`, uint8 arrays N×H×W×3, lists of Pillow's pictures, or
        lists of paths. `out` is a folder for the run, and `overwrite` replaces the one that is
        there; without a folder the run is kept until `save`.
        """
        where = Path(out) if out is not None else Path(tempfile.mkdtemp(prefix="ossl-")) / "run"
        if out is None:
            # The run goes with this object, unless `save` takes it.
            weakref.finalize(self, shutil.rmtree, where.parent, ignore_errors=True)
        with self._progress() as progress, self._memory(progress) as memory:
            if pool is None:
                _folders_given(labelled, unlabelled)
                data = new_run(Path(labelled), Path(unlabelled), None, None, None, None).data
                config, pictures = replace(self.config, data=data), None
            else:
                first = given_pictures(labelled, "the labelled pictures", unlabelled)
                second = given_pictures(pool, "the pool")
                config = replace(self.config, data=ArrayData())

                def pictures(size: int) -> Task:
                    return given_task(first, second, size, progress)

            metrics = fit_run(
                config, where, progress, overwrite=overwrite, memory=memory, pictures=pictures
            )
        self._take(load_run(where, create_accelerator(config.device)), metrics)
        return self

    # --- what was learnt ----------------------------------------------------------------------

    def predict(self, pictures: Any, threshold: float | None = None) -> ResultTable:
        """The table of a folder, a list of paths or of Pillow's pictures, or a uint8 array.

        Above `threshold` (by default the run's own) an outlier score makes an outlier.
        """
        run = self._fitted()
        limit = run.method.threshold if threshold is None else float(threshold)
        source = given_pictures(pictures, "the pictures")
        with self._progress() as progress, self._memory(progress) as memory:
            if memory is not None:
                run.method.remember(memory)
            said = run.score(source, progress)
        table = prediction_table(said.names, said.predictions, run.classes, limit)
        return ResultTable(table, run.method.threshold, run.classes, said.rejected).at(limit)

    def evaluate(
        self,
        truth: Place | None = None,
        *,
        data_root: Place | None = None,
        unseen: Sequence[str] = (),
    ) -> dict[str, Any]:
        """The figures that `ossl evaluate --json` prints; `truth` is a CSV file for a folder."""
        with self._progress() as progress:
            return self._fitted().evaluate(progress, _path(data_root), _path(truth), unseen)

    @property
    def classes_(self) -> tuple[str, ...]:
        """The known classes' names, in the order of their numbers."""
        return self._fitted().classes

    @property
    def threshold_(self) -> float:
        """The outlier score above which a picture is put aside."""
        return self._fitted().method.threshold

    @property
    def outlier_share_(self) -> float | None:
        """The estimated share of outliers in the pool, a fraction."""
        return self._fitted().method.outlier_share

    @property
    def metrics_(self) -> dict[str, Any]:
        """What is in the run's metrics.json."""
        self._fitted()
        return self._metrics

    # --- taking it along ----------------------------------------------------------------------

    def save(self, run: Place, *, overwrite: bool = False) -> Path:
        """The folder, written as a run that `OpenPrompt.load` and the command line take."""
        fitted, folder = self._fitted(), RunFolder(Path(run))
        source = fitted.folder.path
        if source.resolve() == folder.path.resolve():
            return folder.path
        folder.check(overwrite=overwrite)
        folder.clear()
        for name in BESIDE:
            if (source / name).is_file():
                shutil.copyfile(source / name, folder.path / name)
        folder.write_config(fitted.config)
        folder.write_model(fitted.method.state_dict(), fitted.method.joint_space(), fitted.classes)
        return folder.path

    @classmethod
    def load(
        cls,
        run: Place,
        *,
        device: str | None = None,
        cache: Place | None = None,
        quiet: bool = False,
    ) -> OpenPrompt:
        """The model in a run's folder, or in a file of `export(…, format="safetensors")`."""
        where = None if device is None else one_of("device", device, Device)
        loaded = load_any(Path(run), where)  # type: ignore[arg-type]
        model = cls(cache=cache, quiet=quiet)
        model.config = loaded.config
        model._take(loaded, loaded.folder.read_json("metrics.json") or {})
        return model

    @classmethod
    def from_pretrained(
        cls, repo: Place, *, revision: str | None = None, device: str | None = None
    ) -> OpenPrompt:
        """The model in a repository of the Hugging Face hub, or in a folder that holds one."""
        from ossl.export.hub import fetch

        return cls.load(fetch(str(repo), revision), device=device)

    def export(self, path: Place, format: str | None = None) -> Path:
        """The file, written as ONNX or safetensors; without a format by the file's ending."""
        run, place = self._fitted(), Path(path)
        chosen = format or place.suffix.removeprefix(".")
        if chosen == "safetensors":
            write_bundle(run, place)
        elif chosen == "onnx":
            from ossl.export.onnx import write_onnx

            write_onnx(run, place)
        else:
            raise unknown_name("format", chosen, ("onnx", "safetensors"))
        return place

    def push(self, repo: str, *, private: bool = False, message: str | None = None) -> str:
        """The address of the repository on the hub that the model was uploaded to."""
        from ossl.export.hub import push

        return push(self._fitted(), repo, private=private, message=message)

    # --- inside -------------------------------------------------------------------------------

    def _take(self, run: LoadedRun, metrics: dict[str, Any]) -> None:
        self._run, self._metrics = run, metrics

    def _fitted(self) -> LoadedRun:
        if self._run is None:
            raise InputError("this OpenPrompt has learnt nothing yet: call fit or load first.")
        return self._run

    def _progress(self) -> Progress:
        return Progress(quiet=self.quiet or int(os.environ.get("RANK", "0")) > 0)

    def _memory(self, progress: Progress) -> Any:
        return nullcontext() if self.cache is None else FeatureMemory(self.cache, progress.say)

    def __repr__(self) -> str:
        what = f"{self.config.recipe_name} recipe on {self.config.backbone.name}"
        if self._run is None:
            return f"OpenPrompt({what}, not fitted)"
        share = self.outlier_share_
        junk = "" if share is None else f", about {100 * share:.0f} % outliers in its pool"
        return f"OpenPrompt({what}, {len(self.classes_)} classes{junk})"


def _path(place: Place | None) -> Path | None:
    return None if place is None else Path(place).expanduser()


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _folders_given(labelled: Any, unlabelled: Any) -> None:
    if not all(isinstance(given, str | PathLike) for given in (labelled, unlabelled)):
        raise InputError(
            "fit takes two folders, fit('labelled/', 'unlabelled/'), or pictures in memory, "
            "fit(pictures, labels, pool)."
        )
