"""`dragoman data check`: find problems in a corpus before training on it."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from dragoman.cli.app import say
from dragoman.cli.train import Columns, LabelColumn, TextColumn, column, two_columns
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from dragoman.config import Config
    from dragoman.data.corpora import Corpus
    from dragoman.data.doctor import Finding, Report, Severity
    from dragoman.data.doctor.checkup import Progress
    from dragoman.data.labelled import LabelledCorpus

PROBLEMS_FOUND = 1
MAX_SHOWN = 100
"""Maximum characters shown of a text."""
MAX_STRETCHES = 20
"""Maximum facts shown about the whole corpus, such as shifted stretches."""
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "suspicion")
STYLES = {"error": "red", "warning": "yellow", "suspicion": "cyan", "information": ""}


def register(data_app: typer.Typer) -> None:
    data_app.command()(check)


class Options(NamedTuple):
    """Command-line options that describe the files."""

    valid: str | None = None
    tests: tuple[str, ...] = ()
    src_lang: str | None = None
    tgt_lang: str | None = None
    columns: str | None = None
    task: str | None = None
    text_column: int | str | None = None
    label_column: int | str | None = None


class Job(NamedTuple):
    """A corpus to check, and the held-out corpora that it must not overlap with."""

    name: str
    corpus: Corpus | LabelledCorpus
    held_out: Mapping[str, Corpus | LabelledCorpus]
    langs: tuple[str | None, str | None]


def check(
    files: Annotated[
        list[str],
        typer.Argument(help="Two aligned files, one file of pairs, or a recipe.toml.", show_default=False),
    ],
    valid: Annotated[
        str | None,
        typer.Option(metavar="FILES", help="Validation set to check for overlap: a.en,a.de or a.tsv."),
    ] = None,
    test: Annotated[
        list[str] | None,
        typer.Option(metavar="FILES", help="Test set to check for overlap; repeatable.", show_default=False),
    ] = None,
    src_lang: Annotated[
        str | None, typer.Option(help="Source language.", show_default="from the name, as in train.en")
    ] = None,
    tgt_lang: Annotated[
        str | None, typer.Option(help="Target language.", show_default="from the name, as in train.de")
    ] = None,
    columns: Columns = None,
    task: Annotated[
        str | None,
        typer.Option(help="classification if the file holds texts and labels.", show_default=False),
    ] = None,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    examples: Annotated[int, typer.Option(min=0, max=1_000_000, help="Examples shown per finding.")] = 3,
    write_clean: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write a copy without faulty lines to this folder."),
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND", help="With --write-clean: drop this kind as well; repeatable.", show_default=False
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND", help="With --write-clean: keep this kind; repeatable.", show_default=False
        ),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with code 1 if a problem is found.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, not a table.")] = False,
) -> None:
    """Check a corpus: empty or wrong sides, shifts, duplicates, overlap with validation and test sets, ….

    The corpus itself is never changed. Given a recipe, all its corpora are checked, and --write-clean
    cleans the training corpus.
    """
    from dragoman.data.doctor import kinds_to_drop

    if (drop or keep) and write_clean is None:
        raise ConfigError("--drop and --keep choose what --write-clean drops; give --write-clean DIR")
    kinds = kinds_to_drop(drop=drop or (), keep=keep or ())
    options = Options(
        valid, tuple(test or ()), src_lang, tgt_lang, columns, task, column(text_column), column(label_column)
    )
    jobs = list(_jobs(files, options))
    reports = [_check(job, examples) for job in jobs]
    clean = None if write_clean is None else _write_clean(jobs[0], reports[0], write_clean, kinds)
    if as_json:
        records = [{"name": job.name, **one.record()} for job, one in zip(jobs, reports, strict=True)]
        typer.echo(json.dumps({"reports": records, "clean": clean}, ensure_ascii=False, indent=2))
    else:
        for job, report in zip(jobs, reports, strict=True):
            _print_report(report, name=job.name)
        typer.echo(summary(reports))
    if strict and any(report.n_problems for report in reports):
        raise typer.Exit(PROBLEMS_FOUND)


def _jobs(files: Sequence[str], options: Options) -> Iterator[Job]:
    """Yield the corpora to check. ConfigError: options conflict. DataError: a file is missing."""
    if files[0].endswith(".toml"):
        if len(files) > 1 or options != Options():
            raise ConfigError(f"{files[0]} names its own files, languages and columns; give the recipe alone")
        from dragoman.config import load_recipe

        yield from _jobs_of_recipe(load_recipe(Path(files[0]), ()))
    elif options.task == "classification":
        if options.src_lang or options.tgt_lang or options.columns:
            raise ConfigError("labelled text has no source and target; give --text-column and --label-column")
        yield _labelled_job(files, options)
    elif options.task in (None, "translation"):
        if options.text_column is not None or options.label_column is not None:
            raise ConfigError("--text-column and --label-column are for --task classification")
        yield _parallel_job(files, options)
    else:
        raise ConfigError(f"--task {options.task}: is unknown; give translation or classification")


def _jobs_of_recipe(config: Config) -> Iterator[Job]:
    """Yield every corpus of a recipe; the training corpus is checked for overlap with the others."""
    from dragoman.data.named import open_text

    corpora = {name: open_text(config.data, files) for name, files in config.data.named().items()}
    langs = config.languages if config.task == "translation" else (None, None)
    for name, corpus in corpora.items():
        held_out = {other: one for other, one in corpora.items() if other != name} if name == "train" else {}
        yield Job(name, corpus, held_out, langs)


def _parallel_job(files: Sequence[str], options: Options) -> Job:
    """Open a parallel corpus. ConfigError: a file holds several languages, and none is chosen."""
    from dragoman.data.corpora import DEFAULT_COLUMNS, PHRASEBOOK, open_corpus

    langs = (
        options.src_lang or _language_in(files[0], len(files)),
        options.tgt_lang or _language_in(files[-1], len(files)),
    )
    if not all(langs) and (files[0].startswith(PHRASEBOOK) or ".tmx" in files[0] or ".po" in files[0]):
        raise ConfigError(f"{files[0]}: give its languages, as in --src-lang en --tgt-lang de")
    columns: tuple[int | str, int | str] = DEFAULT_COLUMNS
    if options.columns is not None:
        columns = two_columns(options.columns)

    def open_(some: Sequence[str]) -> Corpus:
        return open_corpus(some, src_lang=langs[0] or "src", tgt_lang=langs[1] or "tgt", columns=columns)

    held_out = {name: open_(some) for name, some in _held_out(options).items()}
    return Job("", open_(files), held_out, langs)


def _labelled_job(files: Sequence[str], options: Options) -> Job:
    """Open a labelled corpus."""
    from dragoman.data.labelled import (
        DEFAULT_COLUMNS,
        REVIEWS,
        guess_labelled_columns,
        open_labelled,
    )

    text, label = options.text_column, options.label_column
    if (text is None or label is None) and len(files) == 1:
        is_ours = files[0].startswith(REVIEWS)
        guessed = DEFAULT_COLUMNS if is_ours else guess_labelled_columns(files[0])
        text = guessed[0] if text is None else text
        label = guessed[1] if label is None else label

    def open_(some: Sequence[str]) -> LabelledCorpus:
        return open_labelled(some, text_column=text or 0, label_column=label or 0)

    held_out = {name: open_(some) for name, some in _held_out(options).items()}
    return Job("", open_(files), held_out, (None, None))


def _language_in(file: str, n_files: int) -> str | None:
    """Return the language code at the end of a file name; None for a file of pairs, or without a code."""
    from dragoman.presets import guess_language

    try:
        return guess_language(file, option="--src-lang") if n_files == 2 else None
    except ConfigError:
        return None


def _held_out(options: Options) -> dict[str, list[str]]:
    """The files of the validation set and of each test set, by name."""
    named = {} if options.valid is None else {"valid": options.valid.split(",")}
    for files in options.tests:
        name = "test" if len(options.tests) == 1 else Path(files.partition(",")[0]).name
        named[name] = files.split(",")
    return named


def _check(job: Job, n_examples: int) -> Report:
    """Check a corpus, with a progress line on stderr."""
    from dragoman.data.corpora import Corpus
    from dragoman.data.doctor import check_corpus, check_labelled

    with _progress(job) as progress:
        if isinstance(job.corpus, Corpus):
            return check_corpus(
                job.corpus,
                src_lang=job.langs[0],
                tgt_lang=job.langs[1],
                held_out={name: one for name, one in job.held_out.items() if isinstance(one, Corpus)},
                n_examples=n_examples,
                progress=progress,
            )
        return check_labelled(
            job.corpus,
            held_out={name: one for name, one in job.held_out.items() if not isinstance(one, Corpus)},
            n_examples=n_examples,
            progress=progress,
        )


@contextmanager
def _progress(job: Job) -> Iterator[Progress]:
    """Show progress in one line of stderr, if it is a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    with console.status("") as status:

        def show(doing: str, n_read: int) -> None:
            if console.is_terminal:
                status.update(f"{job.name or job.corpus.name}: {doing} · {n_read:,} read")

        yield show


