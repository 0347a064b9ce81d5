"""Lines beside the wrong translation: stretches that are shifted, and single pairs that do not fit.

Whether two lines are translations is judged by a lexicon learnt from the corpus itself, by their lengths, the
words and numbers they share, and their final punctuation marks. How much each of these says is learnt too, by
a logistic regression that tells the pairs of the corpus from random ones. The shift of every line is the most
likely path through a hidden Markov model whose states are the shifts, and one more for "no translation near".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dragoman.data.doctor.words import Bags, NumberedSide, WordNumbers, duplicates, ranges

MIN_LINES = 100
"""With fewer, a corpus teaches too little to judge its alignment by."""
MAX_SHIFT = 10
"""Lines that a translation is looked for upwards and downwards."""
NOWHERE = MAX_SHIFT + 1
"""In place of a shift: no translation within MAX_SHIFT lines."""
BLOCK = 256
"""Lines whose common shift is guessed before there is a lexicon."""

_N_CALIBRATED = 4000  # pairs that teach how much each feature says
_WINDOW = 7  # lines that have to look bad together for a closer look
_CLEAR = 6.0  # nats that one line may say for or against a shift
_SWITCH = 10.0  # nats that a change of the shift costs
_MAX_SHARE = 0.995  # of right pairs that is believed beforehand
_EM_ROUNDS = 8  # in which the pairs that are wrong cease to teach what a right one looks like
_MIN_SEPARATION = 0.75  # area under the ROC curve below which the corpus does not say what fits
_MAX_SUSPICIOUS = 30_000  # lines that get a closer look

_STEM = 4  # letters; found on the training parts of five corpora, where 4, 5, 6 and whole words were compared
_ROUNDS = 4
_NOTHING = 0.05  # weight of "no source word" against the source words
_MAX_COMBINATIONS = 3_000_000  # of a source and a target word in a line, per half: about 200 MB
_COMMON = 2048  # stems of a side that are met first, nine tenths of its words
_PART = 500_000  # combinations scored at a time


class AlignedStretch(NamedTuple):
    """Source lines from `start` up to `end` (from 0, without `end`) fit target lines `shift` further on."""

    start: int
    end: int
    shift: int


class Alignment(NamedTuple):
    """Where lines do not stand beside their translation."""

    probability: np.ndarray
    """For each line that the sides fit; 1 in a stretch, for a side without text, and if not judged."""
    stretches: tuple[AlignedStretch, ...] = ()
    separation: float | None = None
    """Where the corpus as a whole does not fit: how often a pair looks better than a random one."""
    notes: tuple[str, ...] = ()
    """What could not be judged."""


def check_alignment(src: NumberedSide, tgt: NumberedSide) -> Alignment:
    """Where lines do not stand beside their translation."""
    n = len(src)
    if n < MIN_LINES:
        return Alignment(np.ones(n), notes=(f"alignment was not judged: fewer than {MIN_LINES} pairs",))
    features = _Features(src, tgt)
    shifts = _block_shifts(features)
    for _ in range(2):
        judge = _Judge(features, shifts)
        prior = judge.prior
        if judge.separation < _MIN_SEPARATION:
            note = "alignment was not judged: pairs are hardly more alike than any two lines"
            return Alignment(np.ones(n), separation=judge.separation, notes=(note,))
        traced, likelihood, note = _trace(judge, shifts)
        del judge  # its lexicon is large, and the next one is learnt
        n_changed = int((traced != shifts).sum())
        shifts = traced
        if n_changed < 0.02 * n:
            break
    probability = 1 / (1 + np.exp(-likelihood - prior))
    probability[(shifts != 0) | ~(features.has_text[0] & features.has_text[1])] = 1.0
    starts = np.concatenate([[0], np.flatnonzero(np.diff(shifts)) + 1])
    ends = np.append(starts[1:], n)
    runs = zip(starts.tolist(), ends.tolist(), shifts[starts].tolist(), strict=True)
    stretches = tuple(AlignedStretch(*run) for run in runs if run[2] != 0)
    return Alignment(probability, stretches, notes=(note,) if note else ())


class _Features:
    """What can be said about a source line beside a target line."""

    def __init__(self, src: NumberedSide, tgt: NumberedSide) -> None:
        self.src, self.tgt, self.n = src, tgt, len(src)
        self.log_lengths = [np.log1p(side.lengths.astype(float)) for side in (src, tgt)]
        # Anchors: words that occur on both sides, but not everywhere.
        same = np.array([tgt.bags.numbers.get(word, -1) for word in src.bags.words], dtype=np.int64)
        frequency = tgt.bags.n_lines_with / self.n
        self._weights = -np.log(np.maximum(frequency, 0.5 / self.n))
        is_anchor = np.zeros(len(frequency), dtype=bool)
        is_anchor[same[same >= 0]] = True
        is_anchor &= frequency <= 0.1
        self._anchor_rows, self._anchor_ids = [], []
        for side, mapped in ((src, same), (tgt, np.arange(len(tgt.bags.words)))):
            of_word = mapped[side.bags.ids]
            chosen = (of_word >= 0) & is_anchor[np.maximum(of_word, 0)]
            self._anchor_rows.append(side.bags.rows[chosen].astype(np.int64))
            self._anchor_ids.append(of_word[chosen])
        self._anchor_keys = self._anchor_rows[0] * len(self._weights) + self._anchor_ids[0]
        self._anchor_keys.sort()
        self._anchor_starts = np.searchsorted(self._anchor_rows[1], np.arange(self.n + 1))
        self.stems = (stems_of(src.bags), stems_of(tgt.bags))
        self.has_text = [side.lengths > 0 for side in (src, tgt)]

    def same_mark(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Whether lines end with the same punctuation mark."""
        return (self.src.final_marks[i] == self.tgt.final_marks[j]).astype(float)

    def shared(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Return the weight of words that both lines have: numbers and names, the rarer the heavier."""
        if not len(self._anchor_keys):
            return np.zeros(len(i))
        sizes = self._anchor_starts[j + 1] - self._anchor_starts[j]
        ids = self._anchor_ids[1][ranges(self._anchor_starts[j], sizes)]
        keys = np.repeat(i, sizes) * len(self._weights) + ids
        where = np.minimum(np.searchsorted(self._anchor_keys, keys), len(self._anchor_keys) - 1)
        weights = np.where(self._anchor_keys[where] == keys, self._weights[ids], 0.0)
        return np.bincount(np.repeat(np.arange(len(i)), sizes), weights, minlength=len(i))

    def table(self, lexicon: AlignmentLexicon, typical: float, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """(pairs, features) of source lines `i` beside target lines `j`."""
        score = lexicon.scores(i, j)
        n_words = np.log1p(np.minimum(self.stems[0].sizes[i], self.stems[1].sizes[j]))
        lengths = self.log_lengths[0][i], self.log_lengths[1][j]
        deviation = np.minimum(np.abs(lengths[1] - lengths[0] - typical), 2.0)
        long = np.exp(np.minimum(lengths[0], lengths[1]) / 2)
        return np.stack(
            [
                score, score * n_words, n_words, deviation, np.minimum(deviation * long, 10.0),
                np.minimum(self.shared(i, j), 15.0), self.same_mark(i, j), np.ones(len(i)),
            ],
            axis=1,
        )  # fmt: skip


def _block_shifts(features: _Features) -> np.ndarray:
    """Guess the shift of each line, by block, without a lexicon: by lengths, shared words, marks."""
    n, src, tgt = features.n, features.src, features.tgt
    everywhere = np.arange(n)
    lengths = [(x - x.mean()) / max(x.std(), 1e-9) for x in features.log_lengths]
    far = (everywhere + n // 2) % n
    marks, shared = (f(everywhere, far) for f in (features.same_mark, features.shared))
    scale = [(x.mean(), max(x.std(), 1e-3)) for x in (marks, shared)]
    starts = np.arange(0, n, BLOCK)
    sums = []
    for shift in range(-MAX_SHIFT, MAX_SHIFT + 1):
        i = everywhere[max(0, -shift) : n - max(0, shift)]
        j = i + shift
        value = np.clip(lengths[0][i] * lengths[1][j], -3, 3)
        value += np.clip((features.same_mark(i, j) - scale[0][0]) / scale[0][1], -3, 3)
        value += np.clip((features.shared(i, j) - scale[1][0]) / scale[1][1], -3, 3)
        value[duplicates(src.hashes[i], tgt.hashes[j])[0]] = 0.0  # a pair that is repeated says nothing new
        whole = np.zeros(n)
        whole[i] = value
        sums.append(np.add.reduceat(whole, starts))
    by_shift = np.stack(sums) / np.sqrt(np.minimum(BLOCK, n - starts))
    better = by_shift.max(axis=0) > by_shift[MAX_SHIFT] + 6.0  # standard deviations
    best = np.where(better, by_shift.argmax(axis=0) - MAX_SHIFT, 0)
    return np.repeat(best, BLOCK)[:n]


class _Judge:
    """Says how likely a pair of lines is a translation: in nats, for it against a random pair."""

    def __init__(self, features: _Features, shifts: np.ndarray) -> None:
        n = features.n
        rng = np.random.default_rng(1)
        partner = np.arange(n) + shifts
        partner[(shifts == NOWHERE) | (partner < 0) | (partner >= n)] = -1
        self._features = features
        self._lexicon = AlignmentLexicon(
            *features.stems, partner, half_of=rng.integers(0, 2, size=n).astype(np.int8)
        )
        i = np.flatnonzero(partner >= 0)
        i = i[features.has_text[0][i] & features.has_text[1][partner[i]]]
        i = np.sort(rng.choice(i, min(len(i), _N_CALIBRATED), replace=False))
        shuffled = rng.permutation(i)
        lengths = features.log_lengths[1][partner[i]] - features.log_lengths[0][i]
        self._typical = float(np.median(lengths)) if len(i) else 0.0
        right = self._table(i, partner[i])
        wrong = self._table(i, partner[shuffled])[shuffled != i]
        trust, share = np.ones(len(right)), 0.8  # how likely a pair of the corpus is right; their share
        for _ in range(_EM_ROUNDS):
            self._weights = _logistic_regression(right, wrong, trust)
            odds = np.exp(np.clip(right @ self._weights, -30, 30)) * share / (1 - share)
            trust = odds / (1 + odds)
            share = min(float(trust.mean()), _MAX_SHARE)
        self.prior = float(np.log(share / (1 - share)))
        kept = trust > 0.5
        self.separation = 0.0  # the probability that a pair of the corpus is above a random one
        if kept.mean() > 0.1 and len(wrong):
            scores, random = right[kept] @ self._weights, np.sort(wrong @ self._weights)
            n = np.searchsorted(random, scores, side="left") + np.searchsorted(random, scores, side="right")
            self.separation = float(n.mean() / 2 / len(random))

    def _table(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        return self._features.table(self._lexicon, self._typical, i, j)

    def likelihood(self, i: np.ndarray, shifts: np.ndarray) -> np.ndarray:
        """Nats for source line i beside target line i + shift; -6 where there is none, 0 for no text."""
        j = i + shifts
        inside = (j >= 0) & (j < self._features.n) & (shifts != NOWHERE)
        result = np.full(len(i), -_CLEAR)
        result[inside] = self._table(i[inside], j[inside]) @ self._weights
        inside[inside] = ~(self._features.has_text[0][i[inside]] & self._features.has_text[1][j[inside]])
        result[inside] = 0.0
        return result


def _logistic_regression(right: np.ndarray, wrong: np.ndarray, trust: np.ndarray) -> np.ndarray:
    """Weights whose product with a row is the log-odds that it is one of `right`; both count as often.

    `trust` is how much each of `right` counts.
    """
    x = np.concatenate([right, wrong])
    y = np.concatenate([np.ones(len(right)), np.zeros(len(wrong))])
    each = np.concatenate([trust / max(trust.sum(), 1e-9), np.full(len(wrong), 1 / max(1, len(wrong)))])
    each *= len(x) / 2
    scale = np.maximum(np.abs(x).max(axis=0), 1e-9)
    x = x / scale
    weights = np.zeros(x.shape[1])
    for _ in range(30):  # Newton's method; the small ridge keeps it finite
        p = 1 / (1 + np.exp(-np.clip(x @ weights, -30, 30)))
        gradient = x.T @ (each * (y - p)) - 0.1 * weights
        hessian = (x * (each * p * (1 - p))[:, None]).T @ x + 0.1 * np.eye(len(weights))
        step = np.linalg.solve(hessian, gradient)
        weights += step
        if np.abs(step).max() < 1e-6:
            break
    return weights / scale


def _trace(judge: _Judge, shifts: np.ndarray) -> tuple[np.ndarray, np.ndarray, str]:
    """Return the most likely shift of each line, starting from the guess `shifts`; the nats for it; a note.

    Only where lines do not fit, or the guess changes, are other shifts tried.
    """
    n = len(shifts)
    likelihood = judge.likelihood(np.arange(n), shifts)
    doubtful = np.convolve(np.clip(likelihood, -_CLEAR, _CLEAR), np.ones(_WINDOW), mode="same") < 0
    changes = np.flatnonzero(np.diff(shifts)) + 1
    for change in changes.tolist():
        doubtful[max(0, change - BLOCK) : change + BLOCK] = True
    n_doubtful, note = int(doubtful.sum()), ""
    if n_doubtful > _MAX_SUSPICIOUS:
        doubtful[np.flatnonzero(doubtful)[_MAX_SUSPICIOUS] :] = False
        note = (
            f"{n_doubtful:,} lines fit badly; shifts were looked for in the first {_MAX_SUSPICIOUS:,} of them"
        )
    margin = MAX_SHIFT + _WINDOW
    doubtful = np.convolve(doubtful, np.ones(2 * margin + 1), mode="same") > 0
    path = shifts.copy()
    edges = np.flatnonzero(np.diff(np.concatenate([[0], doubtful.astype(np.int8), [0]])))
    for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        path[start:end] = _best_path(judge, start, end)
    return path, likelihood, note


def _best_path(judge: _Judge, start: int, end: int) -> np.ndarray:
    """Return the most likely shift of each of these lines (Viterbi's algorithm)."""
    states = np.arange(-MAX_SHIFT, NOWHERE + 1)
    lines = np.arange(start, end)
    emissions = np.zeros((len(lines), len(states)))
    for k, shift in enumerate(states[:-1].tolist()):
        nats = judge.likelihood(lines, np.full(len(lines), shift))
        emissions[:, k] = np.clip(nats, -_CLEAR, _CLEAR)
    score = emissions[0].copy()
    score[MAX_SHIFT] += 1e-6  # at equal fit no shift wins
    came_from = np.zeros((len(lines), len(states)), dtype=np.int8)
    stay = np.arange(len(states))
    for t in range(1, len(lines)):
        best = int(score.argmax())
        switched = score[best] - _SWITCH
        came_from[t] = np.where(score >= switched, stay, best)
        score = np.maximum(score, switched) + emissions[t]
    path = np.empty(len(lines), dtype=np.int64)
    state = int(score.argmax())
    for t in range(len(lines) - 1, -1, -1):
        path[t] = states[state]
        state = int(came_from[t, state])
    return path


# The lexicon


def stems_of(bags: Bags) -> Bags:
    """Return the words of each line, cut to their first letters: a stem may be in a line more than once."""
    numbers = WordNumbers()
    stem = np.array([numbers[word[:_STEM]] for word in bags.words], dtype=np.int32)
    return Bags(list(numbers), stem[bags.ids], bags.offsets)


class Combinations(NamedTuple):
    """Every source word of a line with every target word of the line beside it.

    For each: which of the pairs of lines it is from, and the positions of the words in `Bags.ids`.
    """

    pair: np.ndarray
    src: np.ndarray
    tgt: np.ndarray


def combine(src: np.ndarray, tgt: np.ndarray, i: np.ndarray, j: np.ndarray) -> Combinations:
    """Return the combinations of source lines `i` and target lines `j`.

    `src` and `tgt` are offsets of lines.
    """
    n_src, n_tgt = src[i + 1] - src[i], tgt[j + 1] - tgt[j]
    pair = np.repeat(np.arange(len(i), dtype=np.int32), n_src * n_tgt)
    position = ranges(np.zeros(len(i), dtype=np.int64), n_src * n_tgt).astype(np.int32)
    of_src, of_tgt = np.divmod(position, n_tgt.astype(np.int32)[pair])
    of_src += src[i].astype(np.int32)[pair]
    of_tgt += tgt[j].astype(np.int32)[pair]
    return Combinations(pair, of_src, of_tgt)


class _Half(NamedTuple):
    """What one half of the corpus taught: t(target | source) by key, and how frequent target stems are."""

    keys: np.ndarray
    probabilities: np.ndarray
    tgt_frequency: np.ndarray
    common: np.ndarray
    """(source, target): the same for those among the first _COMMON stems of each side, at hand at once."""


class AlignmentLexicon:
    """Scores pairs of lines by how well the words of one explain those of the other.

    IBM model 1 (Brown et al. 1993) over the first letters of words, which serve as stems. The corpus is
    halved, and each half is judged by the lexicon of the other, so that no pair is its own witness.
    """

    def __init__(
        self, src: Bags, tgt: Bags, partner: np.ndarray, *, half_of: np.ndarray, seed: int = 1
    ) -> None:
        """Learn from each source line i and target line `partner[i]`; negative where there is none.

        `half_of` says for each source line to which half, 0 or 1, it belongs.
        """
        self._src, self._tgt, self._half_of = src, tgt, half_of
        usable = (partner >= 0) & (src.sizes > 0)
        usable[usable] &= tgt.sizes[partner[usable]] > 0
        rng = np.random.default_rng(seed)
        self._halves = []
        for half in (0, 1):
            lines = np.flatnonzero(usable & (half_of == half))
            work = src.sizes[lines] * tgt.sizes[partner[lines]]
            order = rng.permutation(len(lines))
            chosen = np.sort(lines[order[np.cumsum(work[order]) <= _MAX_COMBINATIONS]])
            self._halves.append(self._learn(chosen, partner[chosen]))

    def _learn(self, i: np.ndarray, j: np.ndarray) -> _Half:
        combinations = combine(self._src.offsets, self._tgt.offsets, i, j)
        combined = self._keys(self._src.ids[combinations.src], self._tgt.ids[combinations.tgt])
        keys, key_of = np.unique(combined, return_inverse=True)
        slot = self._slots(combinations, j)
        del combinations, combined
        n_src = np.bincount(self._src.ids[_positions(self._src, i)], minlength=len(self._src.words))
        total = n_src[keys // len(self._tgt.words)] + 1.0  # discounted: a word seen once says little
        probabilities: np.ndarray = np.bincount(key_of, minlength=len(keys)) / total
        for _ in range(_ROUNDS):
            posterior = probabilities[key_of]
            posterior /= (np.bincount(slot, posterior) + _NOTHING)[slot]
            probabilities = np.bincount(key_of, posterior, minlength=len(keys)) / total
        n_tgt = np.bincount(self._tgt.ids[_positions(self._tgt, j)], minlength=len(self._tgt.words))
        rows, columns = np.divmod(keys, len(self._tgt.words))
        first = (rows < _COMMON) & (columns < _COMMON)
        common = np.zeros((min(_COMMON, len(self._src.words)), _COMMON))
        common[rows[first], columns[first]] = probabilities[first]
        return _Half(keys, probabilities, (n_tgt + 0.5) / max(1, len(i)), common)

    def scores(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """For source lines `i` beside target lines `j`: the mean log-ratio of a target word's probabilities,
        given the source line and without it. 0 where a side has no words.
        """
        scores = np.zeros(len(i))
        for half in (0, 1):
            mine = np.flatnonzero(self._half_of[i] == half)
            work = np.cumsum(self._src.sizes[i[mine]] * self._tgt.sizes[j[mine]])
            cuts = np.searchsorted(work, np.arange(_PART, work[-1] if len(work) else 0, _PART))
            for part in np.split(mine, cuts):
                scores[part] = self._score(self._halves[1 - half], i[part], j[part])
        return scores

    def _score(self, half: _Half, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        src, tgt = self._src, self._tgt
        sizes = tgt.sizes[j]
        words = tgt.ids[_positions(tgt, j)]
        explained: np.ndarray = np.zeros(len(words))
        if len(half.keys):
            combinations = combine(src.offsets, tgt.offsets, i, j)
            src_ids, tgt_ids = src.ids[combinations.src], tgt.ids[combinations.tgt]
            is_common = (src_ids < _COMMON) & (tgt_ids < _COMMON)
            probabilities = np.empty(len(src_ids))  # t(target | source)
            probabilities[is_common] = half.common[src_ids[is_common], tgt_ids[is_common]]
            rare = ~is_common
            keys = self._keys(src_ids[rare], tgt_ids[rare])
            order = np.argsort(keys)  # looked up in their order, keys that follow each other are in the cache
            where = np.empty_like(order)
            where[order] = np.minimum(np.searchsorted(half.keys, keys[order]), len(half.keys) - 1)
            probabilities[rare] = np.where(half.keys[where] == keys, half.probabilities[where], 0.0)
            explained = np.bincount(self._slots(combinations, j), probabilities, minlength=len(words))
        pair = np.repeat(np.arange(len(i)), sizes)
        explained = explained / np.maximum(src.sizes[i], 1)[pair]
        frequency = half.tgt_frequency[words]
        logs = np.log(explained / frequency + 0.05)
        both = (src.sizes[i] > 0) & (sizes > 0)
        return np.where(both, np.bincount(pair, logs, minlength=len(i)) / np.maximum(sizes, 1), 0.0)

    def _keys(self, src: np.ndarray, tgt: np.ndarray) -> np.ndarray:
        """One number for each source stem with the target stem beside it."""
        return src.astype(np.int64) * len(self._tgt.words) + tgt

    def _slots(self, combinations: Combinations, j: np.ndarray) -> np.ndarray:
        """Return which word of the target lines `j` each combination is about, numbered through."""
        starts = np.cumsum(self._tgt.sizes[j]) - self._tgt.sizes[j] - self._tgt.offsets[j]
        return starts.astype(np.int32)[combinations.pair] + combinations.tgt


def _positions(stems: Bags, lines: np.ndarray) -> np.ndarray:
    """Where in `stems.ids` the words of these lines stand."""
    return ranges(stems.offsets[lines], stems.sizes[lines])
