"""What a person did wrong, in one line: what, where, and how to mend it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """The user's input is wrong; the command line turns it into one line and exit code 2."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


def nearest(name: str, options: Iterable[str]) -> str | None:
    """The option closest to a mistyped name, or None when nothing is close."""
    known = list(options)
    by_lower = {option.lower(): option for option in known}
    matches = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    return by_lower[matches[0]] if matches else None


def unknown_name(kind: str, name: str, options: Iterable[str]) -> InputError:
    """The error for a name that is none of `options`, offering the nearest right one."""
    known = sorted(options)
    guess = nearest(name, known)
    listed = ", ".join(known[:12]) + (", …" if len(known) > 12 else "")
    hint = f"did you mean {guess!r}?" if guess else f"choose one of: {listed}."
    return InputError(f"unknown {kind} {name!r}: {hint}")
