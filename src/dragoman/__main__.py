"""`python -m dragoman` is the command `dragoman`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; Ctrl-C ends it in one line, while it is being imported, too."""
    try:
        from dragoman.cli import main as run

        run()
    except KeyboardInterrupt:
        if sys.stderr is not None:
            sys.stderr.write("interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
