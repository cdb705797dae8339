"""What is logged: JSON lines always, TensorBoard when it is installed."""

from __future__ import annotations

import importlib.util
import json
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ossl.errors import InputError


class Journal:
    """`journal.jsonl` of a run: one object a line, appended and flushed at once.

    A run that goes on keeps the first `kept` bytes of it, which tell of `step` steps; what was
    written after them is dropped, in TensorBoard too, because it will be done again. `seconds`
    counts on from there, without the time in between.
    """

    def __init__(
        self, run: Path, *, kept: int = 0, step: int = 0, tensorboard: bool | None = None
    ) -> None:
        self.path = run / "journal.jsonl"
        self._file = self.path.open("ab")
        self._file.truncate(min(kept, self.path.stat().st_size))
        self._file.seek(0, 2)
        self.started = time.monotonic() - _last_seconds(self.path)
        self._board: Any = None
        if tensorboard is None:
            tensorboard = importlib.util.find_spec("tensorboard") is not None
        if tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(str(run / "tensorboard"), purge_step=step + 1)

    def write(self, event: str, values: Mapping[str, object], step: int | None = None) -> None:
        """Append one line; numbers go to TensorBoard under `event/name` as well.

        What is not a finite number is null: JSON has no NaN.
        """
        seconds = round(time.monotonic() - self.started, 3)
        plain = {name: _finite(value) for name, value in values.items()}
        entry = {"event": event, "seconds": seconds, "step": step, **plain}
        try:
            self._file.write((json.dumps(entry, allow_nan=False) + "\n").encode())
            self._file.flush()
        except OSError as error:
            raise InputError(
                f"cannot write {self.path}: {error.strerror}; make room and go on with --resume."
            ) from error
        if self._board is not None and step is not None:
            for name, value in values.items():
                if isinstance(value, int | float) and not isinstance(value, bool):
                    self._board.add_scalar(f"{event}/{name}", value, step)

    def position(self) -> int:
        """The journal's length in bytes, for a checkpoint."""
        return self._file.tell()

    def close(self) -> None:
        """Close the files."""
        self._file.close()
        if self._board is not None:
            self._board.close()


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _last_seconds(path: Path) -> float:
    """The time of the journal's last line, 0 without one."""
    lines = path.read_bytes().splitlines()
    return float(json.loads(lines[-1])["seconds"]) if lines else 0.0
