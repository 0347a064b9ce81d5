"""A recipe folder: recipe.toml, its variants, their expected scores, and the data that these are of."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, TypeAdapter, ValidationError, field_validator

from dragoman.config import Config, Settings, parse_config, parse_section, read_settings
from dragoman.data import catalog
from dragoman.data.readers.files import find_file, open_bytes
from dragoman.distillation.lessons import Lessons
from dragoman.errors import ConfigError, DataError
from dragoman.files import recipes_folder

FULL, QUICK = "full", "quick"
OF_SEED = "-seed-"
"""Stands before the seed in the names of runs that have another one than their recipe."""
DISTILLATION = "distillation"
"""The table of a recipe's file that is a `Distillation`, and no part of the configuration."""


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


EXPECTED = TypeAdapter(dict[str, Expectation])
"""The whole file: the expectation of each version that was recorded."""


def load_expected(path: Path) -> dict[str, Expectation]:
    """Read the file. ConfigError: it is unreadable, or has mistakes (all are in the message)."""
    try:
        return EXPECTED.validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read ({error.strerror}); docs/reproduce.md says how it is written"
        ) from error
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, problem['loc'])) or 'the file'}: {problem['msg'].lower()}"
            for problem in error.errors()
        )
        raise ConfigError(f"{path}: {problems}; docs/reproduce.md says what belongs there") from error


class Distillation(Settings):
    """Translations that a recipe learns from: other runs write them before it is trained."""

    teacher: str
    """The run whose training text is translated, and whose tokenizer the recipe takes unless it starts from
    another run."""
    lessons: Lessons = Lessons()
    """Which other runs translate, and what is kept: as the options of `dragoman distill`."""

    @field_validator("lessons", mode="before")
    @classmethod
    def _has_tuples(cls, value: Any) -> Any:
        """Take TOML's lists for tuples."""
        if not isinstance(value, Mapping):
            return value
        return {name: tuple(part) if isinstance(part, list) else part for name, part in value.items()}


@dataclass(frozen=True)
class Recipe:
    """A folder such as recipes/multi30k-en-de. Its versions: "full", "quick", variants by name."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    @property
    def expected_path(self) -> Path:
        return self.folder / "expected.json"

    def versions(self) -> list[str]:
        """Return the versions there are: by recipe.toml, quick.toml and all the others."""
        names = sorted(path.stem for path in self.folder.glob("*.toml"))
        return [{"recipe": FULL}.get(name, name) for name in sorted(names, key=lambda n: n != "recipe")]

    def results(self, version: str) -> Path:
        """Where the files of the reference run are."""
        return self.folder / "results" / ("" if version == FULL else version)

    def config(self, version: str, *, seed: int | None = None) -> Config:
        """Return the settings of a version; with another `seed`, so does the run that it starts from.

        ConfigError: there is no such version, or it holds mistakes.
        """
        settings = self._settings(version)
        settings.pop(DISTILLATION, None)
        config = parse_config(settings, where=self._where(version))
        if seed is None:
            return config
        overrides = [f"seed={seed}"]
        if start := start_of(config):
            overrides.append(f'training.start_from="{start}{OF_SEED}{seed}"')
        return parse_config(settings, overrides=overrides, where=self._where(version))

    def distillation(self, version: str) -> Distillation | None:
        """Return what writes the text that a version learns from; None: it is not written by runs."""
        settings = self._settings(version).get(DISTILLATION)
        where = f"{self._where(version)}: {DISTILLATION}"
        if settings is None:
            return None
        if not isinstance(settings, Mapping):
            hint = f"write [{DISTILLATION}] and its settings"
            raise ConfigError(f"{where} = {settings!r}: is no section; {hint}")
        return parse_section(Distillation, settings, where=where)

    def _settings(self, version: str) -> dict[str, Any]:
        """Return the content of a version's file; that of the quick version, laid over the full one's."""
        if version not in self.versions():
            raise ConfigError(f"{self.folder}: has no {version}.toml; there are {', '.join(self.versions())}")
        settings = dict(read_settings(Path(self._where(version))))
        return laid_over(self._settings(FULL), settings) if version == QUICK else settings

    def _where(self, version: str) -> str:
        return str(self.folder / f"{'recipe' if version == FULL else version}.toml")

    def expected(self) -> dict[str, Expectation]:
        """Return the expectation of each version that was recorded. ConfigError: the file has mistakes."""
        return load_expected(self.expected_path) if self.expected_path.exists() else {}

    def expectation(self, version: str) -> Expectation:
        """Return what is expected of a version. ConfigError: nothing was recorded."""
        expected = self.expected()
        if version not in expected:
            raise ConfigError(
                f"{self.expected_path}: has no scores of the {version} version; train it, and record them as "
                "docs/reproduce.md says"
            )
        return expected[version]


def start_of(config: Config) -> str:
    """Return the folder of the run that a training with these settings starts from; "" = none."""
    return config.training.start_from if config.task == "translation" else ""


def laid_over(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return `settings` updated by `changes`, section by section."""
    merged = dict(settings)
    for name, value in changes.items():
        old = merged.get(name)
        merged[name] = {**old, **value} if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def version_option(version: str) -> str:
    """Return the command-line option of a version, with a leading space."""
    return {FULL: "", QUICK: " --quick"}.get(version, f" --variant {version}")


def run_name(recipe: Recipe, version: str, *, seed: int | None) -> str:
    """Return the default name of a run of this version; `version_of_run` reads it."""
    parts = [recipe.name, *([version] if version != FULL else [])]
    return "-".join(parts) + ("" if seed is None else f"{OF_SEED}{seed}")


def version_of_run(name: str) -> tuple[Recipe, str, int | None]:
    """Return recipe, version and seed of the run called `name`; seed None: the recipe's.

    ConfigError: no recipe has runs of this name.
    """
    stem, _, seed = name.rpartition(OF_SEED)
    if not seed.isdecimal():
        stem, seed = name, ""
    here = [Recipe(path.parent) for path in sorted(Path().glob("*/recipe.toml"))]
    for recipe in (*here, *known_recipes()):
        for version in recipe.versions():
            if stem == run_name(recipe, version, seed=None):
                return recipe, version, int(seed) if seed else None
    raise ConfigError(f"{name}: no recipe has a run of this name, and no folder with a recipe.toml is there")


def known_recipes() -> list[Recipe]:
    """Return the recipes that come with Dragoman, by name."""
    return [Recipe(path.parent) for path in sorted(recipes_folder().glob("*/recipe.toml"))]


def find_recipe(name: str) -> Recipe:
    """Return the recipe in the folder `name`, or else the one of this name that comes with Dragoman.

    ConfigError: there is neither.
    """
    if (Path(name) / "recipe.toml").is_file():
        return Recipe(Path(name))
    recipes = {recipe.name: recipe for recipe in known_recipes()}
    if name in recipes:
        return recipes[name]
    close = difflib.get_close_matches(name, recipes, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(recipes) or 'none here'}"
    raise ConfigError(f"{name}: no recipe, and no folder with a recipe.toml; {hint}")


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


def differing(config: Config, data: Data) -> Iterator[str]:
    """Yield a complaint about each file that is here with another text than was recorded."""
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
