"""`RUN/report.html`: how a run learned, what its joint space looks like, and what it mistakes."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from markupsafe import Markup
from PIL import Image
from torch import Tensor

from ossl.config import FolderData, with_data_root
from ossl.data.sample import Sample, load_sample
from ossl.data.store import Pictures
from ossl.data.task import Judged, load_judged
from ossl.errors import InputError
from ossl.evaluate import judge
from ossl.files import write_text
from ossl.fit import LoadedRun, judged_pool, load_run
from ossl.html import data_uri, page
from ossl.methods.openprompt import OpenPrompt
from ossl.models.prompt import VisualPrompt
from ossl.progress import Progress
from ossl.report import svg
from ossl.report.plane import plane_of
from ossl.report.words import confusion, figures, mistakes
from ossl.score import BATCH, predict_pictures

PAGE_FILE = "report.html"
TEMPLATE = "report/page/run.html.jinja"
STYLES = ("sort/page/page.css", "report/page/run.css")
SCRIPTS = ("sort/page/theme.js", "report/page/run.js")
NAMED = 30  # classes; a matrix of more is drawn as shades
NO_LOSS = ("rate", "steps_per_second", "step", "seconds", "epoch", "in_a_row")


def write_run_report(
    run: Path,
    accelerator: Accelerator,
    progress: Progress,
    truth: Path | None = None,
    data_root: Path | None = None,
) -> tuple[Path, list[str]]:
    """Where the page was written, and what it had to go without, in plain words."""
    loaded = load_run(run, accelerator)
    notes: list[str] = []
    metrics = dict(loaded.folder.read_json("metrics.json") or {})
    root = str(data_root.absolute()) if data_root else None
    config = with_data_root(loaded.config, root) if root else loaded.config
    judged: Judged | None = None
    sample: Sample | None = None
    try:
        judged = _judged(loaded, config, truth, progress)
        known = None
        if judged is not None and isinstance(config.data, FolderData):
            known = dict(zip(judged.pictures.names, judged.truth.tolist(), strict=True))
        drawn = loaded.folder.read_split()
        sample = load_sample(config.data, loaded.method.image_size, drawn, known, progress)
    except InputError as problem:
        if truth is not None:  # then the pictures are what was asked for
            raise
        notes.append(f"without the pictures there is no plane and no matrix: {problem}")
    values: dict[str, Any] = {
        "name": run.name or str(run),
        "run": str(run),
        "config": config,
        "method": loaded.method.info,
        "classes": loaded.classes,
        "notes": notes,
        **_journal(run),
        **_prompts(loaded, sample),
        **_plane(loaded, sample, progress),
        **_mistakes(loaded, judged, metrics, progress),
    }
    values["figures"] = figures(metrics) if metrics else []
    values["data"] = metrics.get("data", "")
    path = run / PAGE_FILE
    write_text(path, page(TEMPLATE, STYLES, SCRIPTS, values))
    return path, notes


def _judged(
    loaded: LoadedRun, config: Any, truth: Path | None, progress: Progress
) -> Judged | None:
    """The pictures whose truth is known, or None."""
    size, drawn = loaded.method.image_size, loaded.folder.read_split()
    if truth is not None:
        return judged_pool(config.data, size, loaded.classes, truth, progress)[0]
    if isinstance(config.data, FolderData) or drawn is None:
        return None
    return load_judged(config.data, size, drawn, progress)[0][0]


# --- how it learned -----------------------------------------------------------------------------


def _journal(run: Path) -> dict[str, Any]:
    """A chart for every loss by step and for every figure by epoch, and what each stage began with.

    A line that is not whole, as the last one after a crash, is left out.
    """
    steps: dict[str, tuple[list[float], list[float]]] = {}
    epochs: dict[str, tuple[list[float], list[float]]] = {}
    begins: list[tuple[str, list[tuple[str, str]]]] = []
    path = run / "journal.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        stage, phase = entry.get("stage", ""), entry.get("phase", "")
        values = {
            name: float(value)
            for name, value in entry.items()
            if isinstance(value, int | float) and name not in NO_LOSS
        }
        if entry.get("event") == "begin" and values:
            shown = [(name.replace("_", " "), svg.short(value)) for name, value in values.items()]
            begins.append((stage, shown))
        elif entry.get("event") == "step":
            for name, value in values.items():
                _add(steps, _title(name, stage, phase), entry["step"], value)
        elif entry.get("event") == "epoch":
            for name, value in values.items():
                _add(epochs, _title(name, stage, ""), entry["epoch"], value)
    charts = [_chart(name, xs, ys, "step") for name, (xs, ys) in steps.items()]
    by_epoch = [_chart(name, xs, ys, "epoch") for name, (xs, ys) in epochs.items() if len(xs) > 1]
    return {"charts": charts, "by_epoch": by_epoch, "begins": begins}


def _add(kept: dict[str, tuple[list[float], list[float]]], name: str, x: float, y: float) -> None:
    xs, ys = kept.setdefault(name, ([], []))
    xs.append(x)
    ys.append(y)


def _title(name: str, stage: str, phase: str) -> str:
    where = {"labelled": "from labels", "pool": "from the pool"}.get(stage, stage)
    if phase == "outlier_prompt":
        where = "outlier prompt"
    plain = "AUROC" if name == "auroc" else name.replace("_", " ")
    return f"{plain} · {where}"


def _chart(name: str, xs: list[float], ys: list[float], x_name: str) -> tuple[str, str, Markup]:
    said = f"{name}: from {svg.short(ys[0])} to {svg.short(ys[-1])} over {len(xs)} {x_name}s"
    return name, svg.short(ys[-1]), svg.line_chart(xs, ys, said, x_name)


# --- the prompts --------------------------------------------------------------------------------


def _prompts(loaded: LoadedRun, sample: Sample | None) -> dict[str, Any]:
    """The prompts as pictures, and a picture with the prompt on it; none without a prompt."""
    method = loaded.method
    if not isinstance(method, OpenPrompt) or not method.prompt.values.numel():
        return {"prompts": []}
    named: list[tuple[str, str, VisualPrompt]] = [
        ("Prompt v", "the student's, which learned", method.prompt)
    ]
    taught = method.teacher["prompt"]
    if isinstance(taught, VisualPrompt):
        named.append(("Teacher's prompt", "its moving average, which predicts", taught))
    if method.outlier_prompt is not None:
        named.append(("Outlier prompt v̄", "learned from what was put aside", method.outlier_prompt))
    shown = []
    for title, words, prompt in named:
        image = prompt.as_image().detach().cpu()
        most = float(image.abs().max()) or 1.0
        picture = (127.5 + 127.5 * image / most).round().clamp(0, 255).to(torch.uint8)
        words = f"{words}; grey is zero, the brightest is {most:.2g}"
        shown.append((title, words, _png(picture)))
    if sample is not None and len(sample.labelled):
        picture = sample.labelled.take([0])
        device = loaded.accelerator.device
        encoder = method.encoder
        with torch.inference_mode():
            seen = method.prompt(encoder.normalise(picture.to(device)))[0]
            plain = seen * encoder.std.view(-1, 1, 1) + encoder.mean.view(-1, 1, 1)
        pixels = (255 * plain.float().cpu()).round().clamp(0, 255).to(torch.uint8)
        shown.append(("A picture", "as it is", _png(picture[0])))
        shown.append(("The same with v", "as the encoder sees it", _png(pixels)))
    return {"prompts": shown}


def _png(pixels: Tensor) -> str:
    buffer = io.BytesIO()
    Image.fromarray(pixels.permute(1, 2, 0).contiguous().numpy()).save(buffer, "PNG")
    return data_uri("image/png", buffer.getvalue())


# --- the plane, and the mistakes ----------------------------------------------------------------


def _plane(loaded: LoadedRun, sample: Sample | None, progress: Progress) -> dict[str, Any]:
    method = loaded.method
    if sample is None or not isinstance(method, OpenPrompt):
        return {"plane": None}
    task = progress.task("drawing the joint space", len(sample.labelled) + len(sample.pool))

    def embedded(pictures: Pictures) -> Tensor:
        parts = []
        for low in range(0, len(pictures), BATCH):
            rows = list(range(low, min(low + BATCH, len(pictures))))
            parts.append(method.embed(pictures.take(rows).to(loaded.accelerator.device)))
            task.advance(len(rows))
        return torch.cat(parts)

    labelled, pool = embedded(sample.labelled), embedded(sample.pool)
    task.finish()
    plane = plane_of(method, labelled, pool)
    if plane is None:
        return {"plane": None}
    with torch.inference_mode():
        aside = method.detector.detect(pool).cpu().numpy()
    counts = f"{int((~aside).sum()):,} kept and {int(aside.sum()):,} put aside"
    said = f"{len(labelled):,} labelled pictures and {len(pool):,} of the pool, {counts}"
    drawing = {"svg": svg.scatter(plane, aside, said), "words": plane.words, "said": said}
    return {"plane": drawing}


def _mistakes(
    loaded: LoadedRun, judged: Judged | None, metrics: dict[str, Any], progress: Progress
) -> dict[str, Any]:
    """The matrix, the scores by truth and the commonest mistakes; also puts figures in `metrics`.

    A run on folders has no figures of its own until a person says what its pool is.
    """
    if judged is None:
        return {"matrix": None}
    method, classes = loaded.method, loaded.classes
    task = progress.task(f"judging on {judged.name}", len(judged.pictures))
    said = predict_pictures(method, judged.pictures, loaded.accelerator.device, task.advance)
    task.finish()
    label, score = said.logits.argmax(dim=1).numpy(), said.outlier_score.numpy()
    aside = ~(score <= np.float32(method.threshold))
    found = judge(judged.truth, label, score, method.threshold)
    for name in ("auroc", "known_accuracy", "open_accuracy", "fpr95", "aupr"):
        metrics[name] = getattr(found, name)
    metrics["outlier_share_true"] = judged.pool_share
    counts = confusion(judged.truth, label, aside, len(classes))
    names = [*classes, "outlier"]
    right = int(np.trace(counts))
    about = f"{right:,} of {len(label):,} pictures of {judged.name} are judged rightly"
    drawn = None
    if len(classes) > NAMED:
        drawn = svg.heat(counts, f"Confusion matrix of {len(classes)} classes and the outliers")
    rows = [
        (name, [(int(count), _shade(count, row.sum())) for count in row])
        for name, row in zip(names, counts, strict=True)
        if row.sum()
    ]
    known, outlier = score[judged.truth >= 0], score[judged.truth < 0]
    scores = svg.histogram(
        known,
        outlier,
        method.threshold,
        f"Outlier scores of {len(known):,} known and {len(outlier):,} outlying pictures",
    )
    return {
        "matrix": {
            "about": about,
            "names": [*classes, "put aside"],
            "rows": rows,
            "drawn": drawn,
            "mistakes": mistakes(counts, classes),
            "scores": scores,
        }
    }


def _shade(count: int, total: int) -> int:
    """A step from 0 (none) to 6 (all) for a cell of the matrix."""
    return 0 if not count else 1 + min(5, int(5 * count / max(int(total), 1)))
