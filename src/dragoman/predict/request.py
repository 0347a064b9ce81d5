"""A request for translations, from any caller: the command line, files in bulk, or a program over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dragoman.config import SearchConfig
from dragoman.errors import ConfigError
from dragoman.predict.alignment import Align
from dragoman.predict.protection import Outcome, Protection, translate_protected
from dragoman.predict.reranking import minimum_risk
from dragoman.predict.translator import Translate, Translation, Translator

MOST_CANDIDATES = 1000
"""Of a sentence, for minimum Bayes risk: the work grows with their square."""


@dataclass(frozen=True, kw_only=True)
class TranslationRequest:
    """How to search, and what the translations must keep. States the rules that hold for every caller."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of [search]; one that is None is the run's own."""
    n_best: int = 1
    """Translations wanted of each text."""
    protection: Protection | None = None
    """What stands in a translation as in its source."""
    consensus: bool = False
    """Whether candidates are ranked by minimum Bayes risk."""

    def search(self, defaults: SearchConfig) -> dict[str, Any]:
        """Return settings for `Translator.translate` of a run with the [search] settings `defaults`.

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

    def translate(
        self,
        translator: Translator,
        texts: Sequence[str],
        *,
        search: Translate,
        align: Align | None = None,
        report: Callable[[int, Outcome], None] | None = None,
    ) -> list[Translation]:
        """Translate `texts` by `search`, a call of `translator.translate` with the settings of this request.

        `align` and `report` are those of `translate_protected`, whose errors are also raised here.
        """

        def ranked(some: Sequence[str]) -> list[Translation]:
            return [minimum_risk(translation) for translation in search(some)]

        translate = ranked if self.consensus else search
        if self.protection is None:
            return translate(texts)
        return translate_protected(
            translator, texts, self.protection, translate=translate, align=align, report=report
        )
