"""What a translation is: its candidates, and the words of both sides that stand for one another."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from dragoman.notebook import Cell, table, table_of

Outcome: TypeAlias = Literal["", "copied", "put back", "untranslated"]
"""Nothing was protected; the model copied all spans that are no tags; all were put back by alignment; nothing
helped."""


class Alternative(NamedTuple):
    """One candidate translation and its score.

    Its log-probability in nats over the length penalty, plus the coverage penalty if there is one.
    """

    text: str
    score: float


class Translation(NamedTuple):
    """The best translation of `source`, and all that were asked for, best first.

    Where `source` is too long for the model, it was translated in `parts`: the k-th of `alternatives` is made
    of the k-th of each, joined, with the mean of their scores.
    """

    source: str
    alternatives: tuple[Alternative, ...]
    """One at least."""
    parts: tuple[Translation, ...] = ()
    """Consecutive pieces of `source`, or of what protection left of it; empty where it was one."""
    ids: tuple[tuple[int, ...], ...] = ()
    """The tokens of each alternative as the search found it, without start and end; of a text in parts, those
    of all parts. Nothing where the alternatives are others than those the search found."""
    through: str = ""
    """The text in a pivot language that was translated in place of `source`; "" where there was none."""
    outcome: Outcome = ""
    """What became of what was protected in `source`."""

    @property
    def text(self) -> str:
        """The best translation."""
        return self.alternatives[0].text

    @property
    def score(self) -> float:
        """That of the best translation."""
        return self.alternatives[0].score

    def notebook_row(self) -> dict[str, Cell]:
        """Return the row of a notebook's table."""
        return {"source": self.source, "translation": self.text, "score": f"{self.score:.2f}"}

    def _repr_html_(self) -> str:
        if len(self.alternatives) < 2:
            return table_of([self])
        return table(
            ("score", "translation"),
            [(f"{a.score:.2f}", a.text) for a in self.alternatives],
            caption=self.source,
        )


class Link(NamedTuple):
    """A word of the source and one of the translation that stands for it, by their characters."""

    source_start: int
    source_end: int
    target_start: int
    target_end: int
    weight: float
    """How much of the attention of the target word is on this source word, 0–1 (`alignment.contrasted`)."""
