"""`results.jsonl`: one line for every finished run, the only thing that tables are made from."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

from ossl.config import RecipeConfig, RunConfig, ScheduleConfig
from ossl.errors import InputError
from ossl.rundir import json_text


@dataclass(frozen=True)
class Result:
    """A finished run of a cell."""

    table: str
    cell: str
    seed: int
    profile: str
    run_hash: str  # of all that decides the run's figures but the code
    ossl: str  # versions
    torch: str
    seconds: float | None  # of the fit, loading its pictures and not judging them
    resumed: bool  # after an interruption, so that its time is only of the rest
    features_remembered: int | None  # of that fit, so that its time is short; None without memory
    shortfall: str | None  # how much of the published data there was
    metrics: dict[str, Any]


def run_hash(config: RunConfig, unseen: tuple[str, ...], truth: Path | None) -> str:
    """A short hash of a run's settings and of what it is judged on."""
    settings = asdict(config)
    # As it was hashed before there were budgets, for what has none of their settings.
    new = {"recipe": ("views",), "schedule": [n for n in settings["schedule"] if "tuning" in n]}
    for part, names in new.items():
        usual = asdict(RecipeConfig() if part == "recipe" else ScheduleConfig())
        if all(settings[part][name] == usual[name] for name in names):
            settings[part] = {n: v for n, v in settings[part].items() if n not in names}
    if config.budget is None:
        del settings["budget"]
    if config.baseline is None:  # as it was hashed before there were baselines
        del settings["baseline"]
    else:  # results of several machines make one table: where data and device are is left out
        del settings["device"]
        settings["data"].pop("data_root", None)
    told = {"config": settings, "unseen": list(unseen), "truth": truth and str(truth)}
    return sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def append_result(path: Path, result: Result) -> None:
    """Add a line that is on the disk when this returns."""
    line = json_text(asdict(result)) + "\n"
    try:
        with path.open("ab+") as file:
            # A line that was cut off by a crash must not swallow this one.
            if file.tell() and not _ends_a_line(file):
                line = "\n" + line
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {error.strerror}; make room or allow writing there."
        ) from error


def read_results(path: Path) -> tuple[list[Result], int]:
    """The finished runs in the order they ended, and the number of lines that are none."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return [], 0
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}; allow reading it.") from error
    results, bad = [], 0
    names = {field.name for field in fields(Result)}
    for line in text.split("\n"):  # not splitlines: a name may hold other ends of lines
        try:
            values = json.loads(line)
            results.append(Result(**{name: values[name] for name in names}))
        except (ValueError, KeyError, TypeError):
            bad += bool(line.strip())
    return results, bad


def _ends_a_line(file: Any) -> bool:
    file.seek(-1, os.SEEK_END)
    return bool(file.read(1) == b"\n")
