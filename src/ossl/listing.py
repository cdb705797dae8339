"""What `ossl list` shows, from the same records that the code runs on.

Networks are imported only where they are listed, so that the rest answers at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ossl.presets import PRESETS


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows in aligned columns under a head."""
    everything = [list(head), *[list(row) for row in rows]]
    widths = [max(len(row[column]) for row in everything) for column in range(len(head))]
    lines = [
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in everything
    ]
    return "\n".join(lines)


def methods() -> str:
    """The methods: where each comes from and what it trains."""
    from ossl.methods import METHODS

    rows = [
        (info.name, info.title, str(info.year), info.trains, info.paper)
        for info in (method.info for method in METHODS.values())
    ]
    return table(("name", "title", "year", "trains", "paper"), rows)


def backbones() -> str:
    """The house's backbones; any timm model works beside them."""
    from ossl.models.backbone import ANY_TIMM, list_backbones

    rows = [
        (
            spec.name,
            str(spec.default_image_size),
            "yes" if spec.pretrained else "no",
            spec.description,
        )
        for spec in list_backbones()
    ]
    return table(("name", "pixels", "pretrained", "what"), rows) + f"\nand {ANY_TIMM}"


def presets() -> str:
    """The presets with the figure the paper gives for its method."""
    rows = [
        (p.name, p.backbone, f"{100 * p.paper_auroc:.1f}" if p.paper_auroc else "-", p.summary)
        for p in PRESETS.values()
    ]
    return table(("name", "backbone", "paper's AUROC", "what"), rows)


def data() -> str:
    """The data sets that --data-root is searched for."""
    from ossl.data.find import DATASETS

    return "\n".join(sorted(DATASETS))


LISTINGS: dict[str, Callable[[], str]] = {
    "methods": methods,
    "backbones": backbones,
    "presets": presets,
    "data": data,
}
