"""`dragoman evaluate` for a classifier, and what it prints."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dragoman.cli.app import say
from dragoman.cli.classify import load_classifier
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from dragoman.config import ClassificationConfig, Column
    from dragoman.data.labelled import LabelledCorpus
    from dragoman.evaluation.classification import Evaluation
    from dragoman.runs import Run

N_CONFUSED = 10
"""Classes, at most, whose confusions are printed as a matrix; of more, the most frequent ones as a list."""


def evaluate_classifier(
    run: Run,
    tests: dict[str, LabelledCorpus],
    *,
    places: Mapping[str, Path],
    as_json: bool,
    baseline: bool,
    device: str,
    precision: str,
) -> None:
    """Classifies the tests, scores them, prints the scores and keeps them in the run.

    `places` says where to write the labels of a test.
    """
    from dragoman.evaluation.scores import keep_scores

    evaluations = []
    for evaluation, texts in evaluations_of(
        run, tests, baseline=baseline, device=device, precision=precision
    ):
        if evaluation.name in places:
            write_labels(evaluation, texts, places[evaluation.name])
        if not as_json:
            typer.echo("\n".join(describe_evaluation(evaluation)))
        evaluations.append(evaluation)
    if run.origin is None:
        keep_scores(run, [evaluation.record() for evaluation in evaluations])
    if as_json:
        record = {"run": str(run.path), "results": [evaluation.record() for evaluation in evaluations]}
        typer.echo(json.dumps(record, ensure_ascii=False, indent=2))


def evaluations_of(
    run: Run,
    tests: dict[str, LabelledCorpus],
    *,
    baseline: bool = True,
    device: str = "auto",
    precision: str = "auto",
) -> Iterator[tuple[Evaluation, list[str]]]:
    """Each test's evaluation beside the baseline's, and its texts; what was left out is said."""
    from dragoman.evaluation.classification import BaselineScorer, evaluate
    from dragoman.evaluation.scores import saved_scores
    from dragoman.predict.classifier import classification_config

    classifier = load_classifier(run.path, device=device, precision=precision)
    scorer = BaselineScorer(classification_config(run), saved_scores(run))
    for name, corpus in tests.items():
        examples = list(corpus.examples())
        for note in corpus.notes():
            say(note)
        evaluation = evaluate(classifier, name, examples)
        say(
            f"{name}: {len(examples):,} texts in {evaluation.seconds:.1f} s, "
            f"{evaluation.texts_per_second:.1f} texts/s"
        )
        if evaluation.n_cut.any():
            n_texts, n_tokens = int((evaluation.n_cut > 0).sum()), int(evaluation.n_cut.sum())
            say(f"cut {n_tokens:,} tokens off {n_texts:,} of {len(examples):,} texts (data.max_windows)")
        if baseline:
            evaluation = scorer.beside(evaluation, examples, say)
        else:
            evaluation = replace(evaluation, no_baseline="left out (--no-baseline)")
        yield evaluation, [example.text for example in examples]


def labelled_tests(
    run: Run,
    *,
    split: str | None,
    file: str | None,
    text_column: Column | None = None,
    label_column: Column | None = None,
) -> dict[str, LabelledCorpus]:
    """The corpora to evaluate, by name. ConfigError: the options contradict each other, or there are none."""
    from dragoman.data.labelled import open_labelled
    from dragoman.evaluation.classification import split_of
    from dragoman.predict.classifier import classification_config

    config = classification_config(run)
    data = config.data
    if split not in (None, "test", "valid"):
        raise ConfigError(f"--split {split}: there are test and valid")
    if file is not None:
        if split is not None:
            raise ConfigError("give --file or --split, but not both")
        text = data.text_column if text_column is None else text_column
        label = data.label_column if label_column is None else label_column
        return {Path(file).name: open_labelled([file], text_column=text, label_column=label)}
    if text_column is not None or label_column is not None:
        raise ConfigError("--text-column and --label-column are for --file")
    run.check_corpora()
    if split is None and not data.test:
        say("the run names no test set, so its validation texts are classified")
    tests = dict(split_of(config, split or ("test" if data.test else "valid")))
    if not tests:
        raise ConfigError(f"{run.config_path} names no test set; say --split valid, or give --file")
    return tests


def write_labels(evaluation: Evaluation, texts: list[str], path: Path) -> None:
    """Writes a line for each text: its label, the one it was given, and the probability of that.

    RunError: the file cannot be written.
    """
    from dragoman.files import write_atomically

    probabilities = evaluation.probabilities().max(1).tolist()
    rows = zip(evaluation.expected.tolist(), evaluation.found.tolist(), probabilities, texts, strict=True)
    lines = [
        f"{evaluation.labels[expected]}\t{evaluation.labels[found]}\t{probability:.4f}\t{text}\n"
        for expected, found, probability, text in rows
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, "".join(lines).encode())
    say(f"labels: {path}")


def describe_evaluation(evaluation: Evaluation) -> Iterator[str]:
    """Everything about an evaluation, line by line."""
    from dragoman.cli.evaluate import scores_table

    yield f"{evaluation.name} · {len(evaluation.expected):,} texts · {len(evaluation.labels)} labels"
    result = evaluation.baseline
    beside = [replace(score, name=f"baseline {score.name}") for score in result.scores] if result else []
    yield scores_table([*evaluation.scores, *beside])
    yield describe_baseline(evaluation)
    before, after = (evaluation.calibration_error(calibrated=c) for c in (False, True))
    yield (
        f"  calibration: ECE {before:.1f} before and {after:.1f} after temperature "
        f"{evaluation.temperature:.2f}; loss {evaluation.loss(calibrated=False):.3f} and "
        f"{evaluation.loss():.3f} nats/text"
    )
    yield from _class_table(evaluation)
    yield from _confusions(evaluation)


def describe_baseline(evaluation: Evaluation) -> str:
    """What the baseline is, or why there is none, in one line."""
    from dragoman.evaluation.baseline import NAME

    result = evaluation.baseline
    if result is None:
        return f"  no baseline: {evaluation.no_baseline}"
    ahead = evaluation.scores[0].value - result.scores[0].value
    verdict = f"{abs(ahead):.1f} points {'above' if ahead >= 0 else 'BELOW'} it"
    return f"  baseline: {NAME} on the same {result.n_train:,} texts; the classifier's accuracy is {verdict}"


def _class_table(evaluation: Evaluation) -> Iterator[str]:
    rows = [("label", "precision", "recall", "F1", "texts")]
    for label, score in evaluation.per_class.items():
        precision, recall, f1 = (f"{value:.1f}" for value in score[:3])
        rows.append((label, precision, recall, f1, f"{score.support:,}"))
    yield from _columns(rows)


def _confusions(evaluation: Evaluation) -> Iterator[str]:
    """The matrix, or of many classes the most frequent mistakes."""
    labels, confusion = evaluation.labels, evaluation.confusion
    if len(labels) <= N_CONFUSED:
        yield "  label in the row, given in the column"
        rows = [("", *labels)]
        rows += [
            (label, *(f"{n:,}" for n in row)) for label, row in zip(labels, confusion.tolist(), strict=True)
        ]
        yield from _columns(rows)
        return
    mistakes = [
        (int(n), labels[i], labels[j])
        for i, row in enumerate(confusion)
        for j, n in enumerate(row)
        if i != j and n
    ]
    yield "  most frequent mistakes: label → given"
    for n, label, given in sorted(mistakes, key=lambda mistake: (-mistake[0], mistake[1:]))[:N_CONFUSED]:
        yield f"  {n:>6,}  {label} → {given}"


def _columns(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Rows as lines: the first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for first, *others in rows:
        cells = (f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True))
        yield "  " + "  ".join([f"{first:<{widths[0]}}", *cells]).rstrip()


def describe_saved(record: dict[str, Any]) -> str:
    """One line about an entry of scores.json."""
    values = " · ".join(f"{s['name']} {s['value']:.1f}" for s in record["scores"])
    baseline = record.get("baseline")
    beside = f" · baseline {baseline['scores'][0]['value']:.1f}" if baseline else ""
    return f"{record['name']} · {values}{beside} · ECE {record['ece']:.1f} · {record['n_texts']:,} texts"


def print_validation(run: Run, config: ClassificationConfig) -> None:
    """After a training: how good it is on the validation texts, and the baseline on the same, on stderr."""
    from dragoman.evaluation.classification import split_of
    from dragoman.evaluation.scores import keep_scores

    tests = dict(split_of(config, "valid"))
    for evaluation, _ in evaluations_of(run, tests):
        keep_scores(run, [evaluation.record()])
        for line in describe_evaluation(evaluation):
            say(line)
