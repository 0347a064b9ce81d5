"""Rich's console, with the errors of other output."""

from __future__ import annotations

from typing import NoReturn

from rich import console


class Console(console.Console):
    """A console that raises BrokenPipeError when its reader has left; Rich's own ends the process with 1."""

    def on_broken_pipe(self) -> NoReturn:
        raise  # noqa: PLE0704  # Rich calls this while it handles the BrokenPipeError
