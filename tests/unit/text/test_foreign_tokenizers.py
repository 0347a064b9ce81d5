"""Tokenizers of imported models cut text as their toolkits do, and keep Dragoman's ids."""

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.config import TokenizerConfig
from dragoman.errors import ConfigError, MissingExtraError, RunError
from dragoman.text.foreign import (
    BytePairCodes,
    Segmentation,
    sentencepiece_processor,
)
from dragoman.text.tokenizer import UNK_ID, Tokenizer, load_tokenizer, train_tokenizer
from dragoman.text.vocabulary import SPECIAL_TOKENS
from foreign_models import SENTENCES, sentencepieces, train_sentencepiece
from tiny import WORDS

sentencepiece = pytest.importorskip("sentencepiece")

MODEL = train_sentencepiece([*WORDS, *SENTENCES] * 5, vocab_size=60)
PIECES = sentencepieces(MODEL)
CODES = "#version: 0.2\nt h\nth e</w>\nr e\nre d</w>\nc a\n"
CUT = ["the", "red", "ca@@", "t", "d@@", "o@@", "g"]


def of_sentencepiece() -> Tokenizer:
    return Segmentation(MODEL).tokenizer([*SPECIAL_TOKENS, ">>deu<<", *PIECES])


def of_pieces(codes: str | None = CODES, *, lowercase: bool = False) -> Tokenizer:
    return Segmentation(None, codes, lowercase).tokenizer([*SPECIAL_TOKENS, *CUT])


def test_sentencepiece_cuts_and_joins_as_the_package_does() -> None:
    tokenizer, processor = of_sentencepiece(), sentencepiece.SentencePieceProcessor(model_proto=MODEL)
    known, pieces = set(PIECES), tokenizer.pieces()
    for text in (*SENTENCES, "½ ﬁne  猫 cats", "", " ", "ΩΩ red"):
        cut = processor.EncodeAsPieces(tokenizer.normalise(text))
        ids = tokenizer.encode(text)
        assert [pieces[i] for i in ids] == [piece if piece in known else "<unk>" for piece in cut]
        if UNK_ID not in ids:
            assert tokenizer.decode(ids) == processor.DecodePieces(cut)
    spans = {(token.start, token.end) for token in tokenizer.tokens("½") if token.piece != "▁"}
    assert spans == {(0, 1)}, "of a character that becomes several pieces each stands for it"


@pytest.mark.slow
@settings(max_examples=200)
@given(st.text(st.sampled_from("theredcat bigDOG,.!½ﬁ猫\u0301é>"), max_size=30))
def test_spans_follow_one_another_within_the_text(text: str) -> None:
    for tokenizer in (of_sentencepiece(), of_pieces()):
        normal = tokenizer.normalise(text)
        tokens = tokenizer.tokens(text)
        assert [token.id for token in tokens] == tokenizer.encode(text)
        starts, ends = [t.start for t in tokens], [t.end for t in tokens]
        assert starts == sorted(starts)
        assert ends == sorted(ends)
        assert all(0 <= start <= end <= len(normal) for start, end in zip(starts, ends, strict=True))
        covered = {i for t in tokens for i in range(t.start, t.end)}
        left = "".join(c for i, c in enumerate(normal) if i not in covered)
        assert not left.strip(), "all but spaces stands for something"


def test_a_language_in_front_is_a_token() -> None:
    tokenizer = of_sentencepiece()
    first, *rest = tokenizer.tokens(">>deu<< the cat")
    assert (first.piece, first.start, first.end) == (">>deu<<", 0, 7)
    assert [token.id for token in rest] == tokenizer.encode("the cat")
    assert rest[-1].end == len(">>deu<< the cat")
    assert tokenizer.encode(">>xyz<< the")[0] == UNK_ID


def test_pieces_are_cut_by_codes_and_joined_again() -> None:
    tokenizer = of_pieces()
    pieces = tokenizer.pieces()
    assert [pieces[i] for i in tokenizer.encode("the  red cat dog")] == CUT
    assert tokenizer.decode(tokenizer.encode("the  red cat dog")) == "the red cat dog"
    assert [(t.start, t.end) for t in tokenizer.tokens("the cat")] == [(0, 3), (3, 6), (6, 7)]


def test_what_comes_cut_stays_cut_and_case_is_lowered_where_the_model_wants_it() -> None:
    assert of_pieces(lowercase=True).encode("THE Red") == of_pieces().encode("the red")
    assert of_pieces().encode("THE") != of_pieces().encode("the")
    tokenizer = of_pieces(None)
    assert tokenizer.encode("ca@@ t ▁x the") == [6, 7, UNK_ID, 4]
    assert tokenizer.decode([6, 7, 4]) == "ca@@ t the"
    assert tokenizer.normalise("▁a\u00a0 b") == "▁a b"


