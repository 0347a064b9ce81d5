"""`dragoman data check`: find problems in a corpus before training on it."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from dragoman.cli import options
from dragoman.cli.app import say
from dragoman.errors import ConfigError, DataError, counted

if TYPE_CHECKING:
    from dragoman.data.doctor import Finding, Report, Severity
    from dragoman.data.doctor.checkup import Progress
    from dragoman.data.named import ListedText
    from dragoman.data.records import Corpus
    from dragoman.tasks.request import TrainingRequest

MAX_SHOWN = 100
"""Maximum characters shown of a text."""
MAX_STRETCHES = 20
"""Maximum facts shown about the whole corpus, such as shifted stretches."""
MAX_WORKERS = 8
"""Processes that check, where nothing else is said."""
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "suspicion")
STYLES = {"error": "red", "warning": "yellow", "suspicion": "cyan", "information": ""}


class CorpusCheck(NamedTuple):
    """A corpus to check, and the held-out corpora that it must not overlap with."""

    name: str
    corpus: Corpus
    held_out: Mapping[str, Corpus]
    langs: tuple[str | None, str | None]


@dataclass(frozen=True, kw_only=True)
class CheckCommand:
    """The options of `dragoman data check`, in the order of its help."""

    src: options.Src = None
    tgt: options.Tgt = None
    valid: Annotated[
        str | None,
        typer.Option(metavar="FILES", help="Validation set to check for overlap: a.en,a.de or a.tsv."),
    ] = None
    test: Annotated[Sequence[str], "Test set to check for overlap; repeatable."] = ()
    src_lang: options.SrcLang = None
    tgt_lang: options.TgtLang = None
    columns: options.Columns = None
    task: options.TaskName = None
    text_column: options.TextColumn = None
    label_column: options.LabelColumn = None
    label_separator: options.LabelSeparator = ""
    examples: Annotated[int, "Examples shown per finding.", (0, 1_000_000)] = 3
    write_clean: Annotated[Path | None, "Write a copy without faulty lines to this folder."] = None
    drop: Annotated[Sequence[str], "With --write-clean: drop this kind as well; repeatable."] = ()
    keep: Annotated[Sequence[str], "With --write-clean: keep this kind; repeatable."] = ()
    threshold: Annotated[Sequence[str], "Threshold of length, overlap-near or unrelated; repeatable."] = ()
    workers: Annotated[
        int | None,
        "Processes that check a corpus of more than 130,000 pairs; each takes up to 0.6 GB. "
        "[default: a core each, at most 8]",
        (1, 256),
    ] = None
    strict: Annotated[bool, "Exit with code 1 if a problem is found."] = False
    as_json: options.AsJson = False

    def reading(self) -> TrainingRequest:
        """Return how the files are to be read. ConfigError: columns are no pair."""
        from dragoman.tasks.request import TrainingRequest

        return TrainingRequest(
            src_lang=self.src_lang,
            tgt_lang=self.tgt_lang,
            columns=options.two_columns(self.columns),
            text_column=options.column(self.text_column),
            label_column=options.column(self.label_column),
            label_separator=self.label_separator,
        )


@options.with_options_of(CheckCommand)
def check(
    files: Annotated[
        list[str] | None, typer.Argument(help="Two aligned files, one file of pairs, or a recipe.toml.")
    ] = None,
    *,
    fields: dict[str, Any],
) -> None:
    """Check a corpus: empty or wrong sides, shifts, duplicates, overlap with test sets, and more.

    The corpus itself is never changed. Given a recipe, all its corpora are checked, and --write-clean
    cleans the training corpus.
    """
    from dragoman.data.doctor import kinds_to_drop, thresholds_of
    from dragoman.data.doctor.clean import check_new
    from dragoman.processes import usable_cores

    command = CheckCommand(**fields)
    write_clean = command.write_clean
    if (command.drop or command.keep) and write_clean is None:
        raise ConfigError("--drop and --keep choose what --write-clean drops; give --write-clean DIR")
    kinds = kinds_to_drop(drop=command.drop, keep=command.keep)
    thresholds, reading = thresholds_of(command.threshold), command.reading()
    named = options.corpus_files(files, command.src, command.tgt)
    held_out = _held_out(command.valid, command.test)
    jobs = list(_jobs(named, held_out, command.task, reading))
    if command.threshold and jobs[0].corpus.is_labelled:
        raise ConfigError("--threshold is for parallel text")
    if write_clean is not None:
        check_new(write_clean)
    n_workers = command.workers or min(usable_cores(), MAX_WORKERS)
    reports = [_check(job, command.examples, thresholds=thresholds, n_workers=n_workers) for job in jobs]
    clean = None if write_clean is None else _write_clean(jobs[0], reports[0], write_clean, kinds)
    if command.as_json:
        records = [{"name": job.name, **one.record()} for job, one in zip(jobs, reports, strict=True)]
        typer.echo(json.dumps({"reports": records, "clean": clean}, ensure_ascii=False, indent=2))
    else:
        for job, one in zip(jobs, reports, strict=True):
            _print_report(one, name=job.name)
        typer.echo(summary(reports))
    if command.strict and (n_problems := sum(one.n_problems for one in reports)):
        raise DataError(f"--strict: found {counted(n_problems, 'problem')}; see the report")


def _jobs(
    files: Sequence[str], held_out: Mapping[str, list[str]], task: str | None, reading: TrainingRequest
) -> Iterator[CorpusCheck]:
    """Yield the corpora to check; a recipe's training corpus is checked for overlap with its others.

    ConfigError: options conflict. DataError: a file is missing.
    """
    from dragoman.config import load_recipe
    from dragoman.data.named import listed_texts, open_named
    from dragoman.tasks import task_named
    from dragoman.tasks.request import TrainingRequest

    if files[0].endswith(".toml"):
        if len(files) > 1 or held_out or task or reading != TrainingRequest():
            raise ConfigError(f"{files[0]} names its own files, languages and columns; give the recipe alone")
        config = load_recipe(Path(files[0]), ())
        if listed := listed_texts(config):
            yield from _jobs_of_listed(listed)
            return
        corpora, languages = open_named(config), next(iter(config.directions), (None, None))
        for name, corpus in corpora.items():
            compared = corpora if name == "train" else {}
            yield CorpusCheck(name, corpus, {n: one for n, one in compared.items() if n != name}, languages)
        return
    open_, langs = task_named(task or "translation").opener(files, reading)
    yield CorpusCheck("", open_(files), {name: open_(some) for name, some in held_out.items()}, langs)


def _jobs_of_listed(texts: Mapping[str, ListedText]) -> Iterator[CorpusCheck]:
    """Yield every text of a list of corpora.

    Those to train on are compared with held-out texts of the same languages, whichever side is first.
    """
    held_out = {name: text for name, text in texts.items() if not name.startswith("train.")}
    for name, (langs, corpus) in texts.items():
        turned = {other: text.towards(langs) for other, text in held_out.items() if name not in held_out}
        compared = {other: one for other, one in turned.items() if one is not None}
        yield CorpusCheck(name, corpus, compared, langs)


def _held_out(valid: str | None, tests: Sequence[str]) -> dict[str, list[str]]:
    """Return the files of the validation set and of each test set, by name."""
    named = {} if valid is None else {"valid": valid.split(",")}
    for files in tests:
        name = "test" if len(tests) == 1 else files.partition(",")[0]
        named[files if name in named else name] = files.split(",")
    return named


def _check(job: CorpusCheck, n_examples: int, *, thresholds: Mapping[str, float], n_workers: int) -> Report:
    """Check a corpus, with a progress line on stderr."""
    from dragoman.data.doctor import check_corpus

    with progress_line(job.name or job.corpus.name) as progress:
        return check_corpus(
            job.corpus,
            src_lang=job.langs[0],
            tgt_lang=job.langs[1],
            held_out=job.held_out,
            n_examples=n_examples,
            thresholds=thresholds,
            n_workers=n_workers,
            progress=progress,
        )


@contextmanager
def progress_line(name: str) -> Iterator[Progress]:
    """Show the progress of reading the corpus `name` in one line of stderr, if it is a terminal."""
    from dragoman.cli.console import Console

    console = Console(stderr=True)
    with console.status("") as status:

        def show(doing: str, n_read: int) -> None:
            if console.is_terminal:
                status.update(f"{name}: {doing} · {n_read:,} read")

        yield show


def _write_clean(job: CorpusCheck, report: Report, folder: Path, kinds: frozenset[str]) -> dict[str, Any]:
    """Write the clean copy, report it on stderr, and return a record of it."""
    from dragoman.data.doctor import write_clean

    names = job.langs[0] or "src", job.langs[1] or "tgt"
    files = write_clean(job.corpus, report, folder, kinds=kinds, langs=names)
    n_dropped = len(report.lines(kinds))
    n_kept = report.n_lines - n_dropped
    say_written(files, n_kept=n_kept, n_lines=report.n_lines, unit=report.unit)
    return {"files": list(map(str, files)), "n_kept": n_kept, "n_dropped": n_dropped}


def say_written(files: Sequence[Path], *, n_kept: int, n_lines: int, unit: str) -> None:
    """Report a clean copy on stderr; the last file says what was dropped."""
    say(f"kept {n_kept:,} of {counted(n_lines, unit)}, dropped {n_lines - n_kept:,}: {files[-1]}")
    for file in files[:-1]:
        say(f"written: {file}")


def summary(reports: Sequence[Report]) -> str:
    """Describe the numbers of lines and problems in one line."""
    n_checked = sum(report.n_lines for report in reports)
    units = {report.unit for report in reports}
    unit = units.pop() if len(units) == 1 else "line"
    counts = [counted(sum(report.n_found(kind) for report in reports), kind) for kind in SEVERITIES]
    return f"checked {counted(n_checked, unit)}: {', '.join(counts)}"


def _print_report(report: Report, *, name: str) -> None:
    """Print a table of findings, then the examples of each."""
    from rich.text import Text

    from dragoman.cli.console import Console, print_table

    console = Console(highlight=False, soft_wrap=False)
    title = f"{name} · " if name else ""
    console.print(Text(f"{title}{report.name} · {counted(report.n_lines, report.unit)}"))
    for note in report.notes:
        console.print(Text(f"note: {escaped(note)}"))
    if not report.findings:
        console.print(Text("nothing found"))
        return
    rows = [
        ((kind.severity, STYLES[kind.severity]), kind.name, f"{finding.count:,}", kind.title)
        for finding in report.findings
        for kind in [finding.kind]
    ]
    print_table(("severity", "kind", ">number", "what"), rows, whole=("severity", "kind", "number"))
    for finding in report.findings:
        typer.echo("\n".join(_describe(finding, report.unit)))


def _describe(finding: Finding, unit: str) -> Iterator[str]:
    """Describe a finding: title, remedy and examples, line by line."""
    yield f"{finding.kind.name}: {finding.kind.title}"
    yield f"  remedy: {finding.kind.remedy}"
    if finding.kind.name == "labels":
        yield from (f"  {printable(fact)}" for fact in finding.summary)
        return
    shown = finding.summary[:MAX_STRETCHES]
    yield from (f"  {escaped(fact)}" for fact in shown)
    if len(finding.summary) > len(shown):
        yield f"  and {len(finding.summary) - len(shown):,} more"
    for example in finding.examples:
        yield f"  {unit} {example.line}: {printable(example.detail)}"
        yield from (f"    {printable(text)}" for text in example.texts)


def printable(text: str) -> str:
    """Return the text for a terminal: at most MAX_SHOWN characters, control characters escaped."""
    return escaped(text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…")


def escaped(text: str) -> str:
    """Return all of the text for a terminal, control characters escaped."""
    text = "".join(" " if unicodedata.category(c) == "Zs" else c for c in text)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
