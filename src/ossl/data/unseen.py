"""Whole other data sets, whose pictures are all outliers to a benchmark's run (Table 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ossl.config import DataConfig, ProtocolData
from ossl.data.find import DATASETS, find_dataset
from ossl.data.pictures import Source
from ossl.data.protocols import split_rule
from ossl.data.store import Pictures
from ossl.data.task import DEFAULT_ROOT, load_pictures
from ossl.data.torchvision_sets import LAYOUTS
from ossl.errors import InputError, unknown_name
from ossl.progress import Progress


@dataclass(frozen=True)
class Unseen:
    """Another set's test pictures where they lie; none is decoded before it is wanted."""

    name: str
    source: Source

    def load(self, size: int, progress: Progress) -> Pictures:
        """The pictures, resized as the run's own are."""
        return load_pictures(self.source, size, f"loading {self.name}", progress)


def find_unseen(config: DataConfig, names: Sequence[str]) -> tuple[Unseen, ...]:
    """The sets of these names below the run's data root; an InputError for one that is not there.

    Only for a benchmark: it has test pictures of known classes to compare with.
    """
    return tuple(_find(config, name) for name in dict.fromkeys(names))


def is_there(config: DataConfig, name: str) -> bool:
    """Whether a set can be judged on: it was found, or can be downloaded; nothing is fetched."""
    if isinstance(config, ProtocolData) and config.data_root is None and name in LAYOUTS:
        return True
    try:
        _find(config, name, download=False)
    except InputError:
        return False
    return True


def _find(config: DataConfig, name: str, *, download: bool = True) -> Unseen:
    if not isinstance(config, ProtocolData):
        raise InputError(
            "--unseen is for a run on a benchmark; this run has no test pictures of known classes."
        )
    own = split_rule(config.split).dataset
    others = [other for other in DATASETS if other != own]
    if name == own:
        raise InputError(
            f"--unseen {name}: the run has learnt from this very set; "
            f"name others: {', '.join(others)}."
        )
    if name not in others:
        raise unknown_name("data set", name, others)
    root, download = config.data_root or DEFAULT_ROOT, download and config.data_root is None
    return Unseen(name, find_dataset(name, root, "test", download))
