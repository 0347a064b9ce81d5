"""Tokenizers that came with a model of another toolkit: they are loaded, and never learnt.

Ids are those of the model's vocabulary, brought into Dragoman's order; how text is cut is what the other
toolkit does.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import re
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from dragoman.errors import ConfigError, optional
from dragoman.text.normalisation import META_SPACE, without_controls
from dragoman.text.tokenizer import ListedTokenizer, Token, Tokenizer
from dragoman.text.vocabulary import UNK_ID

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

    def tokens(self, text: str) -> list[Token]:
        return [
            Token(i := self._ids.get(piece, UNK_ID), self._pieces[i], start, end)
            for piece, start, end in self._spans(self.normalise(text))
        ]

    @abstractmethod
    def _spans(self, text: str) -> list[tuple[str, int, int]]:
        """The pieces of normalised `text`, and the characters of it that each stands for."""


class SentencePieceTokenizer(ForeignTokenizer):
    """A sentencepiece model (Kudo and Richardson 2018), whose pieces have the ids of a vocabulary.

    What it normalises is normalised: `decode(encode(text))` has, say, "fi" for a ligature, and U+FFFD for
    what is not in the vocabulary. A language in front, such as ">>deu<<", is a token of its own (Marian).
    """

    def __init__(self, spec: str) -> None:
        super().__init__(spec)
        try:
            model = base64.b64decode(self._settings["sentencepiece"], validate=True)
        except binascii.Error:
            raise ValueError("its sentencepiece model is not base64") from None
        self._processor = sentencepiece_processor(model)

    def _cut(self, text: str) -> list[str]:
        language, text = _cut_language(text)
        return [*language, *self._processor.EncodeAsPieces(text)]

    def _spans(self, text: str) -> list[tuple[str, int, int]]:
        language, rest = _cut_language(text)
        start = len(text) - len(rest)
        found = [(piece, 0, start) for piece in language]
        found += [(piece, start + i, start + j) for piece, i, j in _offsets(self._processor, rest)]
        # Of what stands for one character together, sentencepiece gives it to the last.
        for k in reversed(range(len(found) - 1)):
            piece, i, j = found[k]
            if i == j == found[k + 1][1] and piece != META_SPACE:
                found[k] = (piece, *found[k + 1][1:])
        return found

    def _join(self, pieces: list[str]) -> str:
        text = str(self._processor.DecodePieces(pieces)) if pieces else ""
        return text.replace(META_SPACE, " ").strip()  # of a piece that the vocabulary has, and the model not


class PiecesTokenizer(ForeignTokenizer):
    """Text that is already cut, its pieces separated by spaces; with codes, subword-nmt cuts them further.

    Nothing but white space, control characters and, where the model wants it, case is normalised. Pieces keep
    `encode(decode(ids)) == ids`; of words that codes cut, `decode(encode(text)) == normalise(text)` where
    all pieces are known.
    """

    def __init__(self, spec: str) -> None:
        super().__init__(spec)
        codes = self._settings["codes"]
        known = set(self._ids) if self._settings.get("known_only") else None
        self._codes = None if codes is None else _read_codes(codes, known)

    def normalise(self, text: str) -> str:
        text = " ".join(without_controls(text).split())
        return " ".join(text.lower().split()) if self._lowercase else text

    def _cut(self, text: str) -> list[str]:
        words = text.split()
        return words if self._codes is None else list(self._codes.segment_tokens(words))

    def _spans(self, text: str) -> list[tuple[str, int, int]]:
        found, position = [], 0
        for piece in self._cut(text):
            surface = piece if self._codes is None else piece.removesuffix(CONTINUED)
            end = text.index(surface, position) + len(surface)
            found.append((piece, position, end))
            position = end
        return found

    def _join(self, pieces: list[str]) -> str:
        text = " ".join(pieces)
        if self._codes is None:
            return text
        return (text + " ").replace(f"{CONTINUED} ", "").strip()


KINDS: dict[str, type[ForeignTokenizer]] = {
    "sentencepiece": SentencePieceTokenizer,
    "pieces": PiecesTokenizer,
}


def sentencepiece_spec(model: bytes, vocabulary: Sequence[str], *, lowercase: bool = False) -> str:
    """The file of a tokenizer that cuts with the sentencepiece `model` and knows the pieces `vocabulary`."""
    return json.dumps(
        {
            "kind": "sentencepiece",
            "lowercase": lowercase,
            "sentencepiece": base64.b64encode(model).decode(),
            "vocabulary": list(vocabulary),
        },
        ensure_ascii=False,
        indent=0,
    )


def pieces_spec(
    codes: str | None, vocabulary: Sequence[str], *, lowercase: bool = False, known_only: bool = False
) -> str:
    """The file of a tokenizer of text that is already cut, which subword-nmt `codes` cut further if given.

    With `known_only` merges into what is not in the vocabulary are undone.
    """
    settings = {
        "kind": "pieces",
        "lowercase": lowercase,
        "known_only": known_only,
        "codes": codes,
        "vocabulary": list(vocabulary),
    }
    return json.dumps(settings, ensure_ascii=False, indent=0)


def sentencepiece_processor(model: bytes) -> Any:
    """The sentencepiece model in a file's bytes. ValueError: it is none. MissingExtraError: no package."""
    processor = _foreign_package("sentencepiece").SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except RuntimeError as error:
        raise ValueError(f"it is no sentencepiece model: {' '.join(str(error).split())}") from None
    if not model or not processor.GetPieceSize():
        raise ValueError("its sentencepiece model is empty")
    return processor


def _cut_language(text: str) -> tuple[list[str], str]:
    """The language that a text begins with, if it does, and the rest."""
    match = LANGUAGE.match(text)
    return ([match.group()], text[match.end() :]) if match else ([], text)


def _offsets(processor: Any, text: str) -> list[tuple[str, int, int]]:
    """The pieces of `text` with their first character and the one behind their last."""
    if hasattr(processor, "EncodeAsOffsetMapping"):  # from 0.2.3 on
        found = processor.EncodeAsOffsetMapping(text)
        return [(piece, *span) for piece, span in zip(found["pieces"], found["offsets"], strict=True)]
    return [(found.piece, found.begin, found.end) for found in processor.EncodeAsImmutableProto(text).pieces]


def _read_codes(codes: str, known: set[str] | None) -> Any:
    """What segments by the byte-pair `codes` (Sennrich et al. 2016), into `known` pieces alone if given.

    ValueError: they are none.
    """
    for number, line in enumerate(codes.strip("\r\n ").split("\n"), start=1):
        if not (number == 1 and line.startswith("#version:")) and len(line.strip("\r\n ").split(" ")) != 2:
            raise ValueError(f"line {number} of its codes is not two pieces")  # subword-nmt would exit
    return _foreign_package("subword_nmt.apply_bpe").BPE(io.StringIO(codes), separator=CONTINUED, vocab=known)


def _foreign_package(name: str) -> Any:
    return optional(name, extra="foreign", purpose="the tokenizer of an imported model")
