"""The demo of classification: settings for the embedded reviews, and what to show of the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dragoman.data.labelled import Labelled, open_labelled
from dragoman.data.phrasebook import unseen_reviews
from dragoman.evaluation.baseline import NAME
from dragoman.evaluation.classification import BaselineScorer, evaluate
from dragoman.evaluation.scores import keep_scores
from dragoman.metrics.score import interval_text
from dragoman.predict.classifier import Classifier
from dragoman.runs import Run, saved_scores
from dragoman.tasks.task import DemoTable, Say

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
"""Chosen on the reviews' validation split, for about a minute on two CPU cores."""

N_SHOWN = 10
"""Reviews in the table."""


def demo_results(run: Run, say: Say) -> tuple[list[DemoTable], str, Sequence[str]]:
    """Score held-out reviews, as `Task.demo_results` has it."""
    test = list(open_labelled(["phrasebook:reviews-test"]).examples())
    unseen_texts = {text for _, text in unseen_reviews()}
    parts: dict[str, list[Labelled]] = {
        "reviews": test,
        "combinations seen in training": [e for e in test if e.text not in unseen_texts],
        "combinations never seen": [e for e in test if e.text in unseen_texts],
    }
    classifier = Classifier.load(run.path)
    scorer = BaselineScorer(run, saved_scores(run))
    evaluations = [
        scorer.beside(evaluate(classifier, name, examples), examples, say) for name, examples in parts.items()
    ]
    keep_scores(run, [evaluation.record() for evaluation in evaluations])
    whole, (_, seen, unseen) = evaluations[0], parts.values()
    if whole.baseline is None:
        say(f"no baseline: {whole.no_baseline}")

    shown = [*unseen[: N_SHOWN // 2], *seen[: N_SHOWN // 2]]
    examples = [
        (
            example.text,
            example.label,
            (result.label, "green" if result.label == example.label else "yellow"),
            f"{100 * result.probabilities[result.label]:.0f} %",
        )
        for example, result in zip(shown, classifier.classify([e.text for e in shown]), strict=True)
    ]
    rows = []
    for evaluation in evaluations:
        accuracy = evaluation.scores[0]
        baseline = f"{evaluation.baseline.scores[0].value:.1f}" if evaluation.baseline else "–"
        name, n = "all" if evaluation is whole else evaluation.name, f"{len(evaluation.expected):,}"
        rows.append((name, n, f"{accuracy.value:.1f}", interval_text(accuracy.interval), baseline))
    heading = ("test reviews", ">number", ">accuracy", ">95 % interval", ">baseline")
    tables = [
        DemoTable("Held-out reviews", ("review", "label", "given", "probability"), examples),
        DemoTable(f"Accuracy, % (baseline: {NAME})", heading, rows),
    ]
    return tables, test[0].text, ("train your-reviews.tsv --task classification",)
