"""What is suspicious about a translator: it ignores its source, copies it, repeats itself, falls silent.

Each fault is judged against the references, which repeat and copy too, and named with what to try. The
thresholds were set on healthy trainings and on spoilt ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import NamedTuple

import torch

from dragoman.data.batching import make_batch, plan_epoch
from dragoman.data.store import TokenStore
from dragoman.metrics.faults import COPIED, has_loop, similarity
from dragoman.model.transformer import Seq2SeqTransformer
from dragoman.tasks.translation.loss import batch_loss

MIN_SOURCE_GAIN = 0.1
"""Nats a token that the right source is worth, at least, to a model that reads it."""
MAX_EXCESS, MAX_LOOPS = 0.1, 0.4
"""Shares of the translations that may have a fault, and that may have a loop, as a model that still learns
has; both over those of the references which have it too."""
LENGTH_RATIOS = (0.5, 2.0)
"""Characters in all translations over those in all references: between these is no fault."""

MIN_SENTENCES = 10
"""Of fewer validation sentences nothing is said."""
SAMPLE_TOKENS, SAMPLE_BATCHES = 1024, 4
"""Target tokens in a batch, and batches, of the pairs whose sources are shuffled."""


class SourceUse(NamedTuple):
    """The loss on validation pairs with their own sources, and with those of other pairs: nats a token."""

    loss: float
    shuffled_loss: float

    @property
    def gain(self) -> float:
        """What knowing the right source is worth."""
        return self.shuffled_loss - self.loss


@torch.no_grad()
def source_use(model: Seq2SeqTransformer, store: TokenStore) -> SourceUse | None:
    """How well a frozen model predicts a sample of `store` with the right sources and with wrong ones.

    In each batch a pair gets the source of the pair before it, which is about as long. Nothing is drawn at
    random. None where the store has too few pairs.
    """
    device = model.device
    plan = plan_epoch(store, batch_tokens=SAMPLE_TOKENS, seed=0, epoch=0)
    losses = torch.zeros(2, dtype=torch.float64)
    n_tokens = n_pairs = 0
    for indices in [indices for indices in plan if len(indices) > 1][:SAMPLE_BATCHES]:
        batch = make_batch(store, indices).to(device)
        shuffled = batch._replace(src=batch.src.roll(1, dims=0))
        losses += torch.tensor(
            [batch_loss(model, b, smoothing=0.0).log_loss.item() for b in (batch, shuffled)]
        )
        n_tokens += batch.n_tgt_tokens
        n_pairs += len(indices)
    if n_pairs < MIN_SENTENCES:
        return None
    return SourceUse(*(losses / n_tokens).tolist())


def diagnose(
    sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[str], use: SourceUse | None
) -> dict[str, str]:
    """Diagnose a model by its translations of `sources`: name → one line with advice."""
    if len(sources) < MIN_SENTENCES:
        return {}
    warnings = {}
    if use is not None and use.gain < MIN_SOURCE_GAIN:
        warnings["ignores its source"] = (
            f"the model ignores its source: its loss is {use.loss:.2f} nats/token with the right sources and "
            f"{use.shuffled_loss:.2f} with those of other sentences; check that the sides match "
            "(dragoman data check), then try a lower training.learning_rate or more training.warmup_steps"
        )
    elif same := _excess(_most_frequent, sources, hypotheses, references):
        warnings["translates all alike"] = (
            f"the model writes the same for {same} of the different sources; try a lower "
            "training.learning_rate or more training.warmup_steps"
        )
    for name, (finds, limit, message) in _FAULTS.items():
        if share := _excess(finds, sources, hypotheses, references, limit=limit):
            warnings[name] = message.format(share)
    written = [len(h) for h in hypotheses if h.strip()]
    expected = sum(len(r) for h, r in zip(hypotheses, references, strict=True) if h.strip())
    ratio = sum(written) / expected if written and expected else 1.0
    low, high = LENGTH_RATIOS
    if not low <= ratio <= high:
        name, advice = ("short", "larger") if ratio < low else ("long", "smaller")
        warnings[f"writes too {name}"] = (
            f"the model's translations are too {name}: {ratio:.1f} times the references' "
            f"characters; look for pairs that do not match with: dragoman data check, and try a {advice} "
            "search.length_penalty"
        )
    return warnings


def copies(sources: Sequence[str], texts: Sequence[str]) -> float:
    """Return the share of `texts` that are their source, or nearly."""
    return fmean(similarity(source, text) >= COPIED for source, text in zip(sources, texts, strict=True))


def loops(sources: Sequence[str], texts: Sequence[str]) -> float:
    """Return the share of `texts` that say the same several times on end."""
    return fmean(map(has_loop, texts))


def silences(sources: Sequence[str], texts: Sequence[str]) -> float:
    """Return the share of `texts` that are empty."""
    return fmean(not text.strip() for text in texts)


_FAULTS = {
    "copies its source": (
        copies,
        MAX_EXCESS,
        "the model copies its source: {} of its translations are the source itself, or nearly; look for "
        "pairs that are not translated with: dragoman data check",
    ),
    "repeats itself": (
        loops,
        MAX_LOOPS,
        "the model repeats itself: {} of its translations say the same several times on end; train longer, "
        "and look for damaged lines with: dragoman data check",
    ),
    "writes nothing": (
        silences,
        MAX_EXCESS,
        "the model writes nothing: {} of its translations are empty; look for empty or very short lines "
        "with: dragoman data check, and try a larger search.length_penalty",
    ),
}


def _most_frequent(sources: Sequence[str], texts: Sequence[str]) -> float:
    """Return the share of distinct sources that have the most frequent non-empty text."""
    counts = Counter(dict(zip(sources, texts, strict=True)).values())
    return max((n for text, n in counts.items() if text.strip()), default=0) / counts.total()


def _excess(
    finds: Callable[[Sequence[str], Sequence[str]], float],
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    limit: float = MAX_EXCESS,
) -> str:
    """Return the share with a fault, in words, if it is too far over that of the references, else ""."""
    share, of_references = finds(sources, hypotheses), finds(sources, references)
    if share <= of_references + limit:
        return ""
    return f"{100 * share:.0f} % ({100 * of_references:.0f} % of the references)"
