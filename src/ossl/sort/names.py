"""Names for files and folders that hold on every file system, and never meet each other."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Sequence, Set
from pathlib import PurePosixPath

LONGEST = 200  # bytes of a folder's name; file systems take 255, archives and sync tools less
_FORBIDDEN = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f]')  # Windows and USB sticks refuse them
_RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?$")  # Windows' devices


def folder_names(classes: Sequence[str]) -> dict[str, str]:
    """A folder name for each class: the class's own where it can be one, no two alike.

    What some file system refuses becomes `_`; two that only differ in case or in how an accent is
    stored get a number.
    """
    taken: set[str] = set()
    found = {}
    for name in classes:
        plain = _FORBIDDEN.sub("_", unicodedata.normalize("NFC", name))
        plain = os.fsencode(plain).decode("utf-8", "replace").replace("\ufffd", "_")
        ending = plain.rstrip(". ")  # Windows drops dots and blanks at a name's end
        plain = ending + "_" * (len(plain) - len(ending))
        plain = f"_{plain}" if plain.startswith((".", " ")) or _RESERVED.match(plain) else plain
        found[name] = _free(_shortened(plain, LONGEST) or "_", "", taken)
    return found


def clash_free(paths: Sequence[str]) -> list[str]:
    """The relative paths, the later of two that some file system takes for one with a number.

    Macs and Windows do not tell `A.jpg` from `a.jpg`, Macs not the two ways to store an accent.
    """
    folders = {key(str(above)) for path in paths for above in PurePosixPath(path).parents}
    taken: set[str] = set()
    found = []
    for path in paths:
        if key(path) in taken or key(path) in folders:
            place = PurePosixPath(path)
            before = "" if str(place.parent) == "." else f"{place.parent}/"
            stem = _shortened(place.stem, LONGEST)
            path = _free(f"{before}{stem}", place.suffix, taken, folders)
        taken.add(key(path))
        found.append(path)
    return found


def key(path: str) -> str:
    """What two names share that any file system takes for one."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def _free(start: str, ending: str, taken: set[str], folders: Set[str] = frozenset()) -> str:
    """The name, with the first number that makes it a new one; noted in `taken`."""
    number, name = 1, f"{start}{ending}"
    while key(name) in taken or key(name) in folders:
        number += 1
        name = f"{start} ({number}){ending}"
    taken.add(key(name))
    return name


def _shortened(name: str, most: int) -> str:
    """The beginning of a name that takes at most so many bytes, no letter cut in two."""
    data = os.fsencode(name)
    if len(data) <= most:
        return name
    return data[:most].decode("utf-8", "ignore").rstrip(". ")


def changed(names: dict[str, str]) -> Iterable[tuple[str, str]]:
    """The classes whose folder could not be called as they are."""
    return ((name, folder) for name, folder in names.items() if name != folder)
