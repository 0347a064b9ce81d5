"""The embedded corpora: what their splits promise, and that tools/make_phrasebook.py makes them."""

import lzma
from collections import Counter
from itertools import combinations

import pytest

from dragoman.data.phrasebook import LABELS, SPLITS, phrases, reviews, unseen_phrases, unseen_reviews
from make_phrasebook import FOLDER, reviews_text, sentences_text
from phrasebook import corpus


@pytest.mark.slow
def test_there_are_at_least_50000_distinct_sentences() -> None:
    for texts in zip(*(phrase for split in SPLITS for phrase in phrases(split)), strict=True):
        assert len(texts) == len(set(texts)) >= 50_000


def test_no_sentence_of_one_split_is_in_another_in_any_language() -> None:
    for one, other in combinations(SPLITS, 2):
        for texts, others in zip(
            zip(*phrases(one), strict=True), zip(*phrases(other), strict=True), strict=True
        ):
            assert set(texts).isdisjoint(others)


def test_splits_of_reviews_have_the_promised_sizes_and_no_text_twice() -> None:
    assert {split: len(reviews(split)) for split in SPLITS} == {"train": 4000, "valid": 500, "test": 1000}
    texts = [text for split in SPLITS for _, text in reviews(split)]
    assert len(texts) == len(set(texts))


def test_every_split_and_the_unseen_half_are_balanced() -> None:
    for part in [*map(reviews, SPLITS), unseen_reviews()]:
        counts = Counter(label for label, _ in part)
        assert set(counts) == set(LABELS)
        assert len(set(counts.values())) == 1


@pytest.mark.nightly
def test_the_embedded_files_are_those_that_the_grammars_generate() -> None:
    assert lzma.decompress((FOLDER / "sentences.xz").read_bytes()) == sentences_text()
    assert lzma.decompress((FOLDER / "reviews.xz").read_bytes()) == reviews_text()
    sentences, labelled = corpus.sentences(1), corpus.labelled_reviews(1)
    for split in SPLITS:
        assert phrases(split) == tuple(sentence.texts for sentence in sentences[split])
        assert reviews(split) == [(review.label, review.text) for review in labelled[split]]
    unseen = [(review.label, review.text) for review in labelled["test"] if review.unseen]
    assert unseen == unseen_reviews()
    assert all(sentence.held_out for sentence in sentences["test"] if sentence.texts in unseen_phrases())
