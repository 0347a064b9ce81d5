"""Translation as a task: sentence pairs, an encoder-decoder, BLEU."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from dragoman.config import TranslationConfig
from dragoman.data.batching import TranslationBatch, cut_by_tokens, make_batch, plan_epoch
from dragoman.data.buckets import StaticBatch, StaticBatches, choose_buckets, fill_buckets
from dragoman.data.named import open_direction, open_training
from dragoman.data.records import Pair, has_text
from dragoman.data.store import TokenStore
from dragoman.errors import DataError, RunError, counted
from dragoman.files import replacing_folder
from dragoman.hardware import choose_dtype, resident_bytes
from dragoman.metrics.translation import bleu, chrf
from dragoman.model.copies import inference_copy
from dragoman.model.transformer import Seq2SeqTransformer
from dragoman.predict.engine import CompiledEngine
from dragoman.predict.model import translation_config
from dragoman.predict.networks import build_model
from dragoman.predict.probe import Probe
from dragoman.predict.shortlist import SHORTLIST
from dragoman.predict.torch_engine import TorchEngine, agreeing_engine
from dragoman.predict.translator import Translator
from dragoman.runs import Run
from dragoman.tasks.translation.diagnosis import diagnose, source_use
from dragoman.tasks.translation.lexicon import choose_shortlist
from dragoman.tasks.translation.loss import batch_loss, static_batch_loss
from dragoman.tasks.translation.starting import describe_taken, open_start, start_weights, taken_tokenizers
from dragoman.tasks.translation.text import TrainingText
from dragoman.text.tokenizer import TokenizerPair
from dragoman.text.vocabulary import SYNTHETIC, language_mark
from dragoman.training.objective import BatchResult, Objective, Sample, Validation, Weights, sampled
from dragoman.training.parallel.sharding import is_spread
from dragoman.training.trainer import TrainingListener

N_OLD_PAIRS = 1000
"""Validation pairs of the text that a model was trained on before that are scored, at most."""


class TranslationObjective(Objective[TranslationBatch | StaticBatch]):
    """Learns to translate as a configuration says."""

    item = "token"
    model: Seq2SeqTransformer

    def __init__(
        self,
        config: TranslationConfig,
        run: Run,
        device: torch.device,
        listener: TrainingListener,
        *,
        static: bool = False,
    ) -> None:
        """Read, tokenizes and store the corpora; train the tokenizer where the run has none yet.

        `static`: its batches are to have few shapes.
        """
        self.config, self.device, self.static = config, device, static
        self.run, self.listener = run, listener
        self.static_batches: StaticBatches | None = None
        self.cache = run.path / "cache"
        parts, valid_parts = open_training(config)
        self.text = TrainingText(config, parts, self.cache / "train")
        self.start = open_start(config) if config.training.start_from else None
        self.tokenizers = prepare_tokenizers(config, run, self.text, listener, start=self.start)
        notes = self.text.prepare(self.tokenizers, progress=listener.tokenized)
        validated = {part.name: [*filter(has_text, part.corpus.pairs())] for part in valid_parts}
        n_valid = sum(map(len, validated.values()))
        listener.message(f"{notes[0]}, {counted(n_valid, 'validation pair')}")
        unknown = (note for pairs in validated.values() for note in self._unknown(pairs))
        for note in (*notes[1:], *unknown):
            if note:
                listener.message(note)
        whole = config.training.sharding == "none"  # else its weights are spread from where they are built
        self.model = build_model(config, self.tokenizers, device=device, placed=whole)
        first = [part.name for part in valid_parts if part.direction == config.languages]
        valid_pairs = [pair for name in first for pair in validated[name]]
        old_pairs = open_old_pairs(self.start, valid_pairs) if self.start else ()
        self.validators = {
            part.name: Validator(
                config.towards(part.direction),
                tokenizers := self.tokenizers.towards(part.direction[1]),
                validated[part.name],
                TokenStore.prepare(
                    part.corpus, tokenizers, max_length=config.model.max_positions, cache=self.cache / "valid"
                ),
                old_pairs=(old_pairs or ()) if part.name == first[0] else (),
                device=device,
            )
            for part in valid_parts
        }
        if old_pairs is None and self.start:
            listener.message(f"the validation text of {self.start.path} is not here and will not be scored")

    def begin(self) -> None:
        if self.start:
            start_weights(self.model, self.start)

    def finish(self, weights: Weights) -> dict[str, float]:
        """Learn which tokens may translate which, and keep it where searches lose next to nothing by it."""
        if len(self.config.directions) > 1:
            return {}
        cpu = torch.device("cpu")
        dtype = choose_dtype(self.config.training.precision, cpu)
        model = inference_copy(self._architecture(), dtype, weights=weights, device=cpu)
        translator = Translator.of([model], self.tokenizers, self.config)
        if not isinstance(translator.engine, CompiledEngine):
            return {}
        self.listener.validating()
        validator = next(iter(self.validators.values()))
        shortlist, facts = choose_shortlist(
            translator,
            self.text.as_it_stands(),
            *sides(validator.pairs),
            seed=self.config.seed,
            say=self.listener.message,
        )
        if shortlist is None:
            (self.run.path / SHORTLIST).unlink(missing_ok=True)
        else:
            shortlist.save(self.run)
        return facts

    def _unknown(self, pairs: Sequence[Pair]) -> Iterator[str]:
        """How much of the validation text the vocabularies of words or characters do not know."""
        for side, tokenizer, texts in (
            ("source", self.tokenizers.src, [pair.src for pair in pairs]),
            ("target", self.tokenizers.tgt, [pair.tgt for pair in pairs]),
        ):
            if rate := tokenizer.unknown_rate(texts):
                yield f"{100 * rate:.1f} % of the validation {side}'s tokens are unknown"

    def plan(self, epoch: int) -> Sequence[npt.NDArray[np.int64]]:
        self.epoch_store = store = self.text.open(epoch)
        batch_tokens = self.config.training.batch_tokens
        if not self.static:
            return self.text.plan(epoch, partial(cut_by_tokens, batch_tokens=batch_tokens))
        if self.static_batches is None or self.config.draws_epochs:
            buckets, room = choose_buckets(store, batch_tokens=batch_tokens), resident_bytes(self.device)
            self.static_batches = StaticBatches(store, buckets, self.device, max_bytes=room)
        return self.text.plan(epoch, partial(fill_buckets, buckets=self.static_batches.buckets))

    def passes(self, epoch: int, batch: int) -> dict[str, float]:
        return self.text.passes(epoch, batch)

    def batch(self, indices: npt.NDArray[np.int64], device: torch.device) -> TranslationBatch | StaticBatch:
        if self.static_batches is not None:
            return self.static_batches(indices)
        return make_batch(self.epoch_store, indices).to(device)

    def memory(self, indices: npt.NDArray[np.int64]) -> float:
        src, tgt = (lengths.max() for lengths in self.epoch_store.lengths(indices))
        model = self.config.model
        scores = model.n_heads * (src**2 + tgt**2 + src * tgt)
        return float(len(indices) * (scores + 16 * model.d_model * (src + tgt)))

    def n_items(self, batch: TranslationBatch | StaticBatch) -> float:
        return batch.n_tgt_tokens

    def loss(self, batch: TranslationBatch | StaticBatch) -> BatchResult:
        training = self.config.training
        if isinstance(batch, StaticBatch):
            smoothed = static_batch_loss(self.model, batch, smoothing=training.label_smoothing).smoothed
            return BatchResult(smoothed, batch.n_tokens)
        loss = batch_loss(
            self.model,
            batch,
            smoothing=training.label_smoothing,
            consistency=training.consistency,
            cutoff=training.cutoff,
        )
        return BatchResult(loss.smoothed, batch.n_tokens)

    def validate(self, weights: Weights) -> Validation:
        model = self._architecture()
        validations = {name: validate(model, weights) for name, validate in self.validators.items()}
        return combined(validations, chosen_by=self.config.data.choose_by)

    def _architecture(self) -> Seq2SeqTransformer:
        """Return a model that can be copied: where weights are spread, a new one, by no random numbers."""
        if not is_spread(next(self.model.parameters())):
            return self.model
        with torch.random.fork_rng(devices=[]):
            return build_model(self.config, self.tokenizers, device=self.device, placed=False)


def combined(validations: Mapping[str, Validation], *, chosen_by: str) -> Validation:
    """Return one validation of several texts, those of directions or of corpora, by their names in logs.

    The means of all choose checkpoints, or the scores of the text `chosen_by`, if it is not "".
    """
    if len(validations) == 1:
        return next(iter(validations.values()))
    counted = [validations[chosen_by]] if chosen_by else [*validations.values()]
    means: dict[str, Any] = {
        key: fmean(one.record[key] for one in counted) for key in ("valid_loss", "bleu", "chrf")
    }
    by_name = {f"{key} {name}": one.record[key] for name, one in validations.items() for key in means}
    perplexity = math.exp(min(means["valid_loss"], 100.0))
    old = {key: one.record[key] for one in validations.values() for key in one.record if key == "old_bleu"}
    about = {"chosen_by": chosen_by}
    if not chosen_by:
        about = {"worst": min(validations, key=lambda name: validations[name].score)}
    warnings = {
        f"{warned} {name}": f"{name}: {warning}"
        for name, one in validations.items()
        for warned, warning in one.warnings.items()
    }
    samples = tuple(sample for one in validations.values() for sample in one.samples[:1])
    record = {**means, "valid_perplexity": perplexity, **old, **about, **by_name}
    return Validation(record, fmean(one.score for one in counted), warnings, samples, counted[0].probe)


@dataclass(frozen=True)
class Validator:
    """Scores weights on fixed pairs, always in the same way."""

    config: TranslationConfig
    tokenizers: TokenizerPair
    pairs: Sequence[Pair]
    store: TokenStore
    """The tokens of `pairs`."""
    device: torch.device
    old_pairs: Sequence[Pair] = ()
    """Of the text that a model was trained on before, for BLEU."""

    def __call__(self, model: Seq2SeqTransformer, weights: Weights) -> Validation:
        """Score the architecture of `model` with `weights`; `model` itself is left alone."""
        dtype = choose_dtype(self.config.training.precision, self.device)
        candidate = inference_copy(model, dtype, weights=weights, device=self.device)
        sizes = self.tokenizers.src.vocab_size, self.tokenizers.tgt.vocab_size
        probe = Probe.of(TorchEngine(candidate), *sizes)
        tests = [lambda engine: not probe.is_finite or probe.agrees(engine, *sizes)]
        engine = agreeing_engine([candidate], tests, where="this model")
        translator = Translator(engine, self.tokenizers, self.config)
        sources, references = sides(self.pairs)
        hypotheses = self._translations(translator, sources)
        tgt_lang = self.config.data.tgt_lang
        loss, use = self._loss(candidate), source_use(candidate, self.store)
        score = bleu(hypotheses, references, tgt_lang=tgt_lang, n_bootstrap=0).value
        record = {
            "valid_loss": loss,  # -log p of the reference, nats a target token, without smoothing
            "valid_perplexity": math.exp(min(loss, 100.0)),
            "bleu": score,
            "chrf": chrf(hypotheses, references, tgt_lang=tgt_lang, n_bootstrap=0).value,
            "source_gain": None if use is None else use.gain,  # nats a token that the right source is worth
        }
        if self.old_pairs:
            old_sources, old_references = sides(self.old_pairs)
            old = self._translations(translator, old_sources)
            record["old_bleu"] = bleu(old, old_references, tgt_lang=tgt_lang, n_bootstrap=0).value
        warnings = diagnose(sources, hypotheses, references, use)
        samples = tuple(Sample(sources[i], references[i], hypotheses[i]) for i in sampled(len(hypotheses)))
        score = score if self.config.training.metric == "bleu" else -loss
        return Validation(record, score, warnings, samples, probe.text() if probe.is_finite else "")

    def _translations(self, translator: Translator, sources: list[str]) -> list[str]:
        beam_size = self.config.training.valid_beam_size
        translations = translator.translate(sources, method="beam", beam_size=beam_size, n_best=1)
        return [translation.text for translation in translations]

    @torch.no_grad()
    def _loss(self, model: Seq2SeqTransformer) -> float:
        device = model.device
        total, n_tokens = 0.0, 0
        batch_tokens = 4 * self.config.training.batch_tokens
        for indices in plan_epoch(self.store, batch_tokens=batch_tokens, seed=0, epoch=0):
            batch = make_batch(self.store, indices).to(device)
            total += batch_loss(model, batch, smoothing=0.0).log_loss.item()
            n_tokens += batch.n_tgt_tokens
        return total / n_tokens


def sides(pairs: Sequence[Pair]) -> tuple[list[str], list[str]]:
    """Return the sources of the pairs, and their translations."""
    return [pair.src for pair in pairs], [pair.tgt for pair in pairs]


def open_old_pairs(start: Run, new_pairs: Sequence[Pair]) -> Sequence[Pair] | None:
    """Return validation pairs of the text that `start` was trained on, unless they are in `new_pairs`.

    None: that text is not here any more.
    """
    try:
        pairs = [pair for pair in open_direction(translation_config(start))[1].pairs() if has_text(pair)]
    except (DataError, RunError):
        return None
    new = {_on_one_line(pair) for pair in new_pairs}
    if all(_on_one_line(pair) in new for pair in pairs):
        return []
    step = max(1, len(pairs) // N_OLD_PAIRS)
    return pairs[::step][:N_OLD_PAIRS]


def _on_one_line(pair: Pair) -> Pair:
    """Return the pair as a text file holds it."""
    return Pair(*(" ".join(text.split()) for text in pair))


def prepare_tokenizers(
    config: TranslationConfig, run: Run, text: TrainingText, listener: TrainingListener, *, start: Run | None
) -> TokenizerPair:
    """Return the run's tokenizers; where it has none yet, those of `start`, or else learnt from `text`."""
    folder = run.tokenizer_folder
    if not folder.exists():
        marks, slots = marks_of(config), config.modifiers.slots > 0
        if start is not None:
            pair = taken_tokenizers(config, start, text.sample()).with_new_marks(marks)
            if slots:
                pair = pair.with_slots()
            listener.message(describe_taken(pair, start))
        else:
            listener.message("training the tokenizer")
            src_lang, tgt_lang = config.languages
            pair = TokenizerPair.train(
                text.sample(),
                config.tokenizer,
                src_lang=src_lang,
                tgt_lang=tgt_lang,
                marks=marks,
                slots=slots,
            )
            for n_tokens in {pair.src.vocab_size, pair.tgt.vocab_size}:
                if n_tokens < config.tokenizer.vocab_size:
                    asked = f"{config.tokenizer.vocab_size:,} (tokenizer.vocab_size)"
                    listener.message(f"the text gives {n_tokens:,} tokens, fewer than {asked}")
        with replacing_folder(folder) as unfinished:
            pair.save(unfinished)
    return TokenizerPair.load(folder)


def marks_of(config: TranslationConfig) -> list[str]:
    """Return the reserved tokens that a model needs: of its target languages, and of synthetic text."""
    targets = sorted({tgt for _, tgt in config.directions}) if len(config.directions) > 1 else []
    synthetic = any(corpus.origin == "synthetic" for corpus in config.data.corpora)
    return [*map(language_mark, targets), *([SYNTHETIC] if synthetic else [])]