@pytest.mark.parametrize("make", [of_sentencepiece, of_pieces])
def test_a_file_gives_back_a_tokenizer_that_learns_nothing(make: type[Tokenizer], tmp_path: Path) -> None:
    tokenizer: Tokenizer = make()  # type: ignore[call-arg]
    tokenizer.save(tmp_path / "x.json")
    again = load_tokenizer(tmp_path / "x.json")
    assert type(again) is type(tokenizer)
    assert again.fingerprint == tokenizer.fingerprint
    assert again.pieces() == tokenizer.pieces()
    assert again.vocab_size == tokenizer.vocab_size
    assert again.encode("the red cat") == tokenizer.encode("the red cat")
    with pytest.raises(ConfigError, match="learns no new tokens; leave --extend-vocab away"):
        tokenizer.extended(["new words"], 5)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"vocabulary": ["a"]}, "the special tokens are not where Dragoman puts them"),
        ({"vocabulary": [*SPECIAL_TOKENS, "a", "a"]}, "not a list of different strings"),
        ({"sentencepiece": "!!!"}, "is not base64"),
        ({"sentencepiece": "aGVsbG8="}, "it is no sentencepiece model"),
        ({"sentencepiece": ""}, "sentencepiece model"),
        ({"kind": "tokens"}, "kind = 'tokens' is not known"),
    ],
)
def test_a_damaged_file_is_refused(changed: dict[str, object], message: str, tmp_path: Path) -> None:
    spec = json.loads(Segmentation(MODEL).tokenizer([*SPECIAL_TOKENS, *PIECES])._spec)
    (tmp_path / "x.json").write_text(json.dumps(spec | changed), encoding="utf-8")
    with pytest.raises(RunError, match=message):
        load_tokenizer(tmp_path / "x.json")


@st.composite
def codes(draw: st.DrawFn) -> str:
    """A file of codes over three letters, whose merges may come in any order, twice, or never apply."""
    symbols = ["a", "b", "c", "</w>", "a</w>", "b</w>", "c</w>"]
    pairs = []
    for _ in range(draw(st.integers(1, 10))):
        left = draw(st.sampled_from([symbol for symbol in symbols if not symbol.endswith("</w>")]))
        pairs.append((left, draw(st.sampled_from(symbols))))
        symbols.append("".join(pairs[-1]))
    header = draw(st.sampled_from(["", "#version: 0.1\n", "#version: 0.2\n"]))
    return header + "".join(f"{left} {right}\n" for left, right in draw(st.permutations(pairs)))


@pytest.mark.slow
@settings(max_examples=300)
@given(
    codes(),
    st.none() | st.sets(st.text("abc", min_size=1, max_size=4)),
    st.text("abcd", min_size=1, max_size=9),
)
def test_codes_cut_words_as_subword_nmt_does(codes: str, known: set[str] | None, word: str) -> None:
    apply_bpe = pytest.importorskip("subword_nmt.apply_bpe")
    known = known and {mark for piece in known for mark in (piece, f"{piece}@@")[len(piece) % 2 :]}
    theirs = apply_bpe.BPE(io.StringIO(codes), separator="@@", vocab=known)
    assert BytePairCodes(codes, known).cut(word) == theirs.segment_tokens([word])


def test_codes_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match="line 2 of its codes is not two pieces"):
        of_pieces("#version: 0.2\na b c\n")
    with pytest.raises(ValueError, match=r"its codes are of version 0\.3; 0\.1 and 0\.2 are read"):
        of_pieces("#version: 0.3\na b\n")


def test_they_are_not_learnt() -> None:
    for kind in ("sentencepiece", "pieces"):
        config = TokenizerConfig.model_validate({"kind": kind})
        with pytest.raises(ConfigError, match=f'tokenizer.kind = "{kind}" comes with an imported model'):
            train_tokenizer(["a"], config)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    of_sentencepiece().save(tmp_path / "x.json")
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(MissingExtraError, match=r"sentencepiece: pip install 'dragoman\[foreign\]'"):
        load_tokenizer(tmp_path / "x.json")


def test_an_older_package_gives_the_same_spans() -> None:
    text = "the red ½"
    found = sentencepiece_processor(MODEL).EncodeAsOffsetMapping(text)
    pieces = [
        SimpleNamespace(piece=piece, begin=begin, end=end)
        for piece, (begin, end) in zip(found["pieces"], found["offsets"], strict=True)
    ]
    tokenizer = of_sentencepiece()
    expected = tokenizer._spans(text)
    tokenizer._processor = SimpleNamespace(
        EncodeAsImmutableProto=lambda given: SimpleNamespace(pieces=pieces if given == text else [])
    )  # what sentencepiece had before 0.2.3
    assert tokenizer._spans(text) == expected
