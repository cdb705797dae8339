"""A command from its words to its exit code: whatever goes wrong is one line on standard error."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from ossl.errors import InputError, not_our_fault
from ossl.options import Verb, option_value, ready


def run(given: Sequence[str], verbs: Mapping[str, Verb]) -> int:
    """The exit code: 0 done, 2 the input is wrong, 1 a fault of ours, 130 stopped from outside."""
    warnings.filterwarnings("ignore", module="PIL")  # odd pictures are converted or listed
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal may lack the letters of a file's name
            stream.reconfigure(errors="backslashreplace")
    before = signal.signal(signal.SIGTERM, _stop)
    thread_hook, threading.excepthook = threading.excepthook, _in_thread
    try:
        ready(given, verbs)()
        sys.stdout.flush()
    except InputError as error:
        return _said(str(error), 2)
    except KeyboardInterrupt:
        return _said(_stopped(given), 130)
    except BrokenPipeError:  # the reader of our output has gone, as `| head` does
        _close_output()
        return 1
    except Exception as error:
        if os.environ.get("OSSL_TRACEBACK"):
            raise
        _close_output()
        reason = not_our_fault(error, option_value(given, "--out"))
        if reason is not None:
            return _said(reason, 2)
        text = f"a fault of ours: {type(error).__name__}: {error} (OSSL_TRACEBACK=1 shows where)"
        return _said(text, 1)
    finally:
        signal.signal(signal.SIGTERM, before)
        threading.excepthook = thread_hook
    return 0


def _said(text: str, code: int) -> int:
    print("ossl: " + " ".join(text.split()), file=sys.stderr)
    return code


def _stopped(given: Sequence[str]) -> str:
    """What a stopped command leaves behind, and how to go on where that can be done."""
    out = option_value(given, "--out")
    if given[:1] == ["fit"] and out and any((Path(out) / "checkpoints").glob("*.safetensors")):
        return f"stopped; `ossl fit --resume --out {out}` goes on from the last checkpoint."
    if given[:1] == ["sort"] and out and (Path(out) / "undo.jsonl").exists():
        return f"stopped; `ossl sort --undo {out}` brings back what has been moved."
    if given[:1] == ["sort"] and "--undo" in given:
        return "stopped; the same command goes on where it was."
    if given[:1] == ["reproduce"]:
        return "stopped; the same command goes on where it was."
    return "stopped."


def _close_output() -> None:
    """Let go of standard output where it takes nothing more: its last flush would complain."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _in_thread(failed: threading.ExceptHookArgs) -> None:
    # TensorBoard writes in a thread; what a full disk does to it, the main thread meets and says.
    if not isinstance(failed.exc_value, OSError):
        threading.__excepthook__(failed)


def _stop(*_: object) -> None:
    raise KeyboardInterrupt
