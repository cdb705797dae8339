"""Putting one file somewhere without ever overwriting another, and without losing it when killed.

A name is taken first, by an empty file that cannot exist before; then the file is put over it in
one step. What is copied is whole before it gets its name.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from pathlib import Path

NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV, errno.EMLINK)


def move_file(source: Path, destination: Path, part: Path) -> None:
    """Move a file; FileExistsError when the name is taken. `part` is used between file systems.

    At any moment the file is whole at one of the two places. A symbolic link is moved as a link
    that still leads where it led.
    """
    if source.is_symlink():
        _move_link(source, destination, str(link_target(source)))
        return
    take_name(destination)
    try:
        try:
            source.replace(destination)
            return
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
        _copy_over(source, destination, part, sync=True)
    except BaseException:
        _give_back_name(destination)
        raise
    source.unlink()


def copy_file(source: Path, destination: Path, part: Path) -> None:
    """Copy a file with its times; FileExistsError when the name is taken."""
    take_name(destination)
    try:
        _copy_over(source, destination, part, sync=False)
    except BaseException:
        _give_back_name(destination)
        raise


def move_link_back(source: Path, destination: Path, text: str) -> None:
    """Make the link that was at `destination` again, to the letter, and remove the one moved."""
    _move_link(source, destination, text)


def link_target(link: Path) -> Path:
    """Where a symbolic link leads, as an absolute path; other links on the way stay."""
    return link.parent.resolve() / link.readlink()


def take_name(path: Path) -> None:
    """Make an empty file of this name; FileExistsError when there is anything."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))


def same_content(one: Path, other: Path) -> bool:
    """Whether two files are the same, byte for byte."""
    if one.stat().st_size != other.stat().st_size:
        return False
    with one.open("rb") as first, other.open("rb") as second:
        while True:
            a, b = first.read(1 << 20), second.read(1 << 20)
            if a != b:
                return False
            if not a:
                return True


def sync_folder(folder: Path) -> None:
    """Have the folder's entries on the disk, where the system can say so."""
    with contextlib.suppress(OSError):  # Windows opens no folder
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _move_link(source: Path, destination: Path, text: str) -> None:
    destination.parent.mkdir(parents=True, exist_ok=True)
    destination.symlink_to(text)  # refuses a taken name by itself
    try:
        source.unlink()
    except BaseException:
        destination.unlink()
        raise


def _copy_over(source: Path, destination: Path, part: Path, *, sync: bool) -> None:
    """Copy to `part`, then put it over the name that was taken."""
    try:
        shutil.copy2(source, part)
        if sync:
            with part.open("rb+") as file:
                os.fsync(file.fileno())
        part.replace(destination)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
    if sync:
        sync_folder(destination.parent)


def _give_back_name(path: Path) -> None:
    with contextlib.suppress(OSError):
        if path.stat().st_size == 0:
            path.unlink()
