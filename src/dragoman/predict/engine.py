"""The interface of translation engines: ids in, hypotheses out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dragoman.config import SearchConfig
from dragoman.data.batching import pad, source_mask
from dragoman.decoding.beam import beam_search
from dragoman.decoding.hypotheses import Hypothesis, NextToken, ScoreTerm
from dragoman.decoding.phrases import Phrase, Phrases
from dragoman.decoding.sampling import sample
from dragoman.decoding.search import Columns, greedy_search
from dragoman.decoding.wrappers import (
    AttendingEnsemble,
    AttendingStep,
    Coverage,
    Ensemble,
    ForcedPrefix,
    NoRepeatedNgrams,
    NotEmpty,
    WatchedSearch,
    Watcher,
)
from dragoman.errors import ConfigError
from dragoman.hardware import resident_bytes
from dragoman.model.compiled import CompiledModel, CompiledSteps, Kind, why_not_compiled
from dragoman.model.incremental import IncrementalDecoder, WholeDecoder
from dragoman.model.kernels import FAST
from dragoman.model.static import StaticDecoder, can_record
from dragoman.model.transformer import Seq2SeqTransformer
from dragoman.predict.shortlist import Shortlist
from dragoman.tensors import of_tensors
from dragoman.text.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from dragoman.text.transformations import Casing

FORBIDDEN = (PAD_ID, BOS_ID, UNK_ID)
"""No translation holds these tokens."""


class SearchInput(NamedTuple):
    """One sentence to be translated."""

    source: Sequence[int]
    """Its tokens, the end token last."""
    prefix: Sequence[int] = ()
    """The tokens that its translation begins with."""
    required: Sequence[Phrase] = ()
    """Phrases that its translation holds."""
    continuing: frozenset[int] = frozenset()
    """The tokens that continue a word: what one of them follows is no occurrence of a phrase."""
    number: int = 0
    """What tells it from other sentences: together with a seed, it decides what is drawn at random."""
    watcher: Watcher | None = None
    """Who looks on while it is searched for, where the engine can be watched."""
    spans: Sequence[str] = ()
    """What the slots among its tokens stand for, the first slot first."""
    casing: Casing = ""
    """The case of its translation, where its tokens are those of another one."""

    @property
    def n_needed(self) -> int:
        """The most tokens that prefix and phrases can need."""
        return len(self.prefix) + sum(phrase.distance(0) for phrase in self.required)


class Started(NamedTuple):
    """What computes the next tokens of some sentences."""

    step: NextToken
    score_term: ScoreTerm | None = None
    """What a search adds to its scores."""
    columns: Columns | None = None
    """What the columns of its log-probabilities stand for; None: each for the token of its number."""


class StepEngine(ABC):
    """Dragoman's own search over the next-token function of whatever computes it."""

    @property
    def device(self) -> torch.device:
        """Where its tokens and log-probabilities are."""
        return torch.device("cpu")

    @property
    @abstractmethod
    def longest(self) -> int:
        """The most tokens that a translation may have, the end token not counted."""

    @abstractmethod
    def start(self, src: Tensor, settings: SearchConfig, sentences: Sequence[SearchInput] = ()) -> Started:
        """Return what computes the next tokens of the sources `src` (B, S).

        Forbidden tokens have log-probability -inf. A search of `sentences` may be limited to fewer tokens.
        ConfigError: a setting is beyond this engine.
        """

    def free_memory(self) -> None:
        """Give back device memory that the last search left reserved."""
        torch.cuda.empty_cache()

    @torch.inference_mode()
    def search(self, sentences: Sequence[SearchInput], settings: SearchConfig) -> list[list[Hypothesis]]:
        """Return the best `settings.n_best` hypotheses of each sentence, best first; all searched at once.

        A translation has room for what its sentence needs: `n_needed` tokens and the end token.
        """
        results: dict[int, list[Hypothesis]] = {}
        required = [i for i, sentence in enumerate(sentences) if sentence.required]
        ordinary = [i for i, sentence in enumerate(sentences) if not sentence.required]
        waiting = [group for group in (required, ordinary) if group]
        while waiting:
            group = waiting.pop()
            try:
                results.update(zip(group, self._search([sentences[i] for i in group], settings), strict=True))
                continue
            except torch.OutOfMemoryError:
                pass
            # Outside of the handler, which would keep what is to be freed.
            self.free_memory()
            if half := len(group) // 2:
                waiting += [group[half:], group[:half]]
            else:
                results[group[0]] = self._search([sentences[group[0]]], settings)[0]
        return [results[i] for i in range(len(sentences))]

    def _search(self, sentences: Sequence[SearchInput], settings: SearchConfig) -> list[list[Hypothesis]]:
        """Search for sentences that all require phrases, or none of them does."""
        src = pad([sentence.source for sentence in sentences]).to(self.device)
        started = self.start(src, settings, sentences)
        columns = started.columns
        step: NextToken = NotEmpty(started.step, eos_id=EOS_ID)
        if any(sentence.prefix for sentence in sentences):
            step = ForcedPrefix(step, [sentence.prefix for sentence in sentences], columns=columns)
        if n := settings.no_repeat_ngram:
            exempt = [{token for phrase in s.required for token in phrase.tokens} for s in sentences]
            step = NoRepeatedNgrams(step, n, exempt=exempt, columns=columns)
        if any(sentence.watcher for sentence in sentences):
            step = WatchedSearch(step, [sentence.watcher for sentence in sentences], eos_id=EOS_ID)
        options: dict[str, Any] = {
            "max_lengths": [longest_translation(s, settings, limit=self.longest) for s in sentences],
            "bos_id": BOS_ID, "eos_id": EOS_ID, "length_penalty": settings.length_penalty,
            "columns": columns, "score_term": started.score_term,
        }  # fmt: skip
        if settings.method == "sampling":
            return sample(
                step, numbers=[sentence.number for sentence in sentences], n_samples=settings.n_best,
                seed=settings.seed, temperature=settings.temperature, top_k=settings.top_k,
                top_p=settings.top_p, **options,
            )  # fmt: skip
        options["n_best"] = settings.n_best
        is_constrained = bool(sentences[0].required)
        if settings.beam_size == 1 and not is_constrained:
            return greedy_search(step, **options)
        phrases = (
            [Phrases(s.required, continuing=s.continuing) for s in sentences] if is_constrained else None
        )
        return beam_search(
            step, beam_size=settings.beam_size, n_groups=settings.diversity_groups,
            diversity_penalty=settings.diversity_penalty, phrases=phrases, **options,
        )  # fmt: skip

    @torch.inference_mode()
    def score(self, sentences: Sequence[SearchInput], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """Return the log-probability of each target's tokens and of eos, computed token by token."""
        src = pad([sentence.source for sentence in sentences]).to(self.device)
        step = self.start(src, SearchConfig(beam_size=1)).step
        tgt_in, tgt_out = pad([[BOS_ID, *ids] for ids in targets]), pad([[*ids, EOS_ID] for ids in targets])
        scores: list[list[float]] = [[] for _ in targets]
        rows = parents = torch.arange(len(targets))  # rows: the targets that go on
        for t in range(tgt_in.shape[1]):
            log_probs = step(tgt_in[rows, t], parents).cpu()
            values = log_probs.gather(1, tgt_out[rows, t, None])[:, 0]
            for row, value in zip(rows.tolist(), values.tolist(), strict=True):
                scores[row].append(value)
            parents = (tgt_out[rows, t] != EOS_ID).nonzero()[:, 0]
            rows = rows[parents]
        return scores


class NativeEngine(StepEngine):
    """Dragoman's own search over Dragoman's own models: one, or an ensemble with one vocabulary."""

    def __init__(
        self, *models: Seq2SeqTransformer, int8: bool = False, shortlist: Shortlist | None = None
    ) -> None:
        """With `int8`, what compiled code computes so (`can_compile`) is searched by products in int8.

        With a `shortlist`, only the tokens are computed that it has for a sentence, where that is faster:
        on a processor, with `search.shortlist`, and without required phrases, sampling or coverage penalty.
        """
        assert models
        self.models = models
        self.int8 = int8
        self.shortlist = shortlist
        self._parameters = [list(model.parameters()) for model in models]
        self._compiled: dict[int, tuple[list[int], CompiledModel]] = {}
        self._compiling = Lock()  # batches are searched in several threads
        self._static = [StaticDecoder(model, max_bytes=resident_bytes(self.device)) for model in models]

    @property
    def device(self) -> torch.device:
        return self._parameters[0][0].device  # asked for at every step

    @property
    def longest(self) -> int:
        return min(model.config.max_positions for model in self.models) - 1

    def free_memory(self) -> None:
        for decoder in self._static:
            decoder.stages.clear()
        super().free_memory()

    def start(self, src: Tensor, settings: SearchConfig, sentences: Sequence[SearchInput] = ()) -> Started:
        if settings.coverage_penalty > 0:
            if any(model.stepping == "whole" for model in self.models):
                raise ConfigError(
                    "a coverage penalty needs the attention of model/layers.py as it was; set it to 0"
                )
            decoders = [
                IncrementalDecoder(model, src, _mask(model, src), forbidden=FORBIDDEN, keep_attention=True)
                for model in self.models
            ]
            attending: AttendingStep = decoders[0] if len(decoders) == 1 else AttendingEnsemble(decoders)
            counted = (src != PAD_ID) & (src != EOS_ID)
            coverage = Coverage(attending, beta=settings.coverage_penalty, counted=counted)
            return Started(coverage, coverage.penalty)
        if all(can_compile(model, int8=self.int8) and not can_record(model) for model in self.models):
            return self._start_compiled(src, settings, sentences)
        steps: list[NextToken] = []
        for model, static in zip(self.models, self._static, strict=True):
            begin: Callable[..., NextToken] = static.start
            if not can_record(model):
                begin = partial(WholeDecoder if model.stepping == "whole" else IncrementalDecoder, model)
            steps.append(begin(src, _mask(model, src), forbidden=FORBIDDEN))
        return Started(ensemble_of(steps))

    def _start_compiled(
        self, src: Tensor, settings: SearchConfig, sentences: Sequence[SearchInput]
    ) -> Started:
        allowed = None
        shortlist = self.shortlist if settings.shortlist and settings.method != "sampling" else None
        if shortlist is not None and sentences and not sentences[0].required:
            prefixes = [sentence.prefix for sentence in sentences]
            allowed = shortlist.allowed(src, prefixes, self.models[0].output.out_features)
        steps = []
        for i, model in enumerate(self.models):
            sources = [row[looks].tolist() for row, looks in zip(src, _mask(model, src), strict=True)]
            may_hold = None if allowed is None else allowed.numpy()
            steps.append(self._decoder(i, model).start(sources, forbidden=FORBIDDEN, allowed=may_hold))
        ids = None if steps[0].ids is None else torch.from_numpy(steps[0].ids)
        return Started(ensemble_of([TensorSteps(each) for each in steps]), columns=Columns(ids))

    def _decoder(self, i: int, model: Seq2SeqTransformer) -> CompiledModel:
        """Return the weights of model i as they are now, packed for compiled code."""
        versions = [parameter._version for parameter in self._parameters[i]]
        with self._compiling:
            if i not in self._compiled or self._compiled[i][0] != versions:
                self._compiled[i] = versions, compiled(model, int8=self.int8)
            return self._compiled[i][1]


class TensorSteps(NamedTuple):
    """The steps of compiled code as a next-token function of tensors."""

    steps: CompiledSteps

    def __call__(self, last: Tensor, parents: Tensor) -> Tensor:
        """See `NextToken`; the result is good until the next call."""
        return torch.from_numpy(self.steps(last.numpy(), parents.numpy()))


def kind_of(model: Seq2SeqTransformer, *, int8: bool = False) -> Kind | None:
    """Return what compiled code stores the weights of a model in; None: it knows none of its type."""
    kinds: dict[torch.dtype, Kind] = {torch.float32: "float32", torch.bfloat16: "bfloat16"}
    return "int8" if int8 else kinds.get(model.dtype)


def can_compile(model: Seq2SeqTransformer, *, int8: bool = False) -> bool:
    """Whether compiled code computes `model` here, in its type or in int8, and is wanted."""
    if model.device.type != "cpu" or model.kernels != FAST or model.stepping != "fast":
        return False
    kind = kind_of(model, int8=int8)
    return kind is not None and not why_not_compiled(model.config, kind)


def compiled(model: Seq2SeqTransformer, *, int8: bool = False) -> CompiledModel:
    """Pack the weights of a model that one `can_compile`, as they are now."""
    kind = kind_of(model, int8=int8)
    assert kind is not None
    return CompiledModel(of_tensors(model.state_dict()), model.config, kind=kind)


def ensemble_of(steps: Sequence[NextToken]) -> NextToken:
    """Return several next-token functions as one."""
    return steps[0] if len(steps) == 1 else Ensemble(steps)


def _mask(model: Seq2SeqTransformer, src: Tensor) -> Tensor:
    """src (B, S) -> (B, S): where the model's encoder and decoder look."""
    return source_mask(src, with_end=model.config.source_end)


def longest_translation(sentence: SearchInput, settings: SearchConfig, *, limit: int) -> int:
    """Return the most tokens that a translation of `sentence` may have, `limit` at most.

    What must be in it has its place, whatever the length of the source.
    """
    n_tokens = len(sentence.source) - 1
    length = int(settings.max_length_factor * n_tokens) + settings.max_length_extra
    if sentence.n_needed:
        length = max(length, sentence.n_needed + settings.max_length_extra)
    return min(limit, length)
