"""Format translations as lines of an output file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from dragoman.metrics.faults import COPIED, has_loop, similarity
from dragoman.predict.translator import Translation
from dragoman.text.tokenizer import TokenizerPair


class Dropped(NamedTuple):
    """A line that is not written."""

    reason: str


class Output(Protocol):
    """Makes lines of translations. It is sent to other processes, so it holds settings and no files."""

    line_for_line: bool
    """Every line has its own in the output: what cannot be translated becomes an empty translation."""

    def __call__(self, translation: Translation, tokenizers: TokenizerPair) -> str | Dropped:
        """The line for a translation, without a line end."""

    def described(self) -> Mapping[str, Any]:
        """Its settings, as JSON has them: results of equal settings may stand in one file."""


@dataclass(frozen=True)
class Lines:
    """A line for every line, as `write` has it: a function at the top of a module."""

    write: Callable[[Translation], str]
    line_for_line = True

    def __call__(self, translation: Translation, tokenizers: TokenizerPair) -> str:
        return self.write(translation)

    def described(self) -> Mapping[str, Any]:
        return {"lines": self.write.__name__}


@dataclass(frozen=True)
class SyntheticPairs:
    """Back-translation (Sennrich et al. 2016): a synthetic source, a tab, and the text it was made from.

    `tag` and a space stand before the synthetic source, so that a model can tell it from what people wrote
    (Caswell et al. 2019). White space in either text becomes single spaces, so that no tab is in them.
    Left out are empty texts and what `fault_of` finds.
    """

    tag: str
    max_ratio: float
    line_for_line = False

    def __call__(self, translation: Translation, tokenizers: TokenizerPair) -> str | Dropped:
        given, made = (" ".join(text.split()) for text in (translation.source, translation.text))
        if not given:
            return Dropped("empty lines")
        if fault := fault_of(given, made, tokenizers, max_ratio=self.max_ratio):
            return Dropped(fault)
        return f"{self.tag} {made}\t{given}" if self.tag else f"{made}\t{given}"

    def described(self) -> Mapping[str, Any]:
        return {"tag": self.tag, "max_ratio": self.max_ratio}


def fault_of(source: str, translation: str, tokenizers: TokenizerPair, *, max_ratio: float) -> str:
    """What is plainly wrong with a translation, in words; "" where nothing is.

    It is empty, says the same several times on end where its source does not, is the source itself or
    nearly, or one of the two has more than `max_ratio` times the tokens of the other, 5 tokens added to each
    so that short sentences may differ; 0: any ratio will do.
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
