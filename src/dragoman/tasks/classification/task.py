"""The task of classification: what the interface of a task asks for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.config import ClassificationConfig, Column, Config, file_names, parse_section
from dragoman.data.labelled import REVIEWS, guess_labelled_columns, open_labelled
from dragoman.data.named import open_text
from dragoman.data.phrasebook import unseen_reviews
from dragoman.data.readers.columns import by_name
from dragoman.data.records import Corpus, Labelled
from dragoman.errors import ConfigError, DataError, counted
from dragoman.evaluation.scores import keep_scores
from dragoman.metrics.score import interval_text
from dragoman.predict.classifier import Classifier, classification_config
from dragoman.presets import classification_preset_for
from dragoman.report.curves import Curves
from dragoman.report.page import Page
from dragoman.runs import Run, saved_scores
from dragoman.tasks.classification.baseline import NAME
from dragoman.tasks.classification.comparison import ClassifierComparison, compare_classifiers
from dragoman.tasks.classification.evaluation import (
    BaselineScorer,
    ClassificationScores,
    evaluate,
    load_classifier,
    split_of,
)
from dragoman.tasks.classification.report import classification_page
from dragoman.tasks.request import EvaluationRequest, Say, TrainingRequest
from dragoman.tasks.task import (
    SPLIT_SEED,
    DemoTable,
    Languages,
    Opener,
    Task,
    name_of,
    read_recipe,
)

if TYPE_CHECKING:
    from dragoman.training.objective import Objective

DEMO: dict[str, Any] = {
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
"""The settings of the demo, chosen on the reviews' validation split, for about a minute on two CPU cores."""

N_SHOWN = 10
"""Reviews that the demo shows."""


class ClassificationTask(Task):
    """Labelled text in, a classifier out, scored by accuracy and F1 beside a baseline."""

    noun = "classifier"
    foreign = (
        "to",
        "src", "ref", "beam_size", "length_penalty", "coverage_penalty", "no_repeat_ngram", "batch_sentences",
        "ensemble", "robustness", "scores",
    )  # fmt: skip

    @property
    def objective(self) -> Callable[..., Objective[Any]]:
        from dragoman.tasks.classification.objective import ClassificationObjective

        return ClassificationObjective

    def config_for(self, request: TrainingRequest) -> Config:
        if request.replay:
            raise ConfigError("--replay is for translators; leave it away")
        if request.extend_vocab and request.start is None:
            raise ConfigError("--extend-vocab goes with --from RUN")
        if request.robust:
            raise ConfigError("--robust is for translators; it alters both sides of a pair")
        if request.preset:
            raise ConfigError("--preset is for the files of a translator; change other settings with --set")
        if request.start is not None:
            raise ConfigError(
                f"--from {request.start} takes task and languages over; leave --task and --src-lang away"
            )
        if request.is_parallel:
            raise ConfigError("a classifier has no source and target; give one file of texts and labels")
        if request.file is None:
            raise ConfigError("nothing to train on; give a file of texts and labels, as in: reviews.tsv")
        if (recipe := request.recipe) is None:
            return _config_by_size(request, str(Path(request.file)))
        of_files = (request.valid, request.text_column, request.label_column, request.label_separator or None)
        if any(value is not None for value in of_files):
            raise ConfigError(f"{recipe} names its own files and columns; change the recipe with --set")
        return read_recipe(request, recipe)

    def opener(self, files: Sequence[str], reading: TrainingRequest) -> tuple[Opener, Languages]:
        if any(reading.languages) or reading.columns:
            raise ConfigError("labelled text has no source and target; give --text-column and --label-column")
        text, label, separator = reading.text_column, reading.label_column, reading.label_separator
        if text is not None and label is not None:
            text, label = by_name(files[0], (text, label))
        elif len(files) == 1:
            guessed = guess_labelled_columns(files[0])
            text, label = guessed[0] if text is None else text, guessed[1] if label is None else label

        def open_(some: Sequence[str]) -> Corpus:
            return open_labelled(some, text_column=text or 0, label_column=label or 0, separator=separator)

        return open_, (None, None)

    def tests(self, run: Run, request: EvaluationRequest) -> dict[str, Corpus]:
        config, split, file = classification_config(run), request.split, request.file
        data, columns = config.data, (request.text_column, request.label_column)
        if file is not None:
            if split is not None:
                raise ConfigError("give --file or --split, but not both")
            text, label = (
                old if new is None else new
                for new, old in zip(columns, (data.text_column, data.label_column), strict=True)
            )
            if None not in columns:
                text, label = by_name(file, (text, label))
            replaced = data.model_copy(update={"text_column": text, "label_column": label})
            return {Path(file).name: open_text(replaced, (file,))}
        if columns != (None, None):
            raise ConfigError("--text-column and --label-column are for --file")
        run.check_corpora()
        if split is None and not data.test:
            request.say("the run names no test set, so its validation texts are classified")
        tests = dict(split_of(config, split or ("test" if data.test else "valid")))
        if not tests:
            raise ConfigError(f"{run.config_path} names no test set; say --split valid, or give --file")
        return tests

    def evaluate(
        self, run: Run, tests: Mapping[str, Corpus], request: EvaluationRequest
    ) -> Iterator[ClassificationScores]:
        classifier = load_classifier(run.path, device=request.device, precision=request.precision)
        say = request.say
        scorer = BaselineScorer(run, saved_scores(run), say)
        for name, corpus in tests.items():
            examples = list(corpus.examples())
            for note in corpus.notes():
                say(note)
            evaluation = evaluate(classifier, name, examples)
            say(
                f"{name}: {counted(len(examples), 'text')} in {evaluation.seconds:.1f} s, "
                f"{evaluation.texts_per_second:.1f} texts/s"
            )
            if evaluation.n_cut.any():
                n_texts, n_tokens = int((evaluation.n_cut > 0).sum()), int(evaluation.n_cut.sum())
                say(f"cut {n_tokens:,} tokens off {n_texts:,} of {len(examples):,} texts (data.max_windows)")
            if request.baseline:
                yield scorer.beside(evaluation, examples)
            else:
                yield replace(evaluation, no_baseline="left out (--no-baseline)")

    def score_validation(self, run: Run, say: Say) -> Iterator[ClassificationScores]:
        request = EvaluationRequest(split="valid", say=say)
        return self.evaluate(run, self.tests(run, request), request)

    def report(self, run: Run, request: EvaluationRequest, figures: Path, reference: Curves | None) -> Page:
        split = request.split
        classifier, sets, problems = None, [], []
        if split is not None or run.weights_path.exists():
            classifier = load_classifier(run.path, device=request.device, precision=request.precision)
            try:
                for evaluation in self.evaluate(run, self.tests(run, request), request):
                    data = run.config.data
                    files = data.valid if split == "valid" or not data.test else data.test[evaluation.name]
                    sets.append(replace(evaluation, files=file_names(files)))
            except (ConfigError, DataError) as error:
                if split is not None:
                    raise
                problems.append(f"Nothing could be classified: {error}.")
        else:
            problems.append("The run has no weights yet, so that nothing could be classified.")
        for problem in problems:
            request.say(problem)
        return classification_page(
            run, classifier, sets, problems, request, figures=figures, reference=reference
        )

    def compare(self, runs: Mapping[str, Run], request: EvaluationRequest) -> list[ClassifierComparison]:
        if request.src is not None or request.ref is not None:
            raise ConfigError("--src and --ref are for translators; classifiers are compared on test sets")
        self.check(request)
        return compare_classifiers(runs, request)

    def demo_settings(self, src: str | None, tgt: str | None) -> dict[str, Any]:
        if src or tgt:
            raise ConfigError("--src and --tgt are for --task translation; the reviews are English")
        return DEMO

    def demo_results(self, run: Run, say: Say) -> tuple[list[DemoTable], str, Sequence[str]]:
        test = list(open_labelled(["phrasebook:reviews-test"]).examples())
        unseen_texts = {text for _, text in unseen_reviews()}
        parts: dict[str, list[Labelled]] = {
            "reviews": test,
            "combinations seen in training": [e for e in test if e.text not in unseen_texts],
            "combinations never seen": [e for e in test if e.text in unseen_texts],
        }
        classifier = Classifier.load(run.path)
        scorer = BaselineScorer(run, saved_scores(run), say)
        evaluations = [scorer.beside(evaluate(classifier, name, part), part) for name, part in parts.items()]
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


