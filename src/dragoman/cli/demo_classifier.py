"""`dragoman demo --task classification`: from nothing to a classifier in about a minute."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.cli.app import command_line, say

if TYPE_CHECKING:
    from dragoman.data.labelled import Labelled
    from dragoman.evaluation.classification import Evaluation
    from dragoman.predict.classifier import Classifier

SETTINGS: dict[str, Any] = {
    "task": "classification",
    "name": "demo-reviews",
    "data": {
        "train": ["phrasebook:reviews-train"],
        "valid": ["phrasebook:reviews-valid"],
        "test": {"reviews": ["phrasebook:reviews-test"]},
        "max_length": 128,
    },
    "tokenizer": {"kind": "words", "lowercase": True, "vocab_size": 4000},
    "model": {
        "d_model": 64,
        "n_heads": 2,
        "d_ff": 128,
        "n_encoder_layers": 1,
        "dropout": 0.3,
        "ngrams": 3,
        "ngram_bits": 16,
    },
    "training": {
        "max_steps": 900,
        "batch_tokens": 2048,
        "learning_rate": 3e-3,
        "warmup_steps": 60,
        "schedule": "cosine",
        "ema_decay": 0.99,
        "average": "none",
        "log_every": 50,
        "valid_every": 300,
    },
}
"""Found on the reviews' validation split, to be done in about a minute on two CPU cores."""

N_SHOWN = 10
"""Reviews in the table."""


def demo_classifier(*, minutes: float | None, out: Path | None, overrides: Sequence[str]) -> None:
    """Trains on the embedded reviews, scores held-out ones, and shows some with their labels."""
    from dragoman.cli.train import run_training
    from dragoman.config import parse_config
    from dragoman.data.labelled import open_labelled
    from dragoman.data.phrasebook import unseen_reviews
    from dragoman.evaluation.classification import BaselineScorer, evaluate
    from dragoman.evaluation.scores import keep_scores, saved_scores
    from dragoman.predict.classifier import Classifier
    from dragoman.runs import Run

    changes = list(overrides)
    if minutes is not None:
        changes.insert(0, f"training.max_minutes={minutes}")
    config = parse_config(SETTINGS, overrides=changes, where="demo")
    assert config.task == "classification"
    path = run_training(config, out or Path("runs") / config.name)
    run = Run.open(path)
    test = list(open_labelled(["phrasebook:reviews-test"]).examples())
    unseen_texts = {text for _, text in unseen_reviews()}
    parts: dict[str, list[Labelled]] = {
        "reviews": test,
        "combinations seen in training": [e for e in test if e.text not in unseen_texts],
        "combinations never seen": [e for e in test if e.text in unseen_texts],
    }
    classifier, scorer = Classifier.load(path), BaselineScorer(config, saved_scores(run))
    evaluations = [
        scorer.beside(evaluate(classifier, name, examples), examples, say) for name, examples in parts.items()
    ]
    keep_scores(run, [evaluation.record() for evaluation in evaluations])
    _print_tables(classifier, parts, evaluations)
    for command in next_commands(path, test[0].text):
        say(command)


def next_commands(path: Path, example: str) -> list[str]:
    """What to try after the demo, ready to be copied."""
    return [
        "",
        "Try next:",
        f"  echo {shlex.quote(example)} | {command_line('classify', path)}",
        f"  {command_line('evaluate', path)}",
        f"  {command_line('show', path)}",
        "  dragoman train your-reviews.tsv --task classification",
    ]


def _print_tables(
    classifier: Classifier, parts: dict[str, list[Labelled]], evaluations: Sequence[Evaluation]
) -> None:
    """A few reviews with their labels, and the scores, on stdout."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from dragoman.evaluation.baseline import NAME

    reviews = Table("review", "label", "given", "probability", title="Held-out reviews", title_justify="left")
    *_, seen, unseen = parts.values()
    shown = [*unseen[: N_SHOWN // 2], *seen[: N_SHOWN // 2]]
    for example, found in zip(shown, classifier.classify([e.text for e in shown]), strict=True):
        style = "green" if found.label == example.label else "yellow"
        probability = f"{100 * found.probabilities[found.label]:.0f} %"
        reviews.add_row(Text(example.text), example.label, Text(found.label, style=style), probability)
    scores = Table(title=f"Accuracy, % (baseline: {NAME})", title_justify="left")
    for heading in ("test reviews", "number", "accuracy", "95 % interval", "baseline"):
        scores.add_column(heading, justify="left" if heading == "test reviews" else "right")
    for evaluation in evaluations:
        accuracy = evaluation.scores[0]
        low, high = accuracy.interval or (accuracy.value, accuracy.value)
        result = evaluation.baseline
        baseline = f"{result.scores[0].value:.1f}" if result else "–"
        name = "all" if evaluation is evaluations[0] else evaluation.name
        n = f"{len(evaluation.expected):,}"
        scores.add_row(name, n, f"{accuracy.value:.1f}", f"{low:.1f} – {high:.1f}", baseline)
    console = Console(highlight=False)
    console.print(reviews)
    console.print(scores)
    if evaluations[0].baseline is None:
        say(f"no baseline: {evaluations[0].no_baseline}")
