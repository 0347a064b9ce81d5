"""One way in and out for documents of every format."""

import io
import re
from collections.abc import Sequence

import docx
import pytest

from dragoman.documents import FORMATS, DocumentFile, translate_document, translate_file
from dragoman.documents.files import STRUCTURED
from dragoman.documents.passages import numbers_in
from dragoman.errors import DataError
from dragoman.predict.flow import TranslationRequest
from dragoman.predict.protection import Protection
from dragoman.predict.results import Alternative, Link, Translation
from dragoman.predict.threads import finish
from dragoman.predict.translator import Translator
from dragoman.text.languages import NAMES
from flows import answering, saying

EN_DE = ("en", "de")
TEXT = "  The red cat. A dog!\r\n\r\n\t* * *\nBig house\n"
SRT = "1\n00:00:01,000 --> 00:00:02,000\nThe <i>red</i>\ncat.\n\n"
HTML = "<!DOCTYPE html>\n<p>The <b>red</b>\ncat."
TMX = '<tmx><tu><tuv xml:lang="en"><seg>The <hi>red</hi> cat.</seg></tuv></tu></tmx>'


def word_file() -> bytes:
    document = docx.Document()
    paragraph = document.add_paragraph("The ")
    paragraph.add_run("red").bold = True
    paragraph.add_run(" cat.")
    content = io.BytesIO()
    document.save(content)
    return content.getvalue()


FILES = {
    ".txt": TEXT.encode(), ".srt": SRT.encode(), ".tmx": TMX.encode(), ".docx": word_file(),
    ".html": HTML.encode(),
}  # fmt: skip
FILES[".htm"] = FILES[".html"]


def word_by_word(translations: Sequence[Translation]) -> list[list[Link]]:
    """The links of translations that are their sources."""
    words = [list(re.finditer(r"\w+|[^\w\s]", translation.text)) for translation in translations]
    return [[Link(*word.span(), *word.span(), 1.0) for word in found] for found in words]


IDENTITY = saying(lambda text: text)


@pytest.mark.parametrize("ending", FORMATS)
def test_translating_by_the_identity_gives_the_document(translator: Translator, ending: str) -> None:
    document = DocumentFile.read(f"a{ending}", FILES[ending], EN_DE)
    expected = document.written(document.sentences)
    with answering(IDENTITY, word_by_word):
        found = translate_file(translator, f"A{ending.upper()}", FILES[ending])
    if ending == ".docx":
        runs = docx.Document(io.BytesIO(found)).paragraphs[0].runs
        assert [(run.text, run.bold) for run in runs] == [("The ", None), ("red", True), (" cat.", None)]
    else:
        assert found == expected
        assert expected.startswith(FILES[ending][:20])


@pytest.mark.slow
@pytest.mark.parametrize("ending", FORMATS)
def test_a_model_translates_all_and_keeps_all_tags_and_what_is_protected(
    translator: Translator, ending: str
) -> None:
    done: list[int] = []
    content = FILES[ending].replace(b"cat", b"cat 47 https://example.org")
    document = DocumentFile.read(f"a{ending}", content, EN_DE)
    found = translate_file(translator, f"a{ending}", content, protection=Protection(), progress=done.append)
    assert done[-1] == len(document.sentences)
    if ending == ".docx":
        assert any(run.bold for run in docx.Document(io.BytesIO(found)).paragraphs[0].runs)
        return
    tags = {".txt": (), ".srt": ("<i>", "</i>"), ".tmx": ("<hi>", "</hi>")}.get(ending, ("<b>", "</b>"))
    n = 2 if ending == ".tmx" else 1  # the memory keeps its source
    assert all(found.decode().count(piece) == n for piece in ("47", "https://example.org", *tags))


def test_a_text_file_is_translated_as_a_text_is(translator: Translator) -> None:
    expected = translate_document(translator, TEXT)
    assert "* * *" in expected
    assert translate_file(translator, "a.txt", TEXT.encode()) == expected.encode()
    with_mark = b"\xef\xbb\xbf" + TEXT.encode()
    assert translate_file(translator, "a.txt", with_mark) == b"\xef\xbb\xbf" + expected.encode()
    for mark, encoding in ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
        content = mark + TEXT.encode(encoding)
        assert translate_file(translator, "a.txt", content) == mark + expected.encode(encoding)


def test_sentences_without_a_letter_are_nobodys_work() -> None:
    document = DocumentFile.read("a.txt", b"12.5\n* * *\nYes.\n", EN_DE)
    assert document.sentences == ("Yes.",)
    assert document.places == (3,)
    assert (document.noun, document.n_characters) == ("line", 4)
    empty = DocumentFile.read("a.txt", b"", EN_DE)
    assert empty.sentences == ()
    assert empty.written(()) == b""


def test_tags_in_the_text_are_text(translator: Translator) -> None:
    content = SRT.replace("cat", 'cat <g id="0"> </g> <x/>').encode()
    with answering(IDENTITY, word_by_word):
        assert translate_file(translator, "a.srt", content) == content


def test_numbers_are_compared_however_they_are_written() -> None:
    for source, target, missing in (
        ("1998 and 3 cats.", "19999:30 Uhr und 3 Katzen.", {"1998": 1}),
        ("5 and 5.", "5.", {"5": 1}),
        ("1,000.50 at 10:30, 1,000,000", "١٠٠٠٫٥٠ um 10.30, 1 000 000", {"100050": 1}),
        ("-5 °C, +3 %", "5 °C, 3 %", {"-5": 1}),
        ("12 and 7", "१२ und 7", {}),
    ):
        assert dict(numbers_in(source) - numbers_in(target)) == missing


def test_a_number_that_the_model_changes_is_kept_and_one_that_cannot_be_is_counted(
    translator: Translator,
) -> None:
    asked: list[Sequence[str]] = []

    def translate(texts: Sequence[str]) -> list[Translation]:
        asked.append(texts)
        answers = [" ".join(re.sub("[0-9]{2}", "19", text).split()) for text in texts]
        answers = ["2" if "two" in answer else answer for answer in answers]
        return [Translation(text, (Alternative(a, 0.0),)) for text, a in zip(texts, answers, strict=True)]

    text = "In 98 a cat. One 7. In two 2 and 34 5. By 76 <b>x</b> %."
    document = DocumentFile.read("a.txt", text.encode(), EN_DE)
    flow = document.translations(translator, TranslationRequest())
    with answering(translate, word_by_word):
        written = document.written([translation.text for translation in finish(flow)]).decode()
    assert written == "In 98 a cat. One 7. 2 By 76 <b>x</b> %."
    assert [len(texts) for texts in asked] == [4, 3, 3], "a sentence with the right numbers is searched once"
    assert document.notes == ["numbers of the source that the translation lacks: 2 (line 1)"]
    tags = b"<tmx><tu><tuv xml:lang='en'><seg>a <hi>12</hi> b</seg></tuv></tu></tmx>"
    with answering(translate, word_by_word):
        assert b"<hi>12</hi>" in translate_file(translator, "a.tmx", tags)


def test_an_unknown_ending_is_answered_with_those_that_there_are() -> None:
    assert not STRUCTURED & {f".{code}" for code in NAMES}, "train.de is a text in German"
    for name, shown in (("a.xyz", ".xyz"), ("a", "a name without an ending")):
        message = f"{name}: {shown} is no format of documents; there are .txt, .srt, .tmx, .docx, .html, .htm"
        with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
            DocumentFile.read(name, b"", EN_DE)
