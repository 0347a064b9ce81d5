"""`dragoman report`: write the page of a run. `dragoman compare`: compare runs, with significance tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.app import OPTIONAL_FILE, say
from dragoman.cli.options import Device, Precision, References, RunPath, Source, Split, To
from dragoman.errors import ConfigError, require

if TYPE_CHECKING:
    from dragoman.report.comparison import Comparison
    from dragoman.report.page import Table
    from dragoman.runs import Run
    from dragoman.tasks.request import EvaluationRequest

REPORT = "report.html"
FIGURES = "figures"


def report(
    run: RunPath,
    out: Annotated[Path | None, "Output folder for report.html and figures/. [default: the run's]"] = None,
    split: Split = None,
    to: To = None,
    sentences: Annotated[
        int,
        "Number of best, median and worst sentences; a classifier shows twice as many mistakes.",
        (1, 10_000),
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
    from dragoman.files import make_folder, write_atomically
    from dragoman.report.page import page_html
    from dragoman.reproduction.running import reference_curves
    from dragoman.tasks import task_of
    from dragoman.tasks.request import EvaluationRequest
    from dragoman.tasks.task import open_run

    require("matplotlib", "jinja2", extra="report", purpose="a report")
    opened = open_run(run, say)
    task = task_of(opened.config)
    request = EvaluationRequest(
        split=split, to=to, device=device, precision=precision, n_examples=sentences, say=say
    )
    task.check(request)
    folder, reference = out or opened.path, reference_curves(opened)
    several = len(opened.config.directions) > 1
    for one in task.directions(opened, request):
        label = "-" + one.config.subject.replace(" → ", "-") if several else ""
        figures = folder / f"{FIGURES}{label}"
        make_folder(figures)
        with progress_bar("sentences") as progress:
            page = task.report(one, replace(request, progress=progress), figures, reference)
        place = folder / f"{Path(REPORT).stem}{label}.html"
        write_atomically(place, page_html(page))
        typer.echo(place)


COMPARISON = "comparison.html"
EXPORTS = ("json", "latex")


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN", help="Two or more run folders; the first is the reference."),
    ],
    out: Annotated[Path | None, "Also write comparison.html and figures/ into this folder."] = None,
    split: Split = None,
    to: To = None,
    src: Source = None,
    ref: References = None,
    sentences: Annotated[int, "Number of most changed sentences, in each direction.", (1, 10_000)] = 5,
    json: Annotated[
        str | None, typer.Option(metavar=OPTIONAL_FILE, help="Write the figures as JSON.")
    ] = None,
    latex: Annotated[
        str | None, typer.Option(metavar=OPTIONAL_FILE, help="Write a LaTeX table for a paper (booktabs).")
    ] = None,
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Compare runs on the same test sets: scores, p-values, seeds, settings.

    Every run is compared with the first one: translators by paired bootstrap resampling and approximate
    randomisation, classifiers by McNemar's test. Scores with different references or signatures are refused.
    --out also writes curves and the sentences that changed most.

    Runs that differ only in their seeds form a group. Groups are compared with the first group by a
    permutation of runs and a bootstrap of sentences.

    --json writes all figures, --latex a table for a paper: best in bold, significant differences marked.
    Without FILE, or with "-", it goes to stdout in place of the text.
    """
    from dragoman.cli.console import progress_bar
    from dragoman.evaluation.comparison import names_of
    from dragoman.files import make_folder, write_atomically
    from dragoman.report.comparison import comparison_page, scores_table
    from dragoman.report.page import page_html
    from dragoman.tasks import task_of
    from dragoman.tasks.request import EvaluationRequest
    from dragoman.tasks.task import open_run

    exports = {kind: file for kind, file in zip(EXPORTS, (json, latex), strict=True) if file is not None}
    check_exports(exports, inputs=[file for file in (src, ref) if file is not None])
    if out is not None:
        require("matplotlib", "jinja2", extra="report", purpose="a page of a comparison")
    request = EvaluationRequest(
        split=split, to=to, src=src, ref=ref, device=device, precision=precision, say=say
    )
    if len(runs) < 2:
        raise ConfigError("a comparison needs two runs or more; for a single one say: dragoman report RUN")
    opened = [open_run(path, say) for path in runs]
    named = in_one_direction(dict(zip(names_of(opened), opened, strict=True)), request)
    task = task_of(opened[0].config)
    with progress_bar("sentences") as progress:
        comparisons = task.compare(named, replace(request, progress=progress))
    if "-" not in exports.values():
        tables = map(scores_table, comparisons)
        typer.echo("\n".join(describe(tables, named, comparisons)))
    write_exports(exports, comparisons)
    if out is not None:
        make_folder(out / FIGURES)
        page = comparison_page(named, comparisons, figures=out / FIGURES, n_examples=sentences)
        write_atomically(out / COMPARISON, page_html(page))
        say(f"written: {out / COMPARISON}")


