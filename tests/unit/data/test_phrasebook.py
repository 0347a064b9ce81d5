"""The embedded corpora: what their splits promise, and that tools/make_phrasebook.py makes them."""

import lzma
from collections import Counter
from itertools import combinations

import pytest

from dragoman.data.phrasebook import SPLITS, phrases, reviews, unseen_phrases, unseen_reviews
from make_phrasebook import FOLDER, reviews_text, sentences_text
from phrasebook import corpus


def test_no_sentence_of_one_split_is_in_another_in_any_language() -> None:
    for one, other in combinations(SPLITS, 2):
        sides = zip(zip(*phrases(one), strict=True), zip(*phrases(other), strict=True), strict=True)
        assert all(set(texts).isdisjoint(others) for texts, others in sides)
        assert {text for _, text in reviews(one)}.isdisjoint(text for _, text in reviews(other))
    for part in [*map(reviews, SPLITS), unseen_reviews()]:
        assert len(set(Counter(label for label, _ in part).values())) == 1, "the labels are balanced"
    assert sum(len(phrases(split)) for split in SPLITS) >= 50_000
    assert set(unseen_phrases()) < set(phrases("test"))


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
