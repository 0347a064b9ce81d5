"""Lexical shortlists: the tokens that a translation of a source may hold, so that others need no computing.

As Marian and Sockeye have them: the most frequent tokens of the target, and for each source token those that
most likely translate it. What a sentence may hold depends on the sentence alone; sentences that are searched
together share one product with the tokens that any of them may hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dragoman.decoding.log_probs import Bools, Ints
from dragoman.errors import RunError
from dragoman.runs import Run
from dragoman.tensors import load_arrays, save_tensors
from dragoman.text.tokenizer import PAD_ID, TokenizerPair

SHORTLIST = "shortlist.safetensors"
"""The file of a run that holds its shortlist."""
N_RESERVED = 4
"""The tokens before all others (`dragoman.text.tokenizer`), which every translation may hold."""


class Shortlist:
    """What may translate what: learnt in training, and kept in the run."""

    def __init__(self, always: Ints, translations: Ints) -> None:
        """Take the ids that any sentence may hold, (A,), and those of each source token, (S, k).

        -1 where a source token has fewer than k.
        """
        self.always, self.translations = always.astype(np.int64), translations.astype(np.int64)
        self.translations[PAD_ID] = -1  # padding stands for nothing

    def allowed(
        self, sources: Sequence[Sequence[int]], prefixes: Sequence[Sequence[int]], vocab_size: int
    ) -> Bools:
        """Return which tokens the translations of B sources may hold, (B, V).

        They begin with `prefixes`.
        """
        allowed = np.zeros((len(sources), vocab_size + 1), np.bool_)  # the last one: none
        allowed[:, self.always] = True
        allowed[:, :N_RESERVED] = True
        for row, source, prefix in zip(allowed, sources, prefixes, strict=True):
            row[self.translations[np.array(source, np.int64)]] = True  # -1 is the last one
            row[list(prefix)] = True
        return allowed[:, :vocab_size]

    def save(self, run: Run) -> None:
        """Write it into a run."""
        import torch

        arrays = {"always": self.always, "translations": self.translations}
        tensors = {name: torch.from_numpy(ids.astype(np.int32)) for name, ids in arrays.items()}
        save_tensors(run.path / SHORTLIST, tensors)

    @classmethod
    def load(cls, path: Path, tokenizers: TokenizerPair) -> Shortlist | None:
        """Read that of the run in the folder `path`; None: it has none. RunError: it is damaged."""
        n_sources, vocab_size = tokenizers.src.vocab_size, tokenizers.tgt.vocab_size
        file = path / SHORTLIST
        if not file.exists():
            return None
        arrays = load_arrays(file)
        both = always, translations = [arrays.get(name, np.zeros(0)) for name in ("always", "translations")]
        if not (
            always.ndim == 1
            and translations.ndim == 2
            and len(translations) == n_sources
            and all(ids.dtype.kind == "i" and ((ids >= -1) & (ids < vocab_size)).all() for ids in both)
            and any((ids >= N_RESERVED).any() for ids in both)
        ):
            raise RunError(f"{file}: is damaged, or of another vocabulary; delete it, or train again")
        return cls(always, translations)
