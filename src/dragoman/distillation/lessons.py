"""What a student learns from, and what of it is kept: options of `dragoman distill`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

from dragoman.tasks.request import ENSEMBLE


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

    def runs(self, teacher: Path) -> list[Path]:
        """Return the runs that translate, the teacher first."""
        return [teacher, *map(Path, (*self.ensemble, *self.forward, *self.backward))]
