"""Phrases that a sequence must hold, as an automaton over its tokens (Aho & Corasick 1975)."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from typing import NamedTuple


class PhraseState(NamedTuple):
    """What matters of a sequence for its phrases."""

    node: int
    """The longest end of the sequence that is the beginning of a phrase."""
    done: int
    """Bit p is set if phrase p occurred before."""


class Phrases:
    """Token sequences that must all occur in a sequence: in any order, also overlapping or within another.

    With `continuing`, the tokens that continue a word, a phrase that such a token follows does not count,
    so that "Hund" is not found in "Hunde". Phrases that begin with one themselves (characters, or a script
    without spaces) make that distinction meaningless, and it is not made.
    """

    def __init__(self, phrases: Sequence[Sequence[int]], *, continuing: Collection[int] = ()) -> None:
        self._phrases = tuple(dict.fromkeys(tuple(phrase) for phrase in phrases))
        assert all(self._phrases)
        self._continuing = frozenset(continuing)
        if any(phrase[0] in self._continuing for phrase in self._phrases):
            self._continuing = frozenset()
        self._all = (1 << len(self._phrases)) - 1
        self._children: list[dict[int, int]] = [{}]
        self._begun: list[dict[int, int]] = [
            {}
        ]  # per node: tokens of each phrase that the end of it makes up
        self._shorter: list[int] = [0]  # per node: the next shorter end that is the beginning of a phrase
        self._complete: list[int] = [0]  # per node: bits of the phrases that end there
        for p, phrase in enumerate(self._phrases):
            self._add(p, phrase)
        self._link()
        self._follow: dict[tuple[PhraseState, int], PhraseState] = {}
        self._needs: dict[PhraseState, int] = {}
        self._advancing: dict[PhraseState, tuple[int, ...]] = {}
        self._alphabet = sorted({token for phrase in self._phrases for token in phrase})

    start = PhraseState(node=0, done=0)

    def follow(self, state: PhraseState, token: int) -> PhraseState:
        """The state after one more token."""
        found = self._follow.get((state, token))
        if found is None:
            continued = token in self._continuing
            done = state.done if continued else state.done | self._complete[state.node]
            found = self._follow[state, token] = PhraseState(self._next_node(state.node, token), done)
        return found

    def satisfied(self, state: PhraseState) -> bool:
        """Every phrase has occurred, if the sequence ends here."""
        return state.done | self._complete[state.node] == self._all

    def need(self, state: PhraseState) -> int:
        """Tokens that suffice to satisfy all phrases; 0 exactly where they are.

        Of these ways the shortest: the phrases that are missing, one after the other, first one that has
        begun; its next token may undo phrases that have just ended, which then are missing, too. One of
        the tokens `advancing(state)` always leads to a state that needs at least one token less.
        """
        need = self._needs.get(state)
        if need is None:
            ended = self._complete[state.node] & ~state.done
            missing = self._all & ~(state.done | ended)
            need = self._n_tokens(missing)
            for p, n_begun in self._begun[state.node].items():
                if missing >> p & 1:
                    undone = ended if self._phrases[p][n_begun] in self._continuing else 0
                    need = min(need, self._n_tokens(missing | undone) - n_begun)
            self._needs[state] = need
        return need

    def advancing(self, state: PhraseState) -> tuple[int, ...]:
        """The tokens after which fewer are needed."""
        tokens = self._advancing.get(state)
        if tokens is None:
            need = self.need(state)
            tokens = tuple(t for t in self._alphabet if self.need(self.follow(state, t)) < need)
            self._advancing[state] = tokens
        return tokens

    def _n_tokens(self, bits: int) -> int:
        return sum(len(phrase) for p, phrase in enumerate(self._phrases) if bits >> p & 1)

    def _add(self, p: int, phrase: tuple[int, ...]) -> None:
        node = 0
        for n_begun, token in enumerate(phrase, start=1):
            if token not in self._children[node]:
                self._children[node][token] = len(self._children)
                self._children.append({})
                self._begun.append({})
                self._shorter.append(0)
                self._complete.append(0)
            node = self._children[node][token]
            self._begun[node][p] = n_begun
        self._complete[node] |= 1 << p

    def _link(self) -> None:
        """Sets `_shorter` of each node, shorter nodes first, and adds what the shorter end has."""
        waiting = deque(self._children[0].values())
        while waiting:
            node = waiting.popleft()
            shorter = self._shorter[node]
            self._complete[node] |= self._complete[shorter]
            self._begun[node] = self._begun[shorter] | self._begun[node]
            for token, child in self._children[node].items():
                self._shorter[child] = self._next_node(shorter, token)
                waiting.append(child)

    def _next_node(self, node: int, token: int) -> int:
        while node and token not in self._children[node]:
            node = self._shorter[node]
        return self._children[node].get(token, 0)
