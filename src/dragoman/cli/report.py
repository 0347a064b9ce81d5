"""`dragoman report`: write the report page of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.app import say
from dragoman.cli.options import Device, Precision, RunPath, To
from dragoman.errors import require

REPORT = "report.html"
FIGURES = "figures"


def report(
    run: RunPath,
    out: Annotated[
        Path | None,
        typer.Option(help="Output folder for report.html and figures/.", show_default="the run's"),
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Test sets: test or valid.", show_default="test, else valid")
    ] = None,
    to: To = None,
    sentences: Annotated[
        int,
        typer.Option(
            min=1,
            max=10_000,
            help="Number of best, median and worst sentences; a classifier shows twice as many mistakes.",
        ),
    ] = 5,
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Write a run's report: a self-contained HTML page, and its figures as SVG.

    For a translator: learning curves, scores with intervals and signatures, an analysis by length, words and
    numbers, sentences, attention, and the model card. Translations are cached in the run's folder report/
    until weights or settings change. For a classifier: scores by label, confusion matrix, calibration, and
    the most confident mistakes with word importance. A run of several directions has a page for each,
    report-en-de.html and so on.
    """
    from dragoman.cli.console import progress_bar
    from dragoman.files import write_atomically
    from dragoman.report.page import page_html
    from dragoman.reproduction.reference import reference_curves
    from dragoman.runs import Run
    from dragoman.tasks import task_of
    from dragoman.tasks.task import EvaluationRequest

    require("matplotlib", "jinja2", extra="report", purpose="a report")
    opened = Run.open(run)
    task = task_of(opened.config)
    request = EvaluationRequest(split=split, to=to, device=device, precision=precision)
    task.check(request)
    folder, reference = out or opened.path, reference_curves(opened)
    several = len(opened.config.directions) > 1
    for one in task.directions(opened, request):
        label = "-" + one.config.subject.replace(" → ", "-") if several else ""
        figures = folder / f"{FIGURES}{label}"
        make_folder(figures)
        with progress_bar("sentences") as progress:
            page = task.report(
                one, request, figures=figures, n_examples=sentences, reference=reference, say=say,
                progress=progress,
            )  # fmt: skip
        place = folder / f"{Path(REPORT).stem}{label}.html"
        write_atomically(place, page_html(page))
        typer.echo(place)


def make_folder(folder: Path) -> None:
    """Create a folder if it is missing. RunError: it cannot be created."""
    from dragoman.errors import RunError

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"{folder}: cannot be made ({error.strerror}); choose another --out") from None
