"""Compare classifiers on the same labelled texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dragoman.config import file_names
from dragoman.errors import ConfigError, DataError
from dragoman.evaluation.comparison import spreads_of
from dragoman.metrics.significance import GroupTest, compare_label_groups, mcnemar
from dragoman.predict.classifier import classification_config
from dragoman.report.comparison import Comparison
from dragoman.report.page import Example, Group, Paragraph, Part, Section
from dragoman.runs import Run
from dragoman.tasks.classification.evaluation import (
    NONE,
    ClassificationScores,
    evaluate,
    load_classifier,
    split_of,
)
from dragoman.tasks.request import EvaluationRequest

ABOUT_LABEL_TEST = (
    "The p-value is that of McNemar's exact test (McNemar 1947; Dietterich 1998), each run against the "
    "first: of the texts that only one of the two labels rightly, is each one's share a half? It knows of "
    "the texts, not of the trainings: another seed may come out elsewhere."
)


@dataclass(frozen=True, kw_only=True)
class ClassifierComparison(Comparison):
    """One test set labelled by every classifier."""

    subtitle = "Classifiers side by side"
    about_test = ABOUT_LABEL_TEST
    example = "text"

    evaluations: Mapping[str, ClassificationScores]
    """By the names of the runs."""

    def changed(self, system: str, n: int) -> tuple[list[int], list[int]]:
        """Up to `n` texts that only `system` labels rightly, and `n` that only the first one does.

        The surer the one that is right, the earlier.
        """
        first, other = next(iter(self.evaluations.values())), self.evaluations[system]
        lists = []
        for winner, loser in ((other, first), (first, other)):
            sure, only = winner.confidence, np.flatnonzero(winner.right & ~loser.right)
            lists.append(sorted(only.tolist(), key=lambda i: (-sure[i], i))[:n])
        return lists[0], lists[1]

    def changed_examples(self, runs: Mapping[str, Run], n: int) -> Section:
        first, *other_runs = runs
        texts, expected = self.evaluations[first].texts, self.evaluations[first].expected_names
        parts: list[Part] = [Paragraph(f"Texts that only one of two labels rightly, of {self.provenance}.")]
        for system in other_runs:
            for title, indices in zip(("only", "not"), self.changed(system, n), strict=True):
                examples = []
                for i in indices:
                    rows = [("text", texts[i], ""), ("label", expected[i] or NONE, "")]
                    for name in (first, system):
                        evaluation = self.evaluations[name]
                        label = f"{evaluation.found_names[i] or NONE} ({evaluation.confidence[i]:.0%})"
                        rows.append((name, label, ""))
                    examples.append(Example(f"Text {i + 1}", rows))
                parts.append(Group(f"{title} {system} is right", examples or [Paragraph("No text.")]))
        return Section("Texts that changed", parts)


def compare_classifiers(runs: Mapping[str, Run], request: EvaluationRequest) -> list[ClassifierComparison]:
    """Every test set of the same name, or, where a run has none, the validation texts.

    ConfigError: there is no set that all have. DataError: sets of one name hold other texts or labels.
    """
    chosen = request.split or ("test" if all(run.config.data.test for run in runs.values()) else "valid")
    evaluated: dict[str, dict[str, ClassificationScores]] = {}
    for system, run in runs.items():
        classifier = load_classifier(run.path, device=request.device, precision=request.precision)
        for name, corpus in split_of(classification_config(run), chosen):
            examples = list(corpus.examples())
            request.say(f"{run.path}: labelling {name}, {len(examples):,} texts")
            evaluated.setdefault(name, {})[system] = evaluate(classifier, name, examples)
    common = {name: sets for name, sets in evaluated.items() if len(sets) == len(runs)}
    if not common:
        raise ConfigError(f"the runs have no {chosen} set of the same name; compare runs of one data set")
    return [_compare_set(name, sets, runs, chosen) for name, sets in common.items()]


def _compare_set(
    name: str, evaluations: Mapping[str, ClassificationScores], runs: Mapping[str, Run], split: str
) -> ClassifierComparison:
    (first, main), *other_systems = evaluations.items()
    names, right = [score.name for score in main.scores], {first: main.right}
    tested = main.labelling.share_name
    p_values: dict[str, list[float | None]] = {first: [None] * len(names)}
    for system, other in other_systems:
        same_texts = (main.texts, main.labelling.separator) == (other.texts, other.labelling.separator)
        if not same_texts or main.expected_names != other.expected_names:
            raise DataError(
                f"{name} of {first} and of {system} cannot stand side by side: their texts or labels "
                "differ; compare runs on the same test set"
            )
        right[system] = other.right
        p_value = mcnemar(right[first], right[system])
        p_values[system] = [p_value if score == tested else None for score in names]

    def test_groups(before: Sequence[str], after: Sequence[str]) -> list[GroupTest | None]:
        test = compare_label_groups(*(np.stack([right[s] for s in group]) for group in (before, after)))
        return [test if score == tested else None for score in names]

    data, configs = runs[first].config.data, {system: run.config for system, run in runs.items()}
    files = file_names(data.test[name] if split == "test" else data.valid)
    source = " + ".join(files) or "held out of the training texts"
    scores = {system: evaluation.scores for system, evaluation in evaluations.items()}
    return ClassifierComparison(
        name=name,
        provenance=f"{name}: {len(main.texts):,} texts of {source}",
        scores=scores,
        test=f"McNemar's exact test of {tested}",
        p_values={"p_mcnemar": p_values},
        spreads=spreads_of(configs, scores, test_groups),
        evaluations=evaluations,
    )
