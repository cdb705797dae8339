"""What a person did wrong, in one line: what, where, and how to mend it."""

from __future__ import annotations

import difflib
import errno
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


# What the machine refuses, and a person can mend.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_LEAVE = (errno.EACCES, errno.EPERM, errno.EROFS)


def not_our_fault(error: Exception, where: str | None = None) -> str | None:
    """What the machine lacks when that is all that went wrong, else None.

    `where` is what was being written to, for errors that do not say.
    """
    text = str(error).lower()
    if isinstance(error, OSError) and error.errno in (*_NO_ROOM, *_NO_LEAVE):
        mend = "make room" if error.errno in _NO_ROOM else "allow writing there"
        place = error.filename or where or "the output"
        return (
            f"cannot write {place}: {error.strerror}; {mend} or choose another folder "
            "(what was written before is untouched)."
        )
    if isinstance(error, MemoryError) or "out of memory" in text or "can't allocate memory" in text:
        return (
            "the memory does not suffice; take a smaller --image-size, or smaller batches by "
            "--set schedule.pool_batch=N and --set schedule.labelled_batch=N "
            "(baseline.pool_batch and baseline.labelled_batch with another --method)."
        )
    return None
