"""Check the data of a recipe: present, and the same as in the recorded runs?"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

from dragoman.config import Config
from dragoman.data import catalog
from dragoman.data.readers.files import find_file, open_bytes
from dragoman.errors import DataError
from dragoman.reproduction.expected import Data, DataFile

NO_FILES = ("phrasebook:", "hf:")
"""What corpora begin with that are no files: embedded, or streamed from the hub."""


def files_of(config: Config) -> list[str]:
    """Return the names of all files that a recipe reads, each once."""
    names = [file for _, files in config.data.files() for file in files]
    return [name for name in dict.fromkeys(names) if not name.startswith(NO_FILES)]


def provide(config: Config, *, fetch: bool, say: Callable[[str], None]) -> None:
    """See that every file is here, and fetch what the catalogue has. DataError: one is not to be had."""
    for name, missing in missing_files(config).items():
        if name is None:
            find_file(missing[0])  # says where it was looked for
        elif not fetch:
            raise DataError(
                f"{missing[0]}: is not here, and nothing is to be fetched; dragoman data fetch {name} brings "
                "it, or $DRAGOMAN_DATA names the folder it is in"
            )
        else:
            folder = catalog.get(name).folder
            catalog.fetch(name, needs=[file.removeprefix(f"{folder}/") for file in missing], report=say)
    for file in files_of(config):
        find_file(file)


def missing_files(config: Config) -> dict[str | None, list[str]]:
    """Return the files that are not here, by the data set that has them.

    None: no data set of the catalogue.
    """
    missing: dict[str | None, list[str]] = {}
    for file in files_of(config):
        try:
            find_file(file)
        except DataError:
            dataset = catalog.providing(file)
            missing.setdefault(dataset.name if dataset else None, []).append(file)
    return missing


def check(config: Config, data: Data) -> None:
    """Compare the files with those that were recorded. DataError: one holds other text."""
    for problem in differing(config, data):
        raise DataError(problem)


def differing(config: Config, data: Data) -> Iterator[str]:
    """Each file that is here with another text than was recorded, in words."""
    missing = {file for files in missing_files(config).values() for file in files}
    for name in files_of(config):
        recorded = data.files.get(name)
        if recorded is None or name in missing:
            continue
        actual = describe(find_file(name))
        if actual != recorded and not _are_equivalent(name, actual, recorded):
            dataset = catalog.providing(name)
            remedy = f"get it again with: dragoman data fetch {dataset.name}" if dataset else "get it again"
            yield (
                f"{find_file(name)}: is not the text that the scores were measured on "
                f"({actual.n_lines:,} lines, sha256 {actual.sha256[:12]}…, and not {recorded.n_lines:,}, "
                f"{recorded.sha256[:12]}…); {remedy}"
            )


def describe(path: Path) -> DataFile:
    """Lines and sum of a file's text, decompressed."""
    digest, n_lines, last = hashlib.sha256(), 0, b"\n"
    with open_bytes(path) as file:
        while block := file.read(1 << 20):
            digest.update(block)
            n_lines += block.count(b"\n")
            last = block[-1:]
    return DataFile(n_lines=n_lines + (last != b"\n"), sha256=digest.hexdigest())


def _are_equivalent(name: str, actual: DataFile, recorded: DataFile) -> bool:
    """Whether the catalogue says that results were measured on either text."""
    dataset = catalog.providing(name)
    sums = [part.text_sha256.split() for part in dataset.parts] if dataset else []
    return any({actual.sha256, recorded.sha256} <= set(accepted) for accepted in sums)
