"""The verbs `ossl export` and `ossl push`; they read options, load the run and write it."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Annotated, Literal

import tyro

from ossl.errors import InputError
from ossl.options import File, Flag, Folder, Name, Run, one_of, option

FormatName = Annotated[str | None, option("onnx|safetensors")]
Repository = Annotated[str, tyro.conf.Positional, option("REPO")]


def export(run: Run, format: FormatName = None, out: File = None) -> None:
    """Write a run as one file, to use elsewhere: ONNX or safetensors.

    onnx is one graph in float32, from uint8 pictures [batch, height, width, 3] of the run's size to
    class probabilities, outlier scores and decisions; it needs no ossl where it is used. How a
    picture is brought to that size, the class names and the boundary are in the file's metadata.
    safetensors is all that OpenPrompt.load needs to go on in Python.

    Example: ossl export RUN --format onnx --out model.onnx

    Example: ossl export RUN --format safetensors --out model.safetensors

    Args:
        run: A finished run.
        format: onnx or safetensors. Default: by the ending of --out.
        out: The file to write; one that is there is replaced.
    """
    if out is None:
        raise InputError("export needs --out FILE, the file to write; see ossl export --help.")
    ending = out.suffix.removeprefix(".")
    chosen = one_of("format", format or ending or "onnx", Literal["onnx", "safetensors"])
    if out.is_dir():
        raise InputError(
            f"--out {out} is a folder; name a file, such as {out / f'model.{chosen}'}."
        )
    from ossl.compute import create_accelerator
    from ossl.files import check_writable
    from ossl.fit import load_run

    if chosen == "onnx":
        from ossl.export.onnx import check_installed, write_onnx

        check_installed()
        check_writable(out.parent)
        loaded = load_run(run, create_accelerator("cpu"))
        print("tracing the graph, which takes about half a minute …", file=sys.stderr)
        write_onnx(loaded, out)
    else:
        from ossl.export.bundle import write_bundle

        loaded = load_run(run, create_accelerator("cpu"))
        write_bundle(loaded, out)
    print(exported(out, chosen, loaded.method.image_size, loaded.classes, loaded.method.threshold))


def exported(out: Path, format: str, size: int, classes: tuple[str, ...], threshold: float) -> str:
    """What was written, and how it is used."""
    megabytes = out.stat().st_size / 1e6
    lines = [f"{out} ({megabytes:,.1f} MB): {len(classes)} classes, pictures of {size}×{size}"]
    if format == "onnx":
        lines += [
            f"input    pictures       uint8 [batch, {size}, {size}, 3], RGB",
            f"outputs  probabilities  float32 [batch, {len(classes)}]",
            f"         outlier_score  float32 [batch]; above {threshold:.4g} it is an outlier",
            "         is_outlier     bool [batch]",
        ]
    else:
        lines.append(f"next, in Python: ossl.OpenPrompt.load({str(out)!r})")
    return "\n".join(lines)


def push(
    run: Run, repo: Repository, to: Folder = None, private: Flag = False, message: Name = None
) -> None:
    """Upload a run to the Hugging Face hub, with a card that describes it.

    OpenPrompt.from_pretrained(REPO) takes it back. Nothing that is uploaded names a folder of this
    machine; features of the pictures are in it, pictures are not. Needs a login (hf auth login);
    HF_ENDPOINT names another hub.

    Example: ossl push RUN me/cats-and-dogs --private

    Example: ossl push RUN me/cats-and-dogs --to DIR

    Args:
        run: A finished run.
        repo: The repository's name, such as me/cats-and-dogs; made if there is none.
        to: Write the repository's files to this folder, and upload nothing.
        private: Make the repository one that only you can see.
        message: What the upload's commit says.
    """
    from ossl.export.hub import check_name, write_locally
    from ossl.export.hub import push as upload
    from ossl.fit import load_run

    check_name(repo)
    if to is not None:
        write_locally(load_run(run), to, repo)
        print(f"the repository's files are in {to}; nothing was uploaded")
        print(f"next, in Python: ossl.OpenPrompt.from_pretrained({str(to)!r})")
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        address = upload(load_run(run), repo, private=private, message=message)
    print(f"the run is at {address}")
    print(f"next, in Python: ossl.OpenPrompt.from_pretrained({repo!r})")
