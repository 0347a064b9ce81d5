"""Compare translators on the same test sets, with significance tests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple, Protocol, TypeAlias

from dragoman.config import Config, TranslationConfig
from dragoman.data.corpora import open_corpus
from dragoman.errors import ConfigError, DataError
from dragoman.evaluation.kept import TranslatedSet, Translations
from dragoman.evaluation.scores import check_split
from dragoman.evaluation.translation import read_pairs, split_of
from dragoman.metrics.score import Score, signature_differences
from dragoman.metrics.significance import (
    GroupTest,
    Method,
    SystemScore,
    compare_groups,
    compare_mean_groups,
    paired_mean_test,
    paired_test,
)
from dragoman.metrics.translation import SentenceScores
from dragoman.runs import Run

Record: TypeAlias = dict[str, Any]
"""A row of figures by the names of its columns; a column that is left out, or None, is empty."""


METHODS: tuple[Method, ...] = ("bootstrap", "randomisation")


class Changed(NamedTuple):
    """A sentence that two systems translate unlike well."""

    sentence: int
    difference: float
    """chrF2 of the second system minus that of the first."""


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


class Comparison(Protocol):
    """One test set with the scores of every run; the others are compared with the first one."""

    @property
    def name(self) -> str:
        """The name of the test set."""

    @property
    def caption(self) -> str:
        """The test set, its size and files, and the signatures of scores and tests, separated by "; "."""

    @property
    def signatures(self) -> Mapping[str, str]:
        """The signature of each score, by its name."""

    @property
    def test(self) -> str:
        """The test that compares a run with the first one, in words."""

    @property
    def spreads(self) -> Sequence[Spread]:
        """The scores of each group of runs that differ only in their seeds."""

    def records(self) -> list[Record]:
        """Return each score of each run, then each score of each group of seeds, as numbers."""


@dataclass(frozen=True)
class TranslatorComparison:
    """One test set translated by every system (a `Comparison`)."""

    name: str
    sets: Mapping[str, TranslatedSet]
    """By the systems' names."""
    bootstrap: Mapping[str, Sequence[SystemScore]]
    randomisation: Mapping[str, Sequence[SystemScore]]
    spreads: Sequence[Spread] = ()
    """Of each group of seeds and each score."""
    left_out: Sequence[str] = ()
    """Names of given scores that some systems have, but not all."""

    test = "paired bootstrap resampling"

    @property
    def signatures(self) -> dict[str, str]:
        first = next(iter(self.sets.values()))
        return {score.name: score.signature for score in first.evaluation.main_scores}

    @property
    def caption(self) -> str:
        first = next(iter(self.sets.values()))
        tests = (next(iter(p.values()))[0].signature for p in (self.bootstrap, self.randomisation))
        left_out = "".join(
            f"; {name}: omitted, since not every run has it (add it with dragoman evaluate --scores)"
            for name in self.left_out
        )
        tested = f"p of BLEU: {'; p of BLEU: '.join(tests)}"
        return f"{first.provenance}; {'; '.join(self.signatures.values())}; {tested}{left_out}"

    def records(self) -> list[Record]:
        first = next(iter(self.sets.values())).evaluation.main_scores
        scores = [
            run_record(
                self.name,
                system,
                score,
                first[i] if index else None,
                p_bootstrap=self.bootstrap[system][i].p_value,
                p_randomisation=self.randomisation[system][i].p_value,
            )
            for index, (system, kept) in enumerate(self.sets.items())
            for i, score in enumerate(kept.evaluation.main_scores)
        ]
        return scores + spread_records(self.name, self.spreads)

    def changed(self, system: str, n: int) -> tuple[list[Changed], list[Changed]]:
        """Return the `n` sentences that `system` translates better than the first by most, and the `n` worse.

        By chrF2 of the sentence; those without a difference are in neither.
        """
        first, second = next(iter(self.sets.values())), self.sets[system]
        both = zip(first.qualities, second.qualities, strict=True)
        changes = [Changed(i, after - before) for i, (before, after) in enumerate(both)]
        changes.sort(key=lambda change: (-change.difference, change.sentence))
        better = [change for change in changes[:n] if change.difference > 0]
        worse = [change for change in changes[::-1][:n] if change.difference < 0]
        return better, worse


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


