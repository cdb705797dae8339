"""One self-contained HTML file: style, script and data inside, nothing fetched from anywhere."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

from ossl.rundir import json_text

# What would end the script element, or a line for an old parser, is written as \uNNNN: inside JSON
# these characters stand in strings only, and mean the same there.
_UNSAFE = {c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def embedded_json(values: Any) -> Markup:
    """The values as JSON that may stand in a script element, whatever strings are in them."""
    text = json_text(values)
    for character, escape in _UNSAFE.items():
        text = text.replace(character, escape)
    return Markup(text)


def page(
    template: str,
    styles: Sequence[str],
    scripts: Sequence[str],
    values: dict[str, Any],
) -> str:
    """The page from files of the package, named below it; text from `values` is escaped.

    Its policy lets the browser run these very scripts and styles alone, and load no picture but
    those inside and, when the page is opened from disk, originals on the same disk.
    """
    style = "\n".join(_text(name) for name in styles)
    script = ""
    if scripts:
        parts = "\n".join(_text(name) for name in scripts)
        script = f'"use strict";\n(() => {{\n{parts}\n}})();\n'
    policy = "; ".join(
        [
            "default-src 'none'",
            f"style-src {_hash(style)}",
            f"script-src {_hash(script)}" if script else "script-src 'none'",
            "img-src data: blob: file:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    environment = Environment(
        loader=DictLoader({template: _text(template)}),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    own = {"style": Markup(style), "script": Markup(script), "policy": policy}
    return environment.get_template(template).render(**own, **values)


def data_uri(kind: str, data: bytes) -> str:
    """The bytes of a file of this MIME type as an address that holds them."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _text(name: str) -> str:
    return files("ossl").joinpath(*name.split("/")).read_text(encoding="utf-8")
