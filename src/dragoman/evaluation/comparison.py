"""Compare translators on the same test sets, with significance tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple, TypeAlias

from sacrebleu.metrics.base import Metric

from dragoman.config import Config, TranslationConfig
from dragoman.data.corpora import open_corpus
from dragoman.errors import ConfigError, DataError
from dragoman.evaluation.kept import TranslatedSet, Translations
from dragoman.evaluation.scores import check_split
from dragoman.evaluation.translation import read_pairs, split_of
from dragoman.metrics.score import Score, signature_differences
from dragoman.metrics.significance import GroupTest, Method, compare_groups, paired_test
from dragoman.metrics.translation import MeanMetric, metrics_for
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


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One test set with the scores of every run; the others are compared with the first one."""

    name: str
    """The name of the test set."""
    provenance: str
    """The test set, its size and files, in words."""
    scores: Mapping[str, Sequence[Score]]
    """By the names of the runs."""
    test: str
    """The test that compares a run with the first one, in words."""
    p_values: Mapping[str, Mapping[str, Sequence[float | None]]]
    """By test, as `records` names it, and by run: one for each score; None for the first run."""
    spreads: Sequence[Spread]
    """The scores of each group of runs that differ only in their seeds."""
    remarks: Sequence[str] = ()
    """More facts for the caption."""

    @property
    def caption(self) -> str:
        """The test set, its size and files, and the signatures of scores and tests, separated by "; "."""
        signatures = [score.signature for score in next(iter(self.scores.values()))]
        return "; ".join([self.provenance, *signatures, *self.remarks])

    def records(self) -> list[Record]:
        """Return each score of each run, then each score of each group of seeds, as numbers."""
        records: list[Record] = []
        first = next(iter(self.scores))
        for system, scores in self.scores.items():
            for i, score in enumerate(scores):
                low, high = score.interval or (None, None)
                difference = None if system == first else score.value - self.scores[first][i].value
                records.append(
                    {
                        "test_set": self.name,
                        "kind": "run",
                        "name": system,
                        "score": score.name,
                        "value": score.value,
                        "low": low,
                        "high": high,
                        "difference": difference,
                        **{test: by_run[system][i] for test, by_run in self.p_values.items()},
                    }
                )
        for spread in self.spreads:
            test = spread.test
            records.append(
                {
                    "test_set": self.name,
                    "kind": "group of seeds",
                    "name": spread.group,
                    "score": spread.name,
                    "value": spread.mean,
                    "standard_deviation": spread.deviation,
                    "seeds": len(spread.values),
                    "difference": test and test.difference,
                    "difference_low": test and test.interval[0],
                    "difference_high": test and test.interval[1],
                    "p_seeds": test and test.p_value,
                }
            )
        return records


@dataclass(frozen=True, kw_only=True)
class TranslatorComparison(Comparison):
    """One test set translated by every system."""

    sets: Mapping[str, TranslatedSet]
    """By the systems' names."""

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
    named: dict[str, list[str]] = {}
    for system, config in configs.items():
        named[system] = list(config.data.test) if chosen == "test" else ["valid"]
        if chosen == "valid" and config.data.choose_by:  # their names are told by opened text alone
            named[system] = [name for name, _ in split_of(config, chosen)]
    common = [name for name in next(iter(named.values())) if all(name in names for names in named.values())]
    if not common:
        raise ConfigError(
            f"the runs have no {'test set' if chosen == 'test' else 'validation text'} of the same name: "
            + "; ".join(f"{system} has {', '.join(names) or 'none'}" for system, names in named.items())
            + f"; {'say --split valid, or ' * (chosen == 'test')}give a text with --src and --ref"
        )
    by_system = {
        name: {s.name: s for s in translations.sets(chosen, only=common)}
        for name, translations in systems.items()
    }
    return [
        _compare_set(name, {system: sets[name] for system, sets in by_system.items()}, configs)
        for name in common
    ]


class _Tested(NamedTuple):
    """Metrics, and the texts that they score."""

    metrics: Sequence[Metric]
    systems: Mapping[str, Sequence[str]]
    references: Sequence[str]


def _compare_set(
    name: str, sets: dict[str, TranslatedSet], configs: Mapping[str, TranslationConfig]
) -> TranslatorComparison:
    sets, omitted = with_common_scores(sets)
    (first_name, first), *other_sets = sets.items()
    for other_name, other in other_sets:
        check_comparable((first_name, first), (other_name, other))
    parts = _tested(sets, configs[first_name].data.tgt_lang)
    p_values: dict[str, dict[str, list[float | None]]] = {}
    remarks = []
    for method in METHODS:
        tests = [paired_test(p.systems, p.references, metrics=p.metrics, method=method) for p in parts]
        p_values[f"p_{method}"] = {
            system: [score.p_value for test in tests for score in test[system]] for system in sets
        }
        remarks.append(f"p of BLEU: {tests[0][first_name][0].signature}")
    remarks += (
        f"{score}: omitted, since not every run has it (add it with dragoman evaluate --scores)"
        for score in omitted
    )

    def test_groups(before: Sequence[str], after: Sequence[str]) -> list[GroupTest]:
        tests = []
        for p in parts:
            old, new = ([p.systems[system] for system in group] for group in (before, after))
            tests += compare_groups(old, new, p.references, metrics=p.metrics)
        return tests

    scores = {system: kept.evaluation.main_scores for system, kept in sets.items()}
    return TranslatorComparison(
        name=name,
        provenance=first.provenance,
        scores=scores,
        test="paired bootstrap resampling",
        p_values=p_values,
        spreads=spreads_of(configs, scores, test_groups),
        remarks=remarks,
        sets=sets,
    )


def _tested(sets: Mapping[str, TranslatedSet], tgt_lang: str) -> list[_Tested]:
    """Return what is tested, in the order of the scores: our own metrics, then each given score."""
    first = next(iter(sets.values())).evaluation
    hypotheses = {system: kept.evaluation.hypotheses for system, kept in sets.items()}
    parts = [_Tested(metrics_for(tgt_lang), hypotheses, first.references)]
    for i, scores in enumerate(first.by_sentence):
        numbers = {system: kept.evaluation.by_sentence[i].texts for system, kept in sets.items()}
        parts.append(_Tested([MeanMetric(scores.name)], numbers, [""] * len(first.references)))
    return parts


def with_common_scores(sets: Mapping[str, TranslatedSet]) -> tuple[dict[str, TranslatedSet], list[str]]:
    """Return the sets with the given scores that all of them have, and the names of the others."""
    names = [{one.name for one in kept.evaluation.by_sentence} for kept in sets.values()]
    common = set.intersection(*names)
    trimmed = {}
    for system, kept in sets.items():
        shared = [one for one in kept.evaluation.by_sentence if one.name in common]
        trimmed[system] = replace(kept, evaluation=kept.evaluation.with_given(shared))
    return trimmed, sorted(set.union(*names) - common)


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
    for what, (first, second) in both.items():
        lines = [i for i, (a, b) in enumerate(zip(first, second, strict=True), start=1) if a != b]
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
