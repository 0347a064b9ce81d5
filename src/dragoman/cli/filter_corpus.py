"""`dragoman data filter`: keep the pairs of a corpus that have the best scores."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.app import check_folders, check_outputs, say
from dragoman.cli.check import progress_line, say_written
from dragoman.cli.options import Columns, SrcLang, TgtLang, two_columns
from dragoman.errors import ConfigError, DataError, require

if TYPE_CHECKING:
    from dragoman.data.corpora import Corpus
    from dragoman.data.doctor.selection import Distribution
    from dragoman.data.doctor.windows import Progress

EVERY = 1 << 16
"""Pairs between two updates of the progress line."""
BAR = 40
"""Characters of the longest bar of a histogram."""


def filter_(
    files: Annotated[
        list[str], typer.Argument(help="Two aligned files, or one file of pairs.", show_default=False)
    ],
    by_score: Annotated[
        list[str],
        typer.Option(
            metavar="FILE",
            help="Scores of the pairs, line by line, higher is better; the mean of several files.",
            show_default=False,
        ),
    ],
    at_least: Annotated[
        float | None,
        typer.Option(
            min=-1e9,
            max=1e9,
            help="Keep pairs with at least this score.",
            show_default=False,
        ),
    ] = None,
    keep: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            min=0.0,
            max=1.0,
            help="Keep this share of the pairs, those with the best scores, as 0.8.",
            show_default=False,
        ),
    ] = None,
    dual: Annotated[
        bool,
        typer.Option(
            "--dual", help="Score by the mean of two files minus their difference (dual cross-entropy)."
        ),
    ] = False,
    keep_unscored: Annotated[
        bool, typer.Option("--keep-unscored", help="Keep pairs without a score, too.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the kept pairs, and a list of the others, to this folder."),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the histogram of the scores: .png, .svg or .pdf."),
    ] = None,
    src_lang: SrcLang = None,
    tgt_lang: TgtLang = None,
    columns: Columns = None,
) -> None:
    """Keep the pairs of a corpus with the best scores, such as those of score-model.

    Prints a histogram of the scores on stderr; without --out nothing else happens. Files are named as by
    data check --write-clean: the same names, columns and compression, and dropped.jsonl with the number and
    score of each other pair. Pairs without a score (an empty line) are dropped. Inputs are never changed.
    """
    from dragoman.data.corpora import Corpus
    from dragoman.data.doctor.clean import check_new
    from dragoman.data.doctor.reading import unit_of
    from dragoman.data.doctor.selection import Distribution, Scores, write_best
    from dragoman.data.readers.files import find_file
    from dragoman.tasks import task_named
    from dragoman.tasks.task import Reading

    if at_least is not None and keep is not None:
        raise ConfigError("--at-least and --keep are two ways to choose pairs; give one of them")
    if out is not None and at_least is None and keep is None:
        raise ConfigError("--out: which pairs? Give --at-least NUMBER or --keep SHARE")
    if dual and len(by_score) != 2:
        raise ConfigError("--dual: needs --by-score twice, with the scores of both directions")
    if plot is not None:
        require("matplotlib", extra="plots", purpose="--plot")
        check_outputs(plot, files=[*files, *by_score], runs=())
        check_folders(plot)
    if out is not None:
        check_new(out)
    reading = Reading((src_lang, tgt_lang), two_columns(columns))
    open_, langs = task_named("translation").opener(files, reading)
    corpus = open_(files)
    assert isinstance(corpus, Corpus), "is parallel text"
    scores = Scores([find_file(name) for name in by_score], dual=dual)
    with progress_line(corpus.name) as progress:
        n_pairs = count_pairs(corpus, progress)
        progress("reading the scores", n_pairs)
        distribution = Distribution(scores)
    if distribution.n_pairs != n_pairs:
        raise DataError(
            f"{scores.name} has {distribution.n_pairs:,} lines and {corpus.name} {n_pairs:,} pairs; "
            "give one line for each pair"
        )
    for line in describe(distribution):
        say(line)
    cut = None if keep is None else distribution.best(keep)
    if at_least is not None:
        cut = distribution.at_least(at_least)
    if plot is not None:
        from dragoman.report.scores import draw_scores

        draw_scores(distribution, plot, threshold=None if cut is None else cut.threshold)
        say(f"written: {plot}")
    if cut is None:
        return
    n_kept = cut.n_kept + (distribution.n_unscored if keep_unscored else 0)
    if out is None:
        say(f"would keep {n_kept:,} of {n_pairs:,} pairs, from score {cut.threshold:g} on; see --out")
        return
    names = langs[0] or "src", langs[1] or "tgt"
    with progress_line(corpus.name) as progress:
        progress("writing", n_pairs)
        files_written = write_best(corpus, scores, cut, out, keep_unscored=keep_unscored, langs=names)
    say(f"kept from score {cut.threshold:g} on")
    say_written(files_written, n_kept=n_kept, n_lines=n_pairs, unit=unit_of(corpus))


def count_pairs(corpus: Corpus, progress: Progress) -> int:
    """Read a corpus to its end and return the number of its pairs. DataError: as `Corpus.pairs`."""
    n_pairs = 0
    for n_pairs, _ in enumerate(corpus.pairs(), start=1):
        if n_pairs % EVERY == 0:
            progress("counting pairs", n_pairs)
    return n_pairs


def describe(distribution: Distribution) -> list[str]:
    """Describe the scores line by line: how many, and a histogram with what each threshold would keep."""
    bins = distribution.histogram()
    most = max((one.n_inside for one in bins), default=1)
    unscored = f", {distribution.n_unscored:,} without a score" if distribution.n_unscored else ""
    lines = [f"{distribution.n_pairs:,} pairs{unscored}", f"{'--at-least':>10} {'pairs':>12} {'kept':>8}"]
    for low, n_inside, n_from in bins:
        limit = "(lower)" if low == -math.inf else f"{low:.6g}"
        kept = f"{100 * n_from / distribution.n_pairs:.1f} %"
        lines.append(
            f"{limit:>10} {n_inside:>12,} {kept:>8} {'█' * math.ceil(BAR * n_inside / most)}".rstrip()
        )
    return lines if bins else lines[:1]
