"""What a student learns from, and what of it is kept: options of `dragoman distill`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from dragoman.tasks.request import ENSEMBLE

MIN_CHRF = 20.0
"""Minimum chrF of a teacher's translation against the reference, unless another one is set."""


class Lessons(NamedTuple):
    """Settings of the training data of a student."""

    text: Annotated[
        Sequence[str],
        "Source text to translate in place of RUN's training text, one sentence a line; repeatable.",
    ] = ()
    ensemble: Annotated[Sequence[str], ENSEMBLE] = ()
    forward: Annotated[
        Sequence[str], "Learn from this run's translations as well, beside RUN's; repeatable."
    ] = ()
    backward: Annotated[
        Sequence[str],
        "Learn from back-translations as well: this run of the other direction translates the references; "
        "repeatable.",
    ] = ()
    min_chrf: Annotated[
        float | None,
        "Skip translations with a lower chrF against the reference; 0 = keep all. "
        "[default: 20, where there are references]",
        (0.0, 100.0),
    ] = None
    max_ratio: Annotated[
        float,
        "Skip pairs whose lengths in tokens differ by more than this ratio, 1 or more; 0 = keep all.",
        (0.0, 1e6),
    ] = 3.0
    n_best: Annotated[
        int,
        "Choose, among N teacher candidates, the one closest to the reference; 0 = the whole beam.",
        (0, 100_000),
    ] = 0
    """Kim & Rush 2016, section 3.3. Without references the teacher's best is taken."""
    references: Annotated[bool, "Train on the original training pairs as well."] = False
    max_pairs: Annotated[int, "Use only the first N pairs or lines; 0 = all.", (0, 10**12)] = 0

    @property
    def chrf_floor(self) -> float:
        """The minimum chrF where there are references."""
        return MIN_CHRF if self.min_chrf is None else self.min_chrf

    def runs(self, teacher: Path) -> list[Path]:
        """Return the runs that translate, the teacher first."""
        return [teacher, *map(Path, (*self.ensemble, *self.forward, *self.backward))]

    def described(self) -> dict[str, Any]:
        """Return the settings as a JSON value; `text` is not in it, whose hash tells it apart.

        Other runs, which earlier versions had not, are in it only if they are set.
        """
        runs = {"ensemble": self.ensemble, "forward": self.forward, "backward": self.backward}
        return {
            "n_best": self.n_best,
            "references": self.references,
            "max_ratio": self.max_ratio,
            "min_chrf": self.chrf_floor,
            "max_pairs": self.max_pairs,
            **{name: list(map(str, paths)) for name, paths in runs.items() if paths},
        }
