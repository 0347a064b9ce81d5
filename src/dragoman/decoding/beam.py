"""Beam search with the length penalty of Wu et al. 2016, batched, each sentence stopping on its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dragoman.decoding.hypotheses import (
    Hypothesis,
    NextToken,
    Paths,
    ScoreTerm,
    best_tokens,
    length_penalty,
)


@torch.no_grad()
def beam_search(
    step: NextToken,
    *,
    max_lengths: Sequence[int],
    bos_id: int,
    eos_id: int,
    beam_size: int,
    length_penalty: float = 1.0,
    n_best: int = 1,
    score_term: ScoreTerm | None = None,
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """The best `n_best` hypotheses per sentence, best score first (fewer where fewer are possible).

    A step, with K = beam_size: all continuations of a sentence's live hypotheses are ranked by
    log-probability. Those among the first K that end with eos are finished; the first K of the others
    live on. Sentence i has at most `max_lengths[i]` tokens: live hypotheses of that length are closed
    with eos, whose log-probability counts like any other's. A sentence is done as soon as

    - K hypotheses are finished. (A beam of one is therefore exactly greedy search.)
    - or no live hypothesis can still get among the `n_best` finished ones. Log-probabilities are at most
      0 and the penalty never falls with length, so that no continuation of a live hypothesis can score
      more than its log_prob divided by the penalty of the longest possible length (plus `score_term`,
      which is added to the score of a finished hypothesis and is at most 0).
    - or none lives on.

    A beam at least as wide as there are sequences therefore returns the best of them all.

    Continuations of log-probability -inf are never taken; a sentence where nothing else is left is
    closed there and has one hypothesis with a log_prob of -inf. Of equals, the better parent's
    continuation goes first, then the lower token id. `length_penalty` is alpha, at least 0.
    `step` is called with tensors on `device`; all else is on the CPU, in fp64. RunError: a
    log-probability is NaN.
    """
    assert 1 <= n_best <= beam_size
    paths = Paths(length_penalty)
    beam = _Beam.start(max_lengths, n_best=n_best, alpha=length_penalty)
    last = torch.full_like(beam.sentences, bos_id)
    parents = beam.sentences
    while len(beam.sentences):
        paths.extend(last, parents)
        log_probs = step(last.to(device), parents.to(device))  # (N, V)
        scores, slots, tokens = _candidates(
            beam, log_probs, n_tokens=paths.n_tokens, eos_id=eos_id, beam_size=beam_size
        )
        _finish(beam, paths, scores, slots, tokens == eos_id, beam_size=beam_size, score_term=score_term)
        last, parents = _advance(beam, scores, slots, tokens, eos_id=eos_id, beam_size=beam_size)
    return paths.hypotheses(len(max_lengths), n_best)


@dataclass
class _Beam:
    """The A sentences still searched, and their live hypotheses in L <= beam_size slots, best first."""

    sentences: Tensor
    """(A,) their numbers."""
    limits: Tensor
    """(A,) most tokens, eos not counted."""
    limit_penalty: Tensor
    """(A,) the largest length penalty that a hypothesis can have."""
    log_prob: Tensor
    """(A, L) of the live hypotheses; -inf in an empty slot. The filled slots are the rows, in order."""
    finished: Tensor
    """(A, n_best) the best scores of finished hypotheses, best first; -inf where there is none yet."""
    n_finished: Tensor
    """(A,)"""

    @classmethod
    def start(cls, max_lengths: Sequence[int], *, n_best: int, alpha: float) -> _Beam:
        """One empty hypothesis per sentence."""
        assert all(length >= 0 for length in max_lengths)
        n_sentences = len(max_lengths)
        penalties = [length_penalty(length + 1, alpha) for length in max_lengths]
        return cls(
            sentences=torch.arange(n_sentences),
            limits=torch.tensor(max_lengths, dtype=torch.long),
            limit_penalty=torch.tensor(penalties, dtype=torch.float64),
            log_prob=torch.zeros(n_sentences, 1, dtype=torch.float64),
            finished=torch.full((n_sentences, n_best), -torch.inf, dtype=torch.float64),
            n_finished=torch.zeros(n_sentences, dtype=torch.long),
        )

    @property
    def alive(self) -> Tensor:
        """(A, L) which slots are filled."""
        return self.log_prob > -torch.inf

    def keep(self, chosen: Tensor) -> None:
        """Drops every sentence that is not among `chosen`, (A,) bool."""
        for name, value in vars(self).items():
            setattr(self, name, value[chosen])


def _candidates(
    beam: _Beam, log_probs: Tensor, *, n_tokens: int, eos_id: int, beam_size: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The best 2 * beam_size continuations per sentence: log-probability, parent slot, token; each (A, C).

    So many always hold beam_size that live on, for each parent ends in one way. For the same reason
    beam_size + 1 per row are enough to choose from.
    """
    values, tokens = best_tokens(log_probs, beam_size + 1)  # (N, k)
    alive = beam.alive  # (A, L)
    at_limit = (beam.limits == n_tokens)[:, None].expand_as(alive)[alive]  # (N,)
    if at_limit.any():
        values[at_limit], tokens[at_limit] = -torch.inf, eos_id
        values[at_limit, 0] = log_probs[:, eos_id].cpu().double()[at_limit]

    A, L = alive.shape
    k = values.size(1)
    scores = values.new_full((A, L, k), -torch.inf)
    scores[alive] = values + beam.log_prob[alive][:, None]
    choices = tokens.new_full((A, L, k), eos_id)
    choices[alive] = tokens
    scores, best = scores.flatten(1).sort(dim=1, descending=True, stable=True)
    scores, best = scores[:, : 2 * beam_size], best[:, : 2 * beam_size]  # (A, C)
    return scores, best // k, choices.flatten(1).gather(1, best)


