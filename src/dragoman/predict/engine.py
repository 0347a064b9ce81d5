"""What searches for translations: ids in, hypotheses out. A translator has one, and text around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import torch

from dragoman.config import SearchConfig
from dragoman.data.batching import pad
from dragoman.decoding.beam import beam_search
from dragoman.decoding.greedy import greedy_search
from dragoman.decoding.hypotheses import Hypothesis
from dragoman.model.incremental import IncrementalDecoder
from dragoman.model.transformer import Seq2SeqTransformer
from dragoman.text.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID


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

    @torch.inference_mode()
    def search(self, sentences: Sequence[Sentence], settings: SearchConfig) -> list[list[Hypothesis]]:
        device = next(self.model.parameters()).device
        src = pad([sentence.source for sentence in sentences]).to(device)
        step = IncrementalDecoder(self.model, src, src != PAD_ID, forbidden=(PAD_ID, BOS_ID, UNK_ID))
        longest = self.model.config.max_positions - 1
        search: dict[str, Any] = {
            "max_lengths": [longest_translation(s, settings, limit=longest) for s in sentences],
            "bos_id": BOS_ID, "eos_id": EOS_ID,
            "length_penalty": settings.length_penalty, "device": device,
        }  # fmt: skip
        if settings.beam_size == 1:
            return greedy_search(step, **search)
        return beam_search(step, beam_size=settings.beam_size, n_best=settings.n_best, **search)


def longest_translation(sentence: Sentence, settings: SearchConfig, *, limit: int) -> int:
    """The most tokens that a translation of `sentence` may have, `limit` at most."""
    n_tokens = len(sentence.source) - 1
    return min(limit, int(settings.max_length_factor * n_tokens) + settings.max_length_extra)
