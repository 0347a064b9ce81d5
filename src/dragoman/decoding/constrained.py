"""Beam search for sequences that hold given phrases: dynamic beam allocation (Post & Vilar 2018)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

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
from dragoman.decoding.phrases import Phrases, PhraseState


@torch.no_grad()
def constrained_beam_search(
    step: NextToken,
    *,
    phrases: Sequence[Phrases],
    max_lengths: Sequence[int],
    bos_id: int,
    eos_id: int,
    beam_size: int,
    length_penalty: float = 1.0,
    n_best: int = 1,
    score_term: ScoreTerm | None = None,
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """The best `n_best` hypotheses per sentence among those that satisfy its phrases, best score first.

    It is `beam_search` but for five things.

    - A hypothesis may end only where its phrases are satisfied, and grow only so far that those it still
      needs, one after the other, fit into its longest length. That must hold them all: `max_lengths[i]` is
      at least `phrases[i].need(Phrases.start)`.
    - Besides a hypothesis' best tokens, those that advance its phrases are candidates, however improbable.
    - Candidates are sorted into banks by the tokens they still need. Each bank has the same share of the
      beam's slots, and what a bank leaves is filled by the best of the others. (Post & Vilar count banks that
      stay empty, too, and spread their shares from the fullest bank on.)
    - The beam is as wide as there are banks, C + 1 for C tokens of phrases, if that is more than
      `beam_size`: otherwise phrases would be put off until the length limit forces them in.
    - A hypothesis that would end among the first K, but may not, counts towards the K after which the
      sentence is done: the model has said what it has to say. Without this, what is still unsatisfied goes
      on behind its natural end, and a length penalty that favours long translations picks it.

    So every hypothesis that is returned satisfies its phrases, unless the step gives every way of doing so
    a log-probability of -inf: then there is one hypothesis, with a log_prob of -inf. A sentence without
    phrases is searched as by `beam_search`, and a beam at least as wide as there are sequences finds the
    best of those that satisfy and fit in this way. The other arguments are as there.
    """
    assert 1 <= n_best <= beam_size
    paths = Paths(length_penalty)
    searches = [
        _Search.start(i, own, limit=limit, beam_size=beam_size, n_best=n_best, alpha=length_penalty)
        for i, (own, limit) in enumerate(zip(phrases, max_lengths, strict=True))
    ]
    last, parents = [bos_id] * len(searches), list(range(len(searches)))
    while searches:
        paths.extend(torch.tensor(last), torch.tensor(parents))
        log_probs = step(torch.tensor(last, device=device), torch.tensor(parents, device=device))  # (N, V)
        continuations = _continuations(searches, log_probs, n_tokens=paths.n_tokens, eos_id=eos_id)
        endings, last, parents = [], [], []
        for search, own in zip(searches, continuations, strict=True):
            ended = search.choose(own, n_tokens=paths.n_tokens, eos_id=eos_id)
            endings += [(search, row, log_prob) for row, log_prob in ended]
        _close(paths, endings, score_term)
        searches = [search for search in searches if not search.is_done]
        for search in searches:
            first = len(last)
            last += [live.token for live in search.live]
            parents += [live.row for live in search.live]
            search.live = [live._replace(row=first + i) for i, live in enumerate(search.live)]
    return paths.hypotheses(len(max_lengths), n_best)


class _Live(NamedTuple):
    """A hypothesis that may grow: a candidate while it is chosen."""

    log_prob: float
    token: int
    """Its newest."""
    row: int
    """In the next call; of a candidate, its parent's in the last."""
    state: PhraseState
    need: int
    """Tokens that its phrases still need."""


