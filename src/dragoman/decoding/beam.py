"""Batched beam search, with the length penalty of Wu et al. 2016, diverse groups and phrase constraints."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dragoman.decoding import log_probs as compiled
from dragoman.decoding.hypotheses import Hypothesis, NextToken
from dragoman.decoding.log_probs import (
    COMPILED_AT_MOST,
    ArrayLogProbs,
    Bools,
    Floats,
    Ints,
    LogProbs,
    columns_of,
    ranked,
    refuse_nan,
)
from dragoman.decoding.phrases import PhraseBanks, Phrases
from dragoman.decoding.search import FILLER, Search
from dragoman.native import Double, Int, Pointer, native

MAX_WIDTH = COMPILED_AT_MOST - 1
"""Of a beam that compiled code searches: it looks for one token more in each row."""


def beam_search(step: NextToken, **options: Any) -> list[list[Hypothesis]]:
    """Return up to `n_best` hypotheses per sentence, best score first.

    Each step, with K = beam_size, ranks all continuations of a sentence's live hypotheses by
    log-probability. Those among the first K that end with eos are finished; the first K of the others stay
    alive. Sentence i has at most `max_lengths[i]` tokens: live hypotheses of that length are closed with
    eos, whose log-probability counts like any other. A sentence is done as soon as

    - K hypotheses are finished, and no live one would be among the `n_best` if it ended with its next token
      for sure; a beam of one does not ask, so that it is exactly greedy search,
    - or no live hypothesis can still become one of the `n_best`. Log-probabilities are at most 0, and the
      penalty never falls with length. So the score of a continuation is at most its log_prob divided by the
      penalty of the maximum length (plus `score_term`, which is at most 0),
    - or no hypothesis is alive.

    A beam at least as wide as the number of sequences therefore returns the best of them all.

    Continuations of log-probability -inf are never taken. If a sentence has no other, it is closed there,
    with one hypothesis of log_prob -inf. Ties go to the continuation of the better parent, then to the lower
    token id. `length_penalty` is alpha, at least 0. All but what `step` returns is in fp64.
    RunError: a log-probability is NaN.

    With `n_groups` > 1 the beam is split into groups of equal width, each with its own beam search (diverse
    beam search, Vijayakumar et al. 2018). In each step the groups choose one after the other. A token's
    log-probability is lowered by `diversity_penalty` for each hypothesis of an earlier group that this step
    extended by the same token (Hamming diversity, section 3). The penalty affects only the choice of that
    step, and never eos; log_prob and score are the model's. If groups end with the same sequence, it is
    returned once, so that there may be fewer than `n_best`.

    With `phrases`, each hypothesis of sentence i contains those of `phrases[i]`; see `PhraseBanks`. If that
    is impossible, there is one hypothesis, with a log_prob of -inf.

    `options` are those of `BeamSearch`.
    """
    return BeamSearch(step, **options).run()


class BeamSearch(Search):
    """See `beam_search`."""

    def __init__(
        self,
        step: NextToken,
        *,
        max_lengths: Sequence[int],
        beam_size: int,
        n_groups: int = 1,
        diversity_penalty: float = 0.0,
        phrases: Sequence[Phrases] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(step, max_lengths=max_lengths, **options)
        assert 1 <= self.n_best <= beam_size
        assert beam_size % n_groups == 0
        assert diversity_penalty >= 0
        assert n_groups == 1 or phrases is None
        self._width, self._diversity_penalty = beam_size // n_groups, diversity_penalty
        plain = n_groups == 1 and phrases is None and self.score_term is None
        self._is_plain = plain and self._width <= MAX_WIDTH
        """Whether all that a step depends on is what compiled code knows."""
        self._banks: PhraseBanks | None = None
        widths = np.full(len(max_lengths), self._width)
        if phrases is not None:
            self._banks = PhraseBanks(phrases, max_lengths, eos_id=self.eos_id)
            widths = np.array(self._banks.widths(self._width))
        penalties = np.array([self.penalty(length) for length in max_lengths], np.float64)
        self._beams = [
            _Beam.start(self.limits, penalties, widths, n_best=min(self.n_best, self._width))
            for _ in range(n_groups)
        ]

    def choose(self, log_probs: LogProbs) -> tuple[Ints, Ints]:
        if self._is_plain and compiled.is_compiled(log_probs):
            assert isinstance(log_probs, ArrayLogProbs)
            return self._choose_compiled(log_probs)
        if self._banks is not None:
            self._banks.follow(self._last, self._parents)
        width = max(int(beam.widths.max()) for beam in self._beams)
        # A group needs width + 1 tokens, besides those that the groups before it have taken.
        best = log_probs.best(width * len(self._beams) + 1)
        taken: Ints = np.empty((len(self._beams[0].rows), 0), np.int64)
        for beam in self._beams:
            candidates = self._candidates(beam, log_probs, best, taken)
            beam.finish(candidates, self.end)
            beam.advance(candidates, self.penalty(self.histories.n_tokens + 1))
            taken = np.concatenate([taken, np.where(beam.alive, beam.last, FILLER)], axis=1)
        return _next_call(self._beams)

    def _candidates(
        self, beam: _Beam, log_probs: LogProbs, best: tuple[Floats, Ints], taken: Ints
    ) -> _Candidates:
        """Return the best 2 * width continuations of each sentence in a group, by log-probability.

        `best` are values and tokens (N, k) of each row. Earlier groups have `taken` (A, M) in this step, each
        token as often as it is there, or FILLER; that lowers theirs. Width + 1 tokens of a row that are not
        lowered are enough to choose from: a parent ends in one way, so that these always include width that
        live on. Phrases have their own choice, among all.
        """
        values, tokens = best
        n_tokens, banks = self.histories.n_tokens, self._banks
        if banks is not None:
            values, tokens = banks.widen(values, tokens, log_probs, beam.widths[beam.alive.nonzero()[0]])
        model = values[beam.rows] + beam.log_prob[:, :, None]  # (A, L, k)
        choices = tokens[beam.rows]
        at_limit = beam.limits == n_tokens  # (A,)
        if at_limit.any():
            model[at_limit], choices[at_limit] = -np.inf, self.eos_id
            ending = log_probs.at(beam.rows[at_limit], self.eos_id)
            model[at_limit, :, 0] = ending + beam.log_prob[at_limit]
        n_times = (choices[..., None] == taken[:, None, None]).sum(axis=3)  # (A, L, k)
        flat = (model - self._diversity_penalty * n_times).reshape(len(model), -1)
        order = ranked(flat)
        if banks is None:
            order = order[:, : 2 * int(beam.widths.max())]  # (A, C)
        scores, log_prob = columns_of(flat, order), columns_of(model.reshape(flat.shape), order)
        slots, tokens = order // choices.shape[2], columns_of(choices.reshape(flat.shape), order)
        is_eos = tokens == self.eos_id
        if banks is None:
            possible = scores > -np.inf
            first, lives = possible & (np.arange(scores.shape[1]) < beam.widths[:, None]), possible & ~is_eos
        else:
            rows = columns_of(beam.rows, slots)
            first, lives, n_too_early = banks.choose(scores, rows, tokens, beam.widths, n_tokens=n_tokens)
            beam.n_ended = beam.n_ended + n_too_early
        return _Candidates(scores, log_prob, slots, tokens, first & is_eos, lives)

    def _choose_compiled(self, log_probs: ArrayLogProbs) -> tuple[Ints, Ints]:
        """Do the same for a plain beam in native.c, which changes `finished` and `n_ended` in place."""
        (beam,), library, width = self._beams, native().library, self._width
        assert library is not None
        read = [getattr(beam, name) for name in READ]
        assert all(array.flags.c_contiguous for array in read)
        (A, L), n_tokens = beam.rows.shape, self.histories.n_tokens
        integers, numbers = np.empty((4, A * width), np.int64), np.empty((2, A * width), np.float64)
        (rows, last, parents, ended), (log_prob, ended_log_probs) = integers, numbers
        made = [row.ctypes.data for block in (integers, numbers) for row in block]
        step = _CompiledBeam(
            A, L, width, beam.finished.shape[1], n_tokens, self.penalty(n_tokens), self.penalty(n_tokens + 1),
            *(array.ctypes.data for array in read), *made,
        )  # fmt: skip
        start, C = log_probs.values.ctypes.data, log_probs.shape[1]
        if not library.dragoman_beam(ctypes.byref(step), start, C, C, self.eos_id):
            refuse_nan()
        beam.rows, beam.log_prob, beam.last = (x.reshape(A, width) for x in (rows, log_prob, last))
        self.end(ended[: step.n_ending], ended_log_probs[: step.n_ending])
        tokens = beam.last[beam.alive]
        beam.keep(beam.alive[:, 0])
        return tokens, parents[: step.n_next]

    def _ranked(self, ended: list[Hypothesis]) -> list[Hypothesis]:
        # Each group has its own n_best; what several ended with counts once.
        if len(self._beams) > 1:
            first: dict[tuple[int, ...], Hypothesis] = {}
            for hypothesis in sorted(ended, key=lambda hypothesis: -hypothesis.score):
                first.setdefault(hypothesis.ids, hypothesis)
            ended = [*first.values()]
        return super()._ranked(ended)


class _Candidates(NamedTuple):
    """Continuations of the live hypotheses of each sentence, best first; each field (A, C)."""

    scores: Floats
    """What ranks them: log-probabilities less the penalties of this step; -inf of what is impossible."""
    log_probs: Floats
    """The model's; -inf of what is impossible."""
    slots: Ints
    """The slots of their parents."""
    tokens: Ints
    ends: Bools
    """Whether they end with eos among the first and are finished."""
    lives: Bools
    """Whether they may live on."""


