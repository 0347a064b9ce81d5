"""A run put on the Hugging Face hub: what it needs to be used, and its card."""

from __future__ import annotations

import json
from fnmatch import fnmatch
from itertools import starmap
from pathlib import Path
from typing import Any

from dragoman.card import model_card, published, without_folders
from dragoman.config import to_toml
from dragoman.errors import RunError, optional
from dragoman.hub import FILES, HubName, errors_in_words
from dragoman.runs import Run

CARD = "README.md"


def push_to_hub(
    path: str | Path,
    name: str,
    *,
    private: bool = True,
    licence: str | None = None,
    token: str | None = None,
    message: str = "",
) -> str:
    """Put the run in the folder `path` on the hub as "user/model", in one commit; give back its address.

    A model that is not there yet is made, seen by its owner alone unless `private` is False. Its card is the
    run's README.md, if it has one, or `card.model_card`, with `licence`, one of the hub's identifiers. Files
    that an earlier version had and this one has not are removed. `token`: as `hub.fetch`.

    RunError: the run has no weights, or the hub does not take it. MissingExtraError: huggingface_hub is not
    installed.
    """
    target = HubName.parse(name)
    if target.revision is not None:
        raise RunError(
            f"{name}: a run is put on the hub as its newest version; leave @{target.revision} away"
        )
    hub = optional("huggingface_hub", extra="hub", purpose="the Hugging Face hub")
    run = Run.open(path)
    contents = files_to_publish(run, target.model, licence=licence)
    api = hub.HfApi(token=token)
    with errors_in_words(str(target)):
        api.create_repo(target.model, private=private, exist_ok=True)
        stale = [
            file
            for file in api.list_repo_files(target.model)
            if file not in contents and any(fnmatch(file, pattern) for pattern in FILES)
        ]
        operations: list[Any] = [hub.CommitOperationDelete(path_in_repo=file) for file in stale]
        operations += starmap(hub.CommitOperationAdd, contents.items())  # name, content
        commit = api.create_commit(
            target.model, operations, commit_message=message or f"{run.config.name}, {run.config.subject}"
        )
    return str(commit.repo_url)


def files_to_publish(run: Run, name: str, *, licence: str | None) -> dict[str, bytes | str]:
    """Return the files of a run on the hub: content, or where it is.

    Settings and reports name no folder of this machine. RunError: the run has no weights yet, or a file of it
    is damaged.
    """
    run.weight_shapes()
    paths = [path for pattern in FILES for path in sorted(run.path.glob(pattern))]
    contents: dict[str, bytes | str] = {path.relative_to(run.path).as_posix(): str(path) for path in paths}
    contents["config.toml"] = to_toml(published(run.config)).encode()
    for file in [file for file in contents if file.endswith(".json") and "/" not in file]:
        record = without_folders(run.read_json(file))
        contents[file] = json.dumps(record, indent=2, ensure_ascii=False).encode()
    if CARD not in contents:
        contents[CARD] = model_card(run, name=name, licence=licence).encode()
    elif licence is not None:
        raise RunError(f"{run.path / CARD}: is the card that you wrote; say the licence there, and not here")
    return contents