def compare_on(systems: Mapping[str, Translations], src: str, ref: str) -> list[TranslatorComparison]:
    """Systems compared on files that are not among their test sets: sources, and references line by line.

    Raises:
        DataError: a file cannot be read, or they do not match.
    """
    configs = {name: translations.config for name, translations in systems.items()}
    data = next(iter(configs.values())).data
    corpus = open_corpus([src, ref], src_lang=data.src_lang, tgt_lang=data.tgt_lang)
    pairs, n_lines = read_pairs(corpus), sum(1 for _ in corpus.pairs())
    name = Path(src).name
    sets = {
        system: translations.translated(name, pairs, split="files", files=(src, ref), n_lines=n_lines)
        for system, translations in systems.items()
    }
    return [_compare_set(name, sets, configs)]


def compare(systems: Mapping[str, Translations], *, split: str | None = None) -> list[TranslatorComparison]:
    """Every test set that all of `systems` have, or, where none has any, their validation pairs.

    Scores stand side by side only if they are of the same sources and references, with the same signature.
    DataError: they are not; the message says what differs. ConfigError: there is no set that all have.
    """
    check_split(split)
    configs = {name: translations.config for name, translations in systems.items()}
    has_tests = all(config.data.test for config in configs.values())
    chosen = split or ("test" if has_tests else "valid")
    named = {system: _set_names(config, chosen) for system, config in configs.items()}
    common = [name for name in next(iter(named.values())) if all(name in names for names in named.values())]
    if not common:
        raise ConfigError(
            f"the runs have no {'test set' if chosen == 'test' else 'validation text'} of the same name: "
            + "; ".join(f"{system} has {', '.join(names) or 'none'}" for system, names in named.items())
            + f"; {'say --split valid, or ' * (chosen == 'test')}give a text with --src and --ref"
        )
    found = {
        name: {s.name: s for s in translations.sets(chosen, only=common)}
        for name, translations in systems.items()
    }
    return [
        _compare_set(name, {system: sets[name] for system, sets in found.items()}, configs) for name in common
    ]


def _set_names(config: TranslationConfig, split: str) -> list[str]:
    """Return the names of the sets of "test" or "valid"; text is only opened where its corpora tell them."""
    if split == "valid" and config.data.choose_by:
        return [name for name, _ in split_of(config, split)]
    return list(config.data.test) if split == "test" else ["valid"]


def _compare_set(
    name: str, sets: dict[str, TranslatedSet], configs: Mapping[str, Any]
) -> TranslatorComparison:
    sets, left_out = with_common_scores(sets)
    (first_name, first), *others = sets.items()
    for other_name, other in others:
        check_comparable((first_name, first), (other_name, other))
    references, tgt_lang = first.evaluation.references, configs[first_name].data.tgt_lang
    bootstrap, randomisation = (_paired_tests(sets, references, tgt_lang, method) for method in METHODS)
    spreads: list[Spread] = []
    for title, group in seed_groups(configs).items():
        tests: Sequence[GroupTest | None] = [None] * len(first.evaluation.main_scores)
        if spreads:
            tests = _group_tests(sets, spreads[0].systems, group, references, tgt_lang)
        for i, test in enumerate(tests):
            scores = [sets[system].evaluation.main_scores[i] for system in group]
            spreads.append(
                Spread(title, tuple(group), scores[0].name, tuple(score.value for score in scores), test)
            )
    return TranslatorComparison(name, sets, bootstrap, randomisation, spreads, left_out)


def with_common_scores(sets: Mapping[str, TranslatedSet]) -> tuple[dict[str, TranslatedSet], list[str]]:
    """Return the sets with the given scores that all of them have, and the names of the others."""
    names = [{one.name for one in kept.evaluation.by_sentence} for kept in sets.values()]
    common = set.intersection(*names)
    trimmed = {}
    for system, kept in sets.items():
        shared = [one for one in kept.evaluation.by_sentence if one.name in common]
        trimmed[system] = replace(kept, evaluation=kept.evaluation.with_given(shared))
    return trimmed, sorted(set.union(*names) - common)


