"""`python -m dragoman` is the command `dragoman`."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line; Ctrl-C ends it in one line, while it is being imported, too."""
    try:
        if "DRAGOMAN_PULSE_SECONDS" in os.environ:  # first of all: what follows takes seconds
            from dragoman.training.parallel.pulse import start_pulse

            start_pulse()
        from dragoman.cli import main as run

        run()
    except KeyboardInterrupt:
        if sys.stderr is not None:
            sys.stderr.write("interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
