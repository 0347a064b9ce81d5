"""Links between words point into the texts as they were given; a word is as probable as its tokens."""

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.config import TokenizerConfig
from dragoman.errors import DataError
from dragoman.predict.alignment import align, contrasted, pharaoh, word_attention, word_probabilities
from dragoman.predict.attention import attention_maps
from dragoman.predict.flow import aligned
from dragoman.predict.results import Link
from dragoman.predict.scoring import score_pairs
from dragoman.predict.threads import finish
from dragoman.predict.translator import Translator
from dragoman.text.normalisation import normalise, normalise_lowercase
from dragoman.text.spans import character_origins, token_shares, words_of
from dragoman.text.tokenizer import Tokenizer, train_tokenizer
from tiny import WORDS

STRANGE = st.sampled_from("  aAbé\u0301\u0315İΣσ한\u1112\u1161▁\ufb1d\u0958\ud800\t\u3000中文.,-1☂")
TEXTS = st.text(st.one_of(STRANGE, st.characters()), max_size=30)
KINDS = ("bpe", "unigram", "words", "characters")


@pytest.fixture(scope="module")
def tokenizers() -> list[Tokenizer]:
    texts = [f"{word}, {other}" for word, other in WORDS.items()] * 3
    return [
        train_tokenizer(texts, TokenizerConfig(kind=kind, vocab_size=320, lowercase=lowercase))
        for kind in KINDS
        for lowercase in (False, True)
    ]


@given(TEXTS, st.sampled_from([normalise, normalise_lowercase]))
def test_every_character_comes_from_what_is_normalised_to_it(text: str, normal_form: type[str]) -> None:
    normal, origins = normal_form(text), character_origins(text, normal_form)
    assert len(origins) == len(normal)
    assert origins == sorted(origins)
    joined = [normal_form(text[start:end]) for start, end in sorted(set(origins))]
    assert "".join(piece or " " for piece in joined) == normal


def test_a_normal_text_is_its_own_origin() -> None:
    assert character_origins("a b", normalise) == [(0, 1), (1, 2), (2, 3)]
    assert character_origins("  a \t b", normalise) == [(2, 3), (3, 6), (6, 7)]
    assert character_origins("xe\u0301y", normalise) == [(0, 1), (1, 3), (3, 4)]
    assert character_origins("İx", normalise_lowercase) == [(0, 1), (0, 1), (1, 2)]


def test_words_are_runs_of_letters_and_single_signs() -> None:
    text = "Don't pay 3.50, नमस्ते 你好"
    assert [text[start:end] for start, end in words_of(text)] == [
        "Don", "'", "t", "pay", "3", ".", "50", ",", "नमस्ते", "你", "好"
    ]  # fmt: skip


@settings(max_examples=50)
@given(TEXTS)
def test_every_word_has_tokens_and_every_token_one_share(tokenizers: list[Tokenizer], text: str) -> None:
    for tokenizer in tokenizers:
        shares = token_shares(tokenizer, text)
        assert shares.shape == (len(tokenizer.encode(text)), len(words_of(text)))
        assert np.isclose(shares.sum(1), 1, atol=1e-5).sum() + (shares.sum(1) == 0).sum() == len(shares)
        assert (shares.sum(0) > 0).all()


def test_the_attention_of_words_is_that_of_their_tokens(translator: Translator) -> None:
    source, target = "the red cat, cats!", "rote Katzen"
    looks = attention_maps(translator, source, target).cross.weights.mean((0, 1))
    (_, found), *others = word_attention(translator, [source, ""], [target, "rot"])
    assert not others

    def tokens_of(tokenizer: Tokenizer, text: str) -> list[list[int]]:
        ends = [token.end for token in tokenizer.tokens(text)]
        return [[k for k, at in enumerate(ends) if start < at <= end] for start, end in words_of(text)]

    tokenizers = translator.tokenizers
    expected = [
        [looks[np.ix_(rows, columns)].sum(1).mean() for columns in tokens_of(tokenizers.src, source)]
        for rows in tokens_of(tokenizers.tgt, target)
    ]
    np.testing.assert_allclose(found, contrasted(np.array(expected)), rtol=1e-3)


