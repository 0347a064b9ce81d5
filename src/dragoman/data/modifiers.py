"""Training pairs altered at random, so that a translator has met text unlike its corpus.

The idea, and most of the modifiers, are those of OpusTrainer (github.com/hplt-project/OpusTrainer), which
Mozilla's translators are trained with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random

from dragoman.config import TranslationConfig
from dragoman.data.readers.files import hash_strings
from dragoman.data.records import Corpus, Pair, View, has_text
from dragoman.text.alterations import (
    in_capitals,
    in_title_case,
    noise,
    slots_at_random,
    with_copy,
    with_other_numbers,
    with_typos,
    without_final_point,
)
from dragoman.text.normalisation import without_controls
from dragoman.text.words import has_spaces

FORMAT = 2
"""Goes into every fingerprint: raise it where the same draw gives other pairs."""

MOST_MERGED = 4
"""Neighbours that become one line, at most."""


def on_one_line(pairs: Sequence[Pair], languages: tuple[str, str]) -> Pair:
    """Return the pairs as one, with a space between sentences where the language has one."""
    if len(pairs) == 1:
        return pairs[0]
    spaces = (" " if has_spaces(language) else "" for language in languages)
    sides = zip(spaces, zip(*pairs, strict=True), strict=True)
    return Pair(*(space.join(text.strip() for text in side) for space, side in sides))


class ModifiedCorpus(View):
    """The pairs of a corpus, some of them altered; which ones, and how, follows from the seed and `draw`.

    Neighbours that are merged stand as one pair, so that there may be fewer pairs than in the corpus.
    """

    def __init__(
        self, corpus: Corpus, config: TranslationConfig, languages: tuple[str, str], *, draw: int
    ) -> None:
        """`languages` are those of source and target; `draw` is the number of the epoch."""
        super().__init__(corpus, self._modified, "modified")
        self.rates, self.languages = config.modifiers, languages
        self.has_slots = self.rates.slots > 0
        # A token of Chinese has about 3 bytes, of an alphabet more; merged pairs are to stay trainable.
        self._max_bytes = 3 * config.data.max_length
        self._drawn_from = f"{config.seed} {draw}"

    def fingerprint(self) -> str:
        return hash_strings(
            "modified", str(FORMAT), self.corpus.fingerprint(), self.rates.model_dump_json(),
            *self.languages, str(self._max_bytes), self._drawn_from,
        )  # fmt: skip

    def _modified(self, pairs: Iterator[Pair]) -> Iterator[Pair]:
        rng = Random(self._drawn_from)
        for pair in self._merged(pairs, rng):
            altered = self._altered(pair, rng) if has_text(pair) else pair
            if self.rates.slots and rng.random() < self.rates.slots:
                altered = Pair(*slots_at_random(altered, rng))
            yield altered

    def _merged(self, pairs: Iterator[Pair], rng: Random) -> Iterator[Pair]:
        """Yield the pairs of the corpus, some neighbours as one."""
        group: list[Pair] = []
        n_wanted = 1
        if self.has_slots:  # a character that is a slot would be taken for ours
            pairs = (Pair(*map(without_controls, pair)) for pair in pairs)
        for pair in pairs:
            if group and (len(group) == n_wanted or not self._fits(group, pair)):
                yield on_one_line(group, self.languages)
                group = []
            if not group:
                merges = has_text(pair) and rng.random() < self.rates.merge
                n_wanted = rng.randint(2, MOST_MERGED) if merges else 1
            group.append(pair)
        if group:
            yield on_one_line(group, self.languages)

    def _fits(self, group: list[Pair], pair: Pair) -> bool:
        """Whether `pair` may follow `group` in one line."""
        sides = zip(*group, pair, strict=True)
        return has_text(pair) and all(
            sum(len(text.encode(errors="replace")) + 1 for text in side) <= self._max_bytes for side in sides
        )

    def _altered(self, pair: Pair, rng: Random) -> Pair:
        rates = self.rates
        if rng.random() < rates.noise:
            return Pair(*[noise(rng)] * 2)
        if rng.random() < rates.numbers:
            pair = Pair(*with_other_numbers(pair, rng))
        if rng.random() < rates.copies:
            pair = Pair(*with_copy(pair, rng))
        if rng.random() < rates.no_final:
            pair = Pair(*without_final_point(pair))
        if rng.random() < rates.typos:
            pair = pair._replace(src=with_typos(pair.src, rng))
        case: Callable[[str, str], str] | None = rng.choices(
            (in_capitals, in_title_case, None), (rates.upper, rates.title, 1 - rates.upper - rates.title)
        )[0]
        if case is not None:
            pair = Pair(*map(case, pair, self.languages))
        return pair
