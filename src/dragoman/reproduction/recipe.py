"""A recipe folder: recipe.toml, its variants, their expected scores, and the data that these are of."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

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
NO_FILES = ("phrasebook:", "hf:")
"""What corpora begin with that are no files: embedded, or streamed from the hub."""


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


class Distillation(Settings):
    """Translations that a recipe learns from: other runs write them before it is trained."""

    teacher: str
    """The run whose training text is translated, and whose tokenizer the recipe takes unless it starts from
    another run."""
    lessons: Lessons = Lessons()
    """Which other runs translate, and what is kept: as the options of `dragoman distill`."""


@dataclass(frozen=True)
class Recipe:
    """A version of the recipe in a folder such as recipes/multi30k-en-de, to be trained with a seed."""

    folder: Path
    version: str = FULL
    """"full", "quick", or a variant by name."""
    seed: int | None = None
    """Another one than in its file."""

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    @property
    def run_name(self) -> str:
        """Default name of its run; `recipe_of_run` reads it."""
        version = "" if self.version == FULL else f"-{self.version}"
        return f"{self.name}{version}{'' if self.seed is None else f'{OF_SEED}{self.seed}'}"

    @property
    def option(self) -> str:
        """The command-line option of the version, with a leading space."""
        return {FULL: "", QUICK: " --quick"}.get(self.version, f" --variant {self.version}")

    @property
    def expected_path(self) -> Path:
        return self.folder / "expected.json"

    @property
    def results(self) -> Path:
        """Where the files of the reference run are."""
        return self.folder / "results" / ("" if self.version == FULL else self.version)

    def versions(self) -> list[Recipe]:
        """Return the versions there are: by recipe.toml, quick.toml and all the others."""
        names = sorted(path.stem for path in self.folder.glob("*.toml"))
        names.sort(key=lambda name: name != "recipe")
        return [replace(self, version={"recipe": FULL}.get(name, name)) for name in names]

    @cached_property
    def config(self) -> Config:
        """Its settings; with another seed, so has the run that it starts from.

        ConfigError: there is no such version, or it holds mistakes.
        """
        settings = {name: value for name, value in self._settings.items() if name != DISTILLATION}
        config = parse_config(settings, where=self._where)
        if self.seed is None:
            return config
        overrides = [f"seed={self.seed}"]
        if start := start_of(config):
            overrides.append(f'training.start_from="{start}{OF_SEED}{self.seed}"')
        return parse_config(settings, overrides=overrides, where=self._where)

    @cached_property
    def distillation(self) -> Distillation | None:
        """What writes the text that it learns from; None: no runs do. ConfigError: it holds mistakes."""
        settings, where = self._settings.get(DISTILLATION), f"{self._where}: {DISTILLATION}"
        if settings is None:
            return None
        if not isinstance(settings, Mapping):
            hint = f"write [{DISTILLATION}] and its settings"
            raise ConfigError(f"{where} = {settings!r}: is no section; {hint}")
        return parse_section(Distillation, settings, where=where)

    @property
    def _where(self) -> str:
        return str(self.folder / f"{'recipe' if self.version == FULL else self.version}.toml")

    @cached_property
    def _settings(self) -> dict[str, Any]:
        """The content of its file; that of the quick version, laid over the full one's section by section."""
        if self.version not in (names := [each.version for each in self.versions()]):
            raise ConfigError(f"{self.folder}: has no {self.version}.toml; there are {', '.join(names)}")
        settings = read_settings(self._where)
        if self.version == QUICK:
            full = replace(self, version=FULL)._settings
            for name, value in full.items():
                changed = settings.setdefault(name, value)
                if isinstance(value, Mapping) and isinstance(changed, Mapping):
                    settings[name] = {**value, **changed}
        return settings

    def recorded(self) -> dict[str, Expectation]:
        """Return the expectation of each version that was recorded.

        ConfigError: the file is unreadable, or has mistakes (all are in the message).
        """
        path = self.expected_path
        try:
            return EXPECTED.validate_json(path.read_bytes())
        except FileNotFoundError:
            return {}
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

    def expectation(self) -> Expectation:
        """Return what is expected. ConfigError: nothing was recorded."""
        try:
            return self.recorded()[self.version]
        except KeyError as error:
            raise ConfigError(
                f"{self.expected_path}: has no scores of the {self.version} version; train it, and record "
                "them as docs/reproduce.md says"
            ) from error

    def runs_before(self) -> list[Path]:
        """Return the folders of the runs that it starts from or learns from, each once."""
        runs = [Path(start)] if (start := start_of(self.config)) else []
        if self.distillation:
            runs += self.distillation.lessons.runs(Path(self.distillation.teacher))
        return list(dict.fromkeys(runs))

    def files(self) -> list[str]:
        """Return the names of the files that it reads, each once, without those that other runs write."""
        data = self.config.data
        if self.distillation:
            data = data.model_copy(update={"train": (), "valid": ()})
        names = dict.fromkeys(file for _, files in data.files() for file in files)
        return [name for name in names if not name.startswith(NO_FILES)]

    def missing_files(self) -> dict[str | None, list[str]]:
        """Return the files that are not here, by the data set that has them; None: no set has."""
        missing: dict[str | None, list[str]] = {}
        for file in self.files():
            try:
                find_file(file)
            except DataError:
                dataset = catalog.providing(file)
                missing.setdefault(dataset.name if dataset else None, []).append(file)
        return missing

    def provide_data(self, *, fetch: bool, say: Callable[[str], None]) -> None:
        """See that every file is here, and fetch what the catalogue has.

        DataError: one is not to be had, or not what the scores were measured on.
        """
        for name, missing in self.missing_files().items():
            if name is None:
                find_file(missing[0])  # says where it was looked for
            elif not fetch:
                raise DataError(
                    f"{missing[0]}: is not here, and nothing is to be fetched; dragoman data fetch {name} "
                    "brings it, or $DRAGOMAN_DATA names the folder it is in"
                )
            else:
                folder = catalog.get(name).folder
                catalog.fetch(name, needs=[file.removeprefix(f"{folder}/") for file in missing], report=say)
        for file in self.files():
            find_file(file)
        for problem in self.differing_files():
            raise DataError(problem)

    def differing_files(self) -> Iterator[str]:
        """Yield a complaint about each file that is here with another text than was recorded."""
        missing = {file for files in self.missing_files().values() for file in files}
        for name, recorded in self.expectation().data.files.items():
            if name not in self.files() or name in missing:
                continue
            actual, dataset = describe_file(find_file(name)), catalog.providing(name)
            accepted = [set(part.text_sha256.split()) for part in dataset.parts] if dataset else []
            # The catalogue may say that results were measured on either text.
            if actual == recorded or any({actual.sha256, recorded.sha256} <= sums for sums in accepted):
                continue
            remedy = f"get it again with: dragoman data fetch {dataset.name}" if dataset else "get it again"
            yield (
                f"{find_file(name)}: is not the text that the scores were measured on "
                f"({actual.n_lines:,} lines, sha256 {actual.sha256[:12]}…, and not {recorded.n_lines:,}, "
                f"{recorded.sha256[:12]}…); {remedy}"
            )


