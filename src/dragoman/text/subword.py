"""Subword tokenizers: byte-pair encoding (Sennrich et al. 2016) and unigram (Kudo 2018), with byte fallback.

One tokenizer is one JSON file of Hugging Face's `tokenizers`, which reads it as it is.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import tokenizers

from dragoman.config import TokenizerConfig
from dragoman.errors import RunError
from dragoman.text.normalisation import normalise
from dragoman.text.vocabulary import (
    BOS_ID,
    BYTE_TOKENS,
    EOS_ID,
    MAX_TEXTS,
    N_FIXED,
    PAD_ID,
    SPECIAL_TOKENS,
    UNK_ID,
    draw_sample,
    learn,
)

__all__ = ["BOS_ID", "EOS_ID", "PAD_ID", "UNK_ID", "Token", "Tokenizer", "TokenizerPair"]


class Token(NamedTuple):
    """A token of a text and the characters `start` to `end` of the normalised text that it stands for.

    A token that begins a word includes the space before it, so the spans tile the text. A character that
    is written as bytes is the span of each of its byte tokens.
    """

    id: int
    piece: str
    start: int
    end: int


class Tokenizer:
    """One vocabulary: text to ids and back. `decode(encode(text)) == normalise(text)` for every string."""

    def __init__(self, spec: str) -> None:
        """The tokenizer that the JSON `spec` describes; `train` and `load` make one."""
        self._spec = spec
        settings = json.loads(spec)
        self._dropping: tokenizers.Tokenizer | None = None
        if settings["model"].get("dropout"):
            self._dropping = tokenizers.Tokenizer.from_str(spec)
            settings["model"]["dropout"] = None
        self._plain = tokenizers.Tokenizer.from_str(json.dumps(settings))
        if [self._plain.id_to_token(i) for i in range(N_FIXED)] != [*SPECIAL_TOKENS, *BYTE_TOKENS]:
            raise ValueError("the special and byte tokens are not where Dragoman puts them")

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        *,
        kind: Literal["bpe", "unigram"],
        vocab_size: int,
        dropout: float = 0.0,
    ) -> Tokenizer:
        """A tokenizer learnt from `texts`, of `vocab_size` tokens or fewer where they don't hold so many.

        `dropout` is for `encode_batch(..., dropout=True)` alone. DataError: there is no text.
        """
        return cls(learn(texts, kind=kind, vocab_size=vocab_size, dropout=dropout))

    @property
    def vocab_size(self) -> int:
        """Tokens in the vocabulary, special and byte tokens included: ids are below it."""
        return int(self._plain.get_vocab_size())

    @property
    def fingerprint(self) -> str:
        """A hash of the whole tokenizer: equal only where ids mean the same."""
        return hashlib.blake2b(self._spec.encode(), digest_size=16).hexdigest()

    def encode(self, text: str) -> list[int]:
        """The ids of `text`, with neither start nor end token; none for a text of white space."""
        return list(self._plain.encode(normalise(text), add_special_tokens=False).ids)

    def encode_batch(self, texts: Sequence[str], *, dropout: bool = False) -> list[list[int]]:
        """The ids of each text, in parallel.

        `dropout` leaves out merges at random (BPE-dropout, Provilkov et al. 2020), with the probability
        that the tokenizer was trained with. The generator belongs to `tokenizers` and takes no seed, so
        a training that must be repeatable keeps what was drawn (`TokenStore.prepare`).
        """
        tokenizer = self._dropping if dropout and self._dropping else self._plain
        encodings = tokenizer.encode_batch_fast([normalise(text) for text in texts], add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of any `ids`: special ones are dropped, and bytes that are no UTF-8 become U+FFFD."""
        return self.decode_batch([ids])[0]

    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        """The text of each row of ids, in parallel."""
        rows = [[i for i in ids if i >= len(SPECIAL_TOKENS)] for ids in batch]
        return list(self._plain.decode_batch(rows))

    def tokens(self, text: str) -> list[Token]:
        """The tokens of `text`, and which characters of `normalise(text)` each stands for."""
        text = " " + normalise(text)
        tokens = []
        position = n_bytes = 0
        for i in self.encode(text):
            piece = str(self._plain.id_to_token(i))
            if i < N_FIXED:
                width, n_bytes = 1, n_bytes + 1
            else:
                width = len(piece)
            tokens.append(Token(i, piece, max(0, position - 1), position + width - 1))
            if i >= N_FIXED or n_bytes == len(text[position].encode()):
                position, n_bytes = position + width, 0
        return tokens

    def save(self, path: Path) -> None:
        """Writes the JSON file `path`, whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=path.name, suffix=".partial", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(self._spec)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        """The tokenizer in the file `path`. RunError: it is missing, or not one of Dragoman's."""
        try:
            return cls(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise RunError(
                f"{path}: cannot be read ({error.strerror}); a run keeps its tokenizer there: train again"
            ) from None
        except Exception as error:  # tokenizers raises plain Exception for whatever it cannot parse
            raise RunError(f"{path}: is not a Dragoman tokenizer ({error}); train again") from None


@dataclass(frozen=True)
class TokenizerPair:
    """The tokenizers of source and target: one and the same where the vocabulary is shared."""

    src: Tokenizer
    tgt: Tokenizer

    @property
    def shared(self) -> bool:
        """Both sides have one vocabulary."""
        return self.src is self.tgt

    @classmethod
    def train(cls, pairs: Iterable[tuple[str, str]], config: TokenizerConfig) -> TokenizerPair:
        """The tokenizers that `config` asks for, learnt from `pairs`, which are read once.

        Of a large corpus, a random sample. DataError: there is no text.
        """
        sample = draw_sample(pairs, MAX_TEXTS // 2)
        sides = (
            [[text for pair in sample for text in pair]] if config.shared else list(zip(*sample, strict=True))
        )
        learnt = [
            Tokenizer.train(texts, kind=config.kind, vocab_size=config.vocab_size, dropout=config.dropout)
            for texts in sides or [(), ()]
        ]
        return cls(learnt[0], learnt[-1])

    def save(self, folder: Path) -> None:
        """Writes shared.json, or src.json and tgt.json, into `folder`."""
        if self.shared:
            self.src.save(folder / "shared.json")
        else:
            self.src.save(folder / "src.json")
            self.tgt.save(folder / "tgt.json")

    @classmethod
    def load(cls, folder: Path) -> TokenizerPair:
        """The tokenizers in `folder`. RunError: a file is missing or not a tokenizer."""
        if (folder / "shared.json").exists():
            tokenizer = Tokenizer.load(folder / "shared.json")
            return cls(tokenizer, tokenizer)
        return cls(Tokenizer.load(folder / "src.json"), Tokenizer.load(folder / "tgt.json"))
