"""Pictures in folders: one folder per class, or one heap of unlabelled pictures."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ossl.data.pictures import UNLABELLED, UnreadablePicture, open_bytes
from ossl.errors import InputError, nearest

# HEIC cannot be read, but a telephone's pictures must show up as rejected, not vanish.
_COMMON = (
    ".jpg .jpeg .jpe .jfif .png .apng .gif .bmp .dib .webp .tif .tiff .ppm .pgm .pbm .pnm .avif "
    ".jp2 .tga .heic .heif"
)
EXTENSIONS = frozenset(_COMMON.split())
_NO_CLASS = {"__MACOSX"}  # what macOS leaves in zip files


class _Folder:
    """What both kinds of folder share: the files, their names and how one is opened."""

    def __init__(self, root: str | Path, what: str) -> None:
        self.root = existing_folder(root, what)
        self.ignored: tuple[str, ...] = ()  # files beside the pictures that are none, by name
        self.names: list[str] = []
        self.labels: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.classes: tuple[str, ...] = ()
        self.where = f"{what}: {self.root}"
        self._files: list[str] = []

    def __len__(self) -> int:
        return len(self._files)

    def path(self, index: int) -> Path:
        """The file of this picture."""
        return Path(self._files[index])

    def open(self, index: int) -> Image.Image:
        """The picture in this file, not decoded yet; raises UnreadablePicture."""
        return open_bytes(self.read(index))

    def read(self, index: int) -> bytes:
        """The bytes of this file; raises UnreadablePicture."""
        try:
            return Path(self._files[index]).read_bytes()
        except FileNotFoundError:
            raise UnreadablePicture("no such file (a broken link?)") from None
        except PermissionError:
            raise UnreadablePicture("no permission to read it") from None
        except OSError as problem:
            raise UnreadablePicture(f"cannot be read: {problem.strerror}") from None

    def _take(self, found: Iterator[tuple[str, str]]) -> int:
        """The number of pictures among the files found; other files are noted as ignored."""
        before, other = len(self._files), []
        for name, file in found:
            if Path(file).suffix.lower() in EXTENSIONS:
                self.names.append(_printable(name))
                self._files.append(file)
            else:
                other.append(_printable(name))
        self.ignored += tuple(other)
        return len(self._files) - before


class ClassFolders(_Folder):
    """A source with one sub-folder per class; pictures may lie deeper below it."""

    def __init__(self, root: str | Path) -> None:
        super().__init__(root, "class folders")
        entries = _entries(self.root)
        folders = [e for e in entries if e.is_dir() and e.name not in _NO_CLASS]
        if not folders:
            raise InputError(
                f"labelled pictures: {self.root}: "
                + ("no sub-folders" if entries else "the folder is empty")
                + ": put each class's pictures in a sub-folder named after the class"
            )
        labels: list[int] = []
        for label, folder in enumerate(folders):
            labels += [label] * self._take(_walk(folder.path, f"{folder.name}/"))
        self.ignored += tuple(_printable(e.name) for e in entries if not e.is_dir())
        # One spelling of an accented class name, whichever way the file system stores it.
        self.classes = tuple(_printable(unicodedata.normalize("NFC", f.name)) for f in folders)
        self.labels = np.asarray(labels, dtype=np.int64)
        if not labels:
            raise InputError(f"labelled pictures: {self.root}: {_no_pictures(self.ignored)}")
        self.where += f" ({len(self):,} pictures, {len(self.classes)} classes)"


class FlatFolder(_Folder):
    """A source of unlabelled pictures, nested or not."""

    def __init__(self, root: str | Path) -> None:
        super().__init__(root, "pictures")
        if not self._take(_walk(str(self.root), "")):
            raise InputError(f"pictures: {self.root}: {_no_pictures(self.ignored)}")
        self.labels = np.full(len(self), UNLABELLED, dtype=np.int64)
        self.where += f" ({len(self):,} pictures)"


def existing_folder(folder: str | Path, what: str) -> Path:
    """The folder as a path; an InputError when it is missing (offering a sibling) or a file."""
    path = Path(folder).expanduser()
    if path.is_dir():
        return path
    if path.exists():
        raise InputError(f"{what}: {path} is a file: name the folder that holds the pictures")
    parent = path.absolute().parent
    siblings = [p.name for p in parent.iterdir() if p.is_dir()] if parent.is_dir() else []
    guess = nearest(path.name, siblings)
    mend = f"did you mean {path.parent / guess}?" if guess else "check the path"
    raise InputError(f"{what}: {path}: there is no such folder: {mend}")


def check_separate(labelled: str | Path, unlabelled: str | Path) -> None:
    """None when the two folders share no folder and no linked file; otherwise an InputError.

    A labelled picture that is in the pool as well would be learnt from and scored at once.
    """
    first = existing_folder(labelled, "labelled pictures")
    second = existing_folder(unlabelled, "unlabelled pictures")
    a, b = first.resolve(), second.resolve()
    mend = "give two folders, neither inside the other"
    if a == b:
        raise InputError(f"labelled and unlabelled: both are {first}: {mend}")
    for inner, outer, one, other in ((b, a, second, first), (a, b, first, second)):
        if inner.is_relative_to(outer):
            raise InputError(f"labelled and unlabelled: {one} lies inside {other}: {mend}")
    shared = _shared(first, second) | _shared(second, first)
    if shared:
        raise InputError(
            f"labelled and unlabelled: {min(shared)} is reached from both {first} and {second} "
            "through a link: remove the link"
        )


def _shared(one: Path, other: Path) -> set[str]:
    """The true places that are reached below both, folders and linked files."""
    folders, links = _reached(one)
    other_folders, other_links = _reached(other)
    into_other = {link for link in links if str(Path(link).parent) in other_folders}
    return (folders & other_folders) | (links & other_links) | into_other


def _reached(root: Path) -> tuple[set[str], set[str]]:
    """The true places of the folders below the root, and of the files linked from there."""
    folders, links = set(), set()
    for folder, entries in _levels(str(root)):
        folders.add(os.path.realpath(folder))
        links |= {os.path.realpath(e.path) for e in entries if e.is_symlink() and e.is_file()}
    return folders, links


def _entries(folder: str | Path) -> list[os.DirEntry[str]]:
    """What lies in the folder, hidden things left out, in an order no file system changes."""
    try:
        with os.scandir(folder) as found:
            entries = [entry for entry in found if not entry.name.startswith(".")]
    except PermissionError:
        raise InputError(f"pictures: {folder}: no permission to list it: allow reading") from None
    return sorted(entries, key=lambda e: (unicodedata.normalize("NFC", e.name), e.name))


def _levels(
    folder: str, above: tuple[tuple[int, int], ...] = ()
) -> Iterator[tuple[str, list[os.DirEntry[str]]]]:
    """Every folder from this one down (links followed, loops not) with what lies in it."""
    about = Path(folder).stat()
    this = (about.st_dev, about.st_ino)
    if this in above:
        return
    entries = _entries(folder)
    yield folder, entries
    for entry in entries:
        if entry.is_dir() and entry.name not in _NO_CLASS:
            yield from _levels(entry.path, (*above, this))


def _walk(folder: str, prefix: str) -> Iterator[tuple[str, str]]:
    """The name below the root (with /) and the path of every file from this folder down."""
    for level, entries in _levels(folder):
        below = Path(level).relative_to(folder).as_posix()
        start = prefix if below == "." else f"{prefix}{below}/"
        for entry in entries:
            if _is_file(entry):
                yield start + entry.name, entry.path


def _is_file(entry: os.DirEntry[str]) -> bool:
    # A broken link counts, to be listed as rejected; a pipe does not, reading it would wait.
    return entry.is_file() or (entry.is_symlink() and not Path(entry.path).exists())


def _printable(name: str) -> str:
    """The name as text that can be written to any file: bytes that are no UTF-8 as \\xNN."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return os.fsencode(name).decode("utf-8", "backslashreplace")
    return name


def _no_pictures(ignored: tuple[str, ...]) -> str:
    """What there is instead of pictures."""
    if not ignored:
        return "no pictures in it: put the pictures there, or name another folder"
    example = f"{len(ignored)} other files such as {ignored[0]}"
    return f"no pictures in it ({example}): give JPEG, PNG, WebP, TIFF, BMP or GIF files"
