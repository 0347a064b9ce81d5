"""Tokenizers that came with a model of another toolkit: they are loaded, and never learnt.

Ids are those of the model's vocabulary, brought into Dragoman's order; how text is cut is what the other
toolkit does.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from dragoman.errors import ConfigError, optional
from dragoman.text.base import ListedTokenizer, Tokenizer
from dragoman.text.normalisation import META_SPACE, without_controls
from dragoman.text.slots import SLOTS
from dragoman.text.vocabulary import language_mark

LANGUAGE = re.compile(r">>.*?<<")
"""What a text for a model of several languages begins with, such as ">>deu<<": a token by itself."""
CONTINUED = "@@"
"""What subword-nmt writes behind a piece that the next one continues."""


class ForeignTokenizer(ListedTokenizer):
    """A vocabulary in Dragoman's order, and the other toolkit's way to cut text."""

    def __init__(self, spec: str) -> None:
        self._settings: dict[str, Any] = json.loads(spec)
        super().__init__(spec, self._settings)

    def extended(self, texts: Iterable[str], n_new: int) -> Tokenizer:
        """ConfigError, always: what cuts the text knows no other pieces."""
        raise ConfigError(
            f'training.extend_vocab = {n_new}: a tokenizer of the kind "{self._settings["kind"]}" came with '
            "an imported model and learns no new tokens; leave --extend-vocab away"
        )

    @cached_property
    def marks(self) -> dict[str, int]:
        """The languages of a model of OPUS-MT, ">>deu<<", by the tokens that Dragoman has for them."""
        pieces = {p: i for p, i in self._ids.items() if LANGUAGE.fullmatch(p)}
        return {language_mark(piece[2:-2]): i for piece, i in pieces.items()}

    def _with_pieces(self, pieces: Sequence[str]) -> Tokenizer:
        """ConfigError, always."""
        is_slot = pieces[0] in SLOTS
        remedy = "set modifiers.slots = 0" if is_slot else "train it in the directions that it has"
        raise ConfigError(
            f'a tokenizer of the kind "{self._settings["kind"]}" came with an imported model and takes no '
            f"new reserved tokens{'' if is_slot else f' such as {pieces[0]}'}; {remedy}"
        )


class SentencePieceTokenizer(ForeignTokenizer):
    """A sentencepiece model (Kudo and Richardson 2018), whose pieces have the ids of a vocabulary.

    What it normalises is normalised: `decode(encode(text))` has, say, "fi" for a ligature, and U+FFFD for
    what is not in the vocabulary. A language in front, such as ">>deu<<", is a token of its own (Marian).
    """

    def __init__(self, spec: str) -> None:
        super().__init__(spec)
        try:
            model = base64.b64decode(self._settings["sentencepiece"], validate=True)
        except binascii.Error as error:
            raise ValueError("its sentencepiece model is not base64") from error
        self._processor = sentencepiece_processor(model)
        self._reads_language = True

    def with_marks(self, marks: Sequence[str]) -> Tokenizer:
        marked = super().with_marks(marks)
        assert isinstance(marked, SentencePieceTokenizer)
        marked._reads_language = not marks
        return marked

    def _cut(self, text: str) -> list[str]:
        if not self._reads_language:
            return list(self._processor.EncodeAsPieces(text))
        language, text = _cut_language(text)
        return [*language, *self._processor.EncodeAsPieces(text)]

    def _spans(self, text: str) -> list[tuple[str, int, int]]:
        language, rest = _cut_language(text) if self._reads_language else ([], text)
        start = len(text) - len(rest)
        spans = [(piece, 0, start) for piece in language]
        if hasattr(self._processor, "EncodeAsOffsetMapping"):  # from 0.2.3 on
            mapping = self._processor.EncodeAsOffsetMapping(rest)
            offsets = [(p, *span) for p, span in zip(mapping["pieces"], mapping["offsets"], strict=True)]
        else:
            pieces = self._processor.EncodeAsImmutableProto(rest).pieces
            offsets = [(each.piece, each.begin, each.end) for each in pieces]
        spans += [(piece, start + i, start + j) for piece, i, j in offsets]
        # Of what stands for one character together, sentencepiece gives it to the last.
        for k in reversed(range(len(spans) - 1)):
            piece, i, j = spans[k]
            if i == j == spans[k + 1][1] and piece != META_SPACE:
                spans[k] = (piece, *spans[k + 1][1:])
        return spans

    def _join(self, pieces: list[str]) -> str:
        text = str(self._processor.DecodePieces(pieces)) if pieces else ""
        return text.replace(META_SPACE, " ").strip()  # of a piece that the vocabulary has, and the model not


class BytePairCodes:
    """A file of byte-pair codes (Sennrich et al. 2016), which cuts words as subword-nmt 0.3 does."""

    END = "</w>"
    """What codes have where a word ends: in version 0.2 with its last character, in 0.1 behind it."""
    MOST_KEPT = 2**17
    """Words whose pieces are remembered."""

    def __init__(self, codes: str, pieces: set[str] | None = None) -> None:
        """Parse `codes`; with `pieces`, undo merges into other pieces. ValueError: malformed codes."""
        lines = codes.strip("\r\n ").split("\n")
        n_header = int(lines[0].startswith("#version:"))
        self._version = re.sub(r"(\.0+)*$", "", lines[0].split()[-1]) if n_header else "0.1"
        if self._version not in ("0.1", "0.2"):
            raise ValueError(f"its codes are of version {self._version}; 0.1 and 0.2 are read")
        pairs = []
        for number, line in enumerate(lines[n_header:], start=1 + n_header):
            pair = tuple(line.strip("\r\n ").split(" "))
            if len(pair) != 2:
                raise ValueError(f"line {number} of its codes is not two pieces")
            pairs.append(pair)
        self._ranks = {pair: rank for rank, pair in reversed([*enumerate(pairs)])}
        self._halves = {first + second: (first, second) for first, second in self._ranks}
        self._known = pieces
        self._kept: dict[str, list[str]] = {}

    def cut(self, word: str) -> list[str]:
        """Return the pieces of a word, CONTINUED behind all but the last."""
        if word not in self._kept:
            if len(self._kept) >= self.MOST_KEPT:
                self._kept.clear()
            pieces = self._pieces(word) if len(word) > 1 else [word]
            self._kept[word] = [*(piece + CONTINUED for piece in pieces[:-1]), pieces[-1]]
        return self._kept[word]

    def _pieces(self, word: str) -> list[str]:
        symbols = [*word, self.END] if self._version == "0.1" else [*word[:-1], word[-1] + self.END]
        while ranks := [self._ranks[pair] for pair in pairwise(symbols) if pair in self._ranks]:
            symbols = self._merged(symbols, min(ranks))
        if symbols[-1] == self.END:
            symbols.pop()
        else:
            symbols[-1] = symbols[-1].removesuffix(self.END)
        if not self._known:
            return symbols
        return [part for i, piece in enumerate(symbols, 1) for part in self._undone(piece, i == len(symbols))]

    def _merged(self, symbols: list[str], rank: int) -> list[str]:
        """Return the symbols with every pair of that rank merged, from the left."""
        merged: list[str] = []
        for symbol in symbols:
            if merged and self._ranks.get((merged[-1], symbol)) == rank:
                merged[-1] += symbol
            else:
                merged.append(symbol)
        return merged

    def _undone(self, piece: str, is_last: bool) -> Iterator[str]:
        """Yield the parts that `piece` was merged from, as far as known pieces need them."""
        assert self._known is not None
        waiting = [(piece, is_last)]
        while waiting:
            piece, is_last = waiting.pop()
            is_known = (piece if is_last else piece + CONTINUED) in self._known
            halves = None if is_known else self._halves.get(piece + self.END if is_last else piece)
            if halves is None:
                yield piece
            else:
                right = halves[1].removesuffix(self.END) if is_last else halves[1]
                waiting += [(right, is_last), (halves[0], False)]


class PiecesTokenizer(ForeignTokenizer):
    """Text that is already cut, its pieces separated by spaces; with codes they are cut further.

    Nothing but white space, control characters and, where the model wants it, case is normalised. Pieces keep
    `encode(decode(ids)) == ids`; of words that codes cut, `decode(encode(text)) == normalise(text)` where
    all pieces are known.
    """

    def __init__(self, spec: str) -> None:
        super().__init__(spec)
        codes = self._settings["codes"]
        pieces = set(self._ids) if self._settings.get("known_only") else None
        self._codes = None if codes is None else BytePairCodes(codes, pieces)

    def normalise(self, text: str, *, slots: bool = False) -> str:
        text = " ".join(without_controls(text).split())
        return " ".join(text.lower().split()) if self._lowercase else text

    def _cut(self, text: str) -> list[str]:
        words = text.split()
        return words if self._codes is None else [piece for word in words for piece in self._codes.cut(word)]

    def _surface(self, piece: str) -> str:
        return piece if self._codes is None else piece.removesuffix(CONTINUED)

    def _join(self, pieces: list[str]) -> str:
        text = " ".join(pieces)
        if self._codes is None:
            return text
        return (text + " ").replace(f"{CONTINUED} ", "").strip()


KINDS: dict[str, type[ForeignTokenizer]] = {
    "sentencepiece": SentencePieceTokenizer,
    "pieces": PiecesTokenizer,
}


@dataclass(frozen=True)
class Segmentation:
    """What cuts text: a sentencepiece model; or it comes cut, its pieces separated by spaces."""

    model: bytes | None = None
    """The bytes of the file of a sentencepiece model."""
    codes: str | None = None
    """Byte-pair codes of subword-nmt, which cut further what comes cut."""
    lowercase: bool = False
    known_only: bool = False
    """Merges of `codes` into what is not in the vocabulary are undone."""

    @property
    def kind(self) -> str:
        """What `tokenizer.kind` calls it."""
        return "pieces" if self.model is None else "sentencepiece"

    def tokenizer(self, pieces: Sequence[str]) -> Tokenizer:
        """Return the tokenizer with the vocabulary `pieces`. ValueError: model or codes cannot be used."""
        settings: dict[str, Any] = {"kind": self.kind, "lowercase": self.lowercase}
        if self.model is None:
            settings |= {"known_only": self.known_only, "codes": self.codes}
        else:
            settings["sentencepiece"] = base64.b64encode(self.model).decode()
        spec = {**settings, "vocabulary": list(pieces)}
        return KINDS[self.kind](json.dumps(spec, ensure_ascii=False, indent=0))


def sentencepiece_processor(model: bytes) -> Any:
    """Load a SentencePiece model from bytes. ValueError: malformed model. MissingExtraError: no package."""
    processor = optional(
        "sentencepiece", extra="foreign", purpose="the tokenizer of an imported model"
    ).SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except RuntimeError as error:
        raise ValueError(f"it is no sentencepiece model: {' '.join(str(error).split())}") from error
    if not model or not processor.GetPieceSize():
        raise ValueError("its sentencepiece model is empty")
    return processor


def _cut_language(text: str) -> tuple[list[str], str]:
    """Return the language that a text begins with, if it does, and the rest."""
    match = LANGUAGE.match(text)
    return ([match.group()], text[match.end() :]) if match else ([], text)
