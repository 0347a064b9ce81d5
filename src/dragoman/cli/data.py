"""`dragoman data`: list and download data sets, check and filter corpora."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli import check, filter_corpus
from dragoman.cli.app import Command, as_called, say

if TYPE_CHECKING:
    from dragoman.data.catalog import Dataset, Progress

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
        typer.Argument(
            help="Show details of this data set; opus:en-pl lists the corpora of OPUS.",
            show_default=False,
        ),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON array with all details.")] = False,
) -> None:
    """List the named data sets: task, size, licence, and where they are on this machine."""
    from dragoman.cli.console import print_table
    from dragoman.data import catalog
    from dragoman.data.catalog import opus

    if name and name.startswith(opus.PREFIX):
        releases = opus.releases(name)
        pair = re.split("[:/]", name)[-1]
        if json_:
            typer.echo(json.dumps([one._asdict() for one in releases], indent=2, ensure_ascii=False))
        else:
            rows = [
                (f"{opus.PREFIX}{corpus}/{pair}", version, f"{n_pairs:,}", f"{size / 1e6:,.1f}")
                for corpus, version, n_pairs, size, _ in releases
            ]
            print_table(("name", ">version", ">pairs", ">MB to download"), rows)
        return
    datasets = [catalog.get(one) for one in ([name] if name else catalog.names())]
    if json_:
        typer.echo(json.dumps([as_record(dataset) for dataset in datasets], indent=2, ensure_ascii=False))
    elif name:
        typer.echo("\n".join(describe(datasets[0])))
    else:
        _print_table(datasets)


@data_app.command(cls=Command)
def fetch(
    name: Annotated[
        str,
        typer.Argument(
            help="Name of a data set, see dragoman data list; or of a corpus of OPUS: opus:Books/en-pl."
        ),
    ],
    to: Annotated[
        Path | None,
        typer.Option(help="Parent folder of the data set.", show_default="the cache, $DRAGOMAN_CACHE"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Download even if it is present.")] = False,
) -> None:
    """Download a data set unless it is present, verify it, and print its folder.

    The same command continues an interrupted download.
    """
    from dragoman.data import catalog

    with _progress_bars() as progress:
        folder = catalog.fetch(name, to=to, force=force, report=say, progress=progress)
    typer.echo(folder)


data_app.command("check", cls=Command)(check.check)
data_app.command("filter", cls=Command)(filter_corpus.filter_)


@contextmanager
def _progress_bars() -> Iterator[Progress]:
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
    yield f"{dataset.name} · {dataset.title}"
    yield f"task      {dataset.task}, {_kind(dataset)}, examples: {dataset.n_examples}"
    yield f"here      {_where(dataset)}"
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


def _where(dataset: Dataset) -> str:
    """Describe where a data set is, and which of its files are missing."""
    from dragoman.data.catalog import whereabouts

    place = whereabouts(dataset)
    if place.folder is None:
        return as_called(f"no: dragoman data fetch {dataset.name}")
    lacks = f", without {', '.join(place.missing)}" if place.missing else ""
    return f"{place.folder} ({place.description}){lacks}"


def _print_table(datasets: list[Dataset]) -> None:
    """Print a table: name, task, size, short licence and place of each data set."""
    from dragoman.cli.console import print_table
    from dragoman.data.catalog import whereabouts

    rows = []
    for dataset in datasets:
        place = whereabouts(dataset)
        partly = "partly in " if place.missing and place.folder else ""
        licence = re.split(r"[;,(]| by ", dataset.licence)[0].strip()
        where = f"{partly}{place.description}", "" if place.missing else "green"
        rows.append((dataset.name, _kind(dataset), dataset.n_examples, licence, where))
    print_table(("name", "task", ">examples", "licence", "where"), rows)
