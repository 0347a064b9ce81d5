"""The task of classification: what the interface of a task asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from dragoman.config import Config, file_names
from dragoman.data.labelled import (
    LabelledCorpus,
    guess_labelled_columns,
    open_labelled,
)
from dragoman.data.named import open_text
from dragoman.data.readers.columns import by_name
from dragoman.errors import ConfigError, DataError
from dragoman.predict.classifier import Classifier, classification_config
from dragoman.runs import Run, saved_scores
from dragoman.tasks.task import (
    EvaluationRequest,
    Languages,
    Opener,
    Progress,
    Reading,
    Say,
    Task,
    TrainingRequest,
)

if TYPE_CHECKING:
    from dragoman.evaluation.classification import Evaluation
    from dragoman.evaluation.classifier_comparison import ClassifierComparison
    from dragoman.report.curves import Curves
    from dragoman.report.page import Page
    from dragoman.tasks.task import DemoTable


class Classification(Task):
    """Labelled text in, a classifier out, scored by accuracy and F1 beside a baseline."""

    noun: ClassVar[str] = "classifier"
    foreign: ClassVar[tuple[str, ...]] = (
        "to",
        "src", "ref", "beam_size", "length_penalty", "coverage_penalty", "no_repeat_ngram", "batch_sentences",
        "ensemble", "engine", "robustness", "scores",
    )  # fmt: skip

    def config_for(self, request: TrainingRequest) -> Config:
        from dragoman.tasks.classification.configuring import config_for

        return config_for(request)

    def opener(self, files: Sequence[str], reading: Reading) -> tuple[Opener, Languages]:
        if any(reading.languages) or reading.columns:
            raise ConfigError("labelled text has no source and target; give --text-column and --label-column")
        text, label, separator = reading.text_column, reading.label_column, reading.label_separator
        if text is not None and label is not None:
            text, label = by_name(files[0], (text, label))
        elif len(files) == 1:
            guessed = guess_labelled_columns(files[0], separator)
            text, label = guessed[0] if text is None else text, guessed[1] if label is None else label

        def open_(some: Sequence[str]) -> LabelledCorpus:
            return open_labelled(some, text_column=text or 0, label_column=label or 0, separator=separator)

        return open_, (None, None)

    def tests(self, run: Run, request: EvaluationRequest, say: Say) -> dict[str, LabelledCorpus]:
        from dragoman.evaluation.classification import split_of

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
            say("the run names no test set, so its validation texts are classified")
        tests = dict(split_of(config, split or ("test" if data.test else "valid")))
        if not tests:
            raise ConfigError(f"{run.config_path} names no test set; say --split valid, or give --file")
        return tests

    def evaluate(
        self, run: Run, tests: Mapping[str, LabelledCorpus], request: EvaluationRequest, say: Say
    ) -> Iterator[Evaluation]:
        from dragoman.evaluation.classification import BaselineScorer, evaluate

        classifier = load_classifier(run.path, device=request.device, precision=request.precision)
        scorer = BaselineScorer(run, saved_scores(run))
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
            if request.baseline:
                yield scorer.beside(evaluation, examples, say)
            else:
                yield replace(evaluation, no_baseline="left out (--no-baseline)")

    def score_validation(self, run: Run, say: Say) -> Iterator[Evaluation]:
        request = EvaluationRequest(split="valid")
        return self.evaluate(run, self.tests(run, request, say), request, say)

    def report(
        self,
        run: Run,
        request: EvaluationRequest,
        *,
        figures: Path,
        n_examples: int,
        reference: Curves | None,
        say: Say,
        progress: Progress,
    ) -> Page:
        from dragoman.report.classification import ClassifiedSet, classification_page

        split = request.split
        classifier, sets, problems = None, [], []
        if split is not None or run.weights_path.exists():
            classifier = load_classifier(run.path, device=request.device, precision=request.precision)
            try:
                for evaluation in self.evaluate(run, self.tests(run, request, say), request, say):
                    data = run.config.data
                    files = data.valid if split == "valid" or not data.test else data.test[evaluation.name]
                    sets.append(ClassifiedSet(evaluation, file_names(files)))
            except (ConfigError, DataError) as error:
                if split is not None:
                    raise
                problems.append(f"Nothing could be classified: {error}.")
        else:
            problems.append("The run has no weights yet, so that nothing could be classified.")
        for problem in problems:
            say(problem)
        return classification_page(
            run,
            classifier,
            sets,
            figures=figures,
            n_mistakes=2 * n_examples,
            problems=problems,
            reference=reference,
            listen=say,
        )

    def compare(
        self, runs: Mapping[str, Run], request: EvaluationRequest, say: Say, progress: Progress
    ) -> list[ClassifierComparison]:
        from dragoman.evaluation.classifier_comparison import compare_classifiers

        if request.src is not None or request.ref is not None:
            raise ConfigError("--src and --ref are for translators; classifiers are compared on test sets")
        self.check(request)
        return compare_classifiers(
            runs, split=request.split, device=request.device, precision=request.precision, listen=say
        )

    def comparison_page(
        self,
        runs: Mapping[str, Run],
        comparisons: Sequence[ClassifierComparison],
        *,
        figures: Path,
        n_examples: int,
    ) -> Page:
        from dragoman.report.comparison import classifier_comparison_page

        return classifier_comparison_page(runs, comparisons, figures=figures, n_texts=n_examples)

    def demo_settings(self, src: str | None, tgt: str | None) -> dict[str, Any]:
        from dragoman.tasks.classification.demo import SETTINGS

        if src or tgt:
            raise ConfigError("--src and --tgt are for --task translation; the reviews are English")
        return SETTINGS

    def demo_results(self, run: Run, say: Say) -> tuple[list[DemoTable], str, Sequence[str]]:
        from dragoman.tasks.classification.demo import demo_results

        return demo_results(run, say)


def load_classifier(run: str | Path, *, device: str = "auto", precision: str = "auto") -> Classifier:
    """Load the classifier in the folder `run`. ConfigError: unknown precision."""
    if precision not in ("auto", "fp32", "bf16"):
        raise ConfigError(f'--precision {precision}: is not a precision; there are "auto", "fp32" and "bf16"')
    return Classifier.load(run, device=device, precision=precision)
