"""A translation memory gets the segments it lacks; not a byte of the rest changes."""

import re
import xml.etree.ElementTree as ET

import pytest

from corpus_files import complaint_of
from dragoman.documents.files import DocumentFile
from dragoman.documents.memory import MOST_ELEMENTS, ORIGIN

EN_DE = ("en", "de")
MEMORY = """\
<?xml version="1.0" encoding="{encoding}"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<!-- as it was -->
<tmx version="1.4">
  <header srclang="en" o-tmf='a>b'/>
  <body>
    <tu tuid="1">
      <note>é &amp; &#233;</note>
      <tuv xml:lang="en-US">
        <seg>A <bpt i="1">&lt;b></bpt>red<ept i="1">&lt;/b></ept> cat<ph x="1"/>, <hi>a <it pos="begin">\
x<sub>words</sub></it>dog</hi> &lt; 3. Bye<ph/></seg>
      </tuv>
      <tuv xml:lang="fr"><seg>Chat</seg></tuv>
    </tu>
    <tu><tuv lang="en"><seg>Fine</seg></tuv><tuv lang="de-AT"><seg/></tuv></tu>
    <tu><tuv xml:lang="en"><seg>Kept</seg></tuv><tuv xml:lang="de"><seg>Bleibt</seg></tuv></tu>
    <tu><tuv xml:lang="en"><seg>12</seg></tuv><tuv xml:lang="de"><seg>
</seg></tuv></tu>
    <tu><tuv xml:lang="fr"><seg>Seul</seg></tuv></tu>
    <tu><tuv xml:lang="EN"><seg><![CDATA[a <b> c]]><hi/></seg></tuv></tu>
  </body>
</tmx>
"""
INLINE = (
    'A <bpt i="1">&lt;b></bpt>red<ept i="1">&lt;/b></ept> cat<ph x="1"/>, <hi>a <it pos="begin">x<sub>'
    "words</sub></it>dog</hi> &lt; 3. Bye<ph/>"
)


def read(text: str = MEMORY, *, encoding: str = "utf-8") -> DocumentFile:
    return DocumentFile.read("m.tmx", text.replace("{encoding}", encoding).encode(encoding), EN_DE)


@pytest.mark.parametrize("encoding", ["utf-8", "iso-8859-1", "windows-1252"])
def test_only_what_is_missing_is_added(encoding: str) -> None:
    document = read(encoding=encoding)
    expected = MEMORY.replace("{encoding}", encoding)
    added = f'\n      <tuv xml:lang="de">\n        {ORIGIN}\n        <seg>{INLINE}</seg>\n      </tuv>'
    french = '<tuv xml:lang="fr"><seg>Chat</seg></tuv>'
    expected = expected.replace(french, french + added)
    expected = expected.replace("<seg/>", f"{ORIGIN}<seg>Fine</seg>")
    expected = expected.replace("<seg>\n</seg>", f"{ORIGIN}<seg>12</seg>")
    last = f'<tuv xml:lang="de">{ORIGIN}<seg>a &lt;b&gt; c<hi/></seg></tuv>'
    expected = expected.replace("<hi/></seg></tuv>", f"<hi/></seg></tuv>{last}")
    whole = document.written(document.sentences)
    assert whole.decode(encoding) == expected
    again = DocumentFile.read("m.tmx", whole, EN_DE)
    assert (again.sentences, again.written(())) == ((), whole), "written twice, nothing changes"
    assert (document.noun, document.places) == ("unit", (1, 1, 2, 6))
    assert document.n_characters == sum(map(len, ("A red cat, a dog < 3.", "Bye", "Fine", "a <b> c")))
    evil = document.written(["<evil>&x;\x00\x1b"] * len(document.sentences))
    assert "<evil>&x;" in "".join(ET.fromstring(evil).itertext()), "what a model writes is text"


def test_utf16_and_characters_that_an_encoding_has_not() -> None:
    for mark, encoding in ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
        content = mark + MEMORY.replace("{encoding}", "utf-16").encode(encoding)
        document = DocumentFile.read("m.tmx", content, EN_DE)
        written = document.written(document.sentences)
        assert written.startswith(mark)
        assert "<seg>Fine</seg></tuv></tu>" in written[2:].decode(encoding)
    unit = '<tu><tuv xml:lang="en"><seg>Hi</seg></tuv></tu>'
    document = read(f'<?xml version="1.0" encoding="iso-8859-1"?><tmx>{unit}</tmx>')
    written = document.written(["Cześć"])
    assert "Cześć" in "".join(ET.fromstring(written).itertext())


