"""Progress bars of downloads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.data.catalog import Progress


@contextmanager
def progress_bars() -> Iterator[Progress]:
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
