"""A trained run as a function from text to text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from dragoman.config import TranslationConfig
from dragoman.decoding.hypotheses import Hypothesis
from dragoman.errors import ConfigError, DataError, RunError
from dragoman.hardware import choose_device, choose_dtype
from dragoman.model.transformer import Seq2SeqTransformer
from dragoman.predict.engine import Engine, NativeEngine, Sentence
from dragoman.predict.loading import build_model, inference_copy, load_weights
from dragoman.predict.threads import map_in_threads
from dragoman.runs import Run
from dragoman.text.tokenizer import EOS_ID, TokenizerPair

WORTH_A_THREAD = 16
"""Sentences in a batch, at least, before another thread takes some of them."""


class Alternative(NamedTuple):
    """One candidate translation and its score: log-probability in nats over the length penalty."""

    text: str
    score: float


class Translation(NamedTuple):
    """The best translation of `source`, and all that were asked for, best first."""

    source: str
    text: str
    score: float
    alternatives: tuple[Alternative, ...]


def translation_config(run: Run) -> TranslationConfig:
    """The configuration of a run that translates. RunError: it is a classifier."""
    if run.config.task != "translation":
        raise RunError(f"{run.path}: is a classifier; try: dragoman classify {run.path}")
    return run.config


class Translator:
    """Text in, text out: a model with its tokenizers and the search settings of its configuration."""

    def __init__(
        self, model: Seq2SeqTransformer, tokenizers: TokenizerPair, config: TranslationConfig
    ) -> None:
        """Takes `model` as it is; `inference_copy` makes one whose weights need no casting."""
        self.model = model.eval()
        self.engine: Engine = NativeEngine(self.model)
        self.tokenizers = tokenizers
        self.config = config

    @classmethod
    def load(
        cls, path: str | Path, *, device: str = "auto", precision: str = "auto", engine: str = "native"
    ) -> Translator:
        """The translator in the run directory `path`.

        `precision` is "fp32", "bf16", or "auto", what the processor is best at. `engine` is "native", or
        "ctranslate2", whose precisions are "fp32" (also "auto") and "int8": the run is converted into its
        own directory when first loaded so, and compared.

        RunError: no run is there, training has not yet written weights, or a file is damaged.
        ConfigError: the engine is unknown, or has no such precision.
        """
        run = Run.open(path)
        config = translation_config(run)
        target = choose_device(device)
        tokenizers = TokenizerPair.load(run.tokenizer_folder)
        model = build_model(config, tokenizers, device=target)
        load_weights(model, run.load_weights(), where=str(run.weights_path))
        if engine == "native":
            return cls(inference_copy(model, choose_dtype(precision, target)), tokenizers, config)
        translator = cls(inference_copy(model, torch.float32), tokenizers, config)
        translator.engine = _ctranslate2(run, translator, engine, precision)
        return translator

    def translate(
        self,
        texts: Sequence[str],
        *,
        beam_size: int | None = None,
        length_penalty: float | None = None,
        n_best: int | None = None,
        first_number: int = 1,
        progress: Callable[[int], None] | None = None,
    ) -> list[Translation]:
        """One translation per text, in order. What is None comes from the run's [search] section.

        A text is one sentence; an empty one stays empty. `progress` is called with the number of texts
        finished. DataError: a text has more tokens than the model accepts; `first_number` is what the
        message counts from.
        """
        search = self.config.search
        beam_size = search.beam_size if beam_size is None else beam_size
        n_best = (search.n_best if beam_size >= search.n_best else 1) if n_best is None else n_best
        length_penalty = search.length_penalty if length_penalty is None else length_penalty
        if not 1 <= n_best <= beam_size:
            raise DataError(f"n_best = {n_best} needs a beam of at least {n_best}; beam_size is {beam_size}")
        settings = {"beam_size": beam_size, "n_best": n_best, "length_penalty": length_penalty}
        search = search.model_copy(update=settings)
        if isinstance(texts, str):
            raise DataError("translate takes a list of sentences; for a single one write translate([text])")
        sources = self._encode(texts, first_number)
        filled = [i for i, ids in enumerate(sources) if len(ids) > 1]  # more than the end token
        by_length = sorted(filled, key=lambda i: len(sources[i]), reverse=True)
        translations = [Translation(text, "", 0.0, (Alternative("", 0.0),)) for text in texts]
        done = len(texts) - len(filled)
        batches = self._batches(by_length, search.batch_sentences)
        found = map_in_threads(
            lambda batch: self.engine.search([Sentence(sources[i]) for i in batch], search),
            batches,
            n_threads=self._n_threads(),
        )
        for batch, hypotheses in zip(batches, found, strict=True):
            for i, best in zip(batch, hypotheses, strict=True):
                translations[i] = self._read(texts[i], best)
            done += len(batch)
            if progress is not None:
                progress(done)
        return translations

    def _batches(self, by_length: list[int], batch_sentences: int) -> list[list[int]]:
        """Batches of `batch_sentences` at most, and, where that leaves threads idle, of fewer."""
        fair = -(-len(by_length) // self._n_threads())
        size = min(batch_sentences, max(fair, WORTH_A_THREAD))
        return [by_length[start : start + size] for start in range(0, len(by_length), size)]

    def _n_threads(self) -> int:
        """Batches searched at once."""
        on_cpu = next(self.model.parameters()).device.type == "cpu"
        return torch.get_num_threads() if on_cpu else 1

    def _encode(self, texts: Sequence[str], first_number: int) -> list[list[int]]:
        sources = [[*ids, EOS_ID] for ids in self.tokenizers.src.encode_batch(texts)]
        limit = self.config.model.max_positions
        for number, ids in enumerate(sources, start=first_number):
            if len(ids) > limit:
                raise DataError(
                    f"sentence {number} has {len(ids)} tokens and the model accepts {limit}; "
                    "split it into shorter sentences, one a line"
                )
        return sources

    def _read(self, source: str, hypotheses: list[Hypothesis]) -> Translation:
        texts = self.tokenizers.tgt.decode_batch([h.ids for h in hypotheses])
        alternatives = tuple(Alternative(t, h.score) for t, h in zip(texts, hypotheses, strict=True))
        return Translation(source, alternatives[0].text, alternatives[0].score, alternatives)


def _ctranslate2(run: Run, translator: Translator, engine: str, precision: str) -> Engine:
    """The engine `engine`, which is not the native one."""
    from dragoman.predict.ctranslate2 import ComputeType, CTranslate2Engine, converted

    if engine != "ctranslate2":
        raise ConfigError(f'engine {engine}: is not an engine; there are "native" and "ctranslate2"')
    types: dict[str, ComputeType] = {"auto": "float32", "fp32": "float32", "int8": "int8"}
    if precision not in types:
        raise ConfigError(f'precision {precision}: CTranslate2 has "fp32" and "int8" here')
    model, tokenizers = translator.model, translator.tokenizers
    folder = converted(run, model, tokenizers, types[precision])
    workers = torch.get_num_threads()
    return CTranslate2Engine(
        folder, tokenizers, max_positions=model.config.max_positions, workers=workers, threads=1
    )