@dataclass
class _Beam:
    """The A sentences still searched, and their live hypotheses in L slots, best first."""

    widths: Ints
    """(A,) the most live hypotheses."""
    limits: Ints
    """(A,) most tokens, eos not counted."""
    limit_penalty: Floats
    """(A,) the largest length penalty that a hypothesis can have."""
    log_prob: Floats
    """(A, L) of the live hypotheses; -inf in an empty slot."""
    last: Ints
    """(A, L) their newest tokens."""
    rows: Ints
    """(A, L) their rows in the next call; until it is known, their parents' rows in the last one."""
    finished: Floats
    """(A, n_best) the best scores of finished hypotheses, best first; -inf where there is none yet."""
    n_ended: Ints
    """(A,) hypotheses that are finished, or would be if they contained their phrases."""

    @classmethod
    def start(cls, limits: Ints, limit_penalty: Floats, widths: Ints, *, n_best: int) -> _Beam:
        """Return one with an empty hypothesis for each sentence."""
        A = len(limits)
        return cls(
            widths=widths,
            limits=limits,
            limit_penalty=limit_penalty,
            log_prob=np.zeros((A, 1)),
            last=np.zeros((A, 1), np.int64),
            rows=np.arange(A)[:, None],
            finished=np.full((A, n_best), -np.inf),
            n_ended=np.zeros(A, np.int64),
        )

    @property
    def alive(self) -> Bools:
        """(A, L) which slots are filled."""
        return self.log_prob > -np.inf

    def keep(self, going: Bools) -> None:
        """Drop the sentences that are not `going`, (A,) bool."""
        if not going.all():
            for name, value in vars(self).items():
                setattr(self, name, value[going])

    def finish(self, candidates: _Candidates, end: Callable[[Ints, Floats], Floats]) -> None:
        """Close the hypotheses that end; if no continuation is possible, close the best one as it is.

        `end` takes rows (M,) and log-probabilities (M,), and returns their scores.
        """
        scores, log_probs, slots, _, ends, lives = candidates
        stuck = ~(ends | lives).any(axis=1) & self.alive[:, 0]
        if stuck.any():
            ends, log_probs = ends.copy(), log_probs.copy()
            slots = np.where(stuck[:, None], 0, slots)
            ends[stuck, 0], log_probs[stuck, 0] = True, -np.inf
        sentences, ranks = ends.nonzero()
        if not len(sentences):
            return
        rows = self.rows[sentences, slots[sentences, ranks]]
        table = np.full_like(scores, -np.inf)
        table[sentences, ranks] = end(rows, log_probs[sentences, ranks])
        pool = np.concatenate([self.finished, table], axis=1)
        self.finished = columns_of(pool, ranked(pool)[:, : self.finished.shape[1]])
        self.n_ended = self.n_ended + ends.sum(axis=1)

    def advance(self, candidates: _Candidates, next_penalty: float) -> None:
        """Extend the beam by one token, and empty the slots of finished sentences.

        `next_penalty` is the length penalty of a hypothesis that ends in the next step.
        """
        scores = np.where(candidates.lives, candidates.scores, -np.inf)
        order = ranked(scores)[:, : int(self.widths.max())]  # (A, L)
        self.last = columns_of(candidates.tokens, order)
        self.rows = columns_of(self.rows, columns_of(candidates.slots, order))
        log_prob = columns_of(candidates.log_probs, order)
        live = columns_of(scores, order) > -np.inf
        log_prob = np.where(live, log_prob, -np.inf)
        least, best = self.finished[:, -1], log_prob.max(axis=1)
        enough = (self.n_ended >= self.widths) & (least > -np.inf)
        enough &= (self.widths == 1) | (best / next_penalty <= least)
        going = ~enough & (best / self.limit_penalty > least)
        self.log_prob = np.where(going[:, None], log_prob, -np.inf)


