"""A recipe folder: recipe.toml, its variants, and their expected scores."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import field_validator

from dragoman.config import Config, Settings, parse_config, parse_section, read_settings
from dragoman.distillation.lessons import Lessons
from dragoman.errors import ConfigError
from dragoman.files import recipes_folder
from dragoman.reproduction.expected import Expectation, Expected, load_expected

FULL, QUICK = "full", "quick"
OF_SEED = "-seed-"
"""Stands before the seed in the names of runs that have another one than their recipe."""
DISTILLATION = "distillation"
"""The table of a recipe's file that is a `Distillation`, and no part of the configuration."""


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

    def config(self, version: str, overrides: Sequence[str] = ()) -> Config:
        """Return the settings of a version. ConfigError: there is no such version, or it holds mistakes."""
        settings = self._settings(version)
        settings.pop(DISTILLATION, None)
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

    def expected(self) -> Expected:
        """All that is expected; nothing where nothing was recorded yet. ConfigError: it holds mistakes."""
        return load_expected(self.expected_path) if self.expected_path.exists() else Expected()

    def recorded(self) -> dict[str, Expectation]:
        """Return the expected scores of the versions that have some. ConfigError: as `expected`."""
        expected = self.expected().versions()
        return {name: expected[name] for name in self.versions() if name in expected}

    def expectation(self, version: str) -> Expectation:
        """Return the expected scores of a version. ConfigError: none were recorded."""
        expected = self.expected().versions()
        if version not in expected:
            raise ConfigError(
                f"{self.expected_path}: has no scores of the {version} version; train it, and record them as "
                "docs/reproduce.md says"
            )
        return expected[version]


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
    match = re.search(rf"{OF_SEED}(\d+)\Z", name)
    stem, seed = (name[: match.start()], int(match[1])) if match else (name, None)
    parts = stem.split("-")
    for n in range(len(parts), 0, -1):
        with suppress(ConfigError):
            recipe, version = find_recipe("-".join(parts[:n])), "-".join(parts[n:]) or FULL
            if version in recipe.versions():
                return recipe, version, seed
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
