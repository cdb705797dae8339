"""Thousands of real files copied, linked and moved, and brought back from whatever went wrong."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ossl.errors import InputError
from ossl.progress import Progress
from ossl.sort import carry, place
from ossl.sort.arrange import FOLDERS, Step
from ossl.sort.carry import carry_out
from ossl.sort.undo import LEFT_FILE, UNDO_FILE, read_undo_list, undo
from tests.sort.heap import can_mount, contents, make_heap, plan_of, small_disk

MANY = 3000
QUIET = Progress(quiet=True, stream=io.StringIO())
needs_mount = pytest.mark.skipif(not can_mount(), reason="mounting a small disk needs root")
not_root = pytest.mark.skipif(can_mount(), reason="root may write everywhere")


class Heap:
    def __init__(self, root: Path, count: int, out: Path | None = None) -> None:
        self.pool, self.out = root / "pool", out or root / "out"
        self.files = make_heap(self.pool, count)
        self.out.mkdir(parents=True, exist_ok=True)
        self.before = contents(self.pool)
        self.steps = plan_of(self.pool, self.files)

    def arranged(self) -> dict[str, bytes]:
        """What lies in the three folders."""
        found: dict[str, bytes] = {}
        for name in FOLDERS:
            below = contents(self.out / name)
            found |= {f"{name}/{path}": data for path, data in below.items()}
        return found


@pytest.fixture
def heap(tmp_path: Path) -> Heap:
    return Heap(tmp_path, 60)


def test_thousands_moved_and_brought_back(tmp_path: Path) -> None:
    heap = Heap(tmp_path, MANY)
    assert carry_out("move", heap.steps, heap.out, QUIET).done == len(heap.files)
    assert contents(heap.pool) == {}
    moved = heap.arranged()
    assert sorted(moved.values()) == sorted(heap.before.values())
    assert set(moved) == {step.destination for step in heap.steps}
    undone = undo(heap.out, QUIET)
    assert (undone.back, undone.there, undone.left) == (len(heap.files), 0, [])
    assert contents(heap.pool) == heap.before
    assert not any((heap.out / name).exists() for name in FOLDERS)
    again = undo(heap.out, QUIET)
    assert (again.back, again.there, again.left) == (0, len(heap.files), [])
    assert contents(heap.pool) == heap.before


def test_the_undo_list_is_there_first(heap: Heap, monkeypatch: pytest.MonkeyPatch) -> None:
    def look(*_: object) -> None:
        assert len(read_undo_list(heap.out)) == len(heap.steps)
        raise KeyboardInterrupt

    monkeypatch.setattr(carry, "move_file", look)
    with pytest.raises(KeyboardInterrupt):
        carry_out("move", heap.steps, heap.out, QUIET)
    assert contents(heap.pool) == heap.before


def test_out_may_be_renamed_before_undoing(heap: Heap) -> None:
    carry_out("move", heap.steps, heap.out, QUIET)
    elsewhere = heap.out.rename(heap.out.with_name("elsewhere"))
    assert undo(elsewhere, QUIET).back == len(heap.files)
    assert contents(heap.pool) == heap.before


def test_copies(heap: Heap) -> None:
    os.utime(heap.files[0], (1, 2))
    carry_out("copy", heap.steps, heap.out, QUIET)
    assert contents(heap.pool) == heap.before
    assert sorted(heap.arranged().values()) == sorted(heap.before.values())
    assert (heap.out / heap.steps[0].destination).stat().st_mtime == 2
    assert not (heap.out / UNDO_FILE).exists()


def test_links_lead_to_the_pictures(heap: Heap) -> None:
    assert carry_out("link", heap.steps, heap.out, QUIET).notes == []
    for step in heap.steps:
        assert str((heap.out / step.destination).readlink()) == step.source
        assert Path(step.source).is_absolute()
    assert contents(heap.pool) == heap.before


@pytest.mark.parametrize("refused", [1, 2])
def test_a_file_system_without_links(
    heap: Heap, refused: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "symlink_to", no)
    if refused == 2:
        monkeypatch.setattr(Path, "hardlink_to", no)
    notes = carry_out("link", heap.steps, heap.out, QUIET).notes
    assert len(notes) == 1
    assert ("copies" if refused == 2 else "hard links") in notes[0]
    first = heap.out / heap.steps[0].destination
    assert first.samefile(heap.files[0]) == (refused == 1)
    assert sorted(heap.arranged().values()) == sorted(heap.before.values())


@pytest.mark.parametrize("how", ["copy", "link", "move"])
def test_nothing_is_overwritten(heap: Heap, how: carry.How) -> None:
    taken = heap.out / heap.steps[7].destination
    taken.parent.mkdir(parents=True)
    taken.write_text("mine")
    with pytest.raises(InputError, match="nothing is overwritten") as error:
        carry_out(how, heap.steps, heap.out, QUIET)
    assert "7 of 61" in str(error.value)
    assert taken.read_text() == "mine"
    if how == "move":
        assert undo(heap.out, QUIET).back == 7
    assert contents(heap.pool) == heap.before
    assert taken.read_text() == "mine"


def test_links_in_the_pool_move_as_links(tmp_path: Path) -> None:
    pool, out = tmp_path / "pool", tmp_path / "out"
    (pool / "a").mkdir(parents=True)
    out.mkdir()
    (tmp_path / "true.jpg").write_bytes(b"picture")
    near, far = pool / "a" / "near.jpg", pool / "far.jpg"
    near.symlink_to("../../true.jpg")
    far.symlink_to(tmp_path / "true.jpg")
    before = contents(pool)
    steps = plan_of(pool, [near, far])
    carry_out("move", steps, out, QUIET)
    for step in steps:
        moved = out / step.destination
        assert moved.is_symlink()
        assert moved.read_bytes() == b"picture"
    assert undo(out, QUIET).left == []
    assert contents(pool) == before


def test_a_file_that_vanishes_is_told(heap: Heap, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [*heap.steps, Step(str(heap.pool / "gone.jpg"), "known/cat/gone.jpg")]
    Path(steps[-1].source).write_bytes(b"x")

    def lose(source: Path, destination: Path, part: Path) -> None:
        if source.name == "gone.jpg":
            source.unlink()
        place.move_file(source, destination, part)

    monkeypatch.setattr(carry, "move_file", lose)
    carried = carry_out("move", steps, heap.out, QUIET)
    assert carried.gone == [steps[-1].source]
    assert not (heap.out / "known/cat/gone.jpg").exists()
    undone = undo(heap.out, QUIET)
    assert undone.back == len(heap.files)
    assert "neither here nor at its old place" in undone.left[0][1]
    assert (heap.out / LEFT_FILE).read_text().count("\n") == 2


def test_what_cannot_come_back_is_told_and_the_rest_comes(heap: Heap) -> None:
    carry_out("move", heap.steps, heap.out, QUIET)
    other, lost = Path(heap.steps[0].source), heap.out / heap.steps[1].destination
    other.write_text("another file of that name")
    lost.unlink()
    undone = undo(heap.out, QUIET)
    assert undone.back == len(heap.files) - 2
    assert [move.source for move, _ in undone.left] == [step.source for step in heap.steps[:2]]
    assert "another file is at its old place" in undone.left[0][1]
    assert other.read_text() == "another file of that name"
    assert (heap.out / heap.steps[0].destination).exists()
    other.unlink()
    assert undo(heap.out, QUIET).back == 1
    assert (heap.out / LEFT_FILE).exists()


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        '{"source": "/a", "destination": "../b", "size": 1, "link": null}',
        '{"source": "/a", "destination": "/b", "size": 1, "link": null}',
        '{"source": "/a", "destination": "known/../../b", "size": 1, "link": null}',
        '{"source": "a", "destination": "known/b", "size": 1, "link": null}',
        '{"source": "/a", "destination": "known/b"}',
    ],
)
def test_a_list_that_was_changed_moves_nothing(heap: Heap, line: str) -> None:
    carry_out("move", heap.steps, heap.out, QUIET)
    with (heap.out / UNDO_FILE).open("a") as file:
        file.write(line + "\n")
    moved = heap.arranged()
    with pytest.raises(InputError, match=f"line {len(heap.files) + 1} of"):
        undo(heap.out, QUIET)
    assert heap.arranged() == moved


def test_undoing_what_was_never_moved(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no undo\.jsonl in it"):
        undo(tmp_path, QUIET)
    with pytest.raises(InputError, match=r"no undo\.jsonl|is a file"):
        (tmp_path / "file").write_text("x")
        undo(tmp_path / "file", QUIET)


# --- stopped anywhere -------------------------------------------------------------------------

KILLED = """
import io, json, sys, os
from pathlib import Path
from ossl.progress import Progress
from ossl.sort.arrange import Step
from ossl.sort.carry import carry_out
from ossl.sort.undo import undo
quiet = Progress(quiet=True, stream=io.StringIO())
what, out, steps = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
if what == "undo":
    undo(out, quiet)
