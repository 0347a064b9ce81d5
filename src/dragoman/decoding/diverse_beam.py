"""Diverse beam search (Vijayakumar et al. 2018): groups of hypotheses that keep away from each other."""

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
def diverse_beam_search(
    step: NextToken,
    *,
    max_lengths: Sequence[int],
    bos_id: int,
    eos_id: int,
    beam_size: int,
    n_groups: int,
    diversity_penalty: float,
    length_penalty: float = 1.0,
    n_best: int = 1,
    score_term: ScoreTerm | None = None,
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """The best `n_best` different hypotheses of all groups, best score first.

    The beam is split into `n_groups` of equal width, each a beam search of its own, but for one thing. In
    every step groups choose one after the other, and a token's log-probability counts less for a group by
    `diversity_penalty` for each hypothesis of an earlier group that this step made longer by the same token
    (Hamming diversity, section 3). The penalty takes part in the choice of that step alone: log_prob and
    score of a hypothesis are the model's. Nor does it know eos: no group goes on because another has ended.

    Groups may end with the same sequence, of which one is kept: there may be fewer than `n_best`. With one
    group it is `beam_search`, and the other arguments are as there.
    """
    assert beam_size % n_groups == 0
    assert 1 <= n_best <= beam_size
    assert diversity_penalty >= 0
    width = beam_size // n_groups
    paths = Paths(length_penalty)
    groups = [
        _Group.start(max_lengths, width=width, n_best=min(n_best, width), alpha=length_penalty)
        for _ in range(n_groups)
    ]
    parents = torch.arange(len(max_lengths))
    last = torch.full_like(parents, bos_id)
    while len(last):
        paths.extend(last, parents)
        log_probs = step(last.to(device), parents.to(device))  # (N, V)
        penalties = log_probs.new_zeros(len(max_lengths), log_probs.shape[1])  # (B, V)
        for group in groups:
            candidates = group.candidates(log_probs, penalties, n_tokens=paths.n_tokens, eos_id=eos_id)
            scores, totals, slots, tokens = candidates
            group.finish(paths, scores, totals, slots, tokens == eos_id, score_term)
            group.advance(scores, totals, slots, tokens, eos_id=eos_id)
            sentences, slots = group.alive.nonzero(as_tuple=True)
            taken = group.last[sentences, slots].to(device)
            amount = penalties.new_tensor(diversity_penalty).expand(len(taken))
            penalties.index_put_((sentences.to(device), taken), amount, accumulate=True)
        last, parents = _next_call(groups)
    found = paths.hypotheses(len(max_lengths), n_best * n_groups)
    return [_different(hypotheses)[:n_best] for hypotheses in found]


@dataclass
class _Group:
    """The live hypotheses of one group, in L <= width slots a sentence; a sentence that is done has none."""

    width: int
    limits: Tensor
    """(B,) most tokens, eos not counted."""
    limit_penalty: Tensor
    """(B,) the largest length penalty that a hypothesis can have."""
    log_prob: Tensor
    """(B, L) of the live hypotheses; -inf in an empty slot."""
    last: Tensor
    """(B, L) their newest tokens."""
    rows: Tensor
    """(B, L) their rows in the next call, or while they are chosen, their parents' in the last."""
    finished: Tensor
    """(B, n_best) the best scores of finished hypotheses, best first; -inf where there is none yet."""
    n_finished: Tensor
    """(B,)"""

    @classmethod
    def start(cls, max_lengths: Sequence[int], *, width: int, n_best: int, alpha: float) -> _Group:
        """One empty hypothesis per sentence."""
        B = len(max_lengths)
        penalties = [length_penalty(length + 1, alpha) for length in max_lengths]
        return cls(
            width=width,
            limits=torch.tensor(max_lengths, dtype=torch.long),
            limit_penalty=torch.tensor(penalties, dtype=torch.float64),
            log_prob=torch.zeros(B, 1, dtype=torch.float64),
            last=torch.zeros(B, 1, dtype=torch.long),
            rows=torch.arange(B)[:, None],
            finished=torch.full((B, n_best), -torch.inf, dtype=torch.float64),
            n_finished=torch.zeros(B, dtype=torch.long),
        )

    @property
    def alive(self) -> Tensor:
        """(B, L) which slots are filled."""
        return self.log_prob > -torch.inf

    def candidates(
        self, log_probs: Tensor, penalties: Tensor, *, n_tokens: int, eos_id: int
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The best 2 * width continuations per sentence, each (B, C).

        What ranks them, the log-probability less the penalty; their log-probability; the slot of the
        parent; the token. As in beam search, width + 1 per row are enough to choose from.
        """
        alive = self.alive
        rows, sentences = self.rows[alive].to(log_probs.device), alive.nonzero()[:, 0]
        own = log_probs[rows]  # (M, V)
        values, tokens = best_tokens(own - penalties[sentences.to(own.device)], self.width + 1)  # (M, k)
        at_limit = self.limits[sentences] == n_tokens
        if at_limit.any():
            values[at_limit], tokens[at_limit] = -torch.inf, eos_id
            values[at_limit, 0] = own[:, eos_id].cpu().double()[at_limit]
        plain = own.gather(1, tokens.to(own.device)).cpu().double()

        B, L = alive.shape
        k = values.shape[1]
        scores, totals = (values.new_full((B, L, k), -torch.inf) for _ in range(2))
        scores[alive] = values + self.log_prob[alive][:, None]
        totals[alive] = plain + self.log_prob[alive][:, None]
        choices = tokens.new_full((B, L, k), eos_id)
        choices[alive] = tokens
        scores, best = scores.flatten(1).sort(dim=1, descending=True, stable=True)
        scores, best = scores[:, : 2 * self.width], best[:, : 2 * self.width]  # (B, C)
        return scores, totals.flatten(1).gather(1, best), best // k, choices.flatten(1).gather(1, best)

    def finish(
        self,
        paths: Paths,
        scores: Tensor,
        totals: Tensor,
        slots: Tensor,
        is_eos: Tensor,
        score_term: ScoreTerm | None,
    ) -> None:
        """Closes the hypotheses that end within the first `width` candidates."""
        ends = is_eos & (scores > -torch.inf)
        ends[:, self.width :] = False
        stuck = self.alive.any(dim=1) & (scores[:, 0] == -torch.inf)
        ends[:, 0] |= stuck  # nothing is possible: closed where it stands
        sentences, ranks = ends.nonzero(as_tuple=True)
        rows = self.rows[sentences, slots[sentences, ranks]]
        log_probs = totals[sentences, ranks].masked_fill(stuck[sentences], -torch.inf)
        closed = paths.end(sentences, rows, log_probs, score_term)
        table = torch.full_like(scores, -torch.inf)
        table[sentences, ranks] = closed
        n_best = self.finished.shape[1]
        self.finished = torch.cat([self.finished, table], dim=1).topk(n_best, dim=1).values
        self.n_finished = self.n_finished + ends.sum(dim=1)

    def advance(self, scores: Tensor, totals: Tensor, slots: Tensor, tokens: Tensor, *, eos_id: int) -> None:
        """Moves the group one token on, and empties the slots of sentences that are done."""
        scores = scores.masked_fill(tokens == eos_id, -torch.inf)
        scores, order = scores.sort(dim=1, descending=True, stable=True)
        scores, order = scores[:, : self.width], order[:, : self.width]  # (B, L)
        self.rows = self.rows.gather(1, slots.gather(1, order))
        self.last = tokens.gather(1, order)
        self.log_prob = totals.gather(1, order).masked_fill(scores == -torch.inf, -torch.inf)
        reachable = self.log_prob.amax(dim=1) / self.limit_penalty
        going = (self.n_finished < self.width) & (reachable > self.finished[:, -1])
        self.log_prob = self.log_prob.masked_fill(~going[:, None], -torch.inf)


def _next_call(groups: Sequence[_Group]) -> tuple[Tensor, Tensor]:
    """`last` and `parents` of the next call, the rows of a sentence together; tells the groups their rows."""
    alive = torch.cat([group.alive for group in groups], dim=1)  # (B, slots of all groups)
    last = torch.cat([group.last for group in groups], dim=1)[alive]
    parents = torch.cat([group.rows for group in groups], dim=1)[alive]
    numbers = (alive.flatten().cumsum(0) - 1).view_as(alive)
    first = 0
    for group in groups:
        n_slots = group.rows.shape[1]
        group.rows = numbers[:, first : first + n_slots]
        first += n_slots
    return last, parents


def _different(hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
    """The first of each sequence."""
    kept: dict[tuple[int, ...], Hypothesis] = {}
    for hypothesis in hypotheses:
        kept.setdefault(hypothesis.ids, hypothesis)
    return list(kept.values())
