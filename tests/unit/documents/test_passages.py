"""Text with codes in it can be cut, marked with tags, and put together, and nothing gets lost."""

import re
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dragoman.documents import translate_document
from dragoman.documents.passages import (
    MOST_CODES,
    Code,
    Cut,
    CutPassage,
    Document,
    Passage,
    Pieces,
    Tags,
    cut,
    joined,
    text_of,
)
from dragoman.predict.protection import INLINE_TAGS, pairs
from dragoman.predict.translator import Translator
from flows import answering, saying

TEXTS = st.text(st.sampled_from('aB .!?\n\t<g/> id="1"\''), min_size=1, max_size=12)


@st.composite
def pieces_of(draw: Any) -> Pieces:
    """Nested pairs and points among text, as formats make them: no two texts side by side."""
    pieces: list[str | Code] = []
    unclosed: list[int] = []
    for key in range(draw(st.integers(0, 8))):
        kind = draw(st.sampled_from(["text", "open", "close", "point", "gap"]))
        if kind == "text" and not (pieces and isinstance(pieces[-1], str)):
            pieces.append(draw(TEXTS))
        elif kind == "open":
            unclosed.append(key)
            pieces.append(Code("open", key))
        elif kind == "close" and unclosed:
            pieces.append(Code("close", unclosed.pop()))
        elif kind in ("point", "gap"):
            pieces.append(Code(kind, key))
    return (*pieces, *(Code("close", key) for key in reversed(unclosed)))


def is_nested(pieces: Pieces) -> bool:
    unclosed: list[int] = []
    for piece in pieces:
        if isinstance(piece, Code) and piece.kind == "open":
            unclosed.append(piece.key)
        elif isinstance(piece, Code) and piece.kind == "close" and [piece.key] != unclosed[-1:]:
            return False
        elif isinstance(piece, Code) and piece.kind == "close":
            unclosed.pop()
    return not unclosed


@given(pieces_of(), st.data())
def test_parts_are_nested_and_joined_are_the_whole(pieces: Pieces, data: Any) -> None:
    places = sorted(data.draw(st.lists(st.integers(0, len(text_of(pieces))), max_size=4)))
    parts = cut(pieces, [Cut(place, data.draw(st.sampled_from(["left", "right"]))) for place in places])
    assert len(parts) == len(places) + 1
    assert all(map(is_nested, parts))
    bounds = [0, *places, len(text_of(pieces))]
    assert [len(text_of(part)) for part in parts] == [b - a for a, b in pairwise(bounds)]
    whole = joined(parts)
    assert text_of(whole) == text_of(pieces)
    assert points_of(whole) == points_of(pieces)
    assert formatting_of(whole) == formatting_of(pieces)


def points_of(pieces: Pieces) -> list[tuple[int, int]]:
    """Each point, and the number of characters before it."""
    return [
        (piece.key, len(text_of(pieces[:i])))
        for i, piece in enumerate(pieces)
        if isinstance(piece, Code) and piece.kind in ("point", "gap")
    ]


def formatting_of(pieces: Pieces) -> list[tuple[str, tuple[int, ...]]]:
    """Each character, and the pairs that it is in."""
    found: list[tuple[str, tuple[int, ...]]] = []
    within: list[int] = []
    for piece in pieces:
        if isinstance(piece, str):
            found += [(character, tuple(within)) for character in piece]
        elif piece.kind == "open":
            within.append(piece.key)
        elif piece.kind == "close":
            within.pop()
    return found


@given(pieces_of())
def test_a_passage_of_its_own_sentences_is_the_passage(pieces: Pieces) -> None:
    passage = CutPassage.of(Passage(pieces, 1, separators="\t"), "en")
    whole = passage.written([sentence.pieces for sentence in passage.sentences], ("en", "en"))
    assert formatting_of(whole) == formatting_of(pieces)
    assert points_of(whole) == points_of(pieces)
    assert all(any(map(str.isalpha, text_of(s.pieces))) for s in passage.sentences)
    assert not any("\n" in text_of(s.pieces) or "\t" in text_of(s.pieces) for s in passage.sentences)