def test_elements_may_change_places_but_none_is_lost() -> None:
    document = read()
    sentence = 'Ein <g id="3">Hund</g>, <g id="0">rote</g> Katze.'
    written = document.written([sentence, *document.sentences[1:]]).decode()
    segment = written.split('<tuv xml:lang="de">')[1].split("</seg>")[0]
    assert '<hi>Hund</hi>, <bpt i="1">&lt;b></bpt>rote<ept i="1">&lt;/b></ept> Katze.' in segment
    assert segment.count("<ph") == 2
    assert "<it pos=" in segment
    crossing = 'a <bpt i="1"/>b <hi>c<ept i="1"/> d</hi> e'
    document = read(f'<tmx><tu><tuv xml:lang="en"><seg>{crossing}</seg></tuv></tu></tmx>')
    tree = ET.fromstring(document.written(document.sentences))
    assert len(tree.findall(".//bpt")) == len(tree.findall(".//ept")) == 2, "each kept by itself"


def test_a_segment_of_too_many_elements_gets_no_translation() -> None:
    unit = '<tu><tuv xml:lang="en"><seg>cat {}</seg></tuv></tu>'
    text = f"<tmx>{unit.format('<ph/>' * (MOST_ELEMENTS + 1))}{unit.format('<ph/>')}</tmx>"
    document = read(text)
    assert document.places == (2,)
    assert document.written(document.sentences).decode().startswith(text[: text.index("</tu>") + 5])
    assert document.notes == ["1 unit with more than 1,000 inline elements: not translated"]


def test_new_segments_are_in_the_variant_that_most_of_the_file_is_in() -> None:
    for tag, n in (("de-DE", 2), ("de_AT", 1), ("fr", 0)):
        filled = f'<tu><tuv xml:lang="en"><seg>A</seg></tuv><tuv xml:lang="{tag}"><seg>B</seg></tuv></tu>'
        document = read(f'<tmx>{filled * n}<tu><tuv xml:lang="en"><seg>cat</seg></tuv></tu></tmx>')
        written = document.written(["Katze"]).decode()
        expected = f'<tuv xml:lang="{tag if n else "de"}">{ORIGIN}<seg>Katze</seg></tuv></tu></tmx>'
        assert expected in written
        assert written.count(ORIGIN) == 1


@pytest.mark.parametrize("bad", ["\x1f", "&#x1F;", "<ph>&#2;</ph>"])
def test_a_unit_with_a_control_character_stays_as_it_is_and_is_counted(bad: str) -> None:
    units = "".join(
        f'<tu><tuv xml:lang="en"><seg>{text}</seg></tuv></tu>' for text in (f"a {bad} dog", "cat")
    )
    document = read(f"<tmx>{units}</tmx>")
    assert document.sentences == ("cat",)
    assert document.notes == ["1 unit with a control character: not translated"]
    assert document.written(("cat",)).decode().startswith(f"<tmx>{units[:-5]}".rpartition("<tu>")[0])


def test_a_gap_between_two_sentences_keeps_them_apart() -> None:
    text = "First.<ph>&lt;br/></ph>Second, Mr.<ut/>Smith.<ph/> Third<ph/><hi>x</hi>."
    document = read(f'<tmx><tu><tuv xml:lang="en"><seg>{text}</seg></tuv></tu></tmx>')
    plain = [re.sub("<[^>]*>", "", sentence) for sentence in document.sentences]
    assert plain == ["First.", "Second, Mr.Smith.", "Thirdx."]
    assert (
        f"<seg>{text}</seg></tuv></tu>" in document.written(document.sentences).decode().partition(ORIGIN)[2]
    )


THIEF = "<!DOCTYPE tmx [<!ENTITY a SYSTEM 'file:///etc/passwd'>]><tmx>&a;</tmx>"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "m.tmx, line 1: not XML, or cut short"),
        (MEMORY[:700].replace("{encoding}", "utf-8").encode(), "m.tmx, line 1"),
        (THIEF.encode(), "m.tmx, line 1: declares the entity 'a'; refused"),
        (b"<!DOCTYPE tmx SYSTEM 'x'>\n<tmx>&foo;</tmx>", "m.tmx, line 2: &foo; is not defined"),
        (b"<x/>", "m.tmx, line 1: not TMX, for it begins with <x>"),
        (b"<tmx>\n\xff</tmx>", "m.tmx, line 2: is not UTF-8; convert"),
        (b"<?xml version='1.0' encoding='zip'?><tmx/>", "m.tmx: is in zip, which is not supported"),
        (b"<?xml version='1.0' encoding='iso-8859-99'?><tmx/>", "m.tmx: is in iso-8859-99, which is not"),
        (b"<tmx>" + b"<a>" * 1000, "m.tmx, line 1: more than 200 elements within one another"),
        (b"<tmx><tu><tuv xml:lang='fr'><seg>a</seg></tuv></tu></tmx>", "m.tmx: no unit has a segment in en"),
    ],
)  # fmt: skip
def test_a_damaged_or_hostile_file_is_refused_in_one_line(content: bytes, message: str) -> None:
    assert complaint_of(lambda: DocumentFile.read("m.tmx", content, EN_DE).sentences).startswith(message)
