"""How good the weights are now: loss on held-out pairs, and scores of decoded text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from dragoman.config import Config
from dragoman.data.batching import make_batch, plan_epoch
from dragoman.data.corpora import Pair
from dragoman.data.store import TokenStore
from dragoman.hardware import choose_dtype
from dragoman.metrics.translation import bleu, chrf
from dragoman.model.transformer import Seq2SeqTransformer
from dragoman.predict.loading import inference_copy
from dragoman.predict.translator import Translator
from dragoman.runs import load_tensors
from dragoman.text.subword import TokenizerPair
from dragoman.training.loss import batch_loss
from dragoman.training.state import Weights


@dataclass(frozen=True)
class Validation:
    """Scores of one set of weights on the validation pairs."""

    loss: float
    """-log p of the reference, nats per target token, without smoothing."""
    bleu: float
    chrf: float

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.loss, 100.0))

    def score(self, metric: str) -> float:
        """The number that chooses checkpoints; higher is better."""
        return self.bleu if metric == "bleu" else -self.loss


class Validator:
    """Scores weights on fixed pairs, always in the same way."""

    def __init__(
        self, config: Config, tokenizers: TokenizerPair, pairs: Sequence[Pair], store: TokenStore
    ) -> None:
        self.config = config
        self.tokenizers = tokenizers
        self.sources = [pair.src for pair in pairs]
        self.references = [pair.tgt for pair in pairs]
        self.store = store
        self.plan = plan_epoch(store, batch_tokens=4 * config.training.batch_tokens, seed=0, epoch=0)

    def __call__(self, model: Seq2SeqTransformer, weights: Weights) -> Validation:
        """Scores the architecture of `model` with `weights`; `model` itself is left alone."""
        device = next(model.parameters()).device
        dtype = choose_dtype(self.config.training.precision, device)
        candidate = inference_copy(model, dtype, weights=weights)
        translator = Translator(candidate, self.tokenizers, self.config)
        beam_size = self.config.training.valid_beam_size
        hypotheses = [t.text for t in translator.translate(self.sources, beam_size=beam_size, n_best=1)]
        tgt_lang = self.config.data.tgt_lang
        return Validation(
            loss=self._loss(candidate),
            bleu=bleu(hypotheses, self.references, tgt_lang=tgt_lang, n_bootstrap=0).value,
            chrf=chrf(hypotheses, self.references, tgt_lang=tgt_lang, n_bootstrap=0).value,
        )

    @torch.no_grad()
    def _loss(self, model: Seq2SeqTransformer) -> float:
        device = next(model.parameters()).device
        total, n_tokens = 0.0, 0
        for indices in self.plan:
            batch = make_batch(self.store, indices).to(device)
            total += batch_loss(model, batch, smoothing=0.0).log_loss.item()
            n_tokens += batch.n_tgt_tokens
        return total / n_tokens


def average_weights(files: Sequence[Path]) -> Weights:
    """The mean of the weights in checkpoint files (Vaswani et al. 2017, section 6.1)."""
    mean: Weights = {}
    for i, file in enumerate(files):
        for name, tensor in load_tensors(file).items():
            mean[name] = tensor if i == 0 else mean[name] + (tensor - mean[name]) / (i + 1)
    return mean
