"""The lexicon of a training text: which target tokens translate a source token.

IBM model 1 (Brown et al. 1993), learnt by expectation maximisation over the tokens of sentence pairs, each
counted once in a sentence; a word that stands for nothing is in every source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dragoman.data.store import TokenStore
from dragoman.metrics.translation import bleu, chrf
from dragoman.predict.shortlist import Shortlist
from dragoman.predict.torch_engine import engine_of
from dragoman.predict.translator import Translator
from dragoman.text.tokenizer import PAD_ID

MOST_PAIRS = 20_000_000
"""Pairs of tokens that are learnt from, of as many drawn sentence pairs as have them: some 2 GB."""
MOST_SENTENCES = 1_000_000
N_ITERATIONS = 4

N_ALWAYS = 300
"""Frequent tokens that any sentence may hold: function words, endings and punctuation."""
TRIED = (40, 80, 160)
"""Translations of a source token: the first number is taken that loses NEXT_TO_NOTHING at most."""
NEXT_TO_NOTHING = 0.1
"""BLEU on the validation text."""
CHECKED_ON = 1000
"""Validation pairs that are translated for it, evenly spread."""
WORTH_IT = 2048
"""Target tokens from which a shortlist saves anything."""

Ids = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class TokenLexicon(NamedTuple):
    """Pairs of tokens that occur together, by source token and then by target token."""

    src: Ids
    """(U,), PAD_ID for the word that stands for nothing."""
    tgt: Ids
    """(U,)."""
    probability: Floats
    """(U,): of the target token, given the source token."""
    counts: Ids
    """(V,): how often each target token occurs."""


def learn_lexicon(store: TokenStore, *, vocab_size: int, seed: int) -> TokenLexicon:
    """Return the lexicon of `store`, whose target has `vocab_size` tokens; equal seeds give equal ones."""
    keys, rows, counts = [], [], np.zeros(vocab_size, dtype=np.int64)
    n_pairs = n_rows = 0
    rng, n = np.random.default_rng(seed), len(store)
    for i in (rng.permutation(n) if n <= MOST_SENTENCES else rng.integers(n, size=MOST_SENTENCES)).tolist():
        target = store.tgt(i).astype(np.int64)
        counts += np.bincount(target, minlength=vocab_size)
        src, tgt = np.unique(np.append(store.src(i).astype(np.int64), PAD_ID)), np.unique(target)
        keys.append((src[None, :] * vocab_size + tgt[:, None]).ravel())
        rows.append(n_rows + np.repeat(np.arange(len(tgt)), len(src)))
        n_rows += len(tgt)
        n_pairs += len(keys[-1])
        if n_pairs >= MOST_PAIRS:
            break
    pairs, of_pair = np.unique(np.concatenate(keys), return_inverse=True)
    row = np.concatenate(rows)
    src, tgt = pairs // vocab_size, pairs % vocab_size
    probability = np.ones(len(pairs))
    for _ in range(N_ITERATIONS):
        share = probability[of_pair]
        share /= np.bincount(row, weights=share)[row]  # of a target token, due to each source token
        expected = np.bincount(of_pair, weights=share, minlength=len(pairs))
        probability = expected / np.bincount(src, weights=expected)[src]
    return TokenLexicon(src, tgt, probability, counts)


def shortlist_of(
    lexicon: TokenLexicon, *, n_sources: int, n_always: int, n_each: int, shared: bool
) -> Shortlist:
    """Return the `n_always` most frequent target tokens, and the `n_each` likeliest of each source token.

    With a `shared` vocabulary a source token may be copied, too.
    """
    best = np.lexsort((-lexicon.probability, lexicon.src))
    src = lexicon.src[best]
    rank = np.arange(len(src)) - np.searchsorted(src, src)
    best, rank = best[rank < n_each], rank[rank < n_each]
    table = np.full((n_sources, n_each), -1, dtype=np.int64)
    table[lexicon.src[best], rank] = lexicon.tgt[best]
    frequent = np.argsort(-lexicon.counts, kind="stable")[:n_always]
    nothing = table[PAD_ID]
    always = np.union1d(frequent[lexicon.counts[frequent] > 0], nothing[nothing >= 0])
    if shared:
        table = np.concatenate([np.arange(n_sources)[:, None], table], axis=1)
    return Shortlist(always, table)


def choose_shortlist(
    translator: Translator,
    store: TokenStore,
    sources: Sequence[str],
    references: Sequence[str],
    *,
    seed: int,
    say: Callable[[str], None],
) -> tuple[Shortlist | None, dict[str, float]]:
    """Return the smallest shortlist that loses next to nothing on a validation text, and what it changes.

    That is BLEU, the percentage of translations, and chrF2 between both. None and {}: there is no such list.
    `translator` searches as its configuration says, on a processor; `store` is its training text.
    """
    n_sources, vocab_size = (
        side.vocab_size for side in (translator.tokenizers.src, translator.tokenizers.tgt)
    )
    if vocab_size < WORTH_IT:
        return None, {}

    every = -(-len(sources) // CHECKED_ON)
    sources, references = sources[::every], references[::every]

    def translated(shortlist: Shortlist | None) -> list[str]:
        translator.engine = engine_of(*translator.models, shortlist=shortlist)
        return [translation.text for translation in translator.translate(sources, n_best=1)]

    score = partial(bleu, references=references, tgt_lang=translator.config.data.tgt_lang, n_bootstrap=0)
    whole = translated(None)
    whole_bleu = score(whole).value
    lexicon = learn_lexicon(store, vocab_size=vocab_size, seed=seed)
    for n_each in TRIED:
        shared = translator.tokenizers.shared
        shortlist = shortlist_of(
            lexicon, n_sources=n_sources, n_always=N_ALWAYS, n_each=n_each, shared=shared
        )
        texts = translated(shortlist)
        loss = whole_bleu - score(texts).value
        outcome = f"shortlist of {N_ALWAYS} tokens and {n_each} for each of the source: {-loss:+.2f} BLEU"
        if loss <= NEXT_TO_NOTHING:
            changed = 100 * sum(a != b for a, b in zip(texts, whole, strict=True)) / len(whole)
            alike = chrf(texts, whole, tgt_lang=translator.config.data.tgt_lang, n_bootstrap=0).value
            say(
                f"{outcome} on validation; {changed:.0f} % of translations change, chrF2 {alike:.1f} between "
                "both; searches on a processor use it"
            )
            facts = {"bleu": -loss, "changed_percent": changed, "chrf_between": alike}
            return shortlist, {f"shortlist_{name}": value for name, value in facts.items()}
        say(f"{outcome} on validation, too little")
    return None, {}