def in_one_direction(runs: Mapping[str, Run], request: EvaluationRequest) -> dict[str, Run]:
    """Return the runs as runs of the one thing that all of them do.

    ConfigError: they have nothing in common, or several directions.
    """
    from dragoman.tasks import task_of

    able = {
        name: {one.config.subject: one for one in task_of(run.config).directions(run, request)}
        for name, run in runs.items()
    }
    (first_name, first), *other_runs = able.items()
    for name, by_subject in other_runs:
        if not first.keys() & by_subject.keys():
            raise ConfigError(
                f"{first_name} ({runs[first_name].config.subject}) and {name} ({runs[name].config.subject}) "
                "do different things; compare runs of one task and one direction"
            )
    common = [subject for subject in first if all(subject in by_subject for by_subject in able.values())]
    if len(common) != 1:
        raise ConfigError(f"the runs share {', '.join(common) or 'no direction'}; say one, as in --to en-de")
    return {name: by_subject[common[0]] for name, by_subject in able.items()}


def check_exports(exports: Mapping[str, str], *, inputs: Sequence[str]) -> None:
    """Check the exports. ConfigError: one has no name, or would overwrite an input or another export."""
    from dragoman.files import refuse_overwriting

    for kind, file in exports.items():
        if not file:
            raise ConfigError(f"--{kind}: needs the name of a file, or - for stdout")
    if list(exports.values()).count("-") > 1:
        raise ConfigError("--json and --latex cannot both go to stdout; name a file for one of them")
    outputs = [None if file == "-" else Path(file) for file in exports.values()]
    refuse_overwriting(*outputs, inputs=inputs)


def write_exports(exports: Mapping[str, str], comparisons: Sequence[Comparison]) -> None:
    """Write the figures of all comparisons into a file for each kind of table, "-" for stdout."""
    from dragoman.files import write_atomically
    from dragoman.report.comparison import as_json, as_latex

    writers = {"json": as_json, "latex": as_latex}
    for kind, file in exports.items():
        text = writers[kind](comparisons)
        if file == "-":
            typer.echo(text, nl=False)
        else:
            write_atomically(Path(file), text.encode())
            say(f"written: {file}")


def describe(
    scores: Iterable[Table], runs: Mapping[str, Run], comparisons: Sequence[Comparison]
) -> Iterator[str]:
    """Yield the comparison as lines of text: scores, groups of seeds, settings that differ."""
    from dragoman.evaluation.scores import aligned
    from dragoman.report.comparison import seeds_table, settings_section
    from dragoman.report.page import Table

    seeds = (seeds_table(c.name, c.spreads) for c in comparisons if c.spreads)
    for part in (*scores, *seeds, *settings_section(runs).parts):
        if isinstance(part, Table):
            cells = [[str(cell) for cell in row] for row in (part.heading, *part.rows)]
            yield from aligned(cells, text_columns=range(part.n_words))
            yield from (f"  {fact}" for fact in part.caption.split("; "))
        else:
            yield "all settings are the same"
