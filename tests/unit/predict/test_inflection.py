"""Required phrases of which any inflection will do: which words are forms, and that searches write them."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.config import TokenizerConfig
from dragoman.decoding.beam import beam_search
from dragoman.decoding.log_probs import ArrayLogProbs, Ints
from dragoman.decoding.phrases import ExactPhrase, Phrases
from dragoman.predict.inflection import Inflectable, InflectedPhrase, Stem, WrittenTokens
from dragoman.predict.model import TranslationModel
from dragoman.predict.translator import Translator
from dragoman.text.tokenizer import TokenizerPair, train_tokenizer
from tables import BOS, EOS

WRITTEN = ["", "", " Rad", " Rä", " Ra", "d", "de", "er", "dern", "!", " rot", "es", "\ufffd", " Radio"]
"""What each token writes: two special tokens, six that make up forms of "Rad", and others."""
TOKENS = WrittenTokens(WRITTEN)
CONTINUING = TOKENS.continuing


@pytest.mark.parametrize(
    ("word", "forms", "others"),
    [
        ("Hund", ["Hund", "Hunde", "Hundes", "Hunden"], ["Hun", "hund", "Hundehaus", "Hund-", "Hunt", ""]),
        ("Rad", ["Rades", "Räder", "Rädern"], ["Ra", "Radwegen"]),
        ("kobieta", ["kobiety", "kobietę", "kobietami"], ["kobie", "kobieco"]),
        ("Männer", ["Männern", "Manne", "Mannes"], ["Mann", "Männergruppe"]),
        ("USB", ["USB"], ["USBs"]),
        ("X200", ["X200"], ["X2000"]),
        ("an", ["an"], ["ans", "än"]),
    ],
)
def test_forms_of_a_word_share_its_stem_and_have_three_letters_more_at_most(
    word: str, forms: list[str], others: list[str]
) -> None:
    stem = Stem.of(word)
    assert [form for form in forms if not stem.matches(form)] == []
    assert [other for other in others if stem.matches(other)] == []


def holds(ids: list[int], words: list[str]) -> bool:
    """Whether forms of `words` follow each other in what `ids` write behind a word."""
    written = re.findall(r" \w+|[^\w ]|\ufffd", "x" + "".join(WRITTEN[i] for i in ids).replace("\ufffd", "0"))
    stems = [Stem.of(word) for word in words]
    return any(
        len(part) == len(stems)
        and all(one[0] == " " and stem.matches(one[1:]) for stem, one in zip(stems, part, strict=True))
        for part in (written[i : i + len(stems)] for i in range(len(written)))
    )


phrases = st.sampled_from([["Rad"], ["roter", "Rad"], ["rot"], ["Rad", "Rad"]])


@pytest.mark.slow
@settings(max_examples=1000)
@given(
    st.lists(phrases, min_size=1, max_size=2),
    st.sets(st.integers(2, 13), max_size=1),
    st.lists(st.integers(2, 13), max_size=8),
)
def test_the_automaton_is_satisfied_by_any_form_however_it_is_cut_into_tokens(
    wanted: list[list[str]], exact: set[int], ids: list[int]
) -> None:
    exact -= CONTINUING
    inflected = [InflectedPhrase(words, TOKENS) for words in wanted]
    automaton = Phrases([*inflected, *(ExactPhrase((token,)) for token in exact)], continuing=CONTINUING)
    state = Phrases.start
    for token in ids:
        state = automaton.follow(state, token)
    alone = all(
        any(ids[i] == token and not {*ids[i + 1 : i + 2]} & CONTINUING for i in range(len(ids)))
        for token in exact
    )
    assert automaton.satisfied(state) == (alone and all(holds(ids, words) for words in wanted))
    assert (automaton.need(state) == 0) == automaton.satisfied(state)
    while not automaton.satisfied(state):
        before = automaton.need(state)
        following = [automaton.follow(state, token) for token in automaton.advancing(state)]
        assert all(automaton.need(each) < before for each in following), "every one is a step ahead"
        state = following[-1]


def test_a_search_takes_the_form_that_scores_best() -> None:
    """After " rot", a table prefers a form that takes two tokens to the one that takes one."""
    likely = {(): 10, (10,): 3, (10, 3): 8}  # " rot", " Rä", "dern", and then the end

    def step(last: Ints, parents: Ints) -> ArrayLogProbs:
        nonlocal rows
        rows = [(*rows[p], t) for p, t in zip(parents.tolist(), last.tolist(), strict=True)]
        logits = np.zeros((len(rows), len(WRITTEN)))
        for logit, row in zip(logits, rows, strict=True):
            logit[likely.get(row[1:], EOS)] = 5.0
        return ArrayLogProbs(logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)))

    found = []
    for phrase in (InflectedPhrase(["Rad"], TOKENS), ExactPhrase((2,))):
        rows: list[tuple[int, ...]] = [()]
        automaton = Phrases([phrase], continuing=CONTINUING)
        found += beam_search(step, phrases=[automaton], max_lengths=[5], bos_id=BOS, eos_id=EOS, beam_size=3)
    assert found[0][0].ids == (10, 3, 8)
    assert found[0][0].score > found[1][0].score


def test_a_phrase_that_tokens_cannot_tell_has_one_form(translator: Translator) -> None:
    text = ["Hunde Hund rot Haus 我们去银行。"] * 9
    subwords, characters = (
        train_tokenizer(text, TokenizerConfig(kind=kind, vocab_size=330))
        for kind in ("bpe", "characters")
    )  # fmt: skip

    def kinds(tokenizer: object, *words: str) -> list[str]:
        pair = TokenizerPair(tokenizer, tokenizer)  # type: ignore[arg-type]
        model = TranslationModel(translator.engine, pair, translator.config)
        (sentence,) = model.inputs(["x"], None, [[*map(Inflectable, words)]], first_number=1)
        return [type(phrase).__name__ for phrase in sentence.required]

    assert kinds(subwords, "Hund", "rot Haus") == ["InflectedPhrase"] * 2
    assert kinds(subwords, "银行", "Zoë") == ["ExactPhrase"] * 2, "no spaces; a letter that is bytes"
    assert kinds(characters, "Hund") == ["ExactPhrase"]
    words = train_tokenizer(text, TokenizerConfig(kind="words"))
    assert kinds(words, "Hund") == ["InflectedPhrase"]


@pytest.mark.parametrize("beam_size", [1, 3])
def test_every_alternative_holds_a_form_of_what_is_required(translator: Translator, beam_size: int) -> None:
    required = [[Inflectable("Katze"), "Hund"], [Inflectable("alt Haus")], []]
    texts = ["red cat", "big old house", "blue dog"]
    options = {"beam_size": beam_size, "n_best": beam_size, "no_repeat_ngram": 2}
    found = translator.translate(texts, required=required, **options)
    for text, _ in found[0].alternatives:
        words = re.findall(r"\w+", text)
        assert "Hund" in words
        assert any(map(Stem.of("Katze").matches, words))
    for text, _ in found[1].alternatives:
        assert re.search(r"\balt\w* (Hau|Häu)\w+", text)
    assert found[2] == translator.translate(["blue dog"], **options)[0]
