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


METHOD_HEAD = ("name", "paper", "year", "learns by gradients", "parameters learnt")
KNOWN_CLASSES = 6
COUNTED = "table1/cifar10-100"  # the preset whose network and classes parameters are counted with


def method_rows() -> list[tuple[str, ...]]:
    """A row a method, as `METHOD_HEAD` says; the count is of Wide ResNet 28-2 with six classes."""
    import torch

    from ossl.measure import learnt_parameters
    from ossl.methods import METHODS, create_encoder, create_method
    from ossl.presets import preset_config

    rows: list[tuple[str, ...]] = []
    for name, method in METHODS.items():
        config = preset_config(COUNTED, recipe_name="paper", method=name)
        made = create_method(config, create_encoder(config), KNOWN_CLASSES, torch.float32)
        learnt, total = learnt_parameters(made)
        info = method.info
        count = f"{learnt:,}" if learnt == total else f"{learnt:,} of {total:,}"
        rows.append((info.name, info.paper, str(info.year), info.trains, count))
    return rows


def methods() -> str:
    """The methods: where each comes from, what it trains and how many parameters that is."""
    return f"{table(METHOD_HEAD, method_rows())}\n(parameters: wrn-28-2, six known classes)"


def methods_markdown() -> str:
    """The same rows as the table of methods in README.md."""
    rows = [METHOD_HEAD, ("---",) * len(METHOD_HEAD), *method_rows()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


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