else:
    carry_out("move", [Step(**step) for step in json.loads(steps.read_text())], out, quiet)
"""


def kill_in_the_middle(what: str, heap: Heap, tmp_path: Path, seen: Path) -> None:
    """Start a process that moves or undoes, and kill it once `seen` is there."""
    steps = tmp_path / "steps.json"
    steps.write_text(json.dumps([vars(step) for step in heap.steps]))
    process = subprocess.Popen([sys.executable, "-c", KILLED, what, str(heap.out), str(steps)])
    deadline = time.monotonic() + 60
    while not os.path.lexists(seen) and time.monotonic() < deadline and process.poll() is None:
        pass
    process.send_signal(signal.SIGKILL)
    assert process.wait() in (-signal.SIGKILL, 0)


@pytest.mark.parametrize("other_disk", [False, pytest.param(True, marks=needs_mount)])
def test_killed_in_the_middle(tmp_path: Path, other_disk: bool) -> None:
    if not other_disk:
        _killed(tmp_path, tmp_path / "out")
        return
    with small_disk(tmp_path / "disk", "size=64m") as disk:
        _killed(tmp_path, disk / "out")


def _killed(tmp_path: Path, out: Path) -> None:
    heap = Heap(tmp_path, 2 * MANY, out)
    everything = sorted(heap.before.values())
    kill_in_the_middle("move", heap, tmp_path, heap.out / heap.steps[500].destination)
    left, moved = contents(heap.pool), heap.arranged()
    assert left and len(moved) >= 500  # it was in the middle
    # Nothing is lost: every picture is at one of the two places, or at both for a moment.
    assert set(everything) <= set(left.values()) | set(moved.values())
    # A kill of the undoing does not lose anything either.
    kill_in_the_middle("undo", heap, tmp_path, Path(heap.steps[250].source))
    assert set(everything) <= set(contents(heap.pool).values()) | set(heap.arranged().values())
    assert undo(heap.out, QUIET).left == []
    assert contents(heap.pool) == heap.before
    assert not any((heap.out / name).exists() for name in FOLDERS)


ONE_DISK = ("take_name", "replace", "unlink")
TWO_DISKS = ("take_name", "copy", "part", "unlink")


@pytest.mark.parametrize(
    ("crossing", "point"),
    [*((False, point) for point in ONE_DISK), *((True, point) for point in TWO_DISKS)],
)
def test_stopped_at_every_point(
    heap: Heap, point: str, crossing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a kill between two steps of one move leaves it: no clean-up runs."""

    class Killed(BaseException):
        pass

    true_replace, true_unlink, true_copy = Path.replace, Path.unlink, shutil.copy2
    armed = {"on": True}

    def replace(self: Path, target: Path) -> Path:
        if crossing and ".part" not in self.name:
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        if armed["on"] and target.name == Path(heap.steps[5].destination).name:
            if point == "replace" or (crossing and point == "part"):
                raise Killed
            result = true_replace(self, target)
            if point == "unlink":
                raise Killed
            return result
        return true_replace(self, target)

    def copy2(source: Path, target: Path) -> object:
        if armed["on"] and point == "copy" and str(source) == heap.steps[5].source:
            Path(target).write_bytes(b"ha")
            raise Killed
        return true_copy(source, target)

    def take(path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        if armed["on"] and point == "take_name" and path.name.startswith("00005"):
            raise Killed

    def unlink(self: Path, missing_ok: bool = False) -> None:
        if armed["on"] and point == "copy" and self.name.endswith(".part"):
            return  # the killed cannot tidy up
        true_unlink(self, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "replace", replace)
    monkeypatch.setattr(Path, "unlink", unlink)
    monkeypatch.setattr(shutil, "copy2", copy2)
    monkeypatch.setattr(place, "take_name", take)
    monkeypatch.setattr(place, "_give_back_name", lambda _: None)
    with pytest.raises(Killed):
        carry_out("move", heap.steps, heap.out, QUIET)
    armed["on"] = False
    assert undo(heap.out, QUIET).left == []
    assert contents(heap.pool) == heap.before
    assert not any((heap.out / name).exists() for name in FOLDERS)


# --- what the machine refuses -----------------------------------------------------------------


@needs_mount
def test_a_full_disk(tmp_path: Path) -> None:
    # Small files take a page each, so that the disk is full although there was room by bytes.
    with small_disk(tmp_path / "disk", "size=2m") as disk:
        heap = Heap(tmp_path, 1500, disk / "out")
        with pytest.raises(InputError, match="no space left") as error:
            carry_out("move", heap.steps, heap.out, QUIET)
        assert "ossl sort --undo" in str(error.value)
        both = [*contents(heap.pool).values(), *heap.arranged().values()]
        assert sorted(both) == sorted(heap.before.values())
        assert undo(heap.out, QUIET).left == []
        assert contents(heap.pool) == heap.before


@needs_mount
@pytest.mark.parametrize("how", ["copy", "move"])
def test_a_disk_that_is_too_small_is_seen_before(tmp_path: Path, how: carry.How) -> None:
    with small_disk(tmp_path / "disk", "size=64k") as disk:
        heap = Heap(tmp_path, 500, disk / "out")
        with pytest.raises(InputError, match="make room"):
            carry_out(how, heap.steps, heap.out, QUIET)
        assert contents(heap.pool) == heap.before
        assert list(heap.out.iterdir()) == []


@needs_mount
def test_a_pool_that_may_only_be_read(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "size=4m") as disk:
        heap = Heap(disk, 50, tmp_path / "out")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with pytest.raises(InputError, match="nothing may be taken out of") as error:
            carry_out("move", heap.steps, heap.out, QUIET)
        assert "--copy or --link" in str(error.value)
        assert list(heap.out.iterdir()) == []
        carry_out("link", heap.steps, heap.out, QUIET)
        assert contents(heap.pool) == heap.before


@needs_mount
def test_a_pool_that_becomes_read_only_before_undoing(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "size=4m") as disk:
        heap = Heap(disk, 50, tmp_path / "out")
        carry_out("move", heap.steps, heap.out, QUIET)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        undone = undo(heap.out, QUIET)
        assert len(undone.left) == len(heap.files)
        assert "read-only" in undone.left[0][1]
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        assert undo(heap.out, QUIET).left == []
        assert contents(heap.pool) == heap.before


@not_root
def test_a_folder_that_may_only_be_read(heap: Heap) -> None:
    folder = heap.files[0].parent
    folder.chmod(0o555)
    try:
        with pytest.raises(InputError, match="nothing may be taken out of"):
            carry_out("move", heap.steps, heap.out, QUIET)
        assert contents(heap.pool) == heap.before
    finally:
        folder.chmod(0o755)
