"""`dragoman compare`: runs side by side, and whether they differ by more than luck."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.app import say
from dragoman.cli.report import FIGURES, make_folder, sentence_bar
from dragoman.cli.translate import Device, Precision, check_precision
from dragoman.errors import ConfigError, require

if TYPE_CHECKING:
    from dragoman.evaluation.classifier_comparison import ClassifierComparison
    from dragoman.evaluation.comparison import Comparison
    from dragoman.report.page import Page, Table
    from dragoman.runs import Run

COMPARISON = "comparison.html"
EXPORTS = ("json", "csv", "latex")


def register(app: typer.Typer) -> None:
    app.command()(compare)


def compare(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN RUN ...", help="Two runs or more.", show_default=False)
    ],
    out: Annotated[
        Path | None, typer.Option(help="Write comparison.html and figures/ into this folder, too.")
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="test or valid.", show_default="test, or valid where there is none")
    ] = None,
    src: Annotated[str | None, typer.Option(help="Compare on this file instead ...")] = None,
    ref: Annotated[str | None, typer.Option(help="... and against these references.")] = None,
    sentences: Annotated[
        int, typer.Option(min=1, max=10_000, help="Sentences that changed most, so many in each direction.")
    ] = 5,
    json: Annotated[str | None, typer.Option(metavar="FILE", help="Write the figures as JSON.")] = None,
    csv: Annotated[str | None, typer.Option(metavar="FILE", help="Write the figures as CSV.")] = None,
    latex: Annotated[str | None, typer.Option(metavar="FILE", help="Write the figures as LaTeX.")] = None,
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Compare runs on the same test sets: scores, p-values, seeds, settings.

    The others are compared with the first run: by paired bootstrap resampling and approximate
    randomisation for translators, by McNemar's test for classifiers. Scores of different references or
    different signatures are refused. --out writes curves and the sentences that changed most, too.

    Runs that differ only in their seeds form a group. Groups are compared with the first group by a
    hierarchical bootstrap over sentences and seeds.

    --json, --csv and --latex write one table of all figures; with "-" it goes to stdout in place of the
    text.
    """
    from dragoman.evaluation.comparison import names_of
    from dragoman.runs import Run

    check_precision(precision)
    exports = {kind: file for kind, file in zip(EXPORTS, (json, csv, latex), strict=True) if file is not None}
    check_exports(exports, inputs=[file for file in (src, ref) if file is not None])
    if out is not None:
        require("matplotlib", "jinja2", extra="report", purpose="a page of a comparison")
    if (src is None) != (ref is None) or (src is not None and split is not None):
        raise ConfigError("give --src and --ref together and without --split, or none of them")
    if len(runs) < 2:
        raise ConfigError("a comparison needs two runs or more; for a single one say: dragoman report RUN")
    opened = [Run.open(path) for path in runs]
    named = dict(zip(names_of(opened), opened, strict=True))
    first_name, first = next(iter(named.items()))
    for name, run in named.items():
        if run.config.subject != first.config.subject:
            raise ConfigError(
                f"{first_name} ({first.config.subject}) and {name} ({run.config.subject}) do different "
                "things; compare runs of one task and one direction"
            )
    if first.config.task == "classification":
        if src is not None:
            raise ConfigError("--src and --ref are for translators; classifiers are compared on test sets")
        _compare_classifiers(
            named, exports, out=out, split=split, n_texts=sentences, device=device, precision=precision
        )
        return
    with sentence_bar() as progress:
        from dragoman.evaluation.comparison import compare as compare_translators
        from dragoman.evaluation.comparison import compare_on
        from dragoman.evaluation.kept import Translations
        from dragoman.hardware import prepare_for_translating

        prepare_for_translating()
        systems = {
            name: Translations(run, device=device, precision=precision, listen=say, progress=progress)
            for name, run in named.items()
        }
        if src is not None and ref is not None:
            comparisons = compare_on(systems, src, ref)
        else:
            comparisons = compare_translators(systems, split=split)
    if "-" not in exports.values():
        typer.echo("\n".join(describe(named, comparisons)))
    write_exports(exports, comparisons)
    if out is not None:
        from dragoman.report.comparison import comparison_page

        make_folder(out / FIGURES)
        page = comparison_page(named, comparisons, figures=out / FIGURES, n_sentences=sentences)
        write_page(page, out / COMPARISON)


