"""The command `dragoman`: a command parses, calls, prints.

Results go to stdout, talk goes to stderr. What is slow to import (torch, rich) is imported inside the
commands, so that `dragoman --help` answers at once.
"""

from __future__ import annotations

import os
import sys
import traceback

from dragoman.cli import (
    backtranslate,
    classify,
    compare,
    data,
    demo,
    distill,
    doctor,
    evaluate,
    export,
    hub,
    import_model,
    report,
    reproduce,
    score_model,
    serve,
    show,
    train,
    translate,
)
from dragoman.cli.app import CRASHED, Command, app, program

__all__ = ["app", "main"]

train.register(app)
translate.register(app)
backtranslate.register(app)
distill.register(app)
classify.register(app)
evaluate.register(app)
serve.register(app)
score_model.register(app)
export.register(app)
import_model.register(app)
reproduce.register(app)
report.register(app)
compare.register(app)
show.register(app)
hub.register(app)
data.register(app)
demo.register(app)
doctor.register(app)
for group in (app, *(info.typer_instance for info in app.registered_groups)):
    for command in group.registered_commands if group else ():
        command.cls = Command


def main() -> None:
    """Runs the command line; leaves with its exit code.

    One of several processes leaves with CRASHED where there is a bug or a fault of the machine, so that
    whoever has started it can tell that from a mistake.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        app(prog_name=program())
    except Exception:  # what a user can put right has become an exit code by now
        if os.environ.get("WORLD_SIZE", "1") == "1":
            raise
        traceback.print_exc()
        sys.exit(CRASHED)
