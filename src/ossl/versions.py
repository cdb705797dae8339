"""The version of an installed package."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def installed(package: str) -> str:
    """The version of a package; "unknown" where its files lie on the path but are not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
