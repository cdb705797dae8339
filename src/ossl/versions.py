"""The version of an installed package."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def installed(package: str) -> str:
    """The version of a package; "from source" where it is run from its source."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "from source"
