"""Open-set semi-supervised learning on pictures.

`OpenPrompt` learns from folders or arrays of pictures, `OpenSetClassifier` from feature vectors.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ossl.errors import InputError

if TYPE_CHECKING:
    from ossl.estimator import OpenSetClassifier
    from ossl.openprompt import OpenPrompt
    from ossl.results import ResultTable

    __version__: str

__all__ = ["InputError", "OpenPrompt", "OpenSetClassifier", "ResultTable"]

# Networks take seconds to import: each name fetches what it needs when it is asked for.
_HOMES = {
    "OpenPrompt": "ossl.openprompt",
    "OpenSetClassifier": "ossl.estimator",
    "ResultTable": "ossl.results",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("ossl")
    if name not in _HOMES:
        raise AttributeError(f"module 'ossl' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES, "__version__"])
