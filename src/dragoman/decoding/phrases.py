"""Phrase constraints: an automaton over tokens, and the allocation of the beam among its states."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from dragoman.decoding.log_probs import Bools, Floats, Ints, LogProbs, columns_of, ranked


class Phrase(Protocol):
    """What a sequence must hold, as positions 0, 1, ... and the tokens that lead from one to another."""

    @property
    def tokens(self) -> Collection[int]:
        """The tokens that a search must be free to write wherever the phrase needs them."""

    def follow(self, position: int, token: int) -> int | None:
        """Return the position after `token`, or None if the phrase does not go on so. 0 is its beginning."""

    def distance(self, position: int) -> int:
        """Return the fewest tokens that complete the phrase; 0 where it is complete."""

    def forward(self, position: int) -> Sequence[int]:
        """Return the tokens that lead to a smaller distance; none exactly where the distance is 0."""


@dataclass(frozen=True)
class ExactPhrase:
    """These tokens, one after the other."""

    tokens: tuple[int, ...]

    def follow(self, position: int, token: int) -> int | None:
        goes_on = position < len(self.tokens) and self.tokens[position] == token
        return position + 1 if goes_on else None

    def distance(self, position: int) -> int:
        return len(self.tokens) - position

    def forward(self, position: int) -> Sequence[int]:
        return self.tokens[position : position + 1]


class PhraseState(NamedTuple):
    """The state of the automaton after a sequence."""

    begun: tuple[tuple[int, int], ...]
    """Each phrase that the end of the sequence has begun or completes, and the position in it."""
    done: int
    """Bit p is set if phrase p occurred before."""


class Phrases:
    """Phrases that must all occur in a sequence: in any order, also overlapping or within another.

    An automaton over tokens, whose states are made when they are reached.
    With `continuing`, the tokens that continue a word, a phrase that such a token follows does not count,
    so that "Hund" is not found in "Hunde"; unless the phrase itself goes on with the token. Phrases that
    begin with one themselves (characters, or a script without spaces) make that distinction meaningless, and
    it is not made.
    """

    def __init__(self, phrases: Sequence[Phrase], *, continuing: Collection[int] = ()) -> None:
        self._phrases = tuple(dict.fromkeys(phrases))
        self._lengths = [phrase.distance(0) for phrase in self._phrases]
        assert all(self._lengths)
        self._continuing = frozenset(continuing)
        if any(token in self._continuing for phrase in self._phrases for token in phrase.forward(0)):
            self._continuing = frozenset()
        self._all = (1 << len(self._phrases)) - 1
        self._follow: dict[tuple[PhraseState, int], PhraseState] = {}
        self._needs: dict[PhraseState, int] = {}

    start = PhraseState(begun=(), done=0)

    def follow(self, state: PhraseState, token: int) -> PhraseState:
        """Return the state after one more token."""
        successor = self._follow.get((state, token))
        if successor is None:
            done = state.done if token in self._continuing else state.done | self._ended(state)
            beginnings = ((p, 0) for p in range(len(self._phrases)))
            begun = {
                (p, following)
                for p, position in (*state.begun, *beginnings)
                if not done >> p & 1 and (following := self._phrases[p].follow(position, token)) is not None
            }
            successor = self._follow[state, token] = PhraseState(tuple(sorted(begun)), done)
        return successor

    def satisfied(self, state: PhraseState) -> bool:
        """Return whether every phrase has occurred, if the sequence ends here."""
        return state.done | self._ended(state) == self._all

    def need(self, state: PhraseState) -> int:
        """Tokens that suffice to satisfy all phrases; 0 exactly where they are.

        Of these ways the shortest: the phrases that are missing, one after the other, first one that has
        begun; its next token may undo phrases that have just ended, which then are missing, too. Each of
        the tokens `advancing(state)` leads to a state that needs at least one token less.
        """
        need = self._needs.get(state)
        if need is None:
            need = self._needs[state] = min((n for n, _ in self._ways(state)), default=0)
        return need

    def advancing(self, state: PhraseState) -> tuple[int, ...]:
        """Return tokens that reduce the number of needed tokens: the first ones of the shortest ways."""
        need = self.need(state)
        return tuple(sorted({t for n, tokens in self._ways(state) if n == need for t in tokens}))

    def _ways(self, state: PhraseState) -> list[tuple[int, Sequence[int]]]:
        """Return the ways to satisfy all phrases: the tokens that each needs, and which it may begin with."""
        ended = self._ended(state)
        missing = self._all & ~(state.done | ended)
        ways: list[tuple[int, Sequence[int]]] = [
            (self._n_tokens(missing), phrase.forward(0))
            for p, phrase in enumerate(self._phrases)
            if missing >> p & 1
        ]
        for p, position in state.begun:
            if missing >> p & 1:
                phrase = self._phrases[p]
                forward = phrase.forward(position)
                apart = [t for t in forward if t not in self._continuing]
                total = self._n_tokens(missing if apart else missing | ended)
                ways.append((total - self._lengths[p] + phrase.distance(position), apart or forward))
        return ways

    def _ended(self, state: PhraseState) -> int:
        """Return the bits of the phrases that are complete where the sequence ends."""
        bits = 0
        for p, position in state.begun:
            if not self._phrases[p].distance(position):
                bits |= 1 << p
        return bits

    def _n_tokens(self, bits: int) -> int:
        return sum(n for p, n in enumerate(self._lengths) if bits >> p & 1)


class PhraseBanks:
    """Dynamic beam allocation, which makes a beam search include phrases (Post & Vilar 2018).

    - A hypothesis may end only where its phrases are satisfied, and grow only so far that those it still
      needs, one after the other, fit into its longest length. That must hold them all: `max_lengths[i]` is
      at least `phrases[i].need(Phrases.start)`.
    - Besides a hypothesis' best tokens, those that advance its phrases are candidates, however improbable;
      of many (a phrase that may be inflected), as many as there are slots, and one more.
    - Candidates are sorted into banks by the number of tokens they still need. Each bank has the same share
      of the slots, and what a bank leaves is filled by the best of the others. (Post & Vilar also count
      empty banks, and spread their shares from the fullest bank on.)
    - The beam is as wide as there are banks, C + 1 for C tokens of phrases, if that is more than its size:
      otherwise phrases would be put off until the length limit forces them in.
    - A hypothesis that would end among the first, but may not, counts as ended: the model has finished the
      sentence. Otherwise what is still missing would follow the natural end, and a length penalty that
      favours long translations would pick it.

    A beam at least as wide as there are sequences finds the best of those that satisfy and fit in this way.
    A sentence without phrases is searched as without banks.
    """

    def __init__(self, phrases: Sequence[Phrases], max_lengths: Sequence[int], *, eos_id: int) -> None:
        self._eos_id = eos_id
        self._limits = max_lengths
        self._sentences = list(range(len(max_lengths)))
        """Per row of the last call: its sentence."""
        self._phrases = phrases
        self._states: list[PhraseState] = []
        """Per row of the last call."""
        needs = zip(phrases, max_lengths, strict=True)
        assert all(p.need(Phrases.start) <= n for p, n in needs), "the phrases fit into the longest length"

    def widths(self, beam_size: int) -> list[int]:
        """Return the slots of each sentence."""
        return [max(beam_size, phrases.need(Phrases.start) + 1) for phrases in self._phrases]

    def follow(self, last: Ints, parents: Ints) -> None:
        """Note a call of the next-token function: row i continues row `parents[i]` by `last[i]`."""
        if not self._states:
            self._states = [Phrases.start] * len(last)
            return
        rows = list(zip(parents.tolist(), last.tolist(), strict=True))
        sentences = [self._sentences[row] for row, _ in rows]
        self._states = [
            self._phrases[sentence].follow(self._states[row], token)
            for sentence, (row, token) in zip(sentences, rows, strict=True)
        ]
        self._sentences = sentences

    def widen(self, values: Floats, tokens: Ints, log_probs: LogProbs, widths: Ints) -> tuple[Floats, Ints]:
        """`values` and `tokens` (N, k), the best of each row, with the best that advance its phrases.

        A row's own are width + 1 of both, so that the result does not depend on other sentences.
        """
        k = values.shape[1]
        beyond = np.arange(k) > widths[:, None]
        values = np.where(beyond, -np.inf, values)
        advancing = [self._wanted(row) for row in range(len(self._states))]
        most = max(map(len, advancing))
        extra = np.array([[*ids, *[-1] * (most - len(ids))] for ids in advancing], np.int64)
        rows = np.arange(len(extra))[:, None]
        scores = np.where(extra < 0, -np.inf, log_probs.at(rows, extra.clip(min=0)))
        order = ranked(scores)[:, :k]
        extra, scores = columns_of(extra, order), columns_of(scores, order)
        twice = ((tokens[:, :, None] == extra[:, None]) & (values > -np.inf)[:, :, None]).any(axis=1)
        scores = np.where(twice | beyond[:, : scores.shape[1]], -np.inf, scores)
        return np.concatenate([values, scores], axis=1), np.concatenate([tokens, extra.clip(min=0)], axis=1)

    def _wanted(self, row: int) -> tuple[int, ...]:
        """Return the tokens that are candidates after `row`, however improbable."""
        phrases, state = self._phrases[self._sentences[row]], self._states[row]
        return (self._eos_id,) if phrases.satisfied(state) else phrases.advancing(state)

    def choose(
        self, scores: Floats, rows: Ints, tokens: Ints, widths: Ints, *, n_tokens: int
    ) -> tuple[Bools, Bools, Ints]:
        """Choose among candidates (A, C), best first: `tokens` after `rows` of the last call.

        Return which would count as finished if they ended (A, C), which live on (A, C), and how many would
        have ended among the first, but for their phrases (A,).
        """
        possible = scores > -np.inf
        pairs = zip(self._sentences, self._states, strict=True)
        parents = np.array([self._phrases[sentence].need(state) for sentence, state in pairs])[rows]
        is_eos = tokens == self._eos_id
        ranks = np.arange(scores.shape[1])
        too_early = possible & is_eos & (parents > 0) & (ranks < widths[:, None])
        needs = np.full_like(tokens, -1)  # -1: leads to no satisfied end
        continuations = zip(rows[possible].tolist(), tokens[possible].tolist(), strict=True)
        needs[possible] = [self._need(*each, n_tokens + 1) for each in continuations]
        going = np.where(is_eos, -1, needs)
        return _allocated(needs, widths), _allocated(going, widths), too_early.sum(axis=1)

    def _need(self, row: int, token: int, n_tokens: int) -> int:
        """Return the tokens needed behind `token`, the `n_tokens`-th, after `row`; -1 if it may not come."""
        sentence = self._sentences[row]
        phrases, state = self._phrases[sentence], self._states[row]
        if token == self._eos_id:
            return 0 if phrases.satisfied(state) else -1
        need = phrases.need(phrases.follow(state, token))
        return need if n_tokens + need <= self._limits[sentence] else -1


def _allocated(needs: Ints, widths: Ints) -> Bools:
    """Which candidates get one of `widths` (A,) slots: the same number of each bank's best, then the others.

    `needs` (A, C), best candidate first, is the bank of each, -1 of what is impossible.
    """
    in_bank = needs[:, :, None] == np.arange(needs.max(initial=0) + 1)  # (A, C, banks)
    ranks = (in_bank.cumsum(axis=1) * in_bank).sum(axis=2)  # (A, C) within its bank, from 1; 0: impossible
    shares = widths // in_bank.any(axis=1).sum(axis=1).clip(min=1)
    chosen = (ranks > 0) & (ranks <= shares[:, None])
    rest = (ranks > 0) & ~chosen
    room = widths - chosen.sum(axis=1)
    allocated: Bools = chosen | (rest & (rest.cumsum(axis=1) <= room[:, None]))
    return allocated
