"""Runs on the Hugging Face hub: `hf:user/model` works in place of a run folder.

What is fetched lies in the hub's own cache, where it is found again without a network. Only the files that a
run needs are fetched, so that nothing else a stranger put beside them ever reaches the disk.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.errors import DragomanError, RunError, optional

PREFIX = "hf:"
"""What tells a run of the hub from a folder; one that is named so is ./hf:…"""

FILES = (
    "config.toml",
    "model.safetensors",
    "shortlist.safetensors",
    "tokenizer/*.json",
    "labels.json",
    "calibration.json",
    "report.json",
    "scores.json",
    "environment.json",
    "README.md",
)
"""What of a run is on the hub: what it needs to be used, what is known of it, and its card."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")


class HubName(NamedTuple):
    """A model of the hub, and which of its versions."""

    model: str
    """Owner and name: "user/model"."""
    revision: str | None = None
    """A branch, a tag or a commit; None: the newest version."""

    def __str__(self) -> str:
        return f"{PREFIX}{self.model}" + (f"@{self.revision}" if self.revision else "")

    @classmethod
    def parse(cls, name: str, *, revision: str | None = None) -> HubName:
        """Parse "user/model" or "user/model@revision", with or without "hf:". RunError: not such a name."""
        model, _, suffix = name.removeprefix(PREFIX).partition("@")
        if suffix and revision and suffix != revision:
            raise RunError(
                f"{name}: names the revision {suffix}, and revision = {revision!r} another; give one"
            )
        version = revision or suffix or None
        if not NAME.fullmatch(model) or ".." in model:
            raise RunError(f"{name}: is no name of the hub; write user/model, or user/model@revision")
        if version is not None and (not REVISION.fullmatch(version) or ".." in version):
            raise RunError(f"{name}: {version!r} is no revision; give a branch, a tag or a commit")
        return cls(model, version)


def is_on_hub(path: str | Path) -> bool:
    """Whether `path` names a run of the hub, hf:user/model."""
    return Path(path).as_posix().startswith(PREFIX)


def fetch(name: HubName, *, token: str | None = None) -> Path:
    """Return the folder of a run of the hub, fetched now as far as it is not in the cache.

    Where the hub cannot be reached, or HF_HUB_OFFLINE is set, it is the version fetched last. `token` is for
    private models; None: the one that `hf auth login` keeps, or HF_TOKEN. RunError: there is no such model or
    version, it may not be read, or the hub is out of reach and the cache has not got it. MissingExtraError:
    huggingface_hub is not installed.
    """
    hub = optional("huggingface_hub", extra="hub", purpose="the Hugging Face hub")
    with errors_in_words(str(name)):
        return Path(
            hub.snapshot_download(name.model, revision=name.revision, token=token, allow_patterns=list(FILES))
        )


def folder_of(name: str | Path, *, revision: str | None = None, token: str | None = None) -> Path:
    """Return the folder of a run, given by its path or, if no such folder exists, its name on the hub.

    Errors: as `fetch`.
    """
    if Path(name).is_dir():
        return Path(name)
    return fetch(HubName.parse(Path(name).as_posix(), revision=revision), token=token)


@contextmanager
def errors_in_words(name: str) -> Iterator[None]:
    """Turn errors of the hub into a RunError about `name`.

    The hub's own messages are not shown: they are many lines long, with addresses and headers.
    """
    from huggingface_hub import errors

    reasons: dict[Any, str] = {  # the first that an error belongs to
        errors.GatedRepoError: "its owner lets only some read it; ask on its page, and log in",
        errors.RevisionNotFoundError: "the hub has no such revision; give a branch, a tag or a commit",
        errors.RepositoryNotFoundError: "the hub has no such model, or it is private; check the name, or log "
        "in: hf auth login",
        (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled): "the hub cannot be reached, and the "
        "cache has not all of it; connect, and try again",
        errors.LocalTokenNotFoundError: "needs a token; log in: hf auth login",
    }
    try:
        yield
    except DragomanError:
        raise
    except Exception as error:  # its HTTP library has been another one in every major version
        kind = type(error.__cause__ or error).__name__
        reason = f"the hub cannot be used ({kind}); look at the connection, and try again"
        if isinstance(error, errors.HfHubHTTPError):
            status = error.response.status_code
            advice = {401: "log in: hf auth login", 403: "the token has not the right to; give another"}
            reason = f"the hub answered {status}; {advice.get(status, 'try again later')}"
        reason = next((why for kinds, why in reasons.items() if isinstance(error, kinds)), reason)
        raise RunError(f"{name}: {reason}") from error
