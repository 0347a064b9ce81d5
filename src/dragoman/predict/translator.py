"""A trained run as a function from text to text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, TypeAlias

from dragoman.config import TranslationConfig
from dragoman.decoding.hypotheses import Hypothesis
from dragoman.errors import DataError, RunError
from dragoman.hardware import choose_device, choose_dtype
from dragoman.model.transformer import Seq2SeqTransformer
from dragoman.predict.engine import Engine, NativeEngine, Sentence
from dragoman.predict.loading import build_model, inference_copy, load_weights
from dragoman.predict.splitting import gap_between, split_to_fit
from dragoman.runs import Run
from dragoman.text.tokenizer import EOS_ID, TokenizerPair


class Alternative(NamedTuple):
    """One candidate translation and its score: log-probability in nats over the length penalty."""

    text: str
    score: float


class Translation(NamedTuple):
    """The best translation of `source`, and all that were asked for, best first.

    Where `source` is too long for the model, it was translated in `parts`: `text` is theirs, joined, `score`
    their mean, and the k-th of `alternatives` is made of the k-th of each.
    """

    source: str
    text: str
    score: float
    alternatives: tuple[Alternative, ...]
    parts: tuple[Translation, ...] = ()
    """Consecutive pieces of `source`, or of what protection left of it; empty where it was one."""


Translate: TypeAlias = Callable[[Sequence[str]], list[Translation]]
"""Sentences to translations, in order: `Translator.translate`, or a function around it."""


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
    def load(cls, path: str | Path, *, device: str = "auto", precision: str = "auto") -> Translator:
        """The translator in the run directory `path`.

        RunError: no run is there, training has not yet written weights, or a file is damaged.
        """
        run = Run.open(path)
        config = translation_config(run)
        target = choose_device(device)
        tokenizers = TokenizerPair.load(run.tokenizer_folder)
        model = build_model(config, tokenizers, device=target)
        load_weights(model, run.load_weights(), where=str(run.weights_path))
        return cls(inference_copy(model, choose_dtype(precision, target)), tokenizers, config)

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

        A text is one sentence; an empty one stays empty, and one with more tokens than the model accepts is
        translated in parts (`Translation.parts`). `progress` is called with the number of texts finished.
        DataError: a character alone has more tokens than the model accepts; `first_number` is what the
        message counts from.
        """
        search = self.config.search
        beam_size = search.beam_size if beam_size is None else beam_size
        n_best = (search.n_best if beam_size >= search.n_best else 1) if n_best is None else n_best
        length_penalty = search.length_penalty if length_penalty is None else length_penalty
        if not 1 <= n_best <= beam_size:
            raise DataError(f"n_best = {n_best} needs a beam of at least {n_best}; beam_size is {beam_size}")
        settings: dict[str, Any] = {
            "beam_size": beam_size,
            "n_best": n_best,
            "length_penalty": length_penalty,
        }
        search = search.model_copy(update=settings)
        if isinstance(texts, str):
            raise DataError("translate takes a list of sentences; for a single one write translate([text])")
        sources = self._encode(texts)
        split = self._split(texts, sources, first_number)
        filled = [i for i, ids in enumerate(sources) if len(ids) > 1 and i not in split]
        by_length = sorted(filled, key=lambda i: len(sources[i]), reverse=True)
        translations = [Translation(text, "", 0.0, (Alternative("", 0.0),)) for text in texts]
        done = len(texts) - len(filled) - len(split)
        for start in range(0, len(by_length), search.batch_sentences):
            chosen = by_length[start : start + search.batch_sentences]
            found = self.engine.search([Sentence(sources[i]) for i in chosen], search)
            for i, hypotheses in zip(chosen, found, strict=True):
                translations[i] = self._read(texts[i], hypotheses)
            done += len(chosen)
            if progress is not None:
                progress(done)
        if split:
            parts = iter(self.translate([part for parts in split.values() for part in parts], **settings))
            for i, of_text in split.items():
                translations[i] = self._join(texts[i], tuple(islice(parts, len(of_text))))
            if progress is not None:
                progress(len(texts))
        return translations

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [[*ids, EOS_ID] for ids in self.tokenizers.src.encode_batch(texts)]

    def _split(
        self, texts: Sequence[str], sources: list[list[int]], first_number: int
    ) -> dict[int, list[str]]:
        """The parts of each text that is too long for the model. DataError: a character alone is."""
        most = self.config.model.max_positions
        fit = min(most, self.config.data.max_length)  # longer ones were never seen in training
        split = {}
        for i, ids in enumerate(sources):
            if len(ids) > most:
                try:
                    split[i] = split_to_fit(texts[i], lambda part: len(self._encode([part])[0]), fit)
                except DataError as error:
                    raise DataError(f"sentence {first_number + i}: {error}") from None
        return split

    def _join(self, source: str, parts: tuple[Translation, ...]) -> Translation:
        """The translation of `source` from those of its parts."""
        gaps = [
            gap_between(" " if part.source[-1].isspace() else "", self.config.languages) for part in parts
        ]
        alternatives = []
        for chosen in zip(*(part.alternatives for part in parts), strict=False):
            pieces = ((a.text + gap) for a, gap in zip(chosen, gaps, strict=True) if a.text)
            alternatives.append(Alternative("".join(pieces).strip(), fmean(a.score for a in chosen)))
        return Translation(source, *alternatives[0], tuple(alternatives), parts)

    def _read(self, source: str, hypotheses: list[Hypothesis]) -> Translation:
        texts = self.tokenizers.tgt.decode_batch([h.ids for h in hypotheses])
        alternatives = tuple(Alternative(t, h.score) for t, h in zip(texts, hypotheses, strict=True))
        return Translation(source, alternatives[0].text, alternatives[0].score, alternatives)
