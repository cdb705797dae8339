"""What a command says at its end, in plain words; shares and figures in percent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ossl.fit import Sorted


def percent(value: float | None) -> str:
    """A fraction in percent, or a dash."""
    return "-" if value is None else f"{100 * value:.1f} %"


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
        f"({100 * trained / total:.2f} %)",
    ]
    if metrics.get("remark"):
        lines.append(metrics["remark"])
    return "\n".join(lines)


def fit_summary(metrics: dict[str, Any], out: Path) -> str:
    """What a fit found, and what to do next."""
    return (
        f"{metrics_summary(metrics)}\n\n"
        f"fitted in {metrics['seconds']:,.0f} s; the run is in {out}\n"
        f"next: ossl sort {out} --images DIR --out sorted/"
    )


def demo_summary(metrics: dict[str, Any], out: Path) -> str:
    """What the demo found, and where it lies."""
    return (
        f"{metrics_summary(metrics)}\n\ndone in {metrics['seconds']:,.0f} s\n"
        f"the run:                 {out}\n"
        f"every picture's verdict: {out / 'predictions.csv'}"
    )


def sort_summary(found: Sorted, out: Path) -> str:
    """What sorting found, and where it lies."""
    lines = [
        f"{found.pictures:,} pictures, {found.aside:,} put aside as outliers "
        f"({percent(found.aside / max(found.pictures, 1))}); see {out / 'predictions.csv'}"
    ]
    if found.rejected:
        lines.append(f"{found.rejected:,} files left out; see {out / 'rejected_files.csv'}")
    return "\n".join(lines)
