"""Lexical shortlists: the tokens that a translation of a source may hold, so that others need no computing.

As Marian and Sockeye have them: the most frequent tokens of the target, and for each source token those that
most likely translate it. What a sentence may hold depends on the sentence alone; sentences that are searched
together share one product with the tokens that any of them may hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from dragoman.errors import RunError
from dragoman.runs import Run
from dragoman.tensors import load_tensors, save_tensors
from dragoman.text.tokenizer import PAD_ID, TokenizerPair

SHORTLIST = "shortlist.safetensors"
"""The file of a run that holds its shortlist."""
N_RESERVED = 4
"""The tokens before all others (`dragoman.text.tokenizer`), which every translation may hold."""


class Shortlist:
    """What may translate what: learnt in training, and kept in the run."""

    def __init__(self, always: Tensor, translations: Tensor) -> None:
        """Take the ids that any sentence may hold, (A,), and those of each source token, (S, k).

        -1 where a source token has fewer than k.
        """
        self.always, self.translations = always.long(), translations.long().clone()
        self.translations[PAD_ID] = -1  # padding stands for nothing

    def allowed(self, src: Tensor, prefixes: Sequence[Sequence[int]], vocab_size: int) -> Tensor:
        """Return which tokens the translations of sources (B, S) may hold, (B, V).

        They begin with `prefixes`.
        """
        allowed = torch.zeros(len(src), vocab_size + 1, dtype=torch.bool)  # the last one: none
        tokens = self.translations[src].flatten(1)  # (B, S k)
        allowed.scatter_(1, tokens.masked_fill(tokens < 0, vocab_size), True)
        allowed[:, self.always] = True
        allowed[:, :N_RESERVED] = True
        for row, prefix in zip(allowed, prefixes, strict=True):
            row[list(prefix)] = True
        return allowed[:, :vocab_size]

    def save(self, run: Run) -> None:
        """Write it into a run."""
        tensors = {"always": self.always.int(), "translations": self.translations.int()}
        save_tensors(run.path / SHORTLIST, tensors)

    @classmethod
    def load(cls, path: Path, tokenizers: TokenizerPair) -> Shortlist | None:
        """Read that of the run in the folder `path`; None: it has none. RunError: it is damaged."""
        n_sources, vocab_size = tokenizers.src.vocab_size, tokenizers.tgt.vocab_size
        file = path / SHORTLIST
        if not file.exists():
            return None
        tensors = load_tensors(file)
        always, translations = tensors.get("always"), tensors.get("translations")
        if (
            always is None
            or translations is None
            or translations.dim() != 2
            or len(translations) != n_sources
            or always.dim() != 1
            or any(t.is_floating_point() for t in (always, translations))
            or not all(t.min() >= -1 and t.max() < vocab_size for t in (always, translations) if t.numel())
            or not any((t >= N_RESERVED).any() for t in (always, translations))
        ):
            raise RunError(f"{file}: is damaged, or of another vocabulary; delete it, or train again")
        return cls(always, translations)
