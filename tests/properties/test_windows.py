"""Windows and bags, for texts of any number and length."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import ClassifierConfig
from dragoman.data.document_batching import lay_out, plan_by_length, plan_documents
from dragoman.model.ngrams import bags_of_ngrams

TEXTS = st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=30), min_size=1, max_size=8)
LENGTHS = st.lists(st.integers(1, 200), min_size=1, max_size=60).map(np.array)


@given(texts=TEXTS, max_length=st.integers(1, 12))
def test_the_windows_of_a_text_are_the_text(texts: list[list[int]], max_length: int) -> None:
    laid_out = lay_out(np.concatenate(texts), np.array([*map(len, texts)]), max_length=max_length)
    assert laid_out.ids.shape[1] <= max_length
    assert laid_out.real.any(1).all()
    for i, text in enumerate(texts):
        rows = laid_out.document == i
        assert laid_out.ids[rows][laid_out.real[rows]].tolist() == text


@given(texts=TEXTS)
def test_the_bag_of_a_text_does_not_depend_on_its_neighbours(texts: list[list[int]]) -> None:
    config = ClassifierConfig(ngrams=3, ngram_bits=10)
    together = bags_of_ngrams(np.concatenate(texts), np.array([*map(len, texts)]), config)
    parts = np.split(together.buckets, np.cumsum(together.counts)[:-1])
    for text, part in zip(texts, parts, strict=True):
        alone = bags_of_ngrams(np.array(text), np.array([len(text)]), config)
        assert np.array_equal(alone.buckets, part)


@given(lengths=LENGTHS, max_length=st.integers(1, 50), batch_tokens=st.integers(1, 300))
def test_every_plan_holds_every_text_once(lengths: np.ndarray, max_length: int, batch_tokens: int) -> None:
    epoch = plan_documents(lengths, max_length=max_length, batch_tokens=batch_tokens, seed=1, epoch=0)
    ordered = plan_by_length(lengths, max_length=max_length, batch_tokens=batch_tokens)
    for plan in (epoch, ordered):
        assert sorted(np.concatenate(plan).tolist()) == list(range(len(lengths)))
        assert all(len(batch) for batch in plan)
