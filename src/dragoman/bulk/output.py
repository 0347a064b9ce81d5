"""Format translations as lines, and write text and documents that are whole."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from dragoman.data.readers.files import compressed
from dragoman.documents.plain import decoded
from dragoman.errors import ConfigError, printable
from dragoman.files import write_atomically
from dragoman.metrics.faults import COPIED, has_loop, similarity
from dragoman.predict.results import Link, Translation
from dragoman.text.tokenizer import TokenizerPair


class Dropped(NamedTuple):
    """A line that is skipped, with the reason."""

    reason: str


def as_line(translation: Translation, tokenizers: TokenizerPair, links: Sequence[Link] | None) -> str:
    """Return the text of a translation."""
    return translation.text


def json_line(translation: Translation, tokenizers: TokenizerPair, links: Sequence[Link] | None) -> str:
    """Return a translation as one line of JSON, with its word alignment if `links` are given.

    A link has half-open character spans of source and translation, and a weight.
    """
    record: dict[str, Any] = {
        "source": translation.source,
        "translation": translation.text,
        "score": translation.score,
        "alternatives": [{"translation": a.text, "score": a.score} for a in translation.alternatives],
    }
    if links is not None:
        record["alignment"] = [
            {
                "source": [link.source_start, link.source_end],
                "target": [link.target_start, link.target_end],
                "weight": round(link.weight, 4),
            }
            for link in links
        ]
    return json.dumps(record, ensure_ascii=False)


def as_sentence(translation: Translation, tokenizers: TokenizerPair, links: Sequence[Link] | None) -> str:
    """Return the text of a translation as a JSON string, which is one line whatever it holds."""
    return json.dumps(translation.text)


@dataclass(frozen=True)
class SyntheticPairs:
    """Back-translation (Sennrich et al. 2016): a synthetic source, a tab, and the text it was made from.

    `tag` and a space precede the synthetic source, so that a model can tell it from human text (Caswell et
    al. 2019). White space in both texts becomes single spaces, so that they contain no tab. Empty texts and
    texts with a fault (`fault_of`) are skipped.
    """

    tag: str
    max_ratio: float

    def __post_init__(self) -> None:
        check_max_ratio(self.max_ratio)

    def __call__(
        self, translation: Translation, tokenizers: TokenizerPair, links: Sequence[Link] | None = None
    ) -> str | Dropped:
        source, made = (" ".join(text.split()) for text in (translation.source, translation.text))
        if not source:
            return Dropped("empty lines")
        if fault := fault_of(source, made, tokenizers, max_ratio=self.max_ratio):
            return Dropped(fault)
        return f"{self.tag} {made}\t{source}" if self.tag else f"{made}\t{source}"


Output: TypeAlias = Callable[[Translation, TokenizerPair, Sequence[Link] | None], str | Dropped]
"""Formats a translation as a line. It is sent to processes: `SyntheticPairs`, or a function of a module."""


def check_max_ratio(max_ratio: float) -> None:
    """Check the ratio of `fault_of`. ConfigError: it is below 1, as no ratio of two lengths is, and not 0."""
    if not (max_ratio == 0 or max_ratio >= 1):
        raise ConfigError(
            f"--max-ratio {max_ratio:g}: would skip every pair; give 1 or more, or 0 to keep all"
        )


def fault_of(source: str, translation: str, tokenizers: TokenizerPair, *, max_ratio: float) -> str:
    """Return the fault of a degenerate translation, in words; "" = none.

    Faults: it is empty; it repeats itself and its source does not; it is (nearly) a copy of the source; one
    side has more than `max_ratio` times the tokens of the other, with 5 tokens added to each side for short
    sentences (0 = any ratio).
    """
    if not translation:
        return "empty translations"
    if has_loop(translation) and not has_loop(source):
        return "repetitions"
    if similarity(source, translation) >= COPIED:
        return "copies"
    n_src, n_tgt = (
        5 + len(tokenizer.encode(text))
        for tokenizer, text in ((tokenizers.src, source), (tokenizers.tgt, translation))
    )
    if max_ratio and max(n_src, n_tgt) > max_ratio * min(n_src, n_tgt):
        return "unequal lengths"
    return ""


def write_output(path: Path | None, content: str | bytes) -> None:
    """Write text, or a document, to stdout, or atomically to a file.

    A file is written in UTF-8 and compressed according to its suffix. On a terminal, control characters are
    escaped.
    """
    if path is not None:
        encoded = content.encode() if isinstance(content, str) else content
        write_atomically(path, compressed(encoded, path.name))
        return
    if sys.stdout.isatty():
        text = content if isinstance(content, str) else decoded("output", content)[0]
        sys.stdout.write(printable(text, directions=True))
    elif isinstance(content, str):
        sys.stdout.write(content)
    else:
        sys.stdout.buffer.write(content)
    sys.stdout.flush()
