"""What searches for translations: ids in, hypotheses out. A translator has one, and text around it."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from dragoman.config import SearchConfig
from dragoman.data.batching import pad
from dragoman.decoding.beam import beam_search
from dragoman.decoding.greedy import greedy_search
from dragoman.decoding.hypotheses import Hypothesis, NextToken
from dragoman.model.incremental import IncrementalDecoder
from dragoman.model.packed import PackedDecoder, can_pack
from dragoman.model.transformer import Seq2SeqTransformer
from dragoman.text.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID

FORBIDDEN = (PAD_ID, BOS_ID, UNK_ID)
"""No translation holds these tokens."""


class Sentence(NamedTuple):
    """One sentence to be translated."""

    source: Sequence[int]
    """Its tokens, the end token last."""


class Engine(Protocol):
    """Searches for translations of tokens."""

    def search(self, sentences: Sequence[Sentence], settings: SearchConfig) -> list[list[Hypothesis]]:
        """The best `settings.n_best` hypotheses of each sentence, best first; all searched at once."""


class NativeEngine:
    """Dragoman's own search over Dragoman's own model."""

    def __init__(self, model: Seq2SeqTransformer) -> None:
        self.model = model
        self._packed: tuple[list[int], PackedDecoder] | None = None
        self._packing = Lock()  # batches are searched in several threads

    @torch.inference_mode()
    def search(self, sentences: Sequence[Sentence], settings: SearchConfig) -> list[list[Hypothesis]]:
        device = next(self.model.parameters()).device
        src = pad([sentence.source for sentence in sentences]).to(device)
        step = self._start(src)
        longest = self.model.config.max_positions - 1
        search: dict[str, Any] = {
            "max_lengths": [longest_translation(s, settings, limit=longest) for s in sentences],
            "bos_id": BOS_ID, "eos_id": EOS_ID,
            "length_penalty": settings.length_penalty, "device": device,
        }  # fmt: skip
        if settings.beam_size == 1:
            return greedy_search(step, **search)
        return beam_search(step, beam_size=settings.beam_size, n_best=settings.n_best, **search)

    def _start(self, src: Tensor) -> NextToken:
        """The next-token function for sources (B, S)."""
        if not can_pack(self.model):
            return IncrementalDecoder(self.model, src, src != PAD_ID, forbidden=FORBIDDEN)
        return self._pack().start(src, src != PAD_ID, forbidden=FORBIDDEN)

    def _pack(self) -> PackedDecoder:
        """The model's weights as they are now, packed."""
        versions = [parameter._version for parameter in self.model.parameters()]
        with self._packing:
            if self._packed is None or self._packed[0] != versions:
                self._packed = versions, PackedDecoder(self.model)
            return self._packed[1]


def longest_translation(sentence: Sentence, settings: SearchConfig, *, limit: int) -> int:
    """The most tokens that a translation of `sentence` may have, `limit` at most."""
    n_tokens = len(sentence.source) - 1
    return min(limit, int(settings.max_length_factor * n_tokens) + settings.max_length_extra)
