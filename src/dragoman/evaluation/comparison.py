"""Runs side by side: their names, the settings that differ, and groups of runs that differ only in seeds."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any, NamedTuple

from dragoman.config import Config
from dragoman.errors import ConfigError
from dragoman.metrics.score import Score
from dragoman.metrics.significance import GroupTest
from dragoman.runs import Run


class Spread(NamedTuple):
    """A score over trainings that differ in nothing but their seeds."""

    group: str
    """The settings that differ from those of the other groups."""
    systems: tuple[str, ...]
    name: str
    values: tuple[float, ...]
    test: GroupTest | None
    """Against the first group; None for that one, and where no test is done."""

    @property
    def mean(self) -> float:
        return fmean(self.values)

    @property
    def deviation(self) -> float:
        """The sample standard deviation, in points."""
        return stdev(self.values)


def names_of(runs: Sequence[Run]) -> list[str]:
    """Return a name for each run: its folder's, with as many folders before it as tell all apart.

    ConfigError: two are the same run.
    """
    paths = [run.path.resolve() for run in runs]
    if len(set(paths)) < len(paths):
        twice = next(path for path in paths if paths.count(path) > 1)
        raise ConfigError(f"{twice}: is named twice; name runs that differ")
    depth = 1
    while len({path.parts[-depth:] for path in paths}) < len(paths):
        depth += 1
    return ["/".join(path.parts[-depth:]) for path in paths]


def differing_settings(configs: Mapping[str, Config]) -> dict[str, tuple[Any, ...]]:
    """Return the settings that are not the same in all runs, by their dotted names, and the value in each."""
    flat = [_flat(config.model_dump(mode="json")) for config in configs.values()]
    names = sorted({name for settings in flat for name in settings})
    values = {name: tuple(settings.get(name) for settings in flat) for name in names}
    return {name: those for name, those in values.items() if any(value != those[0] for value in those)}


def seed_groups(configs: Mapping[str, Config]) -> dict[str, list[str]]:
    """Return the systems that share all settings but the seed, by a title; only groups of two seeds or more.

    The title has the settings that differ between the groups; of a single group, its seeds.
    """
    groups: dict[str, list[str]] = {}
    for name, config in configs.items():
        settings = _flat(config.model_dump(mode="json"))
        del settings["seed"]
        groups.setdefault(repr(sorted(settings.items())), []).append(name)
    kept = [g for g in groups.values() if len({configs[name].seed for name in g}) == len(g) > 1]
    if len(kept) == 1:
        return {f"seed = {', '.join(str(configs[name].seed) for name in kept[0])}": kept[0]}
    differing = differing_settings({group[0]: configs[group[0]] for group in kept})
    differing.pop("seed", None)

    def titles(names: Sequence[str]) -> list[str]:
        return [
            ", ".join(f"{name} = {json.dumps(differing[name][i], ensure_ascii=False)}" for name in names)
            for i in range(len(kept))
        ]

    short = titles([name for name in differing if name != "name"])  # a recipe's name is a label
    return dict(zip(short if len(set(short)) == len(kept) else titles([*differing]), kept, strict=True))


def spreads_of(
    configs: Mapping[str, Config],
    scores: Mapping[str, Sequence[Score]],
    test: Callable[[Sequence[str], Sequence[str]], Sequence[GroupTest | None]],
) -> list[Spread]:
    """Return each score of each group of seeds; `test` compares the scores of the first group and another."""
    spreads: list[Spread] = []
    for title, group in seed_groups(configs).items():
        columns = list(zip(*(scores[system] for system in group), strict=True))
        tests = test(spreads[0].systems, group) if spreads else [None] * len(columns)
        for column, tested in zip(columns, tests, strict=True):
            values = tuple(score.value for score in column)
            spreads.append(Spread(title, tuple(group), column[0].name, values, tested))
    return spreads


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings by their dotted names."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat
