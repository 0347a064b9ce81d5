"""Several corpora as one text: how much of each an epoch holds, and in which order.

A part is a corpus in one direction, with a token store of its own. Which pairs an epoch holds follows from
the seed and the number of the epoch alone: a training that goes on reads the same as one that never stopped,
on any number of processes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from dragoman.config import StageConfig
from dragoman.data.batching import Cut, EpochPlan, Indices
from dragoman.data.store import TokenStore

ROUND_PAIRS = 1 << 22
"""Pairs that are shuffled together, at most: they bound the memory of planning."""


class MixPart(NamedTuple):
    """What the mix knows of a corpus in one direction."""

    corpus: str
    """Its name, which stages know it by."""
    direction: tuple[str, str]
    n_pairs: int
    """Usable pairs in a pass."""
    weight: float = 1.0
    """Factor of its size in the mix."""

    @property
    def name(self) -> str:
        """The name in logs."""
        return f"{self.corpus} {'-'.join(self.direction)}"


class Stretch(NamedTuple):
    """Consecutive pairs of a pass over a part, whose order is a random one: from `start` to `stop`."""

    part: int
    number: int
    """The number of the pass."""
    start: float
    """As a fraction of the pass, whose number of pairs may differ from draw to draw."""
    stop: float


class Stage(NamedTuple):
    """A time with one mix."""

    shares: tuple[float, ...]
    """Of each part among the pairs; 1 in all."""
    n_pairs: int
    """Pairs in an epoch: as many as the corpora of the mix have."""
    length: float
    """Epochs; not whole where the stage ends with the last pair of a corpus."""

    @property
    def n_epochs(self) -> float:
        """Epochs, the last one as long as is left."""
        return math.ceil(self.length) if self.length < math.inf else math.inf


def shares_by_size(parts: Sequence[MixPart], temperature: float) -> tuple[float, ...]:
    """Return the share of each part: pairs times weight, those of a direction to the power 1/temperature."""
    sizes: dict[tuple[str, str], float] = {}
    for part in parts:
        sizes[part.direction] = sizes.get(part.direction, 0.0) + part.n_pairs * part.weight
    tempered = {direction: size ** (1 / temperature) for direction, size in sizes.items()}
    total = sum(tempered.values())
    return tuple(
        tempered[part.direction] / total * part.n_pairs * part.weight / sizes[part.direction]
        for part in parts
    )


class Mixture:
    """How much of each part every epoch holds.

    An epoch is as many pairs as the corpora of its stage have together, each direction counted. The shares
    say how many of them come from each part; a part is read from its first pair to its last before it begins
    again, in another order.
    """

    def __init__(
        self, parts: Sequence[MixPart], *, temperature: float = 1.0, stages: Sequence[StageConfig] = ()
    ) -> None:
        """`stages` name corpora that are among `parts`, and each but the last its end."""
        self.parts = tuple(parts)
        self.stages = tuple(self._stage(stage) for stage in stages) or (
            self._described(shares_by_size(parts, temperature), math.inf),
        )
        if self.stages[-1].length < math.inf:  # trained on for as long as steps are left
            self.stages = (*self.stages[:-1], self.stages[-1]._replace(length=math.inf))

    def _stage(self, stage: StageConfig) -> Stage:
        # The share of a corpus goes to its directions in equal parts.
        mix, total = stage.mix, sum(stage.mix.values())
        n_parts = Counter(part.corpus for part in self.parts)
        shares = tuple(
            mix[part.corpus] / total / n_parts[part.corpus] if part.corpus in mix else 0.0
            for part in self.parts
        )
        count, name = stage.end
        described = self._described(shares, count)
        if not name:
            return described
        members = [i for i, part in enumerate(self.parts) if part.corpus == name]
        read = sum(shares[i] for i in members) * described.n_pairs  # in an epoch
        length = count * sum(self.parts[i].n_pairs for i in members) / read
        whole = round(length)  # of shares such as 0.3, a whole number of epochs may come out a little larger
        return described._replace(length=whole if 0 < length - whole < 1e-12 * length else length)

    def _described(self, shares: tuple[float, ...], length: float) -> Stage:
        n_pairs = sum(part.n_pairs for part, share in zip(self.parts, shares, strict=True) if share)
        return Stage(shares, n_pairs, length)

    def passes(self, epoch: float) -> tuple[float, ...]:
        """Return how often each part has been read when `epoch` epochs are over."""
        read = [0.0] * len(self.parts)
        for stage in self.stages:
            done = min(epoch, stage.length) if epoch < stage.n_epochs else stage.length
            for i, (part, share) in enumerate(zip(self.parts, stage.shares, strict=True)):
                read[i] += share * stage.n_pairs * done / part.n_pairs
            epoch -= stage.n_epochs
            if epoch <= 0:
                break
        return tuple(read)

    def epoch(self, epoch: int) -> list[Stretch]:
        """Return what the epoch of this number holds."""
        before, after = self.passes(epoch), self.passes(epoch + 1)
        return [
            Stretch(i, number, max(begun - number, 0.0), min(done - number, 1.0))
            for i, (begun, done) in enumerate(zip(before, after, strict=True))
            for number in range(math.floor(begun), math.ceil(done))
            if begun < done
        ]


class MixedStore(TokenStore):
    """The stores of several parts, one after the other: a batch may hold pairs of all of them."""

    is_together = True

    def __init__(self, stores: Sequence[TokenStore]) -> None:
        super().__init__(
            [shard for store in stores for shard in store.shards],
            max_length=max(store.max_length for store in stores),
        )
        edges = accumulate(map(len, stores), initial=0)
        self.places = [range(*between) for between in pairwise(edges)]
        """The indices of each store's pairs."""


def plan_mix(
    stretches: Sequence[Stretch],
    places: Sequence[range],
    mixed: MixedStore,
    cut: Cut,
    *,
    seed: int,
    epoch: int,
) -> EpochPlan:
    """Return the batches of an epoch, in the order of training: the pairs of its stretches, shuffled.

    `places[i]` is where in `mixed` the text of stretch i lies. Pairs of all parts meet in a batch, but for
    the rounds of at most ROUND_PAIRS pairs.
    """

    def of_round(k: int) -> list[Indices]:
        chosen = []
        for stretch, place in zip(stretches, places, strict=True):
            whole = np.random.default_rng([seed, stretch.part, stretch.number]).permutation(len(place))
            first, last = (round(at * len(place)) for at in (stretch.start, stretch.stop))
            edges = [first + (last - first) * (k + j) // n_rounds for j in (0, 1)]
            chosen.append(place.start + whole[edges[0] : edges[1]])
        indices = np.concatenate([*chosen, np.zeros(0, dtype=np.int64)])
        if not len(indices):
            return []
        rng = np.random.default_rng([seed, epoch, k])
        src, tgt = mixed.lengths(indices)
        return [indices[batch] for batch in cut(src, tgt, rng)]

    n_pairs = sum((s.stop - s.start) * len(place) for s, place in zip(stretches, places, strict=True))
    n_rounds = max(1, math.ceil(n_pairs / ROUND_PAIRS))
    return EpochPlan([partial(of_round, k) for k in range(n_rounds)])