def _config_by_size(request: TrainingRequest, file: str) -> ClassificationConfig:
    """Return the configuration for the labelled texts in `file`. DataError: as above."""
    text, label = _columns_of(request, file)
    separator = request.label_separator
    corpus = open_labelled([file], text_column=text, label_column=label, separator=separator)
    cells: Counter[str] = Counter()
    n_words = n_characters = 0
    for example in corpus.examples():
        cells[example.label] += 1
        words = example.text.split()
        n_words += len(words)
        n_characters += sum(map(len, words))
    n_texts, labels = cells.total(), corpus.count_labels(cells)
    preset = classification_preset_for(
        n_texts=n_texts, n_words=n_words, n_characters=n_characters, n_labels=len(labels)
    )
    data = {
        "train": [file],
        "valid": [request.valid] if request.valid else [],
        "split_seed": SPLIT_SEED,
        "text_column": text,
        "label_column": label,
        "label_separator": separator,
        **preset["data"],
    }
    config = parse_section(
        ClassificationConfig,
        {"task": "classification", "name": name_of(file) or "classifier", **preset, "data": data},
        overrides=request.overrides,
        where="settings chosen by corpus size",
    )
    request.say(
        f"{counted(n_texts, 'text')} of {n_words / n_texts:.0f} words, {len(labels)} labels: "
        f"{config.model.n_encoder_layers} layers of {config.model.d_model}, "
        f"n-grams up to {config.model.ngrams}, {counted(config.training.max_steps, 'step')}"
    )
    return config


def _columns_of(request: TrainingRequest, file: str) -> tuple[Column, Column]:
    """Return the columns of text and label, as given or as the file's head tells.

    DataError: it does not tell.
    """
    text, label = request.text_column, request.label_column
    if text is not None and label is not None:
        return text, label
    found_text, found_label = guess_labelled_columns(file)
    columns = {"text": (text, found_text), "label": (label, found_label)}
    guessed = {part: column for part, (named, column) in columns.items() if named is None}
    if not file.startswith(REVIEWS):
        places = ", ".join(f"the {part} is in column {column!r}" for part, column in guessed.items())
        request.say(f"{places}; if not, say {' and '.join(f'--{part}-column' for part in guessed)}")
    return found_text if text is None else text, found_label if label is None else label
