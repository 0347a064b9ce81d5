"""The phrasebook as its grammar generates it: every split, with the words and combinations of each text.

No text occurs twice in any language, so that no side of a test sentence is in train. Combinations of a word
and a construction that held_out.toml lists occur in the test only. The same seed gives the same corpus on
every machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice, zip_longest

from phrasebook.grammar import Grammar, Sentence, hash_of
from phrasebook.review_grammar import LABELS, Review, ReviewGrammar

N_VALID = 1000
N_TEST_SEEN = 500  # test sentences of words and constructions that train combines as well
N_TEST_UNSEEN = 500  # test sentences of a combination in held_out.toml
AT_MOST = 800  # sentences of one construction
N_REVIEWS = {"train": 4000, "valid": 500, "test": 500}
N_REVIEWS_UNSEEN = 500  # the second half of the test


@lru_cache(maxsize=2)
def sentences(seed: int) -> dict[str, tuple[Sentence, ...]]:
    """Every split, with the construction and the words of each sentence."""
    known: list[Sentence] = []
    unseen: dict[tuple[str, str], list[Sentence]] = {}
    for sentence in _distinct(Grammar().sentences(seed=seed, at_most=AT_MOST), seed=seed):
        if sentence.held_out:
            unseen.setdefault((sentence.construction, sentence.held_out), []).append(sentence)
        else:
            known.append(sentence)
    in_turn = [sentence for round_ in zip_longest(*unseen.values()) for sentence in round_ if sentence]
    valid_end = N_TEST_SEEN + N_VALID
    return {
        "train": tuple(known[valid_end:]),
        "valid": tuple(known[N_TEST_SEEN:valid_end]),
        "test": tuple(known[:N_TEST_SEEN] + in_turn[:N_TEST_UNSEEN]),
    }


def _distinct(generated: Iterable[Sentence], *, seed: int) -> list[Sentence]:
    """Return the sentences in the order of a hash, without those that repeat another one in some language."""
    seen: set[str] = set()
    kept = []
    for sentence in generated:
        if seen.isdisjoint(sentence.texts):
            seen.update(sentence.texts)
            kept.append(sentence)
    return sorted(kept, key=lambda sentence: hash_of(f"{seed} {sentence.texts[0]}"))


@lru_cache(maxsize=2)
def labelled_reviews(seed: int) -> dict[str, tuple[Review, ...]]:
    """Every split, with the combinations in each review."""
    grammar = ReviewGrammar()
    known = _distinct_reviews(grammar.reviews(seed=seed, unseen=False))
    splits = {split: tuple(islice(known, n)) for split, n in N_REVIEWS.items()}
    unseen = _distinct_reviews(grammar.reviews(seed=seed, unseen=True))
    splits["test"] += tuple(islice(unseen, N_REVIEWS_UNSEEN))
    return splits


def _distinct_reviews(generated: Iterable[Review]) -> Iterator[Review]:
    """Reviews in pairs of a positive and a negative one, without those whose text occurred before."""
    seen: set[str] = set()
    waiting: dict[str, list[Review]] = {label: [] for label in LABELS}
    for review in generated:
        if review.text not in seen:
            seen.add(review.text)
            waiting[review.label].append(review)
        if all(waiting.values()):
            yield from (queue.pop(0) for queue in waiting.values())