def _by_name(sets: Mapping[str, TranslatedSet]) -> list[dict[str, SentenceScores]]:
    """Return each given score that the sets have, by system."""
    columns = zip(*(kept.evaluation.by_sentence for kept in sets.values()), strict=True)
    return [dict(zip(sets, column, strict=True)) for column in columns]


def _paired_tests(
    sets: Mapping[str, TranslatedSet], references: Sequence[str], tgt_lang: str, method: Method
) -> dict[str, list[SystemScore]]:
    """Test each score of every system against the first system's."""
    hypotheses = {system: kept.evaluation.hypotheses for system, kept in sets.items()}
    tested = paired_test(hypotheses, references, tgt_lang=tgt_lang, method=method)
    for scores in _by_name(sets):
        for system, score in paired_mean_test(scores, method=method).items():
            tested[system].append(score)
    return tested


def _group_tests(
    sets: Mapping[str, TranslatedSet],
    first: Sequence[str],
    second: Sequence[str],
    references: Sequence[str],
    tgt_lang: str,
) -> list[GroupTest]:
    """Test each score of two groups of seeds."""
    before, after = ([sets[system].evaluation.hypotheses for system in group] for group in (first, second))
    given = (
        compare_mean_groups(*([scores[system] for system in group] for group in (first, second)))
        for scores in _by_name(sets)
    )
    return [*compare_groups(before, after, references, tgt_lang=tgt_lang), *given]


def check_comparable(first: tuple[str, TranslatedSet], second: tuple[str, TranslatedSet]) -> None:
    """DataError: the two sets, each with its system's name, have other texts or other signatures."""
    (name, one), (other_name, other) = first, second
    where = f"{one.name} of {name} and of {other_name} cannot stand side by side"
    if one.fingerprint != other.fingerprint:
        raise DataError(f"{where}: {_text_difference(one, other)}; compare runs on the same test set")
    for score, other_score in zip(one.evaluation.scores, other.evaluation.scores, strict=True):
        differing = signature_differences(score.signature, other_score.signature)
        if differing:
            raise DataError(f"{where}: the signatures of {score.name} differ ({'; '.join(differing)})")


def _text_difference(one: TranslatedSet, other: TranslatedSet) -> str:
    """Describe the first difference."""
    n, n_other = len(one.sources), len(other.sources)
    if n != n_other:
        return f"they have {n:,} and {n_other:,} sentences"
    both = {"sources": (one.sources, other.sources)}
    both["references"] = (one.evaluation.references, other.evaluation.references)
    for what, (here, there) in both.items():
        lines = [i for i, (a, b) in enumerate(zip(here, there, strict=True), start=1) if a != b]
        if lines:
            return f"{len(lines):,} of {n:,} {what} differ (first: sentence {lines[0]})"
    return "their texts differ"


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


def run_record(
    test_set: str, system: str, score: Score, first: Score | None, **p_values: float | None
) -> Record:
    """Return a score of a run as a row of figures; `first` is that of the first run, None for that one."""
    low, high = score.interval or (None, None)
    return {
        "test_set": test_set,
        "kind": "run",
        "name": system,
        "score": score.name,
        "value": score.value,
        "low": low,
        "high": high,
        "difference": None if first is None else score.value - first.value,
        **p_values,
    }


def spread_records(test_set: str, spreads: Sequence[Spread]) -> list[Record]:
    """Means over groups of seeds as rows of figures."""
    return [
        {
            "test_set": test_set,
            "kind": "group of seeds",
            "name": spread.group,
            "score": spread.name,
            "value": spread.mean,
            "standard_deviation": spread.deviation,
            "seeds": len(spread.values),
            "difference": spread.test and spread.test.difference,
            "difference_low": spread.test and spread.test.interval[0],
            "difference_high": spread.test and spread.test.interval[1],
            "p_seeds": spread.test and spread.test.p_value,
        }
        for spread in spreads
    ]


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings by their dotted names."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat
