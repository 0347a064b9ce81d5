"""Tokenizers: text to ids and back. Subwords, words or characters; one tokenizer is one JSON file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers

from dragoman.config import FOREIGN_KINDS, TokenizerConfig
from dragoman.errors import ConfigError, DataError, DragomanError, RunError
from dragoman.text import subwords
from dragoman.text.base import ListedTokenizer, Token, Tokenizer
from dragoman.text.bpe_dropout import DroppingBpe
from dragoman.text.foreign import KINDS
from dragoman.text.normalisation import META_SPACE, normalise, normalise_lowercase
from dragoman.text.slots import SLOTS
from dragoman.text.subwords import BYTE_TOKENS, LOWERCASE, N_FIXED
from dragoman.text.vocabulary import (
    BOS_ID,
    EOS_ID,
    MAX_TEXTS,
    PAD_ID,
    SPECIAL_TOKENS,
    SYNTHETIC,
    UNK_ID,
    draw_sample,
    language_mark,
    most_frequent,
    sample_of_text,
)
from dragoman.text.words import ANY_LANGUAGE, WORD, Characters, Words

MAX_BYTES = 1 << 26
"""Of a tokenizer's file: five times what a million tokens take that have ten characters each."""

__all__ = ["BOS_ID", "EOS_ID", "PAD_ID", "UNK_ID", "Token", "Tokenizer", "TokenizerPair"]


class SubwordTokenizer(Tokenizer):
    """Byte-pair encoding (Sennrich et al. 2016) or unigram (Kudo 2018), with byte fallback.

    The file is one of Hugging Face's `tokenizers`, which reads it as it is.
    """

    def __init__(self, spec: str) -> None:
        settings = json.loads(spec)
        normalizer = settings.get("normalizer")
        if normalizer not in (None, LOWERCASE):
            raise ValueError(f"{normalizer} is not a way in which Dragoman normalises text")
        super().__init__(spec, lowercase=normalizer == LOWERCASE)
        settings["normalizer"] = None  # lower-cased before, as `normalise` says
        subwords.check(settings)
        model = dict(settings["model"])
        settings["model"]["dropout"] = None
        self._model = tokenizers.Tokenizer.from_str(json.dumps(settings))
        self._dropping = DroppingBpe(model, self._model.pre_tokenizer) if model.get("dropout") else None
        if [self._model.id_to_token(i) for i in range(N_FIXED)] != [*SPECIAL_TOKENS, *BYTE_TOKENS]:
            raise ValueError("the special and byte tokens are not where Dragoman puts them")

    @property
    def vocab_size(self) -> int:
        return int(self._model.get_vocab_size())

    def pieces(self) -> list[str]:
        return [str(self._model.id_to_token(i)) for i in range(self.vocab_size)]

    def extended(self, texts: Iterable[str], n_new: int) -> Tokenizer:
        return SubwordTokenizer(subwords.extend(self._spec, texts, n_new))

    def _with_pieces(self, pieces: Sequence[str]) -> Tokenizer:
        return SubwordTokenizer(subwords.with_pieces(self._spec, pieces))

    def _encode_batch(self, texts: Sequence[str], *, dropout: np.random.Generator | None) -> list[list[int]]:
        if dropout is not None and self._dropping is not None:
            return self._dropping.encode_batch(texts, dropout)
        encodings = self._model.encode_batch_fast(texts, add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def _decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        silent = {*range(len(SPECIAL_TOKENS)), *self.marks.values()}
        rows = [[i for i in ids if i not in silent] for ids in batch]
        return list(self._model.decode_batch(rows))

    def _tokens(self, text: str) -> list[Token]:
        (ids,), text = self._encode_batch([text], dropout=None), f" {text}"
        tokens = []
        position = n_bytes = 0
        for i in ids:
            piece = str(self._model.id_to_token(i))
            if i < N_FIXED:
                width, n_bytes = 1, n_bytes + 1
            else:
                width = len(piece)
            tokens.append(Token(i, piece, max(0, position - 1), position + width - 1))
            if i >= N_FIXED or n_bytes == len(text[position].encode()):
                position, n_bytes = position + width, 0
        return tokens


class WholeTokenizer(ListedTokenizer):
    """Words or characters."""

    def __init__(self, spec: str) -> None:
        settings = json.loads(spec)
        super().__init__(spec, settings)
        self._segmenter = _segmenter(settings)

    def _cut(self, text: str) -> list[str]:
        return self._segmenter.split(text)

    def _join(self, pieces: list[str]) -> str:
        return self._segmenter.join(pieces)

    def _surface(self, piece: str) -> str:
        return piece.replace(META_SPACE, " ")

    def extended(self, texts: Iterable[str], n_new: int) -> Tokenizer:
        counts: Counter[str] = Counter()
        for text in sample_of_text(texts, self.normalise):
            counts.update(piece for piece in self._cut(text) if piece not in self._ids)
        return self._with_pieces(most_frequent(counts, n_new, min_frequency=2))

    def _with_pieces(self, pieces: Sequence[str]) -> Tokenizer:
        settings = {**json.loads(self._spec), "vocabulary": [*self._pieces, *pieces]}
        return WholeTokenizer(json.dumps(settings, ensure_ascii=False, indent=0))


def train_tokenizer(
    texts: Iterable[str],
    config: TokenizerConfig,
    *,
    lang: str = "",
    reserved: Sequence[str] = (),
) -> Tokenizer:
    """Train a tokenizer of `config.kind` on `texts` in the language `lang` (for spaCy's rules).

    It has `config.vocab_size` tokens, or fewer if the texts have fewer pieces; the last are the `reserved`
    ones. `config.dropout` is the probability with which `encode_batch(..., dropout=generator)` leaves out
    merges.

    Raises:
        DataError: there is no text.
        MissingExtraError: spaCy is requested and not installed.
        ConfigError: spaCy does not know the language, or the kind comes with an imported model only.
    """
    if config.kind in FOREIGN_KINDS:
        raise ConfigError(
            f'tokenizer.kind = "{config.kind}" comes with an imported model and cannot be learnt; start '
            'from one with dragoman train --from RUN, or choose kind = "bpe"'
        )
    if reserved:
        smaller = config.model_copy(update={"vocab_size": config.vocab_size - len(reserved)})
        return train_tokenizer(texts, smaller, lang=lang).with_reserved(reserved)
    if config.kind == "bpe" or config.kind == "unigram":
        spec = subwords.learn(
            texts,
            kind=config.kind,
            vocab_size=config.vocab_size,
            dropout=config.dropout if config.kind == "bpe" else 0.0,
            lowercase=config.lowercase,
        )
        return SubwordTokenizer(spec)
    return WholeTokenizer(_learn_whole(texts, config, lang))


def load_tokenizer(path: Path) -> Tokenizer:
    """Return the tokenizer in the file `path`. RunError: it is missing, or not one that Dragoman wrote."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(f"it has {path.stat().st_size:,} bytes, and {MAX_BYTES:,} at most can be right")
        spec = path.read_text(encoding="utf-8")
        settings = json.loads(spec)
        if "model" in settings:
            return SubwordTokenizer(spec)
        return KINDS.get(settings["kind"], WholeTokenizer)(spec)
    except DragomanError:  # a package is missing
        raise
    except OSError as error:
        raise RunError(
            f"{path}: cannot be read ({error.strerror}); a run keeps its tokenizer there: train again"
        ) from error
    except Exception as error:  # tokenizers raises plain Exception for whatever it cannot parse
        reason = str(error)[:200]  # it may quote all of the file
        raise RunError(f"{path}: is not a Dragoman tokenizer ({reason}); train again") from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # Rust's, which is no Exception and has no address
            raise
        raise RunError(f"{path}: is not a Dragoman tokenizer, for it cannot be read; train again") from error


def _segmenter(settings: dict[str, Any]) -> Words | Characters:
    """Return what cuts text into pieces by a tokenizer's file. ValueError: Dragoman has no such kind."""
    if settings["kind"] == "characters":
        return Characters()
    if settings["kind"] != "words" or settings["splitter"] not in ("regex", "spacy"):
        raise ValueError(f"kind = {settings['kind']!r} is not known")
    by = "pattern" if settings["splitter"] == "regex" else "language"
    return Words(
        splitter=settings["splitter"], **{by: settings[by]}, format_output=bool(settings["format_output"])
    )


def _learn_whole(texts: Iterable[str], config: TokenizerConfig, lang: str) -> str:
    """Return a tokenizer of words or characters as JSON: the `config.vocab_size` most frequent ones."""
    settings: dict[str, Any] = {"kind": config.kind}
    if config.kind == "words":
        by = {"pattern": WORD} if config.splitter == "regex" else {"language": lang or ANY_LANGUAGE}
        settings |= {"splitter": config.splitter, **by, "format_output": config.format_output}
    segmenter = _segmenter(settings)
    counts: Counter[str] = Counter()
    for text in sample_of_text(texts, normalise_lowercase if config.lowercase else normalise):
        counts.update(segmenter.split(text))
    n_pieces = config.vocab_size - len(SPECIAL_TOKENS)
    pieces = most_frequent(counts, n_pieces, min_frequency=config.min_frequency)
    if not pieces:
        raise DataError(
            f"no vocabulary: nothing occurs tokenizer.min_frequency = {config.min_frequency} times; lower "
            "it, or check the corpus"
        )
    spec = {**settings, "lowercase": config.lowercase, "vocabulary": [*SPECIAL_TOKENS, *pieces]}
    return json.dumps(spec, ensure_ascii=False, indent=0)


@dataclass(frozen=True)
class TokenizerPair:
    """The tokenizers of source and target: one and the same where the vocabulary is shared."""

    src: Tokenizer
    tgt: Tokenizer

    @property
    def shared(self) -> bool:
        """Both sides have one vocabulary."""
        return self.src.plain is self.tgt.plain

    @property
    def file_names(self) -> tuple[str, str]:
        """The files of source and target that `save` writes."""
        return ("shared.json", "shared.json") if self.shared else ("src.json", "tgt.json")

    @classmethod
    def train(
        cls,
        pairs: Iterable[tuple[str, str]],
        config: TokenizerConfig,
        *,
        src_lang: str = "",
        tgt_lang: str = "",
        marks: Sequence[str] = (),
        slots: bool = False,
    ) -> TokenizerPair:
        """Return the tokenizers that `config` asks for, learnt from `pairs`, which are read once.

        Of a large corpus, a random sample. The languages choose spaCy's rules, where it splits the words.
        The source's has the reserved tokens `marks`, and both have `SLOTS` with `slots`.
        Errors: as `train_tokenizer`.
        """
        sample = draw_sample(pairs, MAX_TEXTS // 2)
        of_both = SLOTS if slots else ()
        of_src = [*of_both, *marks]
        if config.shared:
            lang = src_lang if src_lang == tgt_lang else ""
            both = train_tokenizer(chain.from_iterable(sample), config, lang=lang, reserved=of_src)
            return cls(both, both)
        tgt_config = config
        if config.tgt_kind != "same":
            tgt_config = config.model_copy(update={"kind": config.tgt_kind})
        return cls(
            train_tokenizer((src for src, _ in sample), config, lang=src_lang, reserved=of_src),
            train_tokenizer((tgt for _, tgt in sample), tgt_config, lang=tgt_lang, reserved=of_both),
        )

    def extended(self, pairs: Iterable[tuple[str, str]], n_new: int) -> TokenizerPair:
        """Return these tokenizers with up to `n_new` tokens more each, learnt from `pairs`.

        Ids stay as they are.
        """
        sample = draw_sample(pairs, MAX_TEXTS // 2)
        if self.shared:
            both = self.src.extended(chain.from_iterable(sample), n_new)
            return TokenizerPair(both, both)
        return TokenizerPair(
            self.src.extended((src for src, _ in sample), n_new),
            self.tgt.extended((tgt for _, tgt in sample), n_new),
        )

    def towards(self, language: str, *, synthetic: bool = False) -> TokenizerPair:
        """Return these tokenizers for a direction: with the reserved tokens before a source that they have.

        A vocabulary of one direction has none, and the pair is as it was.
        """
        marks = [*([SYNTHETIC] if synthetic else []), language_mark(language)]
        src = self.src.plain.with_marks([mark for mark in marks if mark in self.src.marks])
        return TokenizerPair(src, self.tgt)

    def with_new_marks(self, marks: Sequence[str]) -> TokenizerPair:
        """Return these tokenizers with the reserved tokens `marks` in that of the source, where missing."""
        if all(mark in self.src.marks for mark in marks):
            return self
        src = self.src.with_reserved(marks)
        return TokenizerPair(src, src if self.shared else self.tgt)

    @property
    def has_slots(self) -> bool:
        """Whether both sides have `SLOTS`."""
        return self.src.has_slots and self.tgt.has_slots

    def with_slots(self) -> TokenizerPair:
        """Return these tokenizers with `SLOTS`, as they are where they have them."""
        if self.has_slots:
            return self
        src = self.src.with_reserved(SLOTS)
        return TokenizerPair(src, src if self.shared else self.tgt.with_reserved(SLOTS))

    def save(self, folder: Path) -> None:
        """Write shared.json, or src.json and tgt.json, into `folder`."""
        for name, tokenizer in dict(zip(self.file_names, (self.src, self.tgt), strict=True)).items():
            tokenizer.save(folder / name)

    @classmethod
    def load(cls, folder: Path) -> TokenizerPair:
        """Return the tokenizers in `folder`. RunError: a file is missing or not a tokenizer."""
        if (folder / "shared.json").exists():
            tokenizer = load_tokenizer(folder / "shared.json")
            return cls(tokenizer, tokenizer)
        return cls(load_tokenizer(folder / "src.json"), load_tokenizer(folder / "tgt.json"))
