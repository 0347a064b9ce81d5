"""Writes docs/commands.md from the command line itself: every command, its arguments and its options.

    python docs/generate_commands.py

tests/docs/test_generated_pages.py fails while the page and the code disagree.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from click import Context

from dragoman.cli import app
from dragoman.cli.app import Command

PAGE = Path(__file__).resolve().parent / "commands.md"

INTRODUCTION = """\
# Commands

<!-- Written by docs/generate_commands.py from src/dragoman/cli. Change the texts there. -->

Results go to stdout, messages to stderr. What a user can put right is one line on stderr and exit code 1. A
command line with an option that is unknown, missing or of the wrong kind gets its usage and exit code 2. The
same texts are printed by `dragoman COMMAND --help`; `python -m dragoman` is the same program.
"""


def page() -> str:
    """Return the whole page."""
    return "\n".join([INTRODUCTION, *sections(typer.main.get_command(app), "dragoman")])


def sections(group: Any, name: str) -> Iterator[str]:
    """Yield the section of each command of `group` and of the groups in it, in their order."""
    for inner, command in group.commands.items():
        yield section(command, f"{name} {inner}")
        if hasattr(command, "commands"):
            yield from sections(command, f"{name} {inner}")


def section(command: Any, name: str) -> str:
    """Return a command's heading, usage, description and a table for each group of its options."""
    context = Context(command, info_name=name)
    usage = command.get_usage(Context(command, info_name=name, terminal_width=1000)).removeprefix("Usage: ")
    parts = [f"## `{name}`", f"```text\n{usage}\n```", as_markdown(command.help or "")]
    if isinstance(command, Command):
        for panel, rows in command.help_panels(context).items():
            parts.append(f"**{panel}**")
            table = [
                "| name | meaning |",
                "|---|---|",
                *(f"| `{cell(left)}` | {as_markdown(cell(right))} |" for left, right in rows),
            ]
            parts.append("\n".join(table))
    return "\n\n".join(parts) + "\n"


def cell(text: str) -> str:
    """Return `text` in one line of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def as_markdown(text: str) -> str:
    """Return plain text with what Markdown would read as its own signs escaped."""
    for sign in ("<", "*", "_", "["):
        text = text.replace(sign, f"\\{sign}")
    return text.strip()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
