"""A request for translations, from any caller: the command line, files in bulk, or a program over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dragoman.config import SearchConfig
from dragoman.errors import ConfigError
from dragoman.predict.glossary import Glossary
from dragoman.predict.protection import Protection

MOST_CANDIDATES = 1000
"""Of a sentence, for minimum Bayes risk: the work grows with their square."""


@dataclass(frozen=True, kw_only=True)
class TranslationRequest:
    """How to search, and what the translations must keep. States the rules that hold for every caller."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of [search]; one that is None is the run's own."""
    n_best: int = 1
    """Translations wanted of each text."""
    glossary: Glossary | None = None
    """Phrases that the translations of texts with certain terms hold."""
    protection: Protection | None = None
    """What stands in a translation as in its source."""
    consensus: bool = False
    """Whether candidates are ranked by minimum Bayes risk."""

    def search(self, defaults: SearchConfig) -> dict[str, Any]:
        """Return the settings that differ from `defaults`, the [search] settings of a run.

        - More translations widen a beam whose size is not given.
        - Protection asks for the whole beam: one candidate may keep what the first one loses.
        - Consensus chooses among `n_best` candidates, or among the whole beam.

        Raises:
            ConfigError: consensus has fewer than 2 candidates, or more than MOST_CANDIDATES.
        """
        overrides = {name: value for name, value in self.settings.items() if value is not None}
        beam_size, n_best = overrides.get("beam_size", defaults.beam_size), self.n_best
        if "beam_size" not in overrides and overrides.get("method", defaults.method) == "beam":
            beam_size = max(defaults.beam_size, n_best)
        if self.consensus:
            if max(n_best, beam_size) < 2:
                raise ConfigError(
                    "--mbr chooses among candidates; give a --beam-size or --n-best of 2 or more"
                )
            if max(n_best, beam_size) > MOST_CANDIDATES:
                raise ConfigError(f"--mbr compares all candidates; give {MOST_CANDIDATES:,} at most")
            n_best = n_best if n_best > 1 else beam_size
        elif self.protection is not None:
            n_best = max(n_best, beam_size)
        return {**overrides, "beam_size": beam_size, "n_best": n_best}
