"""`dragoman data`: list and download data sets, check and filter corpora."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli import options
from dragoman.cli.app import Command, as_called, say
from dragoman.cli.check import check, progress_line, say_written
from dragoman.errors import ConfigError, DataError

if TYPE_CHECKING:
    from dragoman.data.catalog import Dataset
    from dragoman.data.catalog import Progress as Downloading
    from dragoman.data.doctor.checkup import Progress
    from dragoman.data.doctor.selection import Distribution
    from dragoman.data.records import Corpus

EVERY = 1 << 16
"""Pairs between two updates of the progress line."""
BAR = 40
"""Characters of the longest bar of a histogram."""

data_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="List and download named data sets; check and filter corpora.",
)


@data_app.command("list", cls=Command)
def list_(
    name: Annotated[
        str | None,
        typer.Argument(help="Show details of this data set; opus:en-pl lists the corpora of OPUS."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """List the named data sets: task, size, licence, and where they are on this machine."""
    from dragoman.cli.console import print_table
    from dragoman.data import catalog
    from dragoman.data.catalog import opus

    if name and name.startswith(opus.PREFIX):
        releases = opus.releases(name)
        pair = re.split("[:/]", name)[-1]
        if as_json:
            typer.echo(json.dumps([one._asdict() for one in releases], indent=2, ensure_ascii=False))
        else:
            rows = [
                (f"{opus.PREFIX}{corpus}/{pair}", version, f"{n_pairs:,}", f"{size / 1e6:,.1f}")
                for corpus, version, n_pairs, size, _ in releases
            ]
            print_table(("name", ">version", ">pairs", ">MB to download"), rows)
        return
    datasets = [catalog.get(one) for one in ([name] if name else catalog.names())]
    if as_json:
        typer.echo(json.dumps([as_record(dataset) for dataset in datasets], indent=2, ensure_ascii=False))
    elif name:
        typer.echo("\n".join(describe(datasets[0])))
    else:
        listed = []
        for dataset in datasets:
            place = catalog.whereabouts(dataset)
            where = f"{'partly in ' * bool(place.missing and place.folder)}{place.description}"
            licence = re.split(r"[;,(]| by ", dataset.licence)[0].strip()
            cells = dataset.name, _kind(dataset), dataset.n_examples, licence
            listed.append((*cells, (where, "" if place.missing else "green")))
        print_table(("name", "task", ">examples", "licence", "where"), listed)


@data_app.command(cls=Command)
@options.with_options
def fetch(
    name: Annotated[
        str,
        typer.Argument(
            help="Name of a data set, see dragoman data list; or of a corpus of OPUS: opus:Books/en-pl."
        ),
    ],
    to: Annotated[
        Path | None,
        typer.Option(
            metavar="NAME", help="Parent folder of the data set.", show_default="the cache, $DRAGOMAN_CACHE"
        ),
    ] = None,
    force: Annotated[bool, "Download even if it is present."] = False,
) -> None:
    """Download a data set unless it is present, verify it, and print its folder.

    The same command continues an interrupted download.
    """
    from dragoman.data import catalog

    with _progress_bars() as progress:
        folder = catalog.fetch(name, to=to, force=force, report=say, progress=progress)
    typer.echo(folder)


data_app.command("check", cls=Command)(check)


@data_app.command("filter", cls=Command)
@options.with_options
def filter_(
    by_score: Annotated[
        list[str], "Scores of the pairs, line by line, higher is better; the mean of several files."
    ],
    files: Annotated[
        list[str] | None, typer.Argument(help="Two aligned files, or one file of pairs.")
    ] = None,
    src: options.Src = None,
    tgt: options.Tgt = None,
    at_least: Annotated[float | None, "Keep pairs with at least this score.", (-1e9, 1e9)] = None,
    keep: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            min=0.0,
            max=1.0,
            help="Keep this share of the pairs, those with the best scores, as 0.8.",
        ),
    ] = None,
    dual: Annotated[
        bool, "Score by the mean of two files minus their difference (dual cross-entropy)."
    ] = False,
    keep_unscored: Annotated[bool, "Keep pairs without a score, too."] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the kept pairs, and a list of the others, to this folder."),
    ] = None,
    src_lang: options.SrcLang = None,
    tgt_lang: options.TgtLang = None,
    columns: options.Columns = None,
) -> None:
    """Keep the pairs of a corpus with the best scores, such as those of score-model.

    Prints a histogram of the scores on stderr; without --out nothing else happens. Files are named as by
    data check --write-clean: the same names, columns and compression, and dropped.jsonl with the number and
    score of each other pair. Pairs without a score (an empty line) are dropped. Inputs are never changed.
    """
    from dragoman.data.doctor.clean import check_new
    from dragoman.data.doctor.selection import Distribution, Scores, write_best
    from dragoman.data.readers.files import find_file
    from dragoman.tasks import task_named
    from dragoman.tasks.request import TrainingRequest

    files = options.corpus_files(files, src, tgt)
    if at_least is not None and keep is not None:
        raise ConfigError("--at-least and --keep are two ways to choose pairs; give one of them")
    if out is not None and at_least is None and keep is None:
        raise ConfigError("--out: which pairs? Give --at-least NUMBER or --keep SHARE")
    if dual and len(by_score) != 2:
        raise ConfigError("--dual: needs --by-score twice, with the scores of both directions")
    if out is not None:
        check_new(out)
    reading = TrainingRequest(src_lang=src_lang, tgt_lang=tgt_lang, columns=options.two_columns(columns))
    open_, langs = task_named("translation").opener(files, reading)
    corpus = open_(files)
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
    for line in describe_scores(distribution):
        say(line)
    cut = None if keep is None else distribution.best(keep)
    if at_least is not None:
        cut = distribution.at_least(at_least)
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
    say_written(files_written, n_kept=n_kept, n_lines=n_pairs, unit=corpus.unit)


def count_pairs(corpus: Corpus, progress: Progress) -> int:
    """Read a corpus to its end and return the number of its pairs. DataError: as `Corpus.records`."""
    n_pairs = 0
    for n_pairs, _ in enumerate(corpus.pairs(), start=1):
        if n_pairs % EVERY == 0:
            progress("counting pairs", n_pairs)
    return n_pairs


def describe_scores(distribution: Distribution) -> list[str]:
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


@contextmanager
def _progress_bars() -> Iterator[Downloading]:
    """Show a progress bar for each download, if stderr is a terminal."""
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bars

    from dragoman.cli.console import Console

    console = Console(stderr=True)
    speed = (DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    columns = (TextColumn("{task.description}"), BarColumn(), *speed)
    tasks: dict[str, Any] = {}
    with Bars(*columns, console=console, disable=not console.is_terminal) as bars:

        def show(file: str, n_bytes: int, total: int | None) -> None:
            if file not in tasks:
                tasks[file] = bars.add_task(file, total=total)
            bars.update(tasks[file], completed=n_bytes, total=total)

        yield show


def as_record(dataset: Dataset) -> dict[str, Any]:
    """All details of a data set, with stable keys."""
    from dragoman.data.catalog import whereabouts

    place = whereabouts(dataset)
    return {
        "name": dataset.name,
        "title": dataset.title,
        "task": dataset.task,
        "languages": list(dataset.languages),
        "examples": dataset.n_examples,
        "bytes": dataset.size or None,
        "licence": dataset.licence,
        "citation": dataset.citation,
        "homepage": dataset.homepage,
        "note": dataset.note,
        "urls": [list(item.urls) for item in dataset.downloads],
        "files": [f"{dataset.folder}/{part.path}" for part in dataset.parts],
        "place": place.description,
        "folder": None if place.folder is None else str(place.folder),
        "missing": list(place.missing),
    }


def describe(dataset: Dataset) -> Iterator[str]:
    """Describe a data set, line by line."""
    from dragoman.data.catalog import whereabouts

    place = whereabouts(dataset)
    here = as_called(f"no: dragoman data fetch {dataset.name}")
    if place.folder is not None:
        lacks = f", without {', '.join(place.missing)}" if place.missing else ""
        here = f"{place.folder} ({place.description}){lacks}"
    yield f"{dataset.name} · {dataset.title}"
    yield f"task      {dataset.task}, {_kind(dataset)}, examples: {dataset.n_examples}"
    yield f"here      {here}"
    yield f"licence   {dataset.licence}"
    yield f"from      {dataset.homepage}"
    if dataset.note:
        yield f"note      {dataset.note}"
    yield "files"
    for part in dataset.parts:
        yield f"  {dataset.folder}/{part.path}"
    yield "downloads"
    for item in dataset.downloads:
        yield from (f"  {url}" for url in item.urls)
        yield f"  {item.file}: {item.checksum or 'no checksum is published'}"
    yield "citation"
    yield from (f"  {line}" for line in dataset.citation.splitlines())


def _kind(dataset: Dataset) -> str:
    """Languages of a data set: "en → de" for translation, "en → label" for classification."""
    return " → ".join([*dataset.languages, "label"][:2])
