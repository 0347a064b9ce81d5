"""Rich's console, with the errors of other output; tables, bars of progress, scores."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from rich import console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from dragoman.errors import printable
from dragoman.training.objective import TITLES


class Console(console.Console):
    """A console that raises BrokenPipeError when its reader has left; Rich's own ends the process with 1."""

    def on_broken_pipe(self) -> NoReturn:
        raise  # noqa: PLE0704  # Rich calls this while it handles the BrokenPipeError


def print_table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str | tuple[str, str]]],
    *,
    title: str | None = None,
    whole: Collection[str] = ("name",),
) -> None:
    """Print a table on stdout. A heading that begins with ">" is one of figures, which are set to the right.

    A cell is a text, or a text and its style; control characters and rich's markup in it are text. `whole`
    are headings of columns that are never wrapped.
    """
    table = Table(title=title, title_justify="left")
    for heading in headings:
        name = heading.removeprefix(">")
        table.add_column(name, justify="left" if name == heading else "right", no_wrap=name in whole)
    for row in rows:
        cells = ((cell, "") if isinstance(cell, str) else cell for cell in row)
        table.add_row(*(Text(printable(text), style=style) for text, style in cells))
    Console(highlight=False).print(table)


@contextmanager
def progress_bar(what: str, *, total: int | None = None) -> Iterator[Callable[..., None]]:
    """Show a progress bar, if stderr is a terminal; yield a function of the number done and a new total."""
    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(what, total=total)

        def show(done: int, total: int | None = None) -> None:
            bar.update(task, completed=done, total=total)

        yield show


def describe_scores(record: dict[str, Any], *, item: str) -> list[str]:
    """Format the loss and the scores of a validation."""
    names = {**TITLES, **({"accuracy": "exact match"} if "micro_f1" in record else {})}
    scores = [f"{name} {record[key]:.1f}" for key, name in names.items() if key in record]
    if "worst" in record:
        scores.append(f"worst {record['worst']} with BLEU {record['bleu ' + record['worst']]:.1f}")
    if "chosen_by" in record:
        corpora = [key.removeprefix("bleu ") for key in record if key.startswith("bleu ")]
        scores += [f"BLEU {name} {record[f'bleu {name}']:.1f}" for name in corpora]
    return [f"loss {record['valid_loss']:.2f} nats/{item}", *scores]
