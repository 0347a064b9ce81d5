"""A limit to the pieces of a document, and a callback while it is read, translated and written.

A small file can hold millions of elements, each of which takes hundreds of bytes once it is parsed. Readers
count pieces before they keep them, so that the limit holds before the memory is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from dragoman.data.readers.files import limit_of
from dragoman.errors import DataError

MOST_PIECES = 1_000_000
"""Elements, attributes, tags, lines, sentences and the like of a document, unless $DRAGOMAN_MOST_PIECES says
otherwise."""

CHECK_EVERY = 4096
"""Pieces between two calls of `check`."""

Check: TypeAlias = Callable[[], None]
"""Called now and then by work that takes long; raises an error to stop the work."""


class Budget:
    """Counts the pieces of one document."""

    def __init__(self, name: str, check: Check | None = None) -> None:
        """`name` is that of the document, for messages. An error that `check` raises ends the work.

        ConfigError: $DRAGOMAN_MOST_PIECES is not a number.
        """
        self.name, self._check = name, check
        self.notes: list[str] = []
        """What was left out of the document or differs in its translation, a line for each kind."""
        self._most = limit_of("DRAGOMAN_MOST_PIECES", MOST_PIECES, "pieces")
        self._n_pieces = self._n_steps = 0

    def spend(self, n: int = 1, *, where: Callable[[], str] | None = None) -> None:
        """Count `n` pieces that are about to be kept. `where` returns their place, such as "line 7".

        DataError: the document has too many.
        """
        self._n_pieces += n
        if self._n_pieces > self._most:
            place = f"{self.name}, {where()}" if where is not None else self.name
            raise DataError(
                f"{place}: more than {self._most:,} pieces (elements, attributes, lines, sentences); "
                "split the document into several, or set DRAGOMAN_MOST_PIECES to more"
            )
        self.step(n)

    def step(self, n: int = 1) -> None:
        """Count work on `n` pieces; call `check` after every `CHECK_EVERY` of them."""
        self._n_steps += n
        if self._n_steps >= CHECK_EVERY:
            self.check()

    def check(self) -> None:
        """Call `check` now."""
        self._n_steps = 0
        if self._check is not None:
            self._check()

    def renewed(self) -> Budget:
        """Return a budget of the same document that counts from 0, for what is written."""
        return Budget(self.name, self._check)
