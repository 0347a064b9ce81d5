"""Whether an exported translator still says what the run says: searches and probabilities compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

import torch

from dragoman.config import Config, SearchConfig, file_names
from dragoman.data.named import open_text
from dragoman.decoding.hypotheses import Hypothesis
from dragoman.errors import DragomanError, RunError
from dragoman.interop.ctranslate2 import CTranslate2Engine
from dragoman.predict.engine import SearchInput, StepEngine
from dragoman.predict.torch_engine import TorchEngine, engine_of
from dragoman.predict.translator import Translator
from dragoman.text.tokenizer import EOS_ID, Tokenizer
from dragoman.text.vocabulary import SPECIAL_TOKENS

BATCH = 50
"""Sentences compared at once."""

SAME = 0.99
"""Share of the sentences, at least, for which an exact search finds the same."""

TOKEN, TRANSLATION = "nats a token", "nats a translation"
MEAN = "nats a token of a translation, on average"
"""What differs: the log-probability of one token, of a translation, and the latter by its tokens."""


class SearchParity(NamedTuple):
    """One search of the exported model, compared with Dragoman's own."""

    name: str
    settings: SearchConfig
    exact: bool = True
    """Both are the same search, so that other results are an error, and all its hypotheses are compared, in
    their order. Otherwise the best is."""


@dataclass
class Parity:
    """How far an exported model and its run are apart."""

    n_sentences: int
    sentences_from: str
    """Where the sentences come from, in words."""
    same: dict[str, float] = field(default_factory=dict)
    """By search, the share of sentences for which the same is found, token by token."""
    largest: dict[str, float] = field(default_factory=dict)
    """The largest difference, by what differs."""

    def widen(self, what: str, difference: float) -> None:
        """Take `difference` into account."""
        self.largest[what] = max(self.largest.get(what, 0.0), difference)


def sentences_to_compare(config: Config, tokenizer: Tokenizer, n: int, longest: int) -> tuple[list[str], str]:
    """Up to `n` texts of 1 to `longest` tokens, and where they come from.

    They are the run's validation data, or its training data if it names none; where neither can be read, and
    where it holds fewer, random tokens: always the same.
    """
    files = config.data.valid or config.data.train
    texts: list[str] = []
    try:
        records = open_text(config.data, files).records() if files else iter(())  # an imported model has none
        texts = list(islice((text for text, _ in records if 0 < len(tokenizer.encode(text)) <= longest), n))
    except DragomanError:  # no such file here, or an extra that reads it
        pass
    if len(texts) == n:
        return texts, ", ".join(file_names(files))
    drawn = random_texts(tokenizer, n - len(texts), longest)
    return texts + drawn, f"{', '.join(file_names(files))}, and random tokens" if texts else "random tokens"


def random_texts(tokenizer: Tokenizer, n: int, longest: int) -> list[str]:
    """`n` texts of 3 to 18 tokens (or what `longest` leaves) drawn from the vocabulary; always the same."""
    generator = torch.Generator().manual_seed(1)
    texts: list[str] = []
    while len(texts) < n:
        length = int(torch.randint(min(3, longest), min(18, longest) + 1, (), generator=generator))
        ids = torch.randint(len(SPECIAL_TOKENS), tokenizer.vocab_size, (length,), generator=generator)
        text = tokenizer.normalise(tokenizer.decode(ids.tolist()))
        if 0 < len(tokenizer.encode(text)) <= longest:
            texts.append(text)
    return texts


def compare(
    translator: Translator,
    texts: Sequence[str],
    sentences_from: str,
    engine: StepEngine | CTranslate2Engine,
    compared: Sequence[SearchParity],
    *,
    progress: Callable[[int], None] | None = None,
    n_before: int = 0,
) -> Parity:
    """Dragoman's searches beside those of the exported model, and how probable both find the best of ours.

    `progress` is called with the number of sentences compared, `n_before` earlier ones included.
    """
    parity = Parity(len(texts), sentences_from)
    sentences = [SearchInput([*ids, EOS_ID]) for ids in translator.tokenizers.src.encode_batch(texts)]
    sentences.sort(key=lambda sentence: len(sentence.source))
    native = engine_of(translator.model)
    n_same = dict.fromkeys((search.name for search in compared), 0)
    for start in range(0, len(sentences), BATCH):
        batch = sentences[start : start + BATCH]
        ours: dict[str, list[list[Hypothesis]]] = {}
        for search in compared:
            ours[search.name] = native.search(batch, search.settings)
            theirs = engine.search(batch, search.settings)
            n_same[search.name] += sum(
                [h.ids for h in a[:n]] == [h.ids for h in b[:n]]
                for a, b in zip(ours[search.name], theirs, strict=True)
                for n in [len(a) if search.exact else 1]
            )
        best = {(i, many[0].ids) for hypotheses in ours.values() for i, many in enumerate(hypotheses)}
        _compare_scores(translator, engine, [(batch[i], ids) for i, ids in sorted(best)], parity)
        if progress is not None:
            progress(n_before + start + len(batch))
    parity.same = {name: n / len(sentences) for name, n in n_same.items()}
    return parity


def together(parities: Sequence[Parity]) -> Parity:
    """Return one comparison for those of several directions: the sum of sentences, the worst of the rest."""
    first, *rest = parities
    first.sentences_from = "; ".join(dict.fromkeys(each.sentences_from for each in parities))
    for other in rest:
        first.same = {name: min(share, other.same[name]) for name, share in first.same.items()}
        for what, difference in other.largest.items():
            first.widen(what, difference)
        first.n_sentences += other.n_sentences
    return first


def check(parity: Parity, compared: Sequence[SearchParity], *, tolerance: float, what: str) -> None:
    """RunError: the exported model is not the run's; `what` it is."""
    if not parity.largest[MEAN] <= tolerance:
        raise RunError(
            f"{what}: gives other probabilities than the run ({parity.largest[MEAN]:.2g} nats a token, "
            f"{tolerance} allowed); nothing was written"
        )
    for search in compared:
        if search.exact and not parity.same[search.name] >= SAME:
            raise RunError(
                f"{what}: {search.name} finds the run's translations for {parity.same[search.name]:.1%} of "
                f"{parity.n_sentences} sentences only; nothing was written"
            )


def _compare_scores(
    translator: Translator,
    engine: StepEngine | CTranslate2Engine,
    pairs: Sequence[tuple[SearchInput, tuple[int, ...]]],
    parity: Parity,
) -> None:
    """Widen the differences of `parity` by those of these translations."""
    for start in range(0, len(pairs), BATCH):
        sentences, targets = zip(*pairs[start : start + BATCH], strict=True)
        sources = [sentence.source for sentence in sentences]
        ours, theirs = TorchEngine(translator.model).score(sources, targets), engine.score(sources, targets)
        for a, b in zip(ours, theirs, strict=True):
            total = abs(sum(a) - sum(b))
            parity.widen(TOKEN, max(abs(x - y) for x, y in zip(a, b, strict=True)))
            parity.widen(TRANSLATION, total)
            parity.widen(MEAN, total / len(a))


def describe(parity: Parity) -> dict[str, str]:
    """Return the comparison in words, by what was compared."""
    shares = {f"same, {name}": f"{share:.1%}" for name, share in parity.same.items()}
    largest = ", ".join(f"{difference:.2g} {what}" for what, difference in parity.largest.items())
    sentences = f"{parity.n_sentences} ({parity.sentences_from})"
    return {"sentences": sentences, **shares, "largest difference": largest}
