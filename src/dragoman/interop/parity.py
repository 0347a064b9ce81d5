"""Whether an exported translator still says what the run says: translations and probabilities compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

import torch

from dragoman.config import Config, SearchConfig, file_names
from dragoman.data.named import open_text
from dragoman.errors import DragomanError, RunError
from dragoman.predict.engine import SearchInput, StepEngine, longest_translation
from dragoman.predict.torch_engine import TorchEngine, engine_of
from dragoman.predict.translator import Translator
from dragoman.text.tokenizer import EOS_ID, Tokenizer
from dragoman.text.vocabulary import SPECIAL_TOKENS

BATCH = 50
"""Sentences compared at once."""

GREEDY = "greedy"
SAME = 0.99
"""Share of the sentences, at least, for which greedy searches in float32 find the same."""
TOLERANCE = {"float32": 1e-3, "int8": 0.5}
"""Nats by which the log-probability of a token may differ, on average, by the type of the weights."""

TOKEN, TRANSLATION = "nats a token", "nats a translation"
MEAN = "nats a token of a translation, on average"
"""What differs: the log-probability of one token, of a translation, and the latter by its tokens."""


class ExportedModel(Protocol):
    """A runtime, other than onnxruntime, with an exported translator."""

    def greedy(self, sentences: Sequence[SearchInput], longest: int) -> list[list[int]]:
        """Return the tokens of each translation without its end, `longest` at most, found greedily."""

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """Return the log-probability of each target's tokens and of its end."""


@dataclass
class Parity:
    """How far an exported model and its run are apart."""

    n_sentences: int = 0
    sentences_from: str = ""
    """Where the sentences come from, in words."""
    same: dict[str, float] = field(default_factory=dict)
    """The share of sentences for which the same is found, token by token, by what finds it."""
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
    exported: ExportedModel | StepEngine,
    parity: Parity,
    *,
    progress: Callable[[int], None] | None = None,
) -> Parity:
    """Translate greedily by the run and by the exported model, and score the run's translations by both.

    Return `parity`, with the results added. `progress` is called with the number of sentences compared.
    """
    n_same = round(parity.same.get(GREEDY, 0.0) * parity.n_sentences)
    sentences = [SearchInput([*ids, EOS_ID]) for ids in translator.tokenizers.src.encode_batch(texts)]
    sentences.sort(key=lambda sentence: len(sentence.source))
    native = engine_of(translator.model)
    for start in range(0, len(sentences), BATCH):
        batch = sentences[start : start + BATCH]
        limit = translator.max_positions - 1
        longest = longest_translation(batch[-1], translator.config.search, limit=limit)
        ours, theirs = (_greedy(engine, batch, longest) for engine in (native, exported))
        n_same += sum(a == b for a, b in zip(ours, theirs, strict=True))
        sources = [sentence.source for sentence in batch]
        expected = TorchEngine(translator.model).score(sources, ours)
        for a, b in zip(expected, exported.score(sources, ours), strict=True):
            apart = abs(sum(a) - sum(b))
            parity.widen(TOKEN, max(abs(x - y) for x, y in zip(a, b, strict=True)))
            parity.widen(TRANSLATION, apart)
            parity.widen(MEAN, apart / len(a))
        parity.n_sentences += len(batch)
        if progress is not None:
            progress(parity.n_sentences)
    parity.same[GREEDY] = n_same / parity.n_sentences
    return parity


def _greedy(
    engine: ExportedModel | StepEngine, sentences: Sequence[SearchInput], longest: int
) -> list[list[int]]:
    """Return the tokens of each translation, as `ExportedModel.greedy`."""
    if isinstance(engine, StepEngine):
        settings = SearchConfig(beam_size=1, max_length_factor=1e-9, max_length_extra=longest)
        return [[*best.ids] for (best,) in engine.search(sentences, settings)]
    return engine.greedy(sentences, longest)


def check(parity: Parity, compute_type: str, *, what: str) -> None:
    """RunError: the exported model is not the run's; `what` it is."""
    allowed = TOLERANCE[compute_type]
    if not parity.largest[MEAN] <= allowed:
        raise RunError(
            f"{what}: gives other probabilities than the run ({parity.largest[MEAN]:.2g} nats a token, "
            f"{allowed} allowed); nothing was written"
        )
    if compute_type == "float32" and not parity.same[GREEDY] >= SAME:
        raise RunError(
            f"{what}: {GREEDY} finds the run's translations for {parity.same[GREEDY]:.1%} of "
            f"{parity.n_sentences} sentences only; nothing was written"
        )


def describe(parity: Parity) -> dict[str, str]:
    """Return the comparison in words, by what was compared."""
    shares = {f"same, {name}": f"{share:.1%}" for name, share in parity.same.items()}
    largest = ", ".join(f"{difference:.2g} {what}" for what, difference in parity.largest.items())
    sentences = f"{parity.n_sentences} ({parity.sentences_from})"
    return {"sentences": sentences, **shares, "largest difference": largest}