def _compare_classifiers(
    runs: Mapping[str, Run],
    exports: Mapping[str, str],
    *,
    out: Path | None,
    split: str | None,
    n_texts: int,
    device: str,
    precision: str,
) -> None:
    """Prints accuracy, macro-F1 and McNemar's test, and writes the page."""
    from dragoman.evaluation.classifier_comparison import compare_classifiers
    from dragoman.report.classifier_comparison import classifier_comparison_page, label_scores_table

    comparisons = compare_classifiers(runs, split=split, device=device, precision=precision, listen=say)
    if "-" not in exports.values():
        for comparison in comparisons:
            typer.echo("\n".join(text_table(label_scores_table(comparison))))
        typer.echo("\n".join([*_seeds(comparisons), *_settings(runs)]))
    write_exports(exports, comparisons)
    if out is not None:
        make_folder(out / FIGURES)
        page = classifier_comparison_page(runs, comparisons, figures=out / FIGURES, n_texts=n_texts)
        write_page(page, out / COMPARISON)


def check_exports(exports: Mapping[str, str], *, inputs: Sequence[str]) -> None:
    """ConfigError: an export has no name, or would overwrite an input or another export."""
    from dragoman.files import refuse_overwriting

    for kind, file in exports.items():
        if not file:
            raise ConfigError(f"--{kind}: needs the name of a file, or - for stdout")
    if list(exports.values()).count("-") > 1:
        raise ConfigError("two tables cannot both go to stdout; name a file for one of them")
    outputs = [None if file == "-" else Path(file) for file in exports.values()]
    refuse_overwriting(*outputs, inputs=inputs)


def write_exports(
    exports: Mapping[str, str], comparisons: Sequence[Comparison] | Sequence[ClassifierComparison]
) -> None:
    """Write the figures of all comparisons into a file for each kind of table, "-" for stdout."""
    from dragoman.files import write_atomically
    from dragoman.report.records import as_csv, as_json, as_latex

    records = [record for comparison in comparisons for record in comparison.records()]
    for kind, file in exports.items():
        text = {"json": as_json, "csv": as_csv, "latex": as_latex}[kind](records)
        if file == "-":
            typer.echo(text, nl=False)
        else:
            write_atomically(Path(file), text.encode())
            say(f"written: {file}")


def write_page(page: Page, path: Path) -> None:
    """Writes a page and says where it is."""
    from dragoman.files import write_atomically
    from dragoman.report.page import page_html

    write_atomically(path, page_html(page))
    say(f"written: {path}")


def describe(runs: Mapping[str, Run], comparisons: Sequence[Comparison]) -> Iterator[str]:
    """The comparison as lines of text."""
    from dragoman.report.comparison import scores_table

    for comparison in comparisons:
        yield from text_table(scores_table(comparison))
    yield from _seeds(comparisons)
    yield from _settings(runs)


def _seeds(comparisons: Sequence[Comparison] | Sequence[ClassifierComparison]) -> Iterator[str]:
    """Means over groups of seeds and the tests between them, as lines of text."""
    from dragoman.report.comparison import seeds_table

    for comparison in comparisons:
        if comparison.spreads:
            yield from text_table(seeds_table(comparison.name, comparison.spreads))


def _settings(runs: Mapping[str, Run]) -> Iterator[str]:
    """The settings that differ, as lines of text."""
    from dragoman.report.comparison import settings_section
    from dragoman.report.page import Table

    for part in settings_section(runs).parts:
        if isinstance(part, Table):
            yield from text_table(part)
        else:
            yield "all settings are the same"


def text_table(table: Table) -> Iterator[str]:
    """A table of a page as lines of text, its caption below, a fact a line."""
    cells = [[str(cell) for cell in row] for row in (table.heading, *table.rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        padded = [
            cell.ljust(width) if i < table.n_words else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(padded).rstrip()
    yield from (f"  {fact}" for fact in table.caption.split("; "))
