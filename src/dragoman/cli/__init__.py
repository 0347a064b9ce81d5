"""The command `dragoman`. Each subcommand parses options, calls one public function and prints.

Results go to stdout, messages to stderr. Slow imports (torch, rich) happen inside the commands, so that
`dragoman --help` answers at once.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable

from dragoman.cli import (
    bulk,
    data,
    distill,
    evaluate,
    exchange,
    report,
    reproduce,
    serve,
    show,
    train,
    translate,
)
from dragoman.cli.app import CRASHED, Command, app, discard_output, give_back_ctrl_c, program, say
from dragoman.cli.options import with_options
from dragoman.removed import removed_variables

__all__ = ["app", "main"]

COMMANDS: dict[str, tuple[str, Callable[..., None]]] = {
    "demo": ("Start", train.demo),
    "doctor": ("Start", show.doctor),
    "train": ("Train", train.train),
    "show": ("Train", show.show),
    "distill": ("Train", distill.distill),
    "import": ("Train", exchange.import_model),
    "reproduce": ("Train", reproduce.reproduce),
    "translate": ("Translate", translate.translate),
    "classify": ("Translate", translate.classify),
    "evaluate": ("Evaluate", evaluate.evaluate),
    "report": ("Evaluate", report.report),
    "compare": ("Evaluate", report.compare),
    "score": ("Evaluate", evaluate.score),
    "score-model": ("Evaluate", bulk.score_model),
    "serve": ("Serve and share", serve.serve),
    "export": ("Serve and share", exchange.export),
    "card": ("Serve and share", exchange.card),
    "push": ("Serve and share", exchange.push),
    "backtranslate": ("Data", bulk.backtranslate),
}
"""Heading in the help and function of each command, in the order of the help."""

for name, (heading, command) in COMMANDS.items():
    app.command(name, cls=Command, rich_help_panel=heading)(with_options(command))
app.add_typer(serve.key_app, name="key", rich_help_panel="Serve and share")
app.add_typer(data.data_app, name="data", rich_help_panel="Data")


def main() -> None:
    """Run the command line and exit with its code.

    In distributed training, a process that fails unexpectedly exits with CRASHED, so that its launcher can
    tell a crash from a user error.
    """
    open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    for sentence in removed_variables():
        say(sentence)
    try:
        app(prog_name=program())
    except Exception:  # what a user can put right has become an exit code by now
        if os.environ.get("WORLD_SIZE", "1") == "1":
            raise
        traceback.print_exc()
        sys.exit(CRASHED)
    finally:
        give_back_ctrl_c()
        try:
            sys.stdout.flush()
        except (OSError, ValueError):  # reported already; Python would fail on it again, with exit code 120
            discard_output()


def open_closed_streams() -> None:
    """Open replacements for stdin, stdout and stderr if the process was started without them.

    Reading and writing them fails as in other programs, and messages are discarded. Otherwise Python's
    streams would be None, and the next opened file could become stdout.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            flags = (os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)[number]
            handle = os.open(os.devnull, flags)  # the lowest number that is free: its own
            setattr(sys, name, os.fdopen(handle, "w" if number else "r", encoding="utf-8", closefd=False))
