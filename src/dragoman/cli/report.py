"""`dragoman report`: how a training went and what came of it, as one page."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.app import say
from dragoman.cli.translate import Device, Precision, RunPath, check_precision
from dragoman.errors import require

if TYPE_CHECKING:
    from dragoman.report.curves import Curves
    from dragoman.report.page import Page
    from dragoman.runs import Run

REPORT = "report.html"
FIGURES = "figures"


def register(app: typer.Typer) -> None:
    app.command()(report)


def report(
    run: RunPath,
    out: Annotated[
        Path | None, typer.Option(help="The folder for report.html and figures/.", show_default="the run's")
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="test or valid.", show_default="test, or valid where there is none")
    ] = None,
    sentences: Annotated[
        int,
        typer.Option(
            min=1,
            max=10_000,
            help="Best, median and worst sentences, so many of each; or twice as many mistakes.",
        ),
    ] = 5,
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Write a run's report: one HTML page that opens anywhere, and its figures as SVG.

    Curves, scores with intervals and signatures, an analysis by length, words and numbers, sentences,
    attention, and the model card. Translations are kept in the run's folder report/ and not made again
    while weights and settings stay. Of a classifier: scores by label, confusions, calibration, and the most
    confident mistakes with the words that they hang on.
    """
    from dragoman.files import write_atomically
    from dragoman.report.page import page_html
    from dragoman.runs import Run

    require("matplotlib", "jinja2", extra="report", purpose="a report")
    check_precision(precision)
    opened = Run.open(run)
    folder = out or opened.path
    make_folder(folder / FIGURES)
    page_of = _classifier_page if opened.config.task == "classification" else _page
    page = page_of(
        opened,
        split=split,
        figures=folder / FIGURES,
        n_sentences=sentences,
        device=device,
        precision=precision,
    )
    write_atomically(folder / REPORT, page_html(page))
    typer.echo(folder / REPORT)


def _page(
    run: Run, *, split: str | None, figures: Path, n_sentences: int, device: str, precision: str
) -> Page:
    from dragoman.evaluation.kept import Translations
    from dragoman.hardware import prepare_for_translating
    from dragoman.report.translation import gather, translation_page

    prepare_for_translating()
    with sentence_bar() as progress:
        translations = Translations(run, device=device, precision=precision, listen=say, progress=progress)
        found = gather(translations, split=split)
    for problem in found.problems:
        say(problem)
    return translation_page(
        translations,
        found,
        figures=figures,
        n_sentences=n_sentences,
        reference=reference_curves(run),
        listen=say,
    )


def _classifier_page(
    run: Run, *, split: str | None, figures: Path, n_sentences: int, device: str, precision: str
) -> Page:
    from dragoman.cli.classify import load_classifier
    from dragoman.cli.evaluate_classifier import evaluations_of, labelled_tests
    from dragoman.config import file_names
    from dragoman.errors import ConfigError, DataError
    from dragoman.report.classification import ClassifiedSet, classification_page

    classifier, sets, problems = None, [], []
    if split is not None or run.weights_path.exists():
        classifier = load_classifier(run.path, device=device, precision=precision)
        try:
            tests = labelled_tests(run, split=split, file=None)
            for evaluation, texts in evaluations_of(run, tests, device=device, precision=precision):
                data = run.config.data
                files = data.valid if split == "valid" or not data.test else data.test[evaluation.name]
                sets.append(ClassifiedSet(evaluation, tuple(texts), file_names(files)))
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
        n_mistakes=2 * n_sentences,
        problems=problems,
        reference=reference_curves(run),
        listen=say,
    )


def reference_curves(run: Run) -> Curves | None:
    """The curves of the recipe that the run is of, where Dragoman comes with them.

    A run is of a recipe that has its name and its task; of the recipe's versions it is the one of as many
    steps, or else the full one.
    """
    from dragoman.report.curves import Curves
    from dragoman.reproduction.recipe import known_recipes
    from dragoman.runs import Run

    config = run.config
    for recipe in known_recipes():
        expected = recipe.expected()
        versions = {v: e for v in recipe.versions() if (e := expected.version(v)) is not None}
        fitting = [
            version
            for version in versions
            if (other := recipe.config(version)).name == config.name and other.subject == config.subject
        ]
        fitting.sort(key=lambda version: versions[version].max_steps != config.training.max_steps)
        for version in fitting:
            history = Run(recipe.results(version), recipe.config(version)).history()
            if any(record.get("kind") == "valid" for record in history):
                name = "recipe's reference" if version == "full" else f"recipe's reference ({version})"
                return Curves(name, history, versions[version].max_steps)
    return None


def make_folder(folder: Path) -> None:
    """Makes a folder where there is none. RunError: that is not possible."""
    from dragoman.errors import RunError

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"{folder}: cannot be made ({error.strerror}); choose another --out") from None


@contextmanager
def sentence_bar() -> Iterator[Callable[[int, int], None]]:
    """A bar of sentences on a terminal's stderr, for one set after the other."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("sentences", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
