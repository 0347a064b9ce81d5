"""Progress of file translation and scoring, shared by the commands that have `--out` for large files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from dragoman.cli.app import INTERRUPTED, command_line, say

if TYPE_CHECKING:
    from dragoman.bulk.job import Job
    from dragoman.bulk.running import Status, Summary

LINE_EVERY = 30.0
"""Seconds between progress lines if stderr is not a terminal."""


def run_job(job: Job, *, n_workers: int, ray: str | None) -> Summary:
    """Run a job with a progress bar; if interrupted, print the command that continues."""
    from dragoman.bulk.running import translate_file

    try:
        with file_progress(job.noun) as show:
            summary = translate_file(job, n_workers=n_workers, ray=ray, watch=show)
    except KeyboardInterrupt:
        say(f"to continue: {command_line()}")
        raise typer.Exit(INTERRUPTED) from None
    for line in describe_summary(summary, job):
        say(line)
    return summary


def describe_summary(summary: Summary, job: Job) -> list[str]:
    """Describe a finished job: lines, speed, and skipped lines by reason."""
    speed = summary.n_new / max(summary.seconds, 1e-9)
    earlier = summary.n_lines - summary.n_new
    return [
        f"{job.out}: {summary.n_lines:,} lines"
        + (f", {earlier:,} of them earlier" if earlier else "")
        + f"; {summary.n_new:,} in {summary.seconds:.1f} s, {speed:.1f} {job.noun}/s with loading",
        *job.remarks(summary.counts, n_lines=summary.n_lines),
    ]


@contextmanager
def file_progress(noun: str) -> Iterator[Callable[[Status], None]]:
    """Show the progress of a file: a bar on a terminal, otherwise a line on stderr every 30 s.

    `noun` is the unit of the speed, such as "sentences".
    """
    from rich.progress import BarColumn, Progress, TextColumn

    from dragoman.cli.console import Console

    console = Console(stderr=True)
    columns = (BarColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task, told = bar.add_task("loading", total=1.0), time.monotonic()

        def show(status: Status) -> None:
            nonlocal told
            line = describe_status(status, noun)
            bar.update(task, completed=status.share, description=line)
            if not console.is_terminal and time.monotonic() - told >= LINE_EVERY:
                say(line)
                told = time.monotonic()

        yield show


def describe_status(status: Status, noun: str = "sentences") -> str:
    """Describe progress: share of the input read, lines, speed and time left."""
    seconds = status.seconds_left
    return " · ".join(
        [
            *([f"{100 * status.share:.1f} % read"] if status.n_bytes else []),
            f"{status.n_earlier + status.n_new:,} lines",
            f"{status.lines_per_second:.1f} {noun}/s",
            *([] if seconds is None else [f"{duration(seconds)} left"]),
        ]
    )


def duration(seconds: float) -> str:
    """Format a duration: "42 s", "3 min", "5.2 h", "2.1 days"."""
    for unit, length, form in (("days", 86400, ".1f"), ("h", 3600, ".1f"), ("min", 60, ".0f")):
        if seconds >= 1.5 * length:
            return f"{seconds / length:{form}} {unit}"
    return f"{seconds:.0f} s"
