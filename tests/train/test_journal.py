"""The journal: valid JSON whatever happens, TensorBoard beside it, and no line told twice."""

from __future__ import annotations

import importlib
import json
import math
from pathlib import Path
from typing import Any

import pytest

from ossl.errors import InputError
from ossl.train.journal import Journal


def lines(run: Path) -> list[dict[str, Any]]:
    def refuse(word: str) -> float:
        raise ValueError(f"{word} is not JSON")

    text = (run / "journal.jsonl").read_text(encoding="utf-8")
    return [json.loads(line, parse_constant=refuse) for line in text.splitlines()]


def test_one_object_a_line(tmp_path: Path) -> None:
    journal = Journal(tmp_path, tensorboard=False)
    journal.write("step", {"loss": 0.5, "phase": "student", "note": "λ stays"}, 3)
    assert (tmp_path / "journal.jsonl").stat().st_size == journal.position()  # flushed at once
    journal.write("begin", {})
    journal.close()
    first, second = lines(tmp_path)
    assert first.pop("seconds") >= 0
    assert first == {
        "event": "step",
        "step": 3,
        "loss": 0.5,
        "phase": "student",
        "note": "λ stays",
    }
    assert (second["event"], second["step"]) == ("begin", None)


def test_what_is_no_number_is_null(tmp_path: Path) -> None:
    journal = Journal(tmp_path, tensorboard=False)
    journal.write("bad_step", {"a": math.nan, "b": math.inf, "c": -math.inf, "d": 1.0}, 1)
    journal.close()
    (line,) = lines(tmp_path)
    assert [line[name] for name in "abcd"] == [None, None, None, 1.0]


def test_what_was_written_after_the_checkpoint_is_dropped(tmp_path: Path) -> None:
    journal = Journal(tmp_path, tensorboard=False)
    journal.started -= 100
    journal.write("step", {"n": 1}, 1)
    kept = journal.position()
    journal.write("step", {"n": 2}, 2)
    journal.close()
    with (tmp_path / "journal.jsonl").open("a") as file:
        file.write('{"event": "st')  # killed in the middle of a line

    journal = Journal(tmp_path, kept=kept, step=1, tensorboard=False)
    assert journal.position() == kept
    journal.write("step", {"n": 3}, 2)
    journal.close()
    assert [line["n"] for line in lines(tmp_path)] == [1, 3]
    times = [line["seconds"] for line in lines(tmp_path)]
    assert times[1] >= times[0] >= 100  # and the clock goes on


def test_a_new_run_drops_all_of_it(tmp_path: Path) -> None:
    for number in range(2):
        journal = Journal(tmp_path, tensorboard=False)
        journal.write("step", {"n": number}, 1)
        journal.close()
    assert [line["n"] for line in lines(tmp_path)] == [1]


def test_a_journal_that_somebody_took_away_starts_anew(tmp_path: Path) -> None:
    journal = Journal(tmp_path, kept=500, step=7, tensorboard=False)
    journal.write("step", {"n": 8}, 8)
    journal.close()
    assert [line["n"] for line in lines(tmp_path)] == [8]


def test_tensorboard_has_the_numbers_once(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    accumulator = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")

    journal = Journal(tmp_path)
    for step in (1, 2, 3):
        journal.write("step", {"loss": float(step), "phase": "student", "flag": True}, step)
    journal.write("begin", {"radius": 1.0})  # no step: not a curve
    journal.close()
    journal = Journal(tmp_path, kept=10**6, step=1)  # steps 2 and 3 are done again
    journal.write("step", {"loss": 20.0}, 2)
    journal.close()
    events = accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert events.Tags()["scalars"] == ["step/loss"]
    told = {event.step: event.value for event in events.Scalars("step/loss")}
    assert told == {1: 1.0, 2: 20.0}


class _Full:
    def write(self, _: bytes) -> int:
        raise OSError(28, "No space left on device")


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    journal = Journal(tmp_path, tensorboard=False)
    journal._file.close()
    journal._file = _Full()  # type: ignore[assignment]
    with pytest.raises(InputError, match=r"No space left on device; make room.*--resume"):
        journal.write("step", {}, 1)
