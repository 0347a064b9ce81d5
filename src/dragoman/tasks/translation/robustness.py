"""How a translator fares with text that is written otherwise than its corpus: in capitals, with mistakes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from random import Random
from typing import Any

from dragoman.data.modifiers import on_one_line
from dragoman.data.records import Pair
from dragoman.evaluation.scores import aligned
from dragoman.metrics.faults import COPIED, has_loop, similarity
from dragoman.metrics.score import Score
from dragoman.metrics.translation import bleu, chrf
from dragoman.notebook import Cell, table_of
from dragoman.predict.translator import Translator
from dragoman.text.alterations import (
    carried_over,
    in_capitals,
    in_title_case,
    with_copy,
    with_other_numbers,
    with_typos,
    without_final_point,
)
from dragoman.text.words import has_spaces

N_PAIRS = 300
"""Pairs of a test set that are altered, spread evenly over it."""

N_WORDS = 200
"""Words of its sources that are translated alone: the most frequent ones."""

SEED = 1
"""Of the alterations: every model gets the same text."""

OF_SET = " (robustness)"
"""What follows the name of a test set in the name of its card."""

PLAIN = "as it is"
WORDS = "single words"


@dataclass(frozen=True)
class Altered:
    """The scores of one alteration. Shares are percentages."""

    name: str
    n_sentences: int
    bleu: float | None
    """Against the references, altered alike; None: there are none."""
    chrf: float | None
    share: float | None
    """chrF as a share of that of the unaltered text."""
    copied: float
    """Translations that are their source, though the reference is not."""
    repeated: float
    """Translations with a loop of words."""
    empty: float
    kept: float | None
    """Numbers, addresses, placeholders, tags and emoji of source and reference that stand in the translation;
    None: there are none."""

    def notebook_row(self) -> dict[str, Cell]:
        """Return the row of a table."""
        return {
            "text": self.name,
            "sentences": self.n_sentences,
            "BLEU": self.bleu,
            "chrF2": self.chrf,
            "of plain %": self.share,
            "copied %": self.copied,
            "repeated %": self.repeated,
            "empty %": self.empty,
            "kept %": self.kept,
        }

    def cells(self, *, nothing: str = "") -> list[str]:
        """Return the row as text: shares and scores with one decimal, `nothing` in place of None."""
        values = self.notebook_row().values()
        texts = (f"{value:.1f}" if isinstance(value, float) else str(value) for value in values)
        return [nothing if value is None else text for value, text in zip(values, texts, strict=True)]


@dataclass(frozen=True)
class Robustness:
    """What alterations of a test set do to its translations."""

    test: str
    rows: tuple[Altered, ...]
    signature: str
    """Of chrF2."""
    beam_size: int
    length_penalty: float
    seconds: float
    """Time spent on translating."""
    other_settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.test}{OF_SET}"

    def record(self) -> dict[str, Any]:
        """Return the record for scores.json; expected.json may name its scores, such as "chrF2 capitals"."""
        scores = [
            Score(f"chrF2 {row.name}", row.chrf, self.signature, None)
            for row in self.rows
            if row.chrf is not None
        ]
        return {
            "name": self.name,
            "n_sentences": self.rows[0].n_sentences,
            "beam_size": self.beam_size,
            "length_penalty": self.length_penalty,
            **({"search": dict(self.other_settings)} if self.other_settings else {}),
            "seconds": self.seconds,
            "scores": [asdict(score) for score in scores],
            "alterations": [asdict(row) for row in self.rows],
        }

    def lines(self) -> Iterable[str]:
        """Return nothing: translations of altered text are not kept."""
        return ()

    def describe(self) -> str:
        """Return a heading and a table with a row for each alteration."""
        table = [list(self.rows[0].notebook_row()), *(row.cells() for row in self.rows)]
        heading = f"{self.test} · altered · {self.rows[0].n_sentences:,} sentences"
        return "\n".join([heading, *(f"  {line}" for line in aligned(table))])

    def _repr_html_(self) -> str:
        return table_of(self.rows, caption=self.name)


def alterations(pairs: Sequence[Pair], *, languages: tuple[str, str]) -> dict[str, list[Pair]]:
    """Return the altered test sets by name, the unaltered one first: always the same of the same pairs.

    Sources and references are altered alike, but for typing mistakes, which are the source's alone.
    """
    rng = Random(SEED)
    triples = [pairs[i : i + 3] for i in range(0, len(pairs) - 2, 3)]
    renumbered = [Pair(*with_other_numbers(pair, rng)) for pair in pairs]
    variants = {
        PLAIN: list(pairs),
        "capitals": [Pair(*map(in_capitals, pair, languages)) for pair in pairs],
        "title case": [Pair(*map(in_title_case, pair, languages)) for pair in pairs],
        "typing mistakes": [pair._replace(src=with_typos(pair.src, rng)) for pair in pairs],
        "no final point": [Pair(*without_final_point(pair)) for pair in pairs],
        "other numbers": [other for pair, other in zip(pairs, renumbered, strict=True) if pair != other],
        "numbers and addresses": [Pair(*with_copy(pair, rng)) for pair in pairs],
        "three in a line": [on_one_line(triple, languages) for triple in triples],
    }
    return {name: altered for name, altered in variants.items() if altered}


def robustness(
    translator: Translator,
    test: str,
    pairs: Sequence[Pair],
    *,
    settings: Mapping[str, Any] | None = None,
    n_pairs: int = N_PAIRS,
) -> Robustness:
    """Translate alterations of at most `n_pairs` of the pairs, and their most frequent words alone.

    `settings` are those of [search] that are not the run's own. ConfigError: a setting is wrong.
    """
    config = translator.config
    other_settings = dict(settings or {})
    search = {**other_settings, "n_best": 1}
    n = min(n_pairs, len(pairs))
    spread = [pairs[i * len(pairs) // n] for i in range(n)]
    chosen = alterations(spread, languages=config.languages)
    if has_spaces(config.languages[0]):
        counts = Counter(word for pair in pairs for word in pair.src.split() if word.isalpha())
        if counts:
            chosen[WORDS] = [Pair(word, "") for word, _ in counts.most_common(N_WORDS)]
    start = time.perf_counter()
    hypotheses: dict[str, list[str]] = {
        name: [each.text for each in translator.translate([pair.src for pair in altered], **search)]
        for name, altered in chosen.items()
    }
    seconds = time.perf_counter() - start
    rows: list[Altered] = []
    signature = ""
    for name, altered in chosen.items():
        row = _faults(name, altered, hypotheses[name])
        if name != WORDS:
            references, tgt_lang = [pair.tgt for pair in altered], config.data.tgt_lang
            words = bleu(hypotheses[name], references, tgt_lang=tgt_lang, n_bootstrap=0)
            letters = chrf(hypotheses[name], references, tgt_lang=tgt_lang, n_bootstrap=0)
            plain, signature = rows[0].chrf if rows else None, letters.signature
            share = 100 * letters.value / plain if plain else None
            row = replace(row, bleu=words.value, chrf=letters.value, share=share)
        rows.append(row)
    beam_size = other_settings.pop("beam_size", config.search.beam_size)
    length_penalty = other_settings.pop("length_penalty", config.search.length_penalty)
    return Robustness(test, tuple(rows), signature, beam_size, length_penalty, seconds, other_settings)


def _faults(name: str, pairs: Sequence[Pair], hypotheses: Sequence[str]) -> Altered:
    """Return the faults that need no reference, without scores."""
    triples = [(*pair, hypothesis) for pair, hypothesis in zip(pairs, hypotheses, strict=True)]
    expected = kept = 0
    for src, tgt, hypothesis in triples:
        both = carried_over(src) & carried_over(tgt)
        expected += both.total()
        kept += (both & carried_over(hypothesis)).total()
    copied = sum(
        similarity(src, out) >= COPIED > similarity(src, tgt) for src, tgt, out in triples if tgt and out
    )
    return Altered(
        name=name,
        n_sentences=len(triples),
        bleu=None,
        chrf=None,
        share=None,
        copied=100 * copied / len(triples),
        repeated=100 * sum(map(has_loop, hypotheses)) / len(triples),
        empty=100 * sum(not out.strip() for out in hypotheses) / len(triples),
        kept=100 * kept / expected if expected else None,
    )