@given(pieces_of())
def test_what_tags_say_is_what_they_were_written_for(pieces: Pieces) -> None:
    tags = Tags.apart_from([text_of(pieces)])
    marked = tags.marked(pieces)
    assert tags.read(marked, pieces) == pieces
    assert re.sub(tags.pattern, "", marked) == text_of(pieces)
    assert len(re.findall(tags.pattern, marked)) == sum(isinstance(piece, Code) for piece in pieces)
    every = "".join(f"<{name}>" for name in INLINE_TAGS)
    names = Tags.apart_from([every, text_of(pieces)])[:3]
    assert len(set(names)) == 3
    assert not any(f"<{name}>" in every for name in names)


@given(pieces_of(), st.text(st.sampled_from('<g id="0123">/x '), max_size=30))
def test_whatever_becomes_of_the_tags_no_point_is_lost(pieces: Pieces, text: str) -> None:
    read = Tags("g", "x", "gap0").read(text, pieces)
    assert is_nested(read)
    assert sorted(key for key, _ in points_of(read)) == sorted(key for key, _ in points_of(pieces))


def test_what_encloses_a_sentence_needs_no_tags() -> None:
    two = (Code("open", 1), "Two", Code("close", 1), " there.")
    pieces = (Code("open", 0), "One here. ", *two, Code("close", 0))
    passage = CutPassage.of(Passage(pieces, 1), "en")
    assert [(sentence.opening, sentence.closing) for sentence in passage.sentences] == [
        ((Code("open", 0),), (Code("close", 0),))
    ] * 2
    assert passage.sentences[0].pieces == ("One here.",)
    assert passage.sentences[1].pieces == two
    written = passage.written([("Eins hier.",), ("Zwei dort.",)], ("en", "de"))
    assert written == (Code("open", 0), "Eins hier. Zwei dort.", Code("close", 0))
    assert text_of(passage.written([("一。",), ("二。",)], ("en", "zh"))) == "一。二。"


def test_a_sentence_of_too_many_codes_stays_as_it_is() -> None:
    codes = [Code("point", key) for key in range(MOST_CODES + 1)]
    pieces = (*(piece for code in codes for piece in ("a", code)), "b. Fine.")
    passage = CutPassage.of(Passage(pieces, 1), "en")
    assert [sentence.pieces for sentence in passage.sentences] == [("Fine.",)]
    assert passage.written([("Gut.",)], ("en", "de")) == (*pieces[:-1], "b. Gut.")


def test_pairs_are_nested() -> None:
    for sides, expected in (
        ("a b /b /a", {0: 3, 1: 2}),
        ("a /a a /a", {0: 1, 2: 3}),
        ("a b /a /b", {0: 2}),
        ("a a /a", {1: 2}),
        ("/a a", {}),
    ):
        named = [("close", side[1:]) if side[0] == "/" else ("open", side) for side in sides.split()]
        assert pairs(named) == expected


# Documents of sentences

LANGUAGES = st.sampled_from(["en", "de", "zh", "ja", "fr", "hi", "xx"])
PAGES = st.text(
    st.one_of(st.sampled_from("  ..!?。「」\"'aB1\n\r\t\u2028\x85\x0c\ud800"), st.characters()), max_size=80
)


@given(PAGES, LANGUAGES)
def test_a_document_of_its_own_sentences_is_the_text(text: str, language: str) -> None:
    document = Document.read(text, language)
    assert document.written(document.sentences, (language, language)) == text
    assert all(sentence and sentence == sentence.strip() for sentence in document.sentences)
    assert not any(end in sentence for sentence in document.sentences for end in "\r\n")


def test_lines_and_spaces_stand_where_they_stood(translator: Translator) -> None:
    text = "\n  One here.  Two there! \r\n\r\n\tThree.\nMr. Smith left.\n"
    expected = "\n  <One here.>  <Two there!> \r\n\r\n\t<Three.>\n<Mr. Smith left.>\n"
    with answering(saying(lambda sentence: f"<{sentence}>")):
        assert translate_document(translator, text) == expected


def test_every_sentence_knows_its_line_and_chinese_ones_stand_without_spaces() -> None:
    document = Document.read("One. Two.\r\n\r\nThree.\rFour.", "en")
    assert document.sentences == ("One.", "Two.", "Three.", "Four.")
    assert [line for *_, line in document.places] == [1, 1, 3, 4]
    document = Document.read("One. Two.\n Three.", "en")
    assert document.written(["一。", "二。", "三。"], ("en", "zh")) == "一。二。\n 三。"
    back = Document.read("一。二。\n 三。", "zh")
    assert back.written(["One.", "Two.", "Three."], ("zh", "en")) == "One. Two.\n Three."
