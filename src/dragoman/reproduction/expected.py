"""The content of expected.json: expected scores, their tolerances, and how they were measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from dragoman.config import Section
from dragoman.errors import ConfigError


class ExpectedScore(Section):
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


class Machine(Section):
    """Where the minutes were taken."""

    cpu: str
    n_cores: int = Field(ge=1)
    n_threads: int = Field(ge=1)


class DataFile(Section):
    """A file that the recipe names: its text, decompressed."""

    n_lines: int = Field(ge=0)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


class Data(Section):
    """What the recipe reads."""

    sets: tuple[str, ...]
    """Names for `dragoman data fetch`."""
    files: dict[str, DataFile]
    """By the name in the recipe. What is embedded or streamed has no place here."""


class Expectation(Section):
    """What a run of one version of a recipe should come to."""

    scores: tuple[ExpectedScore, ...] = Field(min_length=1)
    minutes: float = Field(ge=0.0)
    """Of training, validation included, on `machine`."""
    max_steps: int = Field(ge=1)
    """The training.max_steps of the reference history."""
    machine: Machine
    versions: dict[str, str]
    """Of the packages that scores depend on."""
    data: Data
    command: str
    """What reproduces it."""
    date: str = Field(pattern=r"^\d{4}-\d{2}-\d{2}$")
    """When it was recorded."""


class Expected(Section):
    """The whole file."""

    full: Expectation | None = None
    """recipe.toml as it is."""
    quick: Expectation | None = None
    """With quick.toml laid over it: minutes in place of hours."""
    variants: dict[str, Expectation] = Field(default_factory=dict)
    """Other recipes of the folder, such as seed.toml, by their names."""

    def version(self, version: str) -> Expectation | None:
        """Return the expected scores of "full", "quick" or a variant; None = not recorded."""
        if version in ("full", "quick"):
            return self.full if version == "full" else self.quick
        return self.variants.get(version)


def load_expected(path: Path) -> Expected:
    """Read the file. ConfigError: it is unreadable, or has mistakes (all are in the message)."""
    try:
        return Expected.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read ({error.strerror}); docs/reproduce.md says how it is written"
        ) from error
    except ValidationError as error:
        problems = "; ".join(_describe(problem) for problem in error.errors())
        raise ConfigError(f"{path}: {problems}; docs/reproduce.md says what belongs there") from error


def _describe(problem: Any) -> str:
    """One validation problem in words."""
    name = ".".join(map(str, problem["loc"])) or "the file"
    if problem["type"] == "missing":
        return f"{name} is missing"
    if problem["type"] == "extra_forbidden":
        return f"{name} is not known here"
    return f"{name}: {problem['msg'][:1].lower()}{problem['msg'][1:]}"
