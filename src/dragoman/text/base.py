"""What every tokenizer offers, whatever its kind."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from copy import copy
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dragoman.errors import check_texts
from dragoman.files import write_atomically
from dragoman.text.normalisation import normalise, normalise_lowercase, without_controls
from dragoman.text.slots import SLOTS
from dragoman.text.vocabulary import MARK, SPECIAL_TOKENS, UNK_ID, UNKNOWN


class Token(NamedTuple):
    """A token of a text and the characters `start` to `end` of the normalised text that it stands for.

    The space before a token is in its span, so the spans tile the text. A character that is written as
    bytes is the span of each of its byte tokens.
    """

    id: int
    piece: str
    start: int
    end: int


class Tokenizer(ABC):
    """One vocabulary: text to ids and back. `train_tokenizer` and `load_tokenizer` make one.

    Subwords and characters are exact: `decode(encode(text)) == normalise(text)`, for characters where all
    of them are known. Words keep `encode(decode(ids)) == ids` instead. What came with an imported model
    (text/foreign.py) keeps what its toolkit keeps.
    """

    def __init__(self, spec: str, *, lowercase: bool) -> None:
        """Load the tokenizer described by the JSON `spec`."""
        self._spec = spec
        self._lowercase = lowercase
        self._plain: Tokenizer = self
        self._before: list[Token] = []

    @abstractmethod
    def extended(self, texts: Iterable[str], n_new: int) -> Tokenizer:
        """Return this tokenizer with up to `n_new` more tokens, learnt from `texts`; existing ids stay.

        DataError: there is no text.
        """

    @property
    @abstractmethod
    def vocab_size(self) -> int:
        """Tokens in the vocabulary, special ones included: ids are below it."""

    @abstractmethod
    def pieces(self) -> list[str]:
        """Return the vocabulary, in the order of the ids."""

    @property
    def plain(self) -> Tokenizer:
        """This tokenizer, without what `with_marks` puts before a text."""
        return self._plain

    @cached_property
    def marks(self) -> dict[str, int]:
        """The reserved tokens for languages and origins, and their ids."""
        return {piece: i for i, piece in enumerate(self.pieces()) if MARK.fullmatch(piece)}

    @property
    def before(self) -> dict[str, int]:
        """The reserved tokens that it puts before every text, and their ids."""
        return {token.piece: token.id for token in self._before}

    def with_reserved(self, tokens: Sequence[str]) -> Tokenizer:
        """Return this tokenizer with those of the reserved `tokens` that it lacks, behind all others.

        They are marks, or `SLOTS`. ConfigError: a tokenizer that came with an imported model takes no new
        ones.
        """
        present = {*self.marks, *self.pieces()}
        new = [token for token in tokens if token not in present]
        return self._with_pieces(new) if new else self.plain

    @cached_property
    def has_slots(self) -> bool:
        """Whether `SLOTS` are in the vocabulary."""
        return set(SLOTS) <= set(self.pieces())

    @abstractmethod
    def _with_pieces(self, pieces: Sequence[str]) -> Tokenizer:
        """Return this tokenizer with more tokens behind the others, which no text becomes."""

    def with_marks(self, marks: Sequence[str]) -> Tokenizer:
        """Return this tokenizer with the reserved tokens `marks` before every text that is not empty."""
        if not marks:
            return self
        marked, pieces = copy(self), self.pieces()
        marked._before = [Token(self.marks[mark], pieces[self.marks[mark]], 0, 0) for mark in marks]
        return marked

    @property
    def fingerprint(self) -> str:
        """A hash of the whole tokenizer: equal only where ids mean the same."""
        digest = hashlib.blake2b(self._spec.encode(), digest_size=16).hexdigest()
        return " ".join([digest, *self.before])

    @property
    def kind(self) -> str:
        """What `tokenizer.kind` calls it, or the kind of what came with an imported model."""
        spec = json.loads(self._spec)
        return str(spec["model"]["type"]).lower() if "model" in spec else str(spec["kind"])

    @property
    def lowercase(self) -> bool:
        """Whether it reads texts in lower case."""
        return self._lowercase

    def normalise(self, text: str, *, slots: bool = False) -> str:
        """Return the form of `text` that this tokenizer sees: in lower case if it was trained so.

        `SLOTS` stay with `slots`; no text of a user keeps them.
        """
        return (normalise_lowercase if self._lowercase else normalise)(text, slots=slots)

    def encode(self, text: str) -> list[int]:
        """Return the ids of `text`, with neither start nor end token; none for a text of white space."""
        return self.encode_batch([text])[0]

    def encode_batch(
        self, texts: Sequence[str], *, dropout: np.random.Generator | None = None, slots: bool = False
    ) -> list[list[int]]:
        """Return the ids of each text. DataError: `texts` are not strings.

        `dropout` leaves out merges as this generator has it (BPE-dropout, Provilkov et al. 2020), with the
        probability that the tokenizer was trained with. With `slots`, `SLOTS` in the texts become tokens.
        """
        check_texts(texts)
        rows = self._encode_batch([self.normalise(text, slots=slots) for text in texts], dropout=dropout)
        before = list(self.before.values())
        return [[*before, *ids] if ids else ids for ids in rows] if before else rows

    @abstractmethod
    def _encode_batch(self, texts: Sequence[str], *, dropout: np.random.Generator | None) -> list[list[int]]:
        """Return the ids of texts that are normalised, without marks."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of any `ids`, without special tokens; U+FFFD stands for what is unknown or broken.

        Tokens of bytes, and vocabularies of strangers, can spell any character. Control characters, which end
        lines, break formats and steer terminals, never come out (`normalisation.REPLACED`).
        """
        return self.decode_batch([ids])[0]

    def decode_batch(self, batch: Sequence[Sequence[int]], *, slots: bool = False) -> list[str]:
        """Return the text of each row of ids, as `decode` has it; `SLOTS` stay with `slots`."""
        return [without_controls(text, slots=slots) for text in self._decode_batch(batch)]

    @abstractmethod
    def _decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        """Return the text of each row of ids, whatever characters it holds."""

    def tokens(self, text: str) -> list[Token]:
        """Return the tokens of `text`, and which characters of `self.normalise(text)` each stands for."""
        tokens = self._tokens(self.normalise(text))
        return [*self._before, *tokens] if tokens else tokens

    @abstractmethod
    def _tokens(self, text: str) -> list[Token]:
        """Return the tokens of normalised `text`, without marks."""

    def unknown_rate(self, texts: Iterable[str]) -> float:
        """Return the share, 0 to 1, of tokens of `texts` that are not in the vocabulary; of subwords 0."""
        n_tokens = n_unknown = 0
        remaining = iter(texts)
        while chunk := list(islice(remaining, 10_000)):
            for ids in self.encode_batch(chunk):
                n_tokens += len(ids)
                n_unknown += ids.count(UNK_ID)
        return n_unknown / n_tokens if n_tokens else 0.0

    def save(self, path: Path) -> None:
        """Write the JSON file `path`, whole or not at all. RunError: it cannot be written."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, self._spec.encode())


