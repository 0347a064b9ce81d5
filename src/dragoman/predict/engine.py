"""The interface of translation engines: ids in, hypotheses out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from dragoman.config import ModelConfig, SearchConfig
from dragoman.decoding.beam import beam_search
from dragoman.decoding.hypotheses import Hypothesis, NextToken, ScoreTerm
from dragoman.decoding.log_probs import ArrayLogProbs, Floats32, Ints, LogProbs
from dragoman.decoding.phrases import Phrase, Phrases
from dragoman.decoding.sampling import sample
from dragoman.decoding.search import Columns, greedy_search
from dragoman.decoding.wrappers import (
    AttendingStep,
    Coverage,
    Ensemble,
    ForcedPrefix,
    NoRepeatedNgrams,
    NotEmpty,
    WatchedSearch,
    Watcher,
)
from dragoman.hardware import n_threads
from dragoman.model.compiled import CompiledModel, CompiledSteps
from dragoman.predict.shortlist import Shortlist
from dragoman.text.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from dragoman.text.transformations import Casing

FORBIDDEN = (PAD_ID, BOS_ID, UNK_ID)
"""No translation holds these tokens."""
FORBIDDEN_BUT_UNK = (PAD_ID, BOS_ID)
"""Nor does a text that is scored; it may have words that are not in the vocabulary."""


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
    @abstractmethod
    def longest(self) -> int:
        """The most tokens that a translation may have, the end token not counted."""

    @abstractmethod
    def start(
        self, sources: Sequence[Sequence[int]], settings: SearchConfig, sentences: Sequence[SearchInput] = ()
    ) -> Started:
        """Return what computes the next tokens of `sources`, the end token last in each.

        Forbidden tokens have log-probability -inf. A search of `sentences` may be limited to fewer tokens.
        ConfigError: a setting is beyond this engine.
        """

    def search(self, sentences: Sequence[SearchInput], settings: SearchConfig) -> list[list[Hypothesis]]:
        """Return the best `settings.n_best` hypotheses of each sentence, best first; all searched at once.

        A translation has room for what its sentence needs: `n_needed` tokens and the end token.
        """
        results: dict[int, list[Hypothesis]] = {}
        for is_constrained in (False, True):
            group = [i for i, sentence in enumerate(sentences) if bool(sentence.required) == is_constrained]
            if group:
                hypotheses = self._search([sentences[i] for i in group], settings)
                results.update(zip(group, hypotheses, strict=True))
        return [results[i] for i in range(len(sentences))]

    def _search(self, sentences: Sequence[SearchInput], settings: SearchConfig) -> list[list[Hypothesis]]:
        """Search for sentences that all require phrases, or none of them does."""
        started = self.start([sentence.source for sentence in sentences], settings, sentences)
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

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """Return the log-probability of each target's tokens and of eos behind it, in nats.

        Sources end with eos, targets do not.
        """
        return forced_scores(self.start(sources, SearchConfig(beam_size=1)).step, targets)


class ModelEngine(StepEngine):
    """The search over Dragoman's own models: one, or an ensemble with one vocabulary."""

    models: Sequence[Any]
    """What it computes with, one of each model."""
    n_threads: int = 1
    """Batches that are best searched at the same time, each in a thread."""
    can_be_interrupted: bool = True
    """Whether a thread may search for others while it is in the middle of a search."""

    @property
    @abstractmethod
    def precision(self) -> str:
        """What its products are computed in: "float32", "bfloat16", "float16" or "int8"."""

    @abstractmethod
    def attention(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Floats32:
        """Return how much each step of writing each target looks at its source, (B, layers, T, S).

        Sources end with eos, targets do not; row 0 is the step that predicts the first token. Heads are
        averaged.
        """

    @abstractmethod
    def attention_maps(
        self, source: Sequence[int], target: Sequence[int]
    ) -> tuple[Floats32, Floats32, Floats32]:
        """Return all attention of all layers and heads of the first model while a text is translated.

        That of the encoder (layers, H, S, S), of the decoder (layers, H, T, T), and between them
        (layers, H, T, S).
        """


class CompiledEngine(ModelEngine):
    """The search in compiled code (native.c), on a processor."""

    def __init__(self, *models: CompiledModel, shortlist: Shortlist | None = None) -> None:
        """With a `shortlist`, only the tokens are computed that it has for a sentence, where that is faster:
        with `search.shortlist`, and without required phrases, sampling or coverage penalty.
        """
        assert models
        self.models = models
        self.shortlist = shortlist
        self.n_threads = n_threads()

    @property
    def precision(self) -> str:
        return self.models[0].kind

    @property
    def longest(self) -> int:
        return min(model.config.max_positions for model in self.models) - 1

    def start(
        self, sources: Sequence[Sequence[int]], settings: SearchConfig, sentences: Sequence[SearchInput] = ()
    ) -> Started:
        if beta := settings.coverage_penalty:
            steps = [self._begin(model, sources, keep_attention=True) for model in self.models]
            return covering(Ensemble(steps), sources, beta)
        allowed = None
        shortlist = self.shortlist if settings.shortlist and settings.method != "sampling" else None
        if shortlist is not None and sentences and not sentences[0].required:
            prefixes = [sentence.prefix for sentence in sentences]
            allowed = shortlist.allowed(sources, prefixes, self.models[0].n_tokens)
        steps = [self._begin(model, sources, allowed=allowed) for model in self.models]
        return Started(ensemble_of(steps), columns=Columns(steps[0].ids))

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        scores: dict[int, list[float]] = {}
        for is_strange in (False, True):  # only where it stands can <unk> be written
            chosen = [i for i, target in enumerate(targets) if (UNK_ID in target) == is_strange]
            if not chosen:
                continue
            forbidden = FORBIDDEN_BUT_UNK if is_strange else FORBIDDEN
            some = [sources[i] for i in chosen]
            step = ensemble_of([self._begin(model, some, forbidden=forbidden) for model in self.models])
            scores.update(zip(chosen, forced_scores(step, [targets[i] for i in chosen]), strict=True))
        return [scores[i] for i in range(len(targets))]

    def attention(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Floats32:
        step = self._begin(self.models[0], sources, keep_attention=True)
        shape = len(sources), step.steps.looks[0], max(map(len, targets)) + 1, max(map(len, sources))
        weights = np.zeros(shape, np.float32)
        for t, (rows, _, _) in enumerate(forced_steps(step, targets)):
            weights[rows, :, t] = step.cross.mean(axis=2)
        return weights

    def attention_maps(
        self, source: Sequence[int], target: Sequence[int]
    ) -> tuple[Floats32, Floats32, Floats32]:
        step = self._begin(self.models[0], [source], keep_attention=True, keep_self_attention=True)
        cross: list[Floats32] = []
        decoder: list[Floats32] = []
        for _ in forced_steps(step, [target]):
            room = len(target) - len(decoder)  # a token does not look at those behind it
            cross.append(step.cross[0])
            decoder.append(np.pad(step.steps.decoder[0], ((0, 0), (0, 0), (0, room))))
        missing = len(source) - len(step.steps.encoder)  # the end token, where it is not read
        encoder = np.pad(step.steps.encoder, ((0, missing), (0, 0), (0, 0), (0, missing)))
        return encoder.transpose(1, 2, 0, 3), np.stack(decoder, axis=2), np.stack(cross, axis=2)

    def _begin(self, model: CompiledModel, sources: Sequence[Sequence[int]], **options: Any) -> CompiledStep:
        assert isinstance(model.config, ModelConfig)
        seen = sources if model.config.source_end else [source[:-1] or source for source in sources]
        steps = CompiledSteps(model, seen, **{"forbidden": FORBIDDEN, **options})
        return CompiledStep(steps, longest=max(map(len, sources)))


class CompiledStep:
    """The next-token function of steps in compiled code."""

    def __init__(self, steps: CompiledSteps, *, longest: int) -> None:
        """`longest` is the number of tokens of the longest source, the end token counted."""
        self.steps, self.ids = steps, steps.ids
        self._longest = longest

    def __call__(self, last: Ints, parents: Ints) -> LogProbs:
        return ArrayLogProbs(self.steps(last, parents))

    @property
    def cross(self) -> Floats32:
        """(N, layers, H, S): where the rows of the last call look in their sources, end token included."""
        room = self._longest - self.steps.cross.shape[3]
        return np.pad(self.steps.cross, ((0, 0), (0, 0), (0, 0), (0, room)))

    @property
    def attention(self) -> Floats32:
        """(N, S) of the last call: the mean over the heads of the last layer."""
        mean: Floats32 = self.cross[:, -1].mean(axis=1)
        return mean


def covering(step: AttendingStep, sources: Sequence[Sequence[int]], beta: float) -> Started:
    """Return a search with a coverage penalty: each source's tokens count, but for its end."""
    counted = np.zeros((len(sources), max(map(len, sources))), np.bool_)
    for row, source in zip(counted, sources, strict=True):
        row[: len(source) - 1] = True
    coverage = Coverage(step, beta=beta, counted=counted)
    return Started(coverage, coverage.penalty)


def ensemble_of(steps: Sequence[NextToken]) -> NextToken:
    """Return several next-token functions as one."""
    return steps[0] if len(steps) == 1 else Ensemble(steps)


def forced_steps(step: NextToken, targets: Sequence[Sequence[int]]) -> Iterator[tuple[Ints, Ints, LogProbs]]:
    """Yield, for each step of writing given targets: those that go on, their next tokens, what was possible.

    The last token of each is eos, which its `targets` do not have.
    """
    rows = parents = np.arange(len(targets))
    last = np.full(len(targets), BOS_ID)
    for t in range(max(map(len, targets), default=-1) + 1):
        tokens = np.array([targets[i][t] if t < len(targets[i]) else EOS_ID for i in rows.tolist()])
        yield rows, tokens, step(last, parents)
        parents = np.array([k for k, i in enumerate(rows.tolist()) if t < len(targets[i])], np.int64)
        rows, last = rows[parents], tokens[parents]


def forced_scores(step: NextToken, targets: Sequence[Sequence[int]]) -> list[list[float]]:
    """Return the log-probability of each target's tokens and of eos, computed token by token."""
    scores: list[list[float]] = [[] for _ in targets]
    for rows, tokens, log_probs in forced_steps(step, targets):
        values = log_probs.at(np.arange(len(rows)), tokens)
        for row, value in zip(rows.tolist(), values.tolist(), strict=True):
            scores[row].append(value)
    return scores


def longest_translation(sentence: SearchInput, settings: SearchConfig, *, limit: int) -> int:
    """Return the most tokens that a translation of `sentence` may have, `limit` at most.

    What must be in it has its place, whatever the length of the source.
    """
    n_tokens = len(sentence.source) - 1
    length = int(settings.max_length_factor * n_tokens) + settings.max_length_extra
    if sentence.n_needed:
        length = max(length, sentence.n_needed + settings.max_length_extra)
    return min(limit, length)
