"""Progress of file translation and scoring, shared by the commands that have `--out` for large files."""

from __future__ import annotations

import time
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

    progress = TerminalProgress(job.noun)
    try:
        with progress:
            summary = translate_file(job, n_workers=n_workers, ray=ray, watch=progress.show)
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


class TerminalProgress:
    """Progress of a file: a bar on a terminal, otherwise a line on stderr every 30 s. A context manager."""

    def __init__(self, noun: str) -> None:
        """Take the unit of the speed, such as "sentences", as `noun`."""
        from rich.progress import BarColumn, Progress, TextColumn

        from dragoman.cli.console import Console

        console = Console(stderr=True)
        self._noun = noun
        self._bar = None
        if console.is_terminal:
            self._bar = Progress(
                BarColumn(), TextColumn("{task.description}"), console=console, transient=True
            )
            self._task = self._bar.add_task("loading", total=1.0)
        self._told = time.monotonic()

    def __enter__(self) -> TerminalProgress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, status: Status) -> None:
        """Update the progress."""
        if self._bar is not None:
            self._bar.update(
                self._task, completed=status.share, description=describe_status(status, self._noun)
            )
        elif time.monotonic() - self._told >= LINE_EVERY:
            say(describe_status(status, self._noun))
            self._told = time.monotonic()


def describe_status(status: Status, noun: str = "sentences") -> str:
    """Describe progress: share of the input read, lines, speed and time left."""
    left = status.seconds_left
    return " · ".join(
        [
            *([f"{100 * status.share:.1f} % read"] if status.n_bytes else []),
            f"{status.n_earlier + status.n_new:,} lines",
            f"{status.lines_per_second:.1f} {noun}/s",
            *([] if left is None else [f"{duration(left)} left"]),
        ]
    )


def duration(seconds: float) -> str:
    """Format a duration: "42 s", "3 min", "5.2 h", "2.1 days"."""
    for unit, length, form in (("days", 86400, ".1f"), ("h", 3600, ".1f"), ("min", 60, ".0f")):
        if seconds >= 1.5 * length:
            return f"{seconds / length:{form}} {unit}"
    return f"{seconds:.0f} s"
