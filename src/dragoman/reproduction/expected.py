"""expected.json: expected scores, how they were measured, and whether the data is still the same."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from dragoman.config import Config, Settings
from dragoman.data import catalog
from dragoman.data.readers.files import find_file, open_bytes
from dragoman.errors import ConfigError, DataError


class ExpectedScore(Settings):
    """One figure of one test set."""

    test_set: str
    """The name that the recipe gives it in [data.test]."""
    metric: str
    """As `dragoman evaluate` prints it."""
    value: float
    """The mean over the seeds."""
    tolerance: float = Field(ge=0.0)
    """How much worse a run may be, in points."""
    tolerance_from: str
    """Where the tolerance comes from, in words."""
    better: Literal["higher", "lower"]
    """Which way the score improves. A better one than expected passes always."""
    seeds: dict[str, float] = Field(min_length=1)
    """The score of each seed's run."""
    signature: str
    """Everything the score depends on beside the texts. Another one cannot be compared."""


class TimedMachine(Settings):
    """Where the minutes were taken."""

    cpu: str
    n_cores: int = Field(ge=1)
    n_threads: int = Field(ge=1)


class DataFile(Settings):
    """A file that the recipe names: its text, decompressed."""

    n_lines: int = Field(ge=0)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


class Data(Settings):
    """What the recipe reads."""

    sets: tuple[str, ...]
    """Names for `dragoman data fetch`."""
    files: dict[str, DataFile]
    """By the name in the recipe. What is embedded or streamed has no place here."""


class Expectation(Settings):
    """What a run of one version of a recipe should come to."""

    scores: tuple[ExpectedScore, ...] = Field(min_length=1)
    minutes: float = Field(ge=0.0)
    """Of training, validation included, on `machine`."""
    max_steps: int = Field(ge=1)
    """The training.max_steps of the reference history."""
    machine: TimedMachine
    versions: dict[str, str]
    """Of the packages that scores depend on."""
    data: Data
    command: str
    """What reproduces it."""
    date: str = Field(pattern=r"^\d{4}-\d{2}-\d{2}$")
    """When it was recorded."""


class Expected(Settings):
    """The whole file."""

    full: Expectation | None = None
    """recipe.toml as it is."""
    quick: Expectation | None = None
    """With quick.toml laid over it: minutes in place of hours."""
    variants: dict[str, Expectation] = Field(default_factory=dict)
    """Other recipes of the folder, such as seed.toml, by their names."""

    def versions(self) -> dict[str, Expectation]:
        """Return the expected scores of "full", "quick" and variants, as far as they were recorded."""
        named = {"full": self.full, "quick": self.quick, **self.variants}
        return {version: one for version, one in named.items() if one is not None}


def load_expected(path: Path) -> Expected:
    """Read the file. ConfigError: it is unreadable, or has mistakes (all are in the message)."""
    try:
        return Expected.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read ({error.strerror}); docs/reproduce.md says how it is written"
        ) from error
    except ValidationError as error:
        kinds = {"missing": "is missing", "extra_forbidden": "is not known here"}
        problems = "; ".join(
            f"{name} {kinds[problem['type']]}"
            if problem["type"] in kinds
            else f"{name}: {problem['msg'][:1].lower()}{problem['msg'][1:]}"
            for problem in error.errors()
            for name in [".".join(map(str, problem["loc"])) or "the file"]
        )
        raise ConfigError(f"{path}: {problems}; docs/reproduce.md says what belongs there") from error


NO_FILES = ("phrasebook:", "hf:")
"""What corpora begin with that are no files: embedded, or streamed from the hub."""


def files_of(config: Config) -> list[str]:
    """Return the names of all files that a recipe reads, each once."""
    names = [file for _, files in config.data.files() for file in files]
    return [name for name in dict.fromkeys(names) if not name.startswith(NO_FILES)]


def provide_data(config: Config, *, fetch: bool, say: Callable[[str], None]) -> None:
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


def check_data(config: Config, data: Data) -> None:
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
        if (actual := describe_file(find_file(name))) == recorded:
            continue
        dataset = catalog.providing(name)
        accepted = [set(part.text_sha256.split()) for part in dataset.parts] if dataset else []
        # The catalogue may say that results were measured on either text.
        if not any({actual.sha256, recorded.sha256} <= sums for sums in accepted):
            remedy = f"get it again with: dragoman data fetch {dataset.name}" if dataset else "get it again"
            yield (
                f"{find_file(name)}: is not the text that the scores were measured on "
                f"({actual.n_lines:,} lines, sha256 {actual.sha256[:12]}…, and not {recorded.n_lines:,}, "
                f"{recorded.sha256[:12]}…); {remedy}"
            )


def describe_file(path: Path) -> DataFile:
    """Lines and sum of a file's text, decompressed."""
    digest, n_lines, last = hashlib.sha256(), 0, b"\n"
    with open_bytes(path) as file:
        while block := file.read(1 << 20):
            digest.update(block)
            n_lines += block.count(b"\n")
            last = block[-1:]
    return DataFile(n_lines=n_lines + (last != b"\n"), sha256=digest.hexdigest())
