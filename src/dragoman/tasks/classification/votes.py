"""The votes of n-grams, solved for: a logistic regression on log-count ratios of naive Bayes.

For each class, an n-gram of a text counts as much as its log-count ratio (NB-SVM, Wang and Manning 2012),
divided by the square root of the number of the text's n-grams. The regression is solved by L-BFGS, and
regularised as the loss of the validation texts would have it. Words also count by the n-grams of their
letters, so that rare words learn from those that are spelt alike; what comes of it is added to the words' own
votes, so that nobody has to spell when texts are classified.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dragoman.config import ClassificationConfig
from dragoman.data.store import LabelledStore
from dragoman.metrics.labelling import Labelling
from dragoman.model.ngrams import bags_of_ngrams, hash_ngrams

STRENGTH, FACTOR, MAX_TRIALS = 3.0, 10**0.5, 8
"""Inverse strengths of regularisation (scikit-learn's C): the first that is tried; the factor between one and
the next, upwards or, where that does not help, downwards, as long as the validation loss falls; and how many
there are at most."""

CHUNK = 1000
"""Texts whose n-grams are found at once."""

MOST_NGRAMS = 100_000_000
"""N-grams of the texts that the regression reads: some 4 GB. 100,000 long reviews have fewer."""

N_LETTERS = (3, 6)
"""Shortest and longest n-grams of a word's letters, its two ends included."""

LETTER_BITS = 18
LETTER_SHARE = 0.4
"""Factor of the letters' ratios beside those of n-grams of words."""

N_ITERATIONS = 60
"""Of L-BFGS, for each strength; each begins where the one before it ended."""

Ids = npt.NDArray[np.int64]


class TextMatrix(NamedTuple):
    """The n-grams of texts as a sparse matrix, of which a product with the votes makes logits."""

    rows: Tensor
    """(N, U), sparse: 1 where a text has an n-gram."""
    columns: Tensor
    """(U, N): its transpose."""
    scale: Tensor
    """(N, 1): one over the square root of the number of the text's n-grams."""

    def logits(self, table: Tensor) -> Tensor:
        """Votes (U, C) -> (N, C)."""
        return self.scale * (self.rows @ table)

    def gradient(self, of_logits: Tensor) -> Tensor:
        """Return the gradient by votes (U, C), given that by logits (N, C)."""
        return self.columns @ (self.scale * of_logits)


class Votes(NamedTuple):
    """What was solved for."""

    table: Tensor
    """(2^bits, C)."""
    bias: Tensor
    """(C,)."""
    strength: float
    """Inverse strength of regularisation that was chosen."""
    valid_loss: float
    """Nats of a validation text."""
    n_texts: int
    """Training texts that were read."""


def solve_votes(
    train: LabelledStore,
    valid: LabelledStore,
    config: ClassificationConfig,
    words: Sequence[str] | None,
    *,
    n_classes: int,
    weights: Tensor,
    labelling: Labelling,
    tried: Callable[[Votes], None] = lambda votes: None,
) -> Votes:
    """Return the votes that fit the texts of `train`, held back as far as `valid` says.

    `words` are the tokens by their ids, where they are words that have letters. `weights` (C,) are those of
    the labels. `tried` is told what each strength of regularisation gives. The same texts give the same
    votes; of very many texts, as many are read as have MOST_NGRAMS.
    """
    bits = config.model.ngram_bits
    read = thinned(train.lengths, most=MOST_NGRAMS // config.model.ngrams, seed=config.seed)
    buckets, counts = _bags(train, read, config)
    features, columns = np.unique(buckets, return_inverse=True)
    matrix = _text_matrix(columns, counts, n_columns=len(features))
    labels = train.labels[read]
    targets = labelling.targets(labels, n_classes)
    text_weights = labelling.text_weights(torch.from_numpy(labels.astype(np.int64)), weights)
    letters = _letters(words, features, bits) if words is not None else None
    model = _Regression(matrix, targets, text_weights[:, None], letters, labelling)

    valid_buckets, valid_counts = _bags(valid, np.arange(len(valid)), config)
    place, is_known = _places(valid_buckets, features)
    of_text = np.repeat(np.arange(len(valid_counts)), valid_counts)
    held_out = _text_matrix(
        place[is_known],
        np.bincount(of_text[is_known], minlength=len(valid_counts)),
        n_columns=len(features),
        n_ngrams=valid_counts,
    )
    valid_targets = labelling.targets(valid.labels, n_classes)

    def solved(strength: float) -> Votes:
        model.fit(strength)
        votes, bias = model.votes()
        loss = float(labelling.loss(held_out.logits(votes) + bias, valid_targets).value.mean())
        solution = Votes(votes, bias, strength, loss, len(read))
        tried(solution)
        return solution

    best = solved(STRENGTH)
    for factor in (FACTOR, 1 / FACTOR):
        candidate = best
        for _ in range(MAX_TRIALS):
            trial = solved(candidate.strength * factor)
            if trial.valid_loss >= candidate.valid_loss:
                break
            candidate = trial
        if candidate is not best:
            best = candidate
            break
    table = torch.zeros(2**bits, n_classes)
    table[torch.from_numpy(features)] = best.table
    return best._replace(table=table)


class _Regression:
    """The regression's weights, and how they are found."""

    def __init__(
        self,
        matrix: TextMatrix,
        targets: Tensor,
        text_weights: Tensor,
        letters: _Letters | None,
        labelling: Labelling,
    ) -> None:
        self.matrix, self.targets, self.letters, self.labelling = matrix, targets, letters, labelling
        self.text_weights = text_weights  # (N, 1)
        counts = matrix.columns @ targets  # (U, C)
        n_texts = matrix.columns @ torch.ones(len(targets), 1)  # (U, 1)
        self.ratio = log_count_ratio(counts, n_texts, labelling)
        self.shapes = [self.ratio.shape, (targets.shape[1],)]
        if letters is not None:
            counts, n_texts = (letters.by_letters @ each[letters.column] for each in (counts, n_texts))
            self.letter_ratio = LETTER_SHARE * log_count_ratio(counts, n_texts, labelling)
            self.shapes.append(self.letter_ratio.shape)
        self.theta = torch.zeros(sum(map(math.prod, self.shapes)))

    def votes(self) -> tuple[Tensor, Tensor]:
        """Return the votes (U, C) and the bias (C,)."""
        weights, bias, *of_letters = self._parts(self.theta)
        table = self.ratio * weights
        if self.letters is not None:
            table.index_add_(
                0, self.letters.column, self.letters.by_word @ (self.letter_ratio * of_letters[0])
            )
        return table, bias.clone()

    def fit(self, strength: float) -> None:
        """Move the weights to the minimum for this strength."""
        self.theta.requires_grad_(True)
        solver = torch.optim.LBFGS(
            [self.theta],
            max_iter=N_ITERATIONS,
            history_size=8,
            tolerance_grad=1e-6,
            line_search_fn="strong_wolfe",
        )

        @torch.no_grad()
        def closure() -> float:
            value, self.theta.grad = self._objective(strength)
            return value

        solver.step(closure)  # type: ignore[no-untyped-call]  # PyTorch gives it no types
        self.theta = self.theta.detach()

    def _objective(self, strength: float) -> tuple[float, Tensor]:
        """Return the mean loss with its penalty, and the gradient."""
        theta, n = self.theta.detach(), len(self.targets)
        table, bias = self.votes()
        loss = self.labelling.loss(self.matrix.logits(table) + bias, self.targets)
        by_logits = self.text_weights * loss.gradient
        by_votes = self.matrix.gradient(by_logits)
        gradients = [self.ratio * by_votes, by_logits.sum(0)]
        if self.letters is not None:
            gradients.append(self.letter_ratio * (self.letters.by_letters @ by_votes[self.letters.column]))
        penalty = theta.clone()
        self._parts(penalty)[1].zero_()  # the bias is free
        value = (self.text_weights[:, 0] * loss.value).sum() + 0.5 / strength * penalty.square().sum()
        gradient = torch.cat([g.flatten() for g in gradients]) + penalty / strength
        return float(value) / n, gradient / n

    def _parts(self, theta: Tensor) -> list[Tensor]:
        parts = torch.split(theta, [*map(math.prod, self.shapes)])
        return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]


def log_count_ratio(counts: Tensor, n_texts: Tensor, labelling: Labelling) -> Tensor:
    """Log-count ratios of naive Bayes (U, C), a class against all others.

    counts (U, C): how many texts of each class have each n-gram; n_texts (U, 1): how many texts have it.
    """
    ours = counts + 1.0
    other_counts = labelling.counts_of_others(counts, n_texts)
    totals = counts.sum(0)
    rest = n_texts.sum() - totals
    return (ours / totals.clamp(min=1)).log() - (other_counts / rest.clamp(min=1)).log()


class _Letters(NamedTuple):
    """The n-grams of letters of the words that occur."""

    column: Tensor
    """(W,): where in the votes the word itself is."""
    by_word: Tensor
    """(W, L), sparse: 1 where a word has an n-gram of letters."""
    by_letters: Tensor
    """(L, W): its transpose."""


def _letters(words: Sequence[str], features: Ids, bits: int) -> _Letters | None:
    """Return the n-grams of letters of those words whose bucket is among `features`."""
    buckets = hash_ngrams(np.arange(len(words)), np.ones(len(words), dtype=np.int64), longest=1, bits=bits)
    place, is_known = _places(buckets[:, 0], features)
    read = np.flatnonzero(is_known & np.array([any(map(str.isalnum, w)) for w in words]))
    if not len(read):
        return None
    spelt = [f"<{words[i]}>" for i in read.tolist()]
    lengths = np.array([len(word) for word in spelt])
    signs = np.frombuffer("".join(spelt).encode("utf-32-le"), dtype=np.uint32).astype(np.int64)
    shortest, longest = N_LETTERS
    grams = hash_ngrams(signs, lengths, longest=longest, bits=LETTER_BITS)[:, shortest - 1 :]
    word, nth = np.repeat(np.arange(len(spelt)), lengths), np.concatenate([np.arange(n) for n in lengths])
    whole = nth[:, None] >= np.arange(shortest - 1, longest)[None, :]  # it does not begin before the word
    keys = np.unique((word[:, None] * 2**LETTER_BITS + grams)[whole])
    of_word, columns = keys >> LETTER_BITS, np.unique(keys & (2**LETTER_BITS - 1), return_inverse=True)[1]
    by_word, by_letters = _sparse(columns, np.bincount(of_word, minlength=len(spelt)), int(columns.max()) + 1)
    return _Letters(torch.from_numpy(place[read]), by_word, by_letters)


def _places(buckets: Ids, features: Ids) -> tuple[Ids, npt.NDArray[np.bool_]]:
    """Return where in `features`, which rises, each bucket stands, and whether it does."""
    place = np.searchsorted(features, buckets).clip(max=len(features) - 1)
    return place, features[place] == buckets


def thinned(lengths: npt.NDArray[np.integer[Any]], *, most: int, seed: int) -> Ids:
    """Return the indices of texts of these lengths: all, or as many drawn ones as have `most` tokens."""
    everything = np.arange(len(lengths))
    if lengths.sum(dtype=np.int64) <= most:
        return everything
    drawn = np.random.default_rng(seed).permutation(everything)
    n = np.searchsorted(lengths[drawn].cumsum(dtype=np.int64), most, side="right")
    return np.sort(drawn[: max(int(n), 1)])


def _bags(store: LabelledStore, texts: Ids, config: ClassificationConfig) -> tuple[Ids, Ids]:
    """Return the different buckets of each of `texts`, one after the other, and how many each has."""
    buckets, counts = [], []
    for start in range(0, len(texts), CHUNK):
        bags = bags_of_ngrams(*store.gathered(texts[start : start + CHUNK]), config.model)
        buckets.append(bags.buckets)
        counts.append(bags.counts)
    return np.concatenate(buckets), np.concatenate(counts)


def _text_matrix(columns: Ids, counts: Ids, *, n_columns: int, n_ngrams: Ids | None = None) -> TextMatrix:
    """Return the matrix of texts with `counts` n-grams in `columns`, of `n_ngrams` with the unknown ones."""
    n = torch.from_numpy(counts if n_ngrams is None else n_ngrams).clamp(min=1).float()
    return TextMatrix(*_sparse(columns, counts, n_columns), n.rsqrt()[:, None])


def _sparse(columns: Ids, counts: Ids, n_columns: int) -> tuple[Tensor, Tensor]:
    """Return a sparse matrix of ones, `counts` of them in each row, in `columns`; and its transpose."""
    rows = np.repeat(np.arange(len(counts)), counts)
    order = np.argsort(columns, kind="stable")
    per_column = np.bincount(columns, minlength=n_columns)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*Sparse", category=UserWarning)
        return _ones(counts, columns, n_columns), _ones(per_column, rows[order], len(counts))


def _ones(counts: Ids, columns: Ids, n_columns: int) -> Tensor:
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    indices = torch.from_numpy(starts), torch.from_numpy(columns.astype(np.int32))
    return torch.sparse_csr_tensor(*indices, torch.ones(len(columns)), size=(len(counts), n_columns))
