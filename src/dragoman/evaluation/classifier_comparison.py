"""Compare classifiers on the same labelled texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dragoman.config import file_names
from dragoman.errors import ConfigError, DataError
from dragoman.evaluation.classification import Evaluation, evaluate, split_of
from dragoman.evaluation.comparison import Record, Spread, run_record, seed_groups, spread_records
from dragoman.evaluation.scores import check_split
from dragoman.metrics.significance import compare_label_groups, mcnemar
from dragoman.predict.classifier import Classifier, classification_config
from dragoman.runs import Run


@dataclass(frozen=True)
class ClassifierComparison:
    """One test set labelled by every classifier (a `Comparison`)."""

    name: str
    texts: tuple[str, ...]
    expected: tuple[str, ...]
    evaluations: Mapping[str, Evaluation]
    """By the names of the runs."""
    files: tuple[str, ...]
    groups: Mapping[str, Sequence[str]]
    """The runs that differ only in their seeds, by titles."""

    @cached_property
    def spreads(self) -> list[Spread]:
        """Accuracy and macro-F1 over each group of seeds; accuracy is tested."""
        spreads: list[Spread] = []
        for title, group in self.groups.items():
            scores = [self.evaluations[system].scores for system in group]
            for same in zip(*scores, strict=True):
                test = None
                if spreads and same[0].name == self.tested:
                    pair = (
                        np.stack([self.evaluations[system].right for system in members])
                        for members in (spreads[0].systems, group)
                    )
                    test = compare_label_groups(*pair)
                values = tuple(score.value for score in same)
                spreads.append(Spread(title, tuple(group), same[0].name, values, test))
        return spreads

    @property
    def signatures(self) -> dict[str, str]:
        return {score.name: score.signature for score in self.first.scores}

    @property
    def test(self) -> str:
        return f"McNemar's exact test of {self.tested}"

    @property
    def caption(self) -> str:
        return f"{self.provenance}; {'; '.join(self.signatures.values())}"

    def records(self) -> list[Record]:
        scores = []
        for system, evaluation in self.evaluations.items():
            is_other = evaluation is not self.first
            for score, base in zip(evaluation.scores, self.first.scores, strict=True):
                p_value = self.p_value(system) if is_other and score.name == self.tested else None
                first = base if is_other else None
                scores.append(run_record(self.name, system, score, first, p_mcnemar=p_value))
        return scores + spread_records(self.name, self.spreads)

    @property
    def tested(self) -> str:
        """The score that is a share of texts that are right: the one that McNemar's test is of."""
        names = [score.name for score in self.first.scores]
        return "exact match" if "exact match" in names else "accuracy"

    @property
    def first(self) -> Evaluation:
        return next(iter(self.evaluations.values()))

    @property
    def provenance(self) -> str:
        """What the figures were computed on, in words."""
        files = " + ".join(self.files) or "held out of the training texts"
        return f"{self.name}: {len(self.texts):,} texts of {files}"

    def p_value(self, system: str) -> float:
        """McNemar's, of the texts that `system` and the first one label rightly."""
        return mcnemar(self.first.right, self.evaluations[system].right)

    def changed(self, system: str, n: int) -> tuple[list[int], list[int]]:
        """Up to `n` texts that only `system` labels rightly, and `n` that only the first one does.

        The surer the one that is right, the earlier.
        """
        other = self.evaluations[system]
        right, right_other = self.first.right, other.right
        lists = []
        for winner, mask in ((other, right_other & ~right), (self.first, right & ~right_other)):
            sure = winner.confidence
            lists.append(sorted(np.flatnonzero(mask).tolist(), key=lambda i: (-sure[i], i))[:n])
        better, worse = lists
        return better, worse


def compare_classifiers(
    runs: Mapping[str, Run],
    *,
    split: str | None = None,
    device: str = "auto",
    precision: str = "auto",
    listen: Callable[[str], None] = lambda message: None,
) -> list[ClassifierComparison]:
    """Every test set of the same name, or, where a run has none, the validation texts.

    ConfigError: there is no set that all have. DataError: sets of one name hold other texts or labels.
    """
    check_split(split)
    chosen = split or ("test" if all(run.config.data.test for run in runs.values()) else "valid")
    found: dict[str, dict[str, tuple[Evaluation, tuple[str, ...], tuple[str, ...]]]] = {}
    for system, run in runs.items():
        classifier = Classifier.load(run.path, device=device, precision=precision)
        for name, corpus in split_of(classification_config(run), chosen):
            examples = list(corpus.examples())
            listen(f"{run.path}: labelling {name}, {len(examples):,} texts")
            evaluation = evaluate(classifier, name, examples)
            texts, labels = zip(*((e.text, e.label) for e in examples), strict=True)
            found.setdefault(name, {})[system] = (evaluation, texts, labels)
    common = {name: sets for name, sets in found.items() if len(sets) == len(runs)}
    if not common:
        raise ConfigError(f"the runs have no {chosen} set of the same name; compare runs of one data set")
    groups = seed_groups({system: run.config for system, run in runs.items()})
    comparisons = []
    for name, sets in common.items():
        (first, (evaluation, texts, labels)), *_ = sets.items()
        separator = evaluation.labelling.separator
        for system, (other, *there) in sets.items():
            if (texts, labels, separator) != (*there, other.labelling.separator):
                raise DataError(
                    f"{name} of {first} and of {system} cannot stand side by side: their texts or labels "
                    "differ; compare runs on the same test set"
                )
        data = runs[first].config.data
        files = data.test[name] if chosen == "test" else data.valid
        evaluations = {system: evaluation for system, (evaluation, _, _) in sets.items()}
        comparisons.append(ClassifierComparison(name, texts, labels, evaluations, file_names(files), groups))
    return comparisons
