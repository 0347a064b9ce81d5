"""Named data sets: what they are, and where they are. The descriptions are in datasets.toml.

`places` is also where every file of a corpus is looked for.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter

from dragoman.errors import DataError
from dragoman.files import cache_folder
from dragoman.removed import instead_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True)
class Download:
    """A file on the web: its addresses, of which the first that works is taken, and what is known of it."""

    file: str
    urls: tuple[str, ...]
    checksum: str
    """ "md5:…" or "sha256:…", or several, one of which must be right; "" where none is published."""
    size: int
    """Bytes; 0 where nobody says."""


@dataclass(frozen=True)
class PreparedFile:
    """A prepared file of a data set."""

    path: str
    n_lines: int
    """0 where it grows with its source."""
    text_sha256: str
    """Of the decompressed text with which results were measured, or one of several; "" where none were."""
    optional: bool = False


@dataclass(frozen=True)
class Dataset:
    """What the catalogue says of a data set."""

    name: str
    folder: str
    title: str
    task: str
    languages: tuple[str, ...]
    n_examples: str
    """Of the training part, for people to read: "29,000"."""
    licence: str
    citation: str
    homepage: str
    note: str
    step: str
    downloads: tuple[Download, ...]
    parts: tuple[PreparedFile, ...]

    @property
    def size(self) -> int:
        """Bytes to download; 0 where nobody says."""
        sizes = [item.size for item in self.downloads]
        return sum(sizes) if all(sizes) else 0

    def missing(self, folder: Path) -> list[str]:
        """Return the files that `folder` lacks to be the complete set."""
        return [part.path for part in self.parts if not part.optional and not (folder / part.path).is_file()]

    def present(self, folder: Path) -> list[PreparedFile]:
        """Return the files of the set that are in `folder`."""
        return [part for part in self.parts if (folder / part.path).is_file()]


class Place(NamedTuple):
    """Where a data set is: `folder` is None where nothing of it is here, `missing` what is not there."""

    folder: Path | None
    description: str
    missing: tuple[str, ...]


def names() -> list[str]:
    """Return the names of the data sets there are."""
    return list(_catalogue())


def get(name: str) -> Dataset:
    """Return the data set of this name. DataError: no set has it; the message lists the names."""
    try:
        return _catalogue()[name]
    except KeyError as error:
        if sentence := instead_of(f"{name.partition(':')[0]}:"):
            raise DataError(sentence) from error
        near = difflib.get_close_matches(name, names(), n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names())}"
        raise DataError(f"{name}: no data set has this name; {hint}") from error


def providing(file: str) -> Dataset | None:
    """Return the data set whose file a recipe names so, such as "multi30k/train.en.gz"; None: none has it."""
    for dataset in _catalogue().values():
        if file in {f"{dataset.folder}/{part.path}" for part in dataset.parts}:
            return dataset
    return None


def locate(name: str) -> Path | None:
    """Return the folder in which the data set is complete; None where it is not. DataError: no such name."""
    place = whereabouts(get(name))
    return None if place.missing else place.folder


def whereabouts(dataset: Dataset) -> Place:
    """Where a data set is: the first place where it is complete, or else the one where least is missing."""
    candidates = [
        Place(folder / dataset.folder, description, tuple(dataset.missing(folder / dataset.folder)))
        for folder, description in places()
        if dataset.present(folder / dataset.folder)
    ]
    nowhere = Place(None, "not here", tuple(dataset.missing(Path(os.devnull))))
    return min(candidates, key=lambda place: len(place.missing), default=nowhere)


@cache
def _catalogue() -> dict[str, Dataset]:
    text = resources.files("dragoman.data").joinpath("datasets.toml").read_text(encoding="utf-8")
    adapter = TypeAdapter(Dataset)
    return {
        name: adapter.validate_python({"name": name, "parts": entry.pop("files"), **entry})
        for name, entry in tomllib.loads(text).items()
    }


def places() -> Iterator[tuple[Path, str]]:
    """Yield the folders in which files and data sets are looked for, each with its name for people."""
    yield Path(), "here"
    if os.environ.get("DRAGOMAN_DATA"):
        yield Path(os.environ["DRAGOMAN_DATA"]), "$DRAGOMAN_DATA"
    yield cache_folder(), "cache"
