"""One figure, with what is needed to reproduce it."""

from __future__ import annotations

from dataclasses import dataclass


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
