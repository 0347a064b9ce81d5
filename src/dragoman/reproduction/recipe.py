"""A recipe folder: recipe.toml, its variants, and their expected scores."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dragoman
from dragoman.config import Config, parse_config, read_settings
from dragoman.errors import ConfigError
from dragoman.reproduction.expected import Expectation, Expected, load_expected

FULL, QUICK = "full", "quick"


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
        if version not in self.versions():
            raise ConfigError(f"{self.folder}: has no {version}.toml; there are {', '.join(self.versions())}")
        if version == FULL:
            return parse_config(
                read_settings(self.folder / "recipe.toml"), overrides=overrides, where=self._where("recipe")
            )
        settings = read_settings(self.folder / f"{version}.toml")
        if version == QUICK:
            settings = laid_over(read_settings(self.folder / "recipe.toml"), settings)
        return parse_config(settings, overrides=overrides, where=self._where(version))

    def _where(self, stem: str) -> str:
        return str(self.folder / f"{stem}.toml")

    def expected(self) -> Expected:
        """All that is expected; nothing where nothing was recorded yet. ConfigError: it holds mistakes."""
        return load_expected(self.expected_path) if self.expected_path.exists() else Expected()

    def expectation(self, version: str) -> Expectation:
        """Return the expected scores of a version. ConfigError: none were recorded."""
        expectation = self.expected().version(version)
        if expectation is None:
            raise ConfigError(
                f"{self.expected_path}: says nothing of the {version} version; train it and write down its "
                f"scores with: dragoman reproduce {self.name}{version_option(version)} --record RUN"
            )
        return expectation


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


def recipes_folder() -> Path:
    """Where the recipes are that come with Dragoman: in the package, or beside src in the repository."""
    package = Path(dragoman.__file__).resolve().parent
    installed = package / "recipes"
    return installed if installed.is_dir() else package.parents[1] / "recipes"


def known_recipes() -> list[Recipe]:
    """Return the recipes that come with Dragoman, by name."""
    return [Recipe(path.parent) for path in sorted(recipes_folder().glob("*/recipe.toml"))]


def find_recipe(name: str) -> Recipe:
    """Return the recipe in the folder `name`, or else the one of this name that comes with Dragoman.

    ConfigError: there is neither.
    """
    if (Path(name) / "recipe.toml").is_file():
        return Recipe(Path(name))
    known = {recipe.name: recipe for recipe in known_recipes()}
    if name in known:
        return known[name]
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known) or 'none here'}"
    raise ConfigError(f"{name}: no recipe, and no folder with a recipe.toml; {hint}")