def test_contrasting_makes_distributions_and_forgives_what_all_look_at() -> None:
    weights = np.random.default_rng(1).dirichlet(np.ones(4), size=5).astype(np.float32)
    shares = contrasted(weights)
    np.testing.assert_allclose(shares.sum(-1), 1, rtol=1e-5)
    np.testing.assert_allclose(contrasted(weights * [1, 1, 1, 50]), shares, atol=0.01)
    np.testing.assert_array_equal(contrasted(weights[:1]).argmax(), weights[:1].argmax())


def test_links_point_into_the_texts_as_they_were_given(translator: Translator) -> None:
    neat = ["red cat, big dog", "rot Katze, groß Hund"]
    messy = ["  red\u00a0\u00a0cat, big\tdog ", "\trot Katze,  groß  Hund\n"]
    links = [align(translator, [source], [target])[0] for source, target in (neat, messy)]
    read = [
        [(s[link[0] : link[1]], t[link[2] : link[3]], pytest.approx(link.weight)) for link in found]
        for found, (s, t) in zip(links, (neat, messy), strict=True)
    ]
    assert read[0] == read[1]
    assert [target for _, target, _ in read[0]] == ["rot", "Katze", ",", "groß", "Hund"]
    assert {source for source, _, _ in read[0]} <= {"red", "cat", ",", "big", "dog"}


def test_aligning_together_equals_one_by_one(translator: Translator) -> None:
    sources, targets = ["red cat", "", "big old house, small dog"], ["rot Katze", "rot", "groß alt Haus"]
    together = align(translator, sources, targets)
    for s, t, links in zip(sources, targets, together, strict=True):
        alone = align(translator, [s], [t])[0]
        assert [link[:4] for link in links] == [link[:4] for link in alone]
        np.testing.assert_allclose([x.weight for x in links], [x.weight for x in alone], rtol=1e-3)


def test_pairs_that_cannot_be_aligned_have_no_links(translator: Translator) -> None:
    long = "red " * translator.config.model.max_positions
    assert align(translator, [long, " ", "red"], ["rot", "rot", ""]) == [[], [], []]
    with pytest.raises(DataError, match="there are 2 sources and 1 translations; aligning needs pairs"):
        align(translator, ["a", "b"], ["a"])


@pytest.mark.slow
def test_a_translation_in_parts_is_aligned_part_by_part(translator: Translator) -> None:
    source = "red cat, big dog. " * translator.config.model.max_positions
    short, long = translator.translate(["red cat", source])
    links = finish(aligned(translator, [short, long]))
    assert [x[:4] for x in links[0]] == [x[:4] for x in align(translator, ["red cat"], [short.text])[0]]
    parts = align(translator, [part.source for part in long.parts], [part.text for part in long.parts])
    expected = [
        (part.source[a:b], part.text[c:d])
        for part, found in zip(long.parts, parts, strict=True)
        for a, b, c, d, _ in found
    ]
    assert [(source[a:b], long.text[c:d]) for a, b, c, d, _ in links[1]] == expected


def test_pharaoh_counts_what_white_space_separates() -> None:
    source, target = "A cat sleeps.", "Eine  Katze schläft."
    spans = [((0, 1), (0, 4)), ((2, 5), (6, 11)), ((6, 12), (12, 19)), ((12, 13), (19, 20))]
    links = [Link(*src, *tgt, 1.0) for src, tgt in reversed(spans)]
    assert pharaoh(links, source, target) == "0-0 1-1 2-2"
    assert pharaoh([], source, target) == ""


# Probabilities of words

PAIRS = [("red cat", "rot Katze"), ("big old house", "groß  alt Haus!"), ("", ""), ("blue dog", "")]


def test_words_are_as_probable_as_their_tokens_and_pairs_without_a_score_have_none(
    translator: Translator,
) -> None:
    sources, targets = zip(*PAIRS, strict=True)
    too_long = "cat " * translator.max_positions
    found = word_probabilities(translator, [*sources, too_long, "cat"], [*targets, "Katze", too_long])
    assert found[2:] == [[]] * 4
    for words, target, scored in zip(
        found[:2], targets, score_pairs(translator, sources, targets), strict=False
    ):
        assert [target[word.start : word.end] for word in words] == re.findall(r"\w+|!", target)
        of_tokens = scored.log_prob - scored.log_probs[-1]  # without the end token
        assert math.fsum(math.log(word.probability) for word in words) == pytest.approx(of_tokens, rel=1e-4)
        assert all(0 <= word.probability <= 1 for word in words)
