"""Lexical shortlists: the tokens that a translation of a source may hold, so that others need no computing.

As Marian and Sockeye have them: the most frequent tokens of the target, and for each source token those that
most likely translate it. What a sentence may hold depends on the sentence alone; sentences that are searched
together share one product with the tokens that any of them may hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from dragoman.decoding.watching import Watcher
from dragoman.errors import RunError
from dragoman.runs import Run
from dragoman.tensors import load_tensors, save_tensors
from dragoman.text.tokenizer import PAD_ID, TokenizerPair

SHORTLIST = "shortlist.safetensors"
"""The file of a run that holds its shortlist."""
ROUNDED_TO = 512
"""Computed tokens are a multiple of this: products of few shapes are prepared once."""
N_RESERVED = 4
"""The tokens before all others (`dragoman.text.tokenizer`), which have the same ids within any choice."""


class Candidates(NamedTuple):
    """The tokens to compute for some sentences, in place of the whole vocabulary."""

    tokens: Tensor
    """(K,) their ids, rising; the reserved ones first, so that their places are their ids."""
    allowed: Tensor
    """(B, K) whether each sentence may hold them."""

    def places(self, ids: Sequence[int]) -> list[int]:
        """Return where among the candidates the tokens `ids` are."""
        found: list[int] = torch.searchsorted(self.tokens, torch.tensor(ids, dtype=torch.long)).tolist()
        return found

    def ids(self, places: Sequence[int]) -> list[int]:
        """Return the tokens at these places."""
        found: list[int] = self.tokens[list(places)].tolist()
        return found

    def shown(self, watcher: Watcher | None) -> Watcher | None:
        """Return a watcher that is shown places, and shows ids to `watcher`."""
        return None if watcher is None else _ByIds(watcher, self)


class _ByIds:
    def __init__(self, watcher: Watcher, candidates: Candidates) -> None:
        self._watcher, self._candidates = watcher, candidates

    def wants(self) -> bool:
        return self._watcher.wants()

    def see(self, ids: Sequence[int]) -> None:
        self._watcher.see(self._candidates.ids(ids))


class Shortlist:
    """What may translate what: learnt in training, and kept in the run."""

    def __init__(self, always: Tensor, translations: Tensor) -> None:
        """Take the ids that any sentence may hold, (A,), and those of each source token, (S, k).

        -1 where a source token has fewer than k.
        """
        self.always, self.translations = always.long(), translations.long().clone()
        self.translations[PAD_ID] = -1  # padding stands for nothing

    def of(self, src: Tensor, prefixes: Sequence[Sequence[int]], vocab_size: int) -> Candidates:
        """Return the candidates of sources (B, S), and of what their translations begin with."""
        allowed = torch.zeros(len(src), vocab_size + 1, dtype=torch.bool)  # the last one: none
        found = self.translations[src].flatten(1)  # (B, S k)
        allowed.scatter_(1, found.masked_fill(found < 0, vocab_size), True)
        allowed[:, self.always] = True
        allowed[:, :N_RESERVED] = True
        for row, prefix in zip(allowed, prefixes, strict=True):
            row[list(prefix)] = True
        computed = allowed[:, :vocab_size].any(0)
        missing = -int(computed.sum()) % ROUNDED_TO
        others = (~computed).nonzero()[:missing, 0]
        computed[others] = True
        tokens = computed.nonzero()[:, 0]
        return Candidates(tokens, allowed[:, tokens])

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
        ):
            raise RunError(f"{file}: is damaged, or of another vocabulary; delete it, or train again")
        return cls(always, translations)