def _write_clean(job: Job, report: Report, folder: Path, kinds: frozenset[str]) -> dict[str, Any]:
    """Write the clean copy, report it on stderr, and return a record of it."""
    from dragoman.data.doctor import write_clean

    names = job.langs[0] or "src", job.langs[1] or "tgt"
    files = write_clean(job.corpus, report, folder, kinds=kinds, langs=names)
    n_dropped = len(report.reasons(kinds))
    n_kept = report.n_lines - n_dropped
    say(f"kept {n_kept:,} of {report.n_lines:,} {report.unit}s, dropped {n_dropped:,}: {files[-1]}")
    for file in files[:-1]:
        say(f"written: {file}")
    return {"files": list(map(str, files)), "n_kept": n_kept, "n_dropped": n_dropped}


def summary(reports: Sequence[Report]) -> str:
    """Describe the numbers of lines and problems in one line."""
    n_checked = sum(report.n_lines for report in reports)
    units = {report.unit for report in reports}
    unit = units.pop() if len(units) == 1 else "line"
    counts = []
    for severity in SEVERITIES:
        n = sum(report.n_found(severity) for report in reports)
        counts.append(f"{n:,} {severity}{'s' if n != 1 else ''}")
    return f"checked {n_checked:,} {unit}{'s' if n_checked != 1 else ''}: {', '.join(counts)}"


