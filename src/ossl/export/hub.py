"""A run on the Hugging Face hub: what its repository holds, sending it there, and fetching it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from ossl.errors import InputError
from ossl.export.about import public_config
from ossl.export.card import model_card
from ossl.fit import LoadedRun
from ossl.rundir import RunFolder

CARD = "README.md"
FILES = ("config.json", "model.safetensors", "jointspace.safetensors", "metrics.json")


def write_repository(run: LoadedRun, folder: Path, repo: str) -> None:
    """Write what a repository holds: a run without its journal, and a card that describes it.

    Nothing in it names a folder of the machine that the run was fitted on.
    """
    place = RunFolder(folder)
    place.check()
    place.clear()
    config = public_config(run.config)
    metrics: dict[str, Any] = run.folder.read_json("metrics.json") or {}
    if metrics:
        # For folders this is where they lay.
        metrics["data"] = None if config.data.kind == "folders" else metrics.get("data")
        place.write_json("metrics.json", metrics)
    place.write_config(config)
    place.write_model(run.method.state_dict(), run.method.joint_space(), run.classes)
    (folder / CARD).write_text(model_card(run, metrics, repo), encoding="utf-8")


def push(run: LoadedRun, repo: str, *, private: bool = False, message: str | None = None) -> str:
    """The address of the repository, after the run was uploaded to it."""
    from huggingface_hub import HfApi

    check_name(repo)
    with tempfile.TemporaryDirectory(prefix="ossl-") as parent:
        folder = Path(parent) / "repository"
        write_repository(run, folder, repo)
        try:
            api = HfApi()
            api.create_repo(repo, private=private, exist_ok=True)
            api.upload_folder(
                repo_id=repo, folder_path=folder, commit_message=message or "Add a run of ossl"
            )
            return f"{api.endpoint}/{repo}"
        except Exception as error:
            reason = _refused(f"push {repo}", error, "or write the files with --to DIR")
            if reason is None:
                raise
            raise reason from error


def fetch(repo: str, revision: str | None = None) -> Path:
    """The folder that holds a repository's files, of the hub's or already on this machine."""
    if Path(repo).expanduser().is_dir():
        return Path(repo).expanduser()
    check_name(repo)
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(repo, revision=revision, allow_patterns=list(FILES)))
    except Exception as error:
        reason = _refused(f"fetch {repo}", error, "or give a folder that holds the repository")
        if reason is None:
            raise
        raise reason from error


def check_name(repo: str) -> None:
    """None for a name such as `me/cats`, else an InputError."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils._validators import validate_repo_id

    try:
        validate_repo_id(repo)
    except HFValidationError as error:
        raise InputError(
            f"{repo!r} is neither a folder here nor a repository's name such as me/cats."
        ) from error


def _refused(what: str, error: Exception, otherwise: str) -> InputError | None:
    """What the hub, or the lack of one, comes to in one line; None for any other error."""
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        LocalEntryNotFoundError,
        LocalTokenNotFoundError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    away = False
    cause: BaseException | None = error
    while cause is not None:  # a snapshot that is not cached hides why it could not be fetched
        if isinstance(cause, GatedRepoError):
            return InputError(f"{what}: this repository asks for a login: hf auth login.")
        if isinstance(cause, RevisionNotFoundError):
            return InputError(f"{what}: it has no such revision; check the name.")
        if isinstance(cause, RepositoryNotFoundError):
            return InputError(
                f"{what}: there is no such repository, or it is private: check the name, "
                "or hf auth login."
            )
        if isinstance(cause, HfHubHTTPError):
            code = cause.response.status_code
            if code in (401, 403):
                return InputError(f"{what}: the hub does not allow it ({code}): hf auth login.")
            return InputError(f"{what}: the hub answered {code}; try again later, {otherwise}.")
        if isinstance(cause, LocalTokenNotFoundError):
            return InputError(f"{what}: the hub does not know you: hf auth login.")
        away |= isinstance(cause, OSError | LocalEntryNotFoundError | OfflineModeIsEnabled)
        # The library that speaks to the hub has changed before; its errors are known by its name.
        away |= type(cause).__module__.startswith(("httpx", "httpcore", "requests", "urllib3"))
        cause = cause.__cause__ or cause.__context__
    if away:
        return InputError(f"{what}: the hub cannot be reached; check the network, {otherwise}.")
    return None


def write_locally(run: LoadedRun, folder: Path, repo: str) -> None:
    """Write a repository's files to a folder of this machine; what is half written is removed."""
    existed = folder.exists()
    try:
        write_repository(run, folder, repo)
    except BaseException:
        if not existed:
            shutil.rmtree(folder, ignore_errors=True)
        raise
