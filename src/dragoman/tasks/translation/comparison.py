"""Compare translators on the same test sets, with significance tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from sacrebleu.metrics.base import Metric

from dragoman.config import TranslationConfig
from dragoman.data.corpora import open_corpus
from dragoman.errors import ConfigError, DataError
from dragoman.evaluation.comparison import spreads_of
from dragoman.metrics.score import signature_differences
from dragoman.metrics.significance import GroupTest, Method, compare_groups, paired_test
from dragoman.metrics.translation import MeanMetric, metrics_for
from dragoman.report.comparison import Comparison, signed
from dragoman.report.page import Example, Group, Paragraph, Part, Section, Span
from dragoman.runs import Run
from dragoman.tasks.request import EvaluationRequest
from dragoman.tasks.translation.analysis import word_diff
from dragoman.tasks.translation.evaluation import is_other_text, read_pairs, split_of
from dragoman.tasks.translation.kept import TranslatedSet, Translations

METHODS: tuple[Method, ...] = ("bootstrap", "randomisation")

ABOUT_TESTS = (
    "p-values are sacreBLEU's, two-sided, each system against the first: paired bootstrap resampling (Koehn "
    "2004) and approximate randomisation (Riezler & Maxwell 2005). They ask whether the difference is one of "
    "the systems or of the sentences that happen to be in the test set. They do not know how far another "
    "seed of a training would come out, and are not corrected for the number of comparisons."
)


class Changed(NamedTuple):
    """A sentence that two systems translate unlike well."""

    sentence: int
    difference: float
    """chrF2 of the second system minus that of the first."""


@dataclass(frozen=True, kw_only=True)
class TranslatorComparison(Comparison):
    """One test set translated by every system."""

    subtitle = "Translators side by side"
    about_test = ABOUT_TESTS
    example = "pair"

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

    def changed_examples(self, runs: Mapping[str, Run], n: int) -> Section:
        first = next(iter(runs))
        about = f"By chrF2 of the sentence, of {self.sets[first].provenance}. Marked in a translation: "
        parts: list[Part] = [
            Paragraph(
                (Span("same", about), Span("extra", "what the reference does not have"), Span("same", "."))
            )
        ]
        for system in list(runs)[1:]:
            for title, changes in zip(("better", "worse"), self.changed(system, n), strict=True):
                examples = [self._example(runs, first, system, change) for change in changes]
                none = Paragraph("No sentence.")
                parts.append(Group(f"{system}: {title} than {first}", examples or [none]))
        return Section("Sentences that changed most", parts)

    def _example(self, runs: Mapping[str, Run], first: str, system: str, change: Changed) -> Example:
        data = runs[first].config.data
        src_lang, tgt_lang = getattr(data, "src_lang", ""), getattr(data, "tgt_lang", "")
        source, evaluation = self.sets[first].sources[change.sentence], self.sets[first].evaluation
        reference = evaluation.references[change.sentence]

        def marked(name: str) -> list[Span]:
            hypothesis = self.sets[name].evaluation.hypotheses[change.sentence]
            return [piece for piece in word_diff(reference, hypothesis) if piece.kind != "missing"]

        return Example(
            f"Sentence {change.sentence + 1} · chrF2 {signed(change.difference)}",
            [
                ("source", source, src_lang),
                ("reference", reference, tgt_lang),
                (first, marked(first), tgt_lang),
                (system, marked(system), tgt_lang),
            ],
        )


def compare_translators(runs: Mapping[str, Run], request: EvaluationRequest) -> list[TranslatorComparison]:
    """Compare runs on every test set that all have, or, where none has any, on their validation pairs.

    Or on the files of the request, which are among no test sets. Scores stand side by side only if they are
    of the same sources and references, with the same signature.

    Raises:
        ConfigError: there is no set that all have, or options contradict one another.
        DataError: a file cannot be read, or sets differ; the message says in what.
    """
    other_text = is_other_text(request)
    systems = {name: Translations(run, request) for name, run in runs.items()}
    configs = {name: translations.config for name, translations in systems.items()}
    if other_text:
        src, ref, data = str(request.src), str(request.ref), next(iter(configs.values())).data
        corpus = open_corpus([src, ref], src_lang=data.src_lang, tgt_lang=data.tgt_lang)
        pairs, n_lines = read_pairs(corpus), sum(1 for _ in corpus.pairs())
        name = Path(src).name
        sets = {
            system: translations.translated(name, pairs, split="files", files=(src, ref), n_lines=n_lines)
            for system, translations in systems.items()
        }
        return [_compare_set(name, sets, configs)]
    has_tests = all(config.data.test for config in configs.values())
    split = request.split or ("test" if has_tests else "valid")
    named: dict[str, list[str]] = {}
    for system, config in configs.items():
        named[system] = list(config.data.test) if split == "test" else ["valid"]
        if split == "valid" and config.data.choose_by:  # their names are told by opened text alone
            named[system] = [name for name, _ in split_of(config, split)]
    common = [name for name in next(iter(named.values())) if all(name in names for names in named.values())]
    if not common:
        raise ConfigError(
            f"the runs have no {'test set' if split == 'test' else 'validation text'} of the same name: "
            + "; ".join(f"{system} has {', '.join(names) or 'none'}" for system, names in named.items())
            + f"; {'say --split valid, or ' * (split == 'test')}give a text with --src and --ref"
        )
    by_system = {
        name: {s.name: s for s in translations.sets(split, only=common)}
        for name, translations in systems.items()
    }
    return [
        _compare_set(name, {system: sets[name] for system, sets in by_system.items()}, configs)
        for name in common
    ]


class Tested(NamedTuple):
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
    evaluations = {system: kept.evaluation for system, kept in sets.items()}
    references = first.evaluation.references
    # In the order of the scores: our own metrics, then each given score, whose numbers are its texts.
    hypotheses = {system: evaluation.hypotheses for system, evaluation in evaluations.items()}
    parts = [Tested(metrics_for(configs[first_name].data.tgt_lang), hypotheses, references)]
    for i, scores in enumerate(first.evaluation.by_sentence):
        numbers = {system: evaluation.by_sentence[i].texts for system, evaluation in evaluations.items()}
        parts.append(Tested([MeanMetric(scores.name)], numbers, [""] * len(references)))
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

    main_scores = {system: evaluation.main_scores for system, evaluation in evaluations.items()}
    return TranslatorComparison(
        name=name,
        provenance=first.provenance,
        scores=main_scores,
        test="paired bootstrap resampling",
        p_values=p_values,
        spreads=spreads_of(configs, main_scores, test_groups),
        remarks=remarks,
        sets=sets,
    )


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
        n, n_other = len(one.sources), len(other.sources)
        difference = "their texts differ" if n == n_other else f"they have {n:,} and {n_other:,} sentences"
        both = {"sources": (one.sources, other.sources)}
        both["references"] = (one.evaluation.references, other.evaluation.references)
        for what, texts in both.items() if n == n_other else ():
            lines = [i for i, (a, b) in enumerate(zip(*texts, strict=True), start=1) if a != b]
            if lines:
                difference = f"{len(lines):,} of {n:,} {what} differ (first: sentence {lines[0]})"
                break
        raise DataError(f"{where}: {difference}; compare runs on the same test set")
    for score, other_score in zip(one.evaluation.scores, other.evaluation.scores, strict=True):
        differing = signature_differences(score.signature, other_score.signature)
        if differing:
            raise DataError(f"{where}: the signatures of {score.name} differ ({'; '.join(differing)})")