def start_of(config: Config) -> str:
    """Return the folder of the run that a training with these settings starts from; "" = none."""
    return config.training.start_from if config.task == "translation" else ""


def recipe_of_run(name: str) -> Recipe:
    """Return the recipe, in its version and seed, that has runs called `name`. ConfigError: none has."""
    seed = name.rpartition(OF_SEED)[2]
    here = [Recipe(path.parent) for path in sorted(Path().glob("*/recipe.toml"))]
    for recipe in (*here, *known_recipes()):
        for version in recipe.versions():
            seeded = replace(version, seed=int(seed) if seed.isdecimal() else None)
            if seeded.run_name == name:
                return seeded
    raise ConfigError(f"{name}: no recipe has a run of this name, and no folder with a recipe.toml is there")


def known_recipes() -> list[Recipe]:
    """Return the recipes that come with Dragoman, by name."""
    return [Recipe(path.parent) for path in sorted(recipes_folder().glob("*/recipe.toml"))]


def find_recipe(name: str, version: str = FULL, seed: int | None = None) -> Recipe:
    """Return the recipe in the folder `name`, or else the one of this name that comes with Dragoman.

    ConfigError: there is neither.
    """
    if (Path(name) / "recipe.toml").is_file():
        return Recipe(Path(name), version, seed)
    recipes = {recipe.name: recipe for recipe in known_recipes()}
    if name in recipes:
        return replace(recipes[name], version=version, seed=seed)
    close = difflib.get_close_matches(name, recipes, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(recipes) or 'none here'}"
    raise ConfigError(f"{name}: no recipe, and no folder with a recipe.toml; {hint}")


def describe_file(path: Path) -> DataFile:
    """Lines and sum of a file's text, decompressed."""
    digest, n_lines, last = hashlib.sha256(), 0, b"\n"
    with open_bytes(path) as file:
        while block := file.read(1 << 20):
            digest.update(block)
            n_lines += block.count(b"\n")
            last = block[-1:]
    return DataFile(n_lines=n_lines + (last != b"\n"), sha256=digest.hexdigest())
