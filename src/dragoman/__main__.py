"""`python -m dragoman` is the command `dragoman`."""

from __future__ import annotations

from dragoman.cli import main

if __name__ == "__main__":
    main()
