"""What stands on a command line: the options' types, help, and one line for whatever is wrong."""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args

import tyro

from ossl.errors import InputError, nearest, unknown_name
from ossl.versions import installed

Verb = Callable[..., None]
_RENAMED = {
    "settings": "set",
    "as_json": "json",
    "begin": "from",
}  # parameters whose option has another name


def option(metavar: str, name: str | None = None, default: str = "") -> Any:
    """How an option shows in the help; `default` in words, nothing when leaving it out is plain."""
    hint = f"(default: {default})" if default else ""
    return tyro.conf.arg(name=name, metavar=metavar, help_behavior_hint=hint)


Run = Annotated[Path, tyro.conf.Positional, option("RUN")]
RunOrSorted = Annotated[Path, tyro.conf.Positional, option("RUN|OUT")]
FromRun = Annotated[Path | None, option("RUN", name="from")]
SortedRun = Annotated[Path | None, tyro.conf.Positional, option("RUN")]  # left out to undo
SortOut = Annotated[Path | None, option("OUT")]
Word = Annotated[str, tyro.conf.Positional, option("WHAT")]
TableName = Annotated[str, tyro.conf.Positional, option("TABLE")]
Folder = Annotated[Path | None, option("DIR")]
File = Annotated[Path | None, option("FILE")]
RunOut = Annotated[Path | None, option("RUN")]
Name = Annotated[str | None, option("NAME")]
ProfileName = Annotated[str | None, option("desk|full")]
RecipeName = Annotated[str | None, option("default|paper")]
BudgetName = Annotated[str | None, option("fast|balanced|best")]
Names = Annotated[str | None, option("A,B")]
Seeds = Annotated[str | None, option("0,1,2")]
Number = Annotated[int | None, option("N")]
Real = Annotated[float | None, option("X")]
DeviceName = Annotated[str | None, option("auto|cpu|cuda|mps")]
PrecisionName = Annotated[str | None, option("auto|fp32|bf16")]
Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(help_behavior_hint="")]
Json = Annotated[
    bool, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(name="json", help_behavior_hint="")
]
Settings = Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], option("NAME=VALUE", name="set")]


def ready(given: Sequence[str], verbs: Mapping[str, Verb]) -> Callable[[], None]:
    """The verb that was asked for with its options, ready to run; or the help, to be printed."""
    if not given or given[0] in ("-h", "--help"):
        return functools.partial(print, overview(verbs))
    if given[0] == "--version":
        return functools.partial(print, f"ossl {installed('ossl')}")
    name, rest = given[0], list(given[1:])
    if name not in verbs:
        kind = "option" if name.startswith("-") else "command"
        raise unknown_name(kind, name, (*verbs, "--help", "--version"))
    return _parsed(name, verbs[name], rest)


def overview(verbs: Mapping[str, Verb]) -> str:
    """The text of `ossl --help`: what each verb does in a line, and where to begin."""
    width = max(len(name) for name in verbs)
    lines = [f"  {name.ljust(width)}  {_first_line(verb)}" for name, verb in verbs.items()]
    return "\n".join(
        [
            "usage: ossl VERB [OPTIONS]",
            "",
            "Learn classes from a few labelled pictures and a messy pool, and put aside what is of",
            "none of them.",
            "",
            *lines,
            "",
            "Examples:",
            "  ossl demo",
            "  ossl fit --labelled labelled/ --unlabelled pool/ --out RUN",
            "  ossl sort RUN --images pool/ --out sorted/",
            "",
            "ossl VERB --help shows a verb's options; ossl --version the version.",
        ]
    )


def one_of(kind: str, value: str, options: Any) -> str:
    """`value`, which is one of the names in a Literal; otherwise the nearest one is offered."""
    names = get_args(options)
    if value not in names:
        raise unknown_name(kind, value, names)
    return value


def listed(text: str) -> tuple[str, ...]:
    """The names between commas, each once."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def option_value(given: Sequence[str], name: str) -> str | None:
    """What stands after an option, or None without it."""
    for place, word in enumerate(given):
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
        if word == name and place + 1 < len(given):
            return given[place + 1]
    return None


def pairs(settings: Sequence[str]) -> dict[str, str]:
    """The names and values of `--set NAME=VALUE` options."""
    found = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise InputError(f"--set {setting}: write NAME=VALUE, such as recipe.circle_limit=0.3.")
        found[name] = value
    return found


def _parsed(name: str, verb: Verb, rest: list[str]) -> Callable[[], None]:
    @functools.wraps(verb)
    def deferred(*values: Any, **options: Any) -> Callable[[], None]:
        # Parsing only: the verb runs later, when nobody listens to standard error any more.
        return functools.partial(verb, *values, **options)

    _refuse_unknown(name, verb, rest)
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            parsed: Callable[[], None] = tyro.cli(
                deferred, prog=f"ossl {name}", args=rest, description=_description(verb)
            )
            return parsed
    except SystemExit as stop:
        if stop.code in (None, 0):  # --help has been printed
            return lambda: None
    raise InputError(_in_one_line(name, rest, said.getvalue()))


def _refuse_unknown(name: str, verb: Verb, rest: Sequence[str]) -> None:
    known = [
        "--" + _RENAMED.get(parameter, parameter).replace("_", "-")
        for parameter in inspect.signature(verb).parameters
    ]
    for word in rest:
        if word == "--":
            return
        asked = word.partition("=")[0]
        if asked.startswith("--") and asked.replace("_", "-") not in (*known, "--help"):
            guess = nearest(asked, known)
            hint = f"did you mean {guess}? " if guess else ""
            raise InputError(f"unknown option {asked}: {hint}see ossl {name} --help.")


def _in_one_line(name: str, rest: Sequence[str], said: str) -> str:
    """What tyro says of wrong values, without its frame and in the words used here."""
    words = " ".join(re.sub(r"[─│╭╮╰╯]+", " ", said).split())
    see = f"see ossl {name} --help."
    if found := re.search(r"Missing from [\w ]+: (\S+)", words):
        return f"{name} needs {found[1]}; {see}"
    if found := re.search(r"Missing value for argument '(.+?)'", words):
        return f"{found[1]} needs a value; {see}"
    if found := re.search(r"Error parsing (--[\w-]+): (.*?)(?: Argument helptext|$)", words):
        value = option_value(rest, found[1]) or ""
        kind = "a whole number" if "INT" in found[2] else "a number"
        wanted = kind if re.search(r"INT|FLOAT|float|int", found[2]) else found[2]
        return f"{found[1]} {value}: this is not {wanted}; {see}".replace("  ", " ")
    if found := re.search(r"Unrecognized options: ?(?:Unrecognized options: )?(\S+)", words):
        return f"{name}: there is no place for {found[1]!r}; {see}"
    return words or f"these options cannot be understood; {see}"


def _first_line(verb: Verb) -> str:
    return inspect.cleandoc(verb.__doc__ or "").partition("\n")[0]


def _description(verb: Verb) -> str:
    """The docstring up to its list of arguments, its examples among it."""
    return inspect.cleandoc(verb.__doc__ or "").partition("\nArgs:")[0].strip()
