"""Reserved tokens of languages, origins and slots: in every kind of tokenizer, and in no text."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import TokenizerConfig, TokenizerKind
from dragoman.errors import ConfigError
from dragoman.text.foreign import Segmentation
from dragoman.text.slots import SLOTS
from dragoman.text.tokenizer import TokenizerPair
from dragoman.text.vocabulary import SPECIAL_TOKENS, SYNTHETIC

MARKS = ["<2de>", "<2pt_BR>", SYNTHETIC]
KINDS: list[TokenizerKind] = ["bpe", "unigram", "words", "characters"]
PAIRS = [(f"the <2de> dog at {i} < 2 de >", f"der Hund um {i} <synthetic>") for i in range(60)]


@pytest.fixture(
    scope="module", params=[(kind, shared) for kind in KINDS for shared in (True, False)], ids=str
)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TokenizerPair:
    """Tokenizers with reserved tokens, saved and read again."""
    kind, shared = request.param
    config = TokenizerConfig(kind=kind, vocab_size=330, shared=shared)
    folder: Path = tmp_path_factory.mktemp("tokenizers")
    TokenizerPair.train(PAIRS, config, marks=MARKS, slots=True).save(folder)
    return TokenizerPair.load(folder)


SOME = st.sampled_from([*MARKS, *SLOTS, "<", "2de", ">", "dog", " ", "<2de", "synthetic>", "1"])
TEXTS = st.lists(SOME | st.text(max_size=3))


def slots_among(ids: list[int], pair: TokenizerPair) -> list[str]:
    pieces = pair.src.pieces()
    return [pieces[i] for i in ids if pieces[i] in SLOTS]


@given(words=TEXTS)
def test_no_text_becomes_a_reserved_token(pair: TokenizerPair, words: list[str]) -> None:
    ids = pair.src.encode("".join(words))
    assert not set(ids) & set(pair.src.marks.values())
    assert slots_among(ids, pair) == []


def test_a_direction_puts_them_before_every_text_that_is_not_empty(pair: TokenizerPair) -> None:
    plain = pair.src.encode("the dog")
    assert pair.src.marks.keys() == set(MARKS)
    assert pair.towards("de").src.encode("the dog") == [pair.src.marks["<2de>"], *plain]
    both = [pair.src.marks[SYNTHETIC], pair.src.marks["<2pt_BR>"]]
    assert pair.towards("pt_BR", synthetic=True).src.encode("the dog") == [*both, *plain]
    assert pair.towards("de").src.encode(" \t") == []
    assert pair.towards("de").tgt.encode("the dog") == pair.tgt.encode("the dog")
    assert pair.towards("de").towards("pt_BR").src.encode("the dog")[1:] == plain
    assert pair.towards("xx").src is pair.src
    ids = pair.towards("de", synthetic=True).src.encode("the dog")
    assert pair.src.decode(ids) == pair.src.decode(plain), "they are never written"
    fingerprints = {one.src.fingerprint for one in (pair, pair.towards("de"), pair.towards("pt_BR"))}
    assert len(fingerprints) == 3
    assert pair.towards("de").shared == pair.shared
    assert pair.towards("de").src.vocab_size == pair.src.vocab_size


def test_the_tokens_of_a_text_begin_with_them_and_stand_for_none_of_it(pair: TokenizerPair) -> None:
    tokenizer = pair.towards("de").src
    first, *rest = tokenizer.tokens("the dog")
    assert (first.piece, first.start, first.end) == ("<2de>", 0, 0)
    assert rest == pair.src.tokens("the dog")
    assert [token.id for token in (first, *rest)] == tokenizer.encode("the dog")


def test_new_ones_come_behind_and_leave_all_ids_as_they_are(pair: TokenizerPair) -> None:
    more = pair.with_new_marks(["<2de>", "<2fr>"])
    assert more.src.pieces() == [*pair.src.pieces(), "<2fr>"]
    assert more.with_new_marks(["<2fr>"]) is more
    assert more.src.encode("the dog <2fr>") == pair.src.encode("the dog <2fr>")
    longer = pair.extended([("a new word word", "ein neues Wort Wort")] * 9, 5)
    assert longer.src.marks == pair.src.marks
    assert longer.src.vocab_size > pair.src.vocab_size


@pytest.mark.slow
@given(words=st.lists(st.sampled_from([*SLOTS, "dog", "at"]), min_size=1, max_size=6))
def test_a_slot_is_one_token_and_is_written_again(pair: TokenizerPair, words: list[str]) -> None:
    for side in (pair.towards("de").src, pair.src):
        (ids,) = side.encode_batch([" ".join(words)], slots=True)
        assert slots_among(ids, pair) == [word for word in words if word in SLOTS]
        (text,) = side.decode_batch([ids], slots=True)
        assert [char for char in text if char in SLOTS] == slots_among(ids, pair)
        assert not set(side.decode(ids)) & set(SLOTS)


def test_slots_are_added_behind_all_other_tokens_and_once(pair: TokenizerPair) -> None:
    assert pair.has_slots
    assert pair.with_slots() is pair
    plain = TokenizerPair.train(PAIRS, TokenizerConfig(vocab_size=330, shared=pair.shared))
    more = plain.with_slots()
    assert (more.src.pieces(), more.shared) == ([*plain.src.pieces(), *SLOTS], plain.shared)
    assert tuple(more.tgt.pieces()[-len(SLOTS) :]) == SLOTS
    assert more.src.encode("at 14:30") == plain.src.encode("at 14:30")


def test_the_languages_of_an_imported_model_are_reserved_tokens_too() -> None:
    pytest.importorskip("sentencepiece")
    from test_foreign_tokenizers import MODEL, PIECES

    both = Segmentation(MODEL).tokenizer([*SPECIAL_TOKENS, ">>deu<<", ">>nld<<", *PIECES])
    pair = TokenizerPair(both, both)
    towards = pair.towards("nld").src
    assert towards.encode("the cat") == [both.marks["<2nld>"], *both.encode("the cat")]
    written = towards.encode(">>deu<< the cat")
    assert written[0] == both.marks["<2nld>"]
    assert both.marks["<2deu>"] not in written, "what a user writes is text"
    assert pair.towards("nld").shared
    with pytest.raises(ConfigError, match=r"takes no new reserved tokens; set modifiers.slots = 0"):
        both.with_reserved(SLOTS)