@dataclass
class _Search:
    """One sentence."""

    number: int
    phrases: Phrases
    limit: int
    """Most tokens, eos not counted."""
    limit_penalty: float
    """The largest length penalty that a hypothesis can have."""
    width: int
    """Slots of the beam."""
    n_best: int
    live: list[_Live]
    """Best first."""
    finished: list[float] = field(default_factory=list)
    """The scores of finished hypotheses, best first."""
    n_ended: int = 0
    """Hypotheses that ended among the first, or would have if they had satisfied their phrases."""

    @classmethod
    def start(
        cls, number: int, phrases: Phrases, *, limit: int, beam_size: int, n_best: int, alpha: float
    ) -> _Search:
        """One empty hypothesis, in the row of its sentence."""
        need = phrases.need(Phrases.start)
        assert need <= limit, "the longest length must leave room for the phrases"
        empty = _Live(log_prob=0.0, token=-1, row=number, state=Phrases.start, need=need)
        penalty = length_penalty(limit + 1, alpha)
        return cls(number, phrases, limit, penalty, max(beam_size, need + 1), n_best, [empty])

    @property
    def is_done(self) -> bool:
        """No live hypothesis can still get among the `n_best` finished ones, or enough have ended."""
        if not self.live or len(self.finished) < self.n_best:
            return not self.live
        reachable = self.live[0].log_prob / self.limit_penalty
        return self.n_ended >= self.width or reachable <= self.finished[self.n_best - 1]

    def wanted(self, state: PhraseState, *, n_tokens: int, eos_id: int) -> tuple[int, ...]:
        """The tokens that are candidates after `state` however improbable they are."""
        if n_tokens == self.limit or self.phrases.satisfied(state):
            return (eos_id,)
        return self.phrases.advancing(state)

    def choose(
        self, continuations: Sequence[Sequence[tuple[int, float]]], *, n_tokens: int, eos_id: int
    ) -> list[tuple[int, float]]:
        """Takes the next live hypotheses from tokens and log-probabilities for each one that lives.

        What ends is returned: row and log-probability.
        """
        candidates = [
            _Live(live.log_prob + value, token, live.row, live.state, live.need)
            for live, own in zip(self.live, continuations, strict=True)
            for token, value in own
            if value > -torch.inf
        ]
        candidates.sort(key=lambda candidate: -candidate.log_prob)
        possible = [
            grown
            for candidate in candidates
            if (grown := self._grown(candidate, n_tokens=n_tokens, eos_id=eos_id)) is not None
        ]
        if not possible:
            stuck, self.live = self.live[0].row, []
            return [(stuck, -torch.inf)]
        first = _allocate(possible, self.width)
        self.live = _allocate([c for c in possible if c.token != eos_id], self.width)
        ended = [(c.row, c.log_prob) for c in first if c.token == eos_id]
        too_early = (c.token == eos_id and c.need > 0 for c in candidates[: self.width])
        self.n_ended += len(ended) + sum(too_early)
        return ended

    def _grown(self, candidate: _Live, *, n_tokens: int, eos_id: int) -> _Live | None:
        """`candidate`, which has its parent's state, with its own; None if it leads to no satisfied end."""
        if candidate.token == eos_id:
            return candidate if self.phrases.satisfied(candidate.state) else None
        state = self.phrases.follow(candidate.state, candidate.token)
        need = self.phrases.need(state)
        if n_tokens + 1 + need > self.limit:
            return None
        return candidate._replace(state=state, need=need)


def _continuations(
    searches: Sequence[_Search], log_probs: Tensor, *, n_tokens: int, eos_id: int
) -> list[list[list[tuple[int, float]]]]:
    """Tokens and their log-probabilities for each live hypothesis of each sentence, the best first.

    width + 1 per row are enough to choose from, with those that are wanted.
    """
    lives = [(search, live) for search in searches for live in search.live]  # in the order of rows
    best, tokens = best_tokens(log_probs, max(search.width for search in searches) + 1)  # (N, k)
    wanted = [s.wanted(live.state, n_tokens=n_tokens, eos_id=eos_id) for s, live in lives]
    rows = [row for row, own in enumerate(wanted) for _ in own]
    columns = [token for own in wanted for token in own]
    where = torch.tensor([rows, columns], dtype=torch.long, device=log_probs.device)
    values = iter(log_probs[where[0], where[1]].cpu().double().tolist())
    found: dict[int, list[list[tuple[int, float]]]] = {search.number: [] for search in searches}
    for (search, _), row_tokens, row_values, extra in zip(
        lives, tokens.tolist(), best.tolist(), wanted, strict=True
    ):
        known = dict(zip(row_tokens[: search.width + 1], row_values, strict=False))
        known.update(zip(extra, values, strict=False))
        if n_tokens == search.limit:
            known = {eos_id: known[eos_id]}
        found[search.number].append(list(known.items()))
    return list(found.values())


def _allocate(candidates: list[_Live], width: int) -> list[_Live]:
    """The `width` candidates that get a slot, out of all, best first: the same number of each bank's best.

    What a bank leaves is filled by the best of all others.
    """
    banks = Counter(candidate.need for candidate in candidates)
    if len(candidates) <= width or len(banks) == 1:
        return candidates[:width]
    share = width // len(banks)
    ranks: Counter[int] = Counter()
    chosen: list[int] = []
    others: list[int] = []
    for i, candidate in enumerate(candidates):
        (chosen if ranks[candidate.need] < share else others).append(i)
        ranks[candidate.need] += 1
    chosen += others[: width - len(chosen)]
    return [candidates[i] for i in sorted(chosen)]


def _close(paths: Paths, endings: Sequence[tuple[_Search, int, float]], score_term: ScoreTerm | None) -> None:
    """Closes hypotheses given by sentence, row and log-probability."""
    if not endings:
        return
    searches, rows, log_probs = zip(*endings, strict=True)
    scores = paths.end(
        torch.tensor([search.number for search in searches]),
        torch.tensor(rows),
        torch.tensor(log_probs, dtype=torch.float64),
        score_term,
    )
    for search, score in zip(searches, scores.tolist(), strict=True):
        search.finished.append(score)
        search.finished.sort(reverse=True)