def _print_report(report: Report, *, name: str) -> None:
    """Print a table of findings, then the examples of each."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=False)
    title = f"{name} · " if name else ""
    console.print(Text(f"{title}{report.name} · {report.n_lines:,} {report.unit}s"))
    for note in report.notes:
        console.print(Text(f"note: {printable(note)}"))
    if not report.findings:
        console.print(Text("nothing found"))
        return
    table = Table()
    for heading in ("severity", "kind", "number", "what"):
        justify: Literal["left", "right"] = "right" if heading == "number" else "left"
        table.add_column(heading, justify=justify, no_wrap=heading != "what")
    for found in report.findings:
        severity = Text(found.kind.severity, style=STYLES[found.kind.severity])
        table.add_row(severity, found.kind.name, f"{found.count:,}", found.kind.title)
    console.print(table)
    for found in report.findings:
        typer.echo("\n".join(_describe(found, report.unit)))


def _describe(found: Finding, unit: str) -> Iterator[str]:
    """Describe a finding: title, remedy and examples, line by line."""
    yield f"{found.kind.name}: {found.kind.title}"
    yield f"  remedy: {found.kind.remedy}"
    if found.kind.name == "labels":
        yield from (f"  {printable(said)}" for said in found.summary)
        return
    shown = found.summary[:MAX_STRETCHES]
    yield from (f"  {printable(said)}" for said in shown)
    if len(found.summary) > len(shown):
        yield f"  and {len(found.summary) - len(shown):,} more"
    for example in found.examples:
        yield f"  {unit} {example.line}: {printable(example.detail)}"
        yield from (f"    {printable(text)}" for text in example.texts)


def printable(text: str) -> str:
    """Return the text for a terminal: at most MAX_SHOWN characters, control characters escaped."""
    shown = text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"
    return "".join(map(_visible, shown))


def _visible(char: str) -> str:
    if char.isprintable():
        return char
    is_space = unicodedata.category(char) == "Zs"
    return " " if is_space else char.encode("unicode_escape").decode()