def _finish(
    beam: _Beam,
    paths: Paths,
    scores: Tensor,
    slots: Tensor,
    is_eos: Tensor,
    *,
    beam_size: int,
    score_term: ScoreTerm | None,
) -> None:
    """Closes the hypotheses that end within the first beam_size candidates; all arguments (A, C)."""
    ends = is_eos & (scores > -torch.inf)
    ends[:, beam_size:] = False
    ends[:, 0] |= scores[:, 0] == -torch.inf  # nothing is possible: closed where it stands
    sentences, ranks = ends.nonzero(as_tuple=True)
    rows = _row_numbers(beam.alive)[sentences, slots[sentences, ranks]]
    closed = paths.end(beam.sentences[sentences], rows, scores[sentences, ranks], score_term)

    table = torch.full_like(scores, -torch.inf)
    table[sentences, ranks] = closed
    n_best = beam.finished.size(1)
    beam.finished = torch.cat([beam.finished, table], dim=1).topk(n_best, dim=1).values
    beam.n_finished = beam.n_finished + ends.sum(dim=1)


def _advance(
    beam: _Beam, scores: Tensor, slots: Tensor, tokens: Tensor, *, eos_id: int, beam_size: int
) -> tuple[Tensor, Tensor]:
    """The next call's `last` and `parents`; moves the beam one token on and drops sentences that are done."""
    parent_rows = _row_numbers(beam.alive)
    live_scores = scores.masked_fill(tokens == eos_id, -torch.inf)
    beam.log_prob, order = live_scores.sort(dim=1, descending=True, stable=True)
    beam.log_prob, order = beam.log_prob[:, :beam_size], order[:, :beam_size]  # (A, L)
    last = tokens.gather(1, order)
    parents = parent_rows.gather(1, slots.gather(1, order))

    reachable = beam.log_prob[:, 0] / beam.limit_penalty
    going = (beam.n_finished < beam_size) & (reachable > beam.finished[:, -1])
    beam.keep(going)
    alive = beam.alive
    return last[going][alive], parents[going][alive]


def _row_numbers(alive: Tensor) -> Tensor:
    """The row of each filled slot of `alive` (A, L), counted through the batch; anything for an empty one."""
    return (alive.flatten().cumsum(0) - 1).view_as(alive)
