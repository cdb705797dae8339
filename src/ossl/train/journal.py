"""What is logged: JSON lines always, TensorBoard when it is installed."""

from __future__ import annotations

import importlib.util
import json
import time
from pathlib import Path
from typing import Any

from ossl.errors import InputError


class Journal:
    """`journal.jsonl` of a run: one object a line, appended and flushed at once."""

    def __init__(self, run: Path, tensorboard: bool | None = None) -> None:
        self.path = run / "journal.jsonl"
        self.started = time.monotonic()
        self._file = self.path.open("a", encoding="utf-8")
        self._board: Any = None
        if tensorboard is None:
            tensorboard = importlib.util.find_spec("tensorboard") is not None
        if tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(str(run / "tensorboard"))

    def write(self, event: str, values: dict[str, Any], step: int | None = None) -> None:
        """Append one line; numbers go to TensorBoard under `event/name` as well."""
        seconds = round(time.monotonic() - self.started, 3)
        entry = {"event": event, "seconds": seconds, "step": step, **values}
        try:
            self._file.write(json.dumps(entry) + "\n")
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

    def rewind(self, position: int) -> None:
        """Drop what was written after a checkpoint, because it will be done again."""
        if position <= self.path.stat().st_size:
            self._file.truncate(position)
        self._file.seek(0, 2)

    def close(self) -> None:
        """Close the files."""
        self._file.close()
        if self._board is not None:
            self._board.close()
