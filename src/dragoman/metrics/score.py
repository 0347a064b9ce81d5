"""A score with its signature and confidence interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.notebook import Cell, table_of

SEED = 12345
"""Of every bootstrap, unless another is given: sacreBLEU's."""


@dataclass(frozen=True)
class Score:
    """One figure about a whole test set."""

    name: str
    """As sacreBLEU writes it: BLEU, chrF2, TER."""
    value: float
    """0–100. Higher is better, except for TER, which counts edits per 100 words and may exceed 100."""
    signature: str
    """sacreBLEU's: every choice that the value depends on, and its version."""
    interval: tuple[float, float] | None
    """95 % bootstrap interval (Koehn 2004), or None without bootstrap.

    sacreBLEU reports the mean of the resampled scores and half the width of their central 95 %; these
    are mean - half and mean + half. The mean is close to `value`, not equal to it.
    """

    def notebook_row(self) -> dict[str, Cell]:
        """Return the row of a notebook's table."""
        return {
            "score": self.name,
            "value": self.value,
            "95 % interval": interval_text(self.interval),
            "signature": self.signature,
        }

    def _repr_html_(self) -> str:
        return table_of([self])


def interval_text(interval: Sequence[float] | None, *, missing: str = "") -> str:
    """Return "38.3 – 41.6" for (38.3, 41.6), and `missing` where there is no interval."""
    return f"{interval[0]:.1f} – {interval[1]:.1f}" if interval else missing


def value_text(value: float, interval: Sequence[float] | None) -> str:
    """Return "40.0 (38.3 – 41.6)", or the value alone where there is no interval."""
    return f"{value:.1f}" + (f" ({interval_text(interval)})" if interval else "")


def signature_differences(first: str, second: str) -> list[str]:
    """Describe each choice in which two signatures differ, so that their scores cannot be compared.

    A signature is "name:value|name:value"; a name that is in one only is "absent" in the other.
    """
    one, other = (dict(part.split(":", 1) for part in s.split("|") if ":" in part) for s in (first, second))
    return [
        f"{name} is {one.get(name, 'absent')} in one and {other.get(name, 'absent')} in the other"
        for name in {**one, **other}
        if one.get(name) != other.get(name)
    ]