def _next_call(beams: Sequence[_Beam]) -> tuple[Ints, Ints]:
    """Return `last` and `parents` of the next call, grouped by sentence; drop finished sentences."""
    alive = np.concatenate([beam.alive for beam in beams], axis=1)  # (A, slots of all beams)
    going: Bools = alive.max(axis=1)
    for beam in beams:
        beam.keep(going)
    alive = alive[going]
    last = np.concatenate([beam.last for beam in beams], axis=1)[alive]
    parents = np.concatenate([beam.rows for beam in beams], axis=1)[alive]
    numbers = (alive.cumsum(dtype=np.int64) - 1).reshape(alive.shape)
    for beam in beams:
        width = beam.rows.shape[1]
        beam.rows, numbers = numbers[:, :width], numbers[:, width:]
    return last, parents


READ = ("limits", "limit_penalty", "rows", "log_prob", "finished", "n_ended")
"""The arrays of a `_Beam` that compiled code reads."""


class _CompiledBeam(ctypes.Structure):
    """`Beam` of native.c: a `_Beam`, and what follows from a step."""

    _fields_ = (
        *((name, Int) for name in ("n_sentences", "n_slots", "width", "n_best", "n_tokens")),
        *((name, Double) for name in ("penalty", "next_penalty")),
        *((name, Pointer) for name in READ),
        *((name, Pointer) for name in (
            "next_rows", "last", "parents", "ended", "next_log_prob", "ended_log_prob",
        )),
        *((name, Int) for name in ("n_next", "n_ending")),
    )  # fmt: skip
