"""What a command says at its end, in plain words; shares and figures in percent."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ossl.config import DataConfig
    from ossl.correct import Changes
    from ossl.fit import Sorted
    from ossl.sort.carry import Carried, How
    from ossl.sort.undo import Undone

ROUGH = 0.15  # of the pool; an interval wider than this is spoken of
POOR = 0.7  # of held-out pictures


def percent(value: float | None) -> str:
    """A fraction in percent, or a dash."""
    return "-" if value is None else f"{100 * value:.1f} %"


def encoder_learnt(metrics: dict[str, Any]) -> bool:
    """Whether some stage trained more than what is counted, which is the encoder."""
    stages = (metrics.get("trainable_parameters_by_stage") or {}).values()
    return bool(max(stages, default=0) > metrics["trainable_parameters"])


def metrics_summary(metrics: dict[str, Any]) -> str:
    """The figures of a run, a line each; what is unknown is left away."""
    trained, total = metrics["trainable_parameters"], metrics["total_parameters"]
    lines = []
    if metrics["auroc"] is not None:
        floor = ", ".join(
            f"{name.replace('_', '-')} {percent(value)}"
            for name, value in metrics["simple_scores"].items()
        )
        lines += [
            f"AUROC known against outliers   {percent(metrics['auroc'])}   "
            f"(for comparison: {floor})",
            f"false alarms at 95 % caught    {percent(metrics['fpr95'])}",
        ]
    for name, value in (metrics.get("posthoc") or {}).items():
        lines.append(f"{f'AUROC of {name}'.ljust(31)}{percent(value)}   (post-hoc)")
    if metrics["known_accuracy"] is not None:
        lines.append(f"accuracy on known classes      {percent(metrics['known_accuracy'])}")
        lines.append(f"accuracy with outliers a class {percent(metrics['open_accuracy'])}")
    for name, value in (metrics["unseen"] or {}).items():
        lines.append(f"AUROC against {name.ljust(17)}{percent(value)}")
    share = f"outliers in the pool           {percent(metrics['outlier_share'])} estimated"
    interval = metrics.get("outlier_share_interval")
    if interval is not None:
        share += f" ({100 * interval[0]:.0f} to {100 * interval[1]:.0f} %)"
    if metrics["outlier_share_true"] is not None:
        share += f", {percent(metrics['outlier_share_true'])} true"
    # OpenPrompt's count leaves the encoder out, also where its first stage trains it
    learnt = "beside the encoder" if metrics.get("recipe") else "by gradients"
    lines += [
        share,
        f"boundary                       outlier score above {metrics['threshold']:.4g}",
        f"{f'learnt {learnt}'.ljust(31)}{trained:,} of {total:,} parameters "
        f"({100 * trained / total:.2f} %)"
        + ("; the encoder learnt too" if encoder_learnt(metrics) else ""),
    ]
    if metrics.get("remark"):
        lines.append(metrics["remark"])
    return "\n".join(lines)


def fit_summary(
    metrics: dict[str, Any],
    out: Path,
    data: DataConfig | None = None,
    pictures: dict[str, Any] | None = None,
) -> str:
    """What a fit found, and what to do next."""
    lines = [metrics_summary(metrics), ""]
    folders = data is not None and data.kind == "folders"
    if folders and pictures is not None:
        lines += [*in_plain_words(metrics, int(pictures["pool"])), ""]
    lines.append(f"fitted in {metrics['seconds']:,.0f} s; the run is in {out}")
    images = shlex.quote(data.unlabelled) if data is not None and data.kind == "folders" else "DIR"
    run = shlex.quote(str(out))
    lines.append(f"next: ossl sort {run} --images {images} --out sorted/")
    if folders:
        lines.append(
            "      add --link to see the pictures in folders by class, or --move to put them there"
        )
    return "\n".join(lines)


def in_plain_words(metrics: dict[str, Any], pool: int) -> list[str]:
    """The same for somebody who knows none of the words."""
    lines = []
    share, interval = metrics["outlier_share"], metrics.get("outlier_share_interval")
    if share is not None:
        lines.append(
            f"About {share * pool:,.0f} of the {pool:,} pictures in the pool seem to show none of "
            "your classes."
        )
    if interval is not None and interval[1] - interval[0] > ROUGH:
        lines.append(
            f"How many is uncertain, {interval[0] * pool:,.0f} to {interval[1] * pool:,.0f}: "
            "more labelled pictures, or a few corrections, would tell better."
        )
    accuracy = metrics.get("held_out_accuracy")
    if accuracy is not None:
        lines.append(
            f"Of labelled pictures it was not shown, it named {percent(accuracy)} rightly."
        )
        if accuracy < POOR:
            lines.append(
                "That is not good: label more pictures, or look whether classes are mixed up."
            )
    return lines


def changes_summary(changes: Changes) -> str:
    """What corrections changed, before and after."""
    before, after = changes.before, changes.after
    marked = len(changes.rows)
    rows = [("outliers in the pool", before.share, after.share)]
    if before.held_out_accuracy is not None or after.held_out_accuracy is not None:
        rows.append(
            ("right on labelled, held out", before.held_out_accuracy, after.held_out_accuracy)
        )
    if changes.truth is not None:
        rows.append(("AUROC, pictures not marked", changes.auroc(before), changes.auroc(after)))
        rows.append(("right, pictures not marked", changes.right(before), changes.right(after)))
    lines = [
        "",
        f"what your {marked:,} corrections did{' ' * max(1, 11 - len(str(marked)))}before    after",
        *(f"  {name.ljust(33)}{percent(a):>8} {percent(b):>8}" for name, a, b in rows),
        f"  {'called as you did, of ' + format(marked, ','):33}"
        f"{changes.as_marked(before):>8,} {changes.as_marked(after):>8,}",
        f"{changes.put_aside:,} pictures are put aside now that were not, {changes.taken_back:,} "
        f"are taken back, {changes.renamed:,} have another class",
    ]
    return "\n".join(lines)


def demo_summary(metrics: dict[str, Any], out: Path) -> str:
    """What the demo found, and where it lies."""
    return (
        f"{metrics_summary(metrics)}\n\ndone in {metrics['seconds']:,.0f} s\n"
        f"the run:                 {out}\n"
        f"every picture's verdict: {out / 'predictions.csv'}\n"
        f"to look at them:         open {out / 'sorted' / 'report.html'}"
    )


def sort_summary(found: Sorted, out: Path) -> str:
    """What sorting found, and where it lies."""
    lines = [
        f"{found.pictures:,} pictures, {found.aside:,} put aside as outliers "
        f"({percent(found.aside / max(found.pictures, 1))}); see {out / 'predictions.csv'}"
    ]
    lines.append(f"to look at them and move the boundary: open {out / 'report.html'}")
    if found.rejected:
        lines.append(f"{found.rejected:,} files left out; see {out / 'rejected_files.csv'}")
    return "\n".join(lines)


def arranged_summary(
    how: How, numbers: dict[str, int], carried: Carried, renamed: list[tuple[str, str]], out: Path
) -> str:
    """Where the pictures lie now, and how to go back."""
    done = {"copy": "copied", "link": "linked", "move": "moved"}[how]
    lines = [f"{done} {carried.done:,} pictures to {out}:"]
    notes = {
        "known": "in a folder for each class",
        "outliers": "put aside",
        "unsure": "near the boundary, or of no likely class: look at these first",
    }
    lines += [f"  {name.ljust(9)} {count:7,}  {notes[name]}" for name, count in numbers.items()]
    lines += carried.notes
    if carried.gone:
        lines.append(
            f"{len(carried.gone):,} files were gone before they could be {done}, "
            f"the first is {carried.gone[0]}"
        )
    lines += [f"the folder of {name!r} is called {folder!r}" for name, folder in renamed]
    if how == "move":
        lines.append(f"to bring all of them back: ossl sort --undo {out}")
    return "\n".join(lines)


def undo_summary(undone: Undone) -> str:
    """What came back."""
    total = undone.back + undone.there + len(undone.left)
    if not undone.back and not undone.left:
        return f"all {total:,} files are at their old places; there was nothing to bring back"
    said = f"{undone.back:,} of {total:,} files brought back"
    return said + (f", {undone.there:,} were at their old places" if undone.there else "")