class ListedTokenizer(Tokenizer):
    """A vocabulary that is a list, special tokens first, and a way to cut text into its pieces.

    What is not in the vocabulary is unknown, id UNK_ID, and written as U+FFFD. There are no byte tokens.
    """

    def __init__(self, spec: str, settings: dict[str, Any]) -> None:
        """Take the parsed JSON of `spec` as `settings`. ValueError: malformed vocabulary."""
        super().__init__(spec, lowercase=bool(settings["lowercase"]))
        self._pieces: list[str] = settings["vocabulary"]
        are_strings = isinstance(self._pieces, list) and all(isinstance(p, str) for p in self._pieces)
        if not are_strings or len(set(self._pieces)) != len(self._pieces):
            raise ValueError("its vocabulary is not a list of different strings")
        if self._pieces[: len(SPECIAL_TOKENS)] != list(SPECIAL_TOKENS):
            raise ValueError("the special tokens are not where Dragoman puts them")
        first = len(SPECIAL_TOKENS)  # those are no words of a text
        self._ids = {
            piece: i for i, piece in enumerate(self._pieces[first:], start=first) if not MARK.fullmatch(piece)
        }
        self._written = {UNK_ID: UNKNOWN} | {i: piece for piece, i in self._ids.items()}

    @abstractmethod
    def _cut(self, text: str) -> list[str]:
        """Return the pieces of normalised `text`."""

    @abstractmethod
    def _join(self, pieces: list[str]) -> str:
        """`pieces` as text."""

    @property
    def vocab_size(self) -> int:
        return len(self._pieces)

    def pieces(self) -> list[str]:
        return list(self._pieces)

    def _encode_batch(self, texts: Sequence[str], *, dropout: np.random.Generator | None) -> list[list[int]]:
        get = self._ids.get
        return [[get(piece, UNK_ID) for piece in self._cut(text)] for text in texts]

    def _decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        written = self._written
        return [self._join([written[i] for i in ids if i in written]) for ids in batch]

    def _tokens(self, text: str) -> list[Token]:
        return [
            Token(i := self._ids.get(piece, UNK_ID), self._pieces[i], start, end)
            for piece, start, end in self._spans(text)
        ]

    def _spans(self, text: str) -> list[tuple[str, int, int]]:
        """Return the pieces of normalised `text`, and the characters of it that each stands for."""
        spans, position = [], 0
        for piece in self._cut(text):
            surface = self._surface(piece)
            end = text.index(surface, position) + len(surface)
            spans.append((piece, position, end))
            position = end
        return spans

    def _surface(self, piece: str) -> str:
        """Return what stands in a text for `piece`."""
        return piece
