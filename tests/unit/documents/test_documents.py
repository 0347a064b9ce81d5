"""A document keeps its form, whatever becomes of its sentences."""

from hypothesis import given
from hypothesis import strategies as st

from dragoman.documents import Document, segments, translate_document
from dragoman.predict.translator import Translator
from flows import answering, saying

LANGUAGES = st.sampled_from(["en", "de", "zh", "ja", "fr", "hi", "xx"])
TEXTS = st.text(
    st.one_of(st.sampled_from("  ..!?。「」\"'aB1\n\r\t\u2028\x85\x0c\ud800"), st.characters()), max_size=80
)


@given(TEXTS, LANGUAGES)
def test_a_document_of_its_own_sentences_is_the_text(text: str, language: str) -> None:
    document = Document.read(text, language)
    assert document.written(document.sentences, (language, language)) == text
    assert all(sentence and sentence == sentence.strip() for sentence in document.sentences)
    assert not any(end in sentence for sentence in document.sentences for end in "\r\n")


@given(TEXTS.filter(lambda text: "\n" not in text and "\r" not in text), LANGUAGES)
def test_segments_tile_a_line(line: str, language: str) -> None:
    assert "".join(segments(line, language)) == line


@given(TEXTS)
def test_translating_by_the_identity_changes_nothing(translator: Translator, text: str) -> None:
    with answering(saying(lambda sentence: sentence)):
        assert translate_document(translator, text) == text


def test_lines_and_spaces_stand_where_they_stood(translator: Translator) -> None:
    text = "\n  One here.  Two there! \r\n\r\n\tThree.\nMr. Smith left.\n"
    expected = "\n  <One here.>  <Two there!> \r\n\r\n\t<Three.>\n<Mr. Smith left.>\n"
    with answering(saying(lambda sentence: f"<{sentence}>")):
        assert translate_document(translator, text) == expected


def test_every_sentence_knows_its_line() -> None:
    document = Document.read("One. Two.\r\n\r\nThree.\rFour.", "en")
    assert document.sentences == ("One.", "Two.", "Three.", "Four.")
    assert document.line_numbers == (1, 1, 3, 4)


def test_chinese_sentences_stand_without_spaces() -> None:
    document = Document.read("One. Two.\n Three.", "en")
    assert document.written(["一。", "二。", "三。"], ("en", "zh")) == "一。二。\n 三。"
    back = Document.read("一。二。\n 三。", "zh")
    assert back.written(["One.", "Two.", "Three."], ("zh", "en")) == "One. Two.\n Three."


def test_a_document_is_its_sentences_translated(translator: Translator) -> None:
    first, second = (t.text for t in translator.translate(["The red cat.", "A dog!"]))
    assert translate_document(translator, "The red cat. A dog!\n") == f"{first} {second}\n"
