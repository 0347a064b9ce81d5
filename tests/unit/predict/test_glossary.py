"""Which target phrases a glossary requires."""

import gzip
from pathlib import Path

import pytest

from dragoman.errors import DataError
from dragoman.predict.glossary import Glossary
from dragoman.predict.inflection import Inflectable


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("The river bank is wet.", ["Flussufer"]),
        ("banks and embankments", []),
        ("Bank! (bank)", ["Bank"]),
        ("An apple from Apple", ["Apfel", "Apple"]),
        ("APPLE", ["Apple"]),
        ("a state-of-the-art bank", ["modern", "Bank"]),
        ("state of the art", []),
        ("我们去银行。", ["bank"]),
    ],
)
def test_phrases_are_whole_words_the_longest_first_in_their_own_case_first(
    text: str, targets: list[str]
) -> None:
    glossary = Glossary(
        [
            ("bank", "Bank"), ("river bank", "Flussufer"), ("Apple", "Apple"), ("apple", "Apfel"),
            ("state-of-the-art", "modern"), ("银行", "bank"), ("行", "row"),
        ]
    )  # fmt: skip
    assert glossary.required(text) == targets


@pytest.mark.parametrize(
    ("name", "content", "pairs"),
    [
        ("a.tsv", "\ufeffbank\tBank\r\n\n  river  bank \tdas Flussufer\nbank\tBank\n",
         {"bank": "Bank", "river bank": "das Flussufer"}),
        ("a.csv", 'bank,Bank\r\n"red, old",rot\r\n', {"bank": "Bank", "red, old": "rot"}),
        ("a.csv", "bank;Bank\nriver;Fluss\n", {"bank": "Bank", "river": "Fluss"}),
        ("a.csv", 'bank,"die ""gute""\nBank"\n', {"bank": 'die "gute" Bank'}),
        ("a.csv", "note,de-AT,EN\n,Bank,bank\nx,Fluss,river\n", {"bank": "Bank", "river": "Fluss"}),
        ("a.csv", "Source,Target\nbank,Bank\n", {"bank": "Bank"}),
        ("a.tsv", "target\tsource\nBank\tbank\n", {"bank": "Bank"}),
        ("a.txt", "source\tQuelle\n", {"source": "Quelle"}),
    ],
)  # fmt: skip
def test_columns_are_those_that_the_first_line_names_or_source_and_target(
    tmp_path: Path, name: str, content: str, pairs: dict[str, str]
) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode())
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(content.encode()))
    for file in (path, packed):
        glossary = Glossary.load(file, ("en", "de"))
        assert {source: glossary.required(source) for source in pairs} == {
            source: [target] for source, target in pairs.items()
        }


VERSION_2 = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE martif SYSTEM "TBXBasiccoreStructV02.dtd">
<martif type="TBX-Basic" xml:lang="en"><martifHeader><fileDesc/></martifHeader><text><body>
<termEntry id="1"><langSet xml:lang="en-US"><tig><term>bank</term><termNote type="pos">noun</termNote>
</tig><ntig><termGrp><term>lending  <hi>bank</hi></term></termGrp></ntig></langSet>
<langSet xml:lang="de"><tig><term>Bank</term></tig><tig><term>Geldhaus</term></tig></langSet></termEntry>
<termEntry id="2"><langSet xml:lang="en"><tig><term>bench</term></tig></langSet>
<langSet xml:lang="fr"><tig><term>banc</term></tig></langSet></termEntry>
</body></text></martif>"""
VERSION_3 = """<tbx:tbx xmlns:tbx="urn:iso:std:iso:30042:ed-2" xml:lang="en"><tbx:text><tbx:body>
<tbx:conceptEntry id="1"><tbx:langSec xml:lang="DE_at"><tbx:termSec><tbx:term>Bank</tbx:term></tbx:termSec>
</tbx:langSec><tbx:langSec xml:lang="en"><tbx:termSec><tbx:term>bank</tbx:term></tbx:termSec><tbx:termSec>
<tbx:term>lending bank</tbx:term></tbx:termSec></tbx:langSec></tbx:conceptEntry>
</tbx:body></tbx:text></tbx:tbx>"""


@pytest.mark.parametrize(
    ("content", "skipped"),
    [
        (VERSION_2, ["left out 1 of 2 entries: 1 without a term in both en and de"]),
        (VERSION_2.replace("fr", "de").replace(">bench<", ">ben&#x1F;ch<"),
         ["left out 1 of 2 entries: 1 with a control character"]),
        (VERSION_3, []),
    ],
)  # fmt: skip
def test_every_source_term_of_an_entry_requires_its_first_target_term(
    tmp_path: Path, content: str, skipped: list[str]
) -> None:
    path = tmp_path / "terms.tbx"
    path.write_text(content, encoding="utf-8")
    glossary = Glossary.load(path, ("en", "de"))
    assert glossary.required("a bank") == ["Bank"]
    assert glossary.required("a lending bank, a bench") == ["Bank"]
    assert glossary.remarks == [f"{path}: {remark}" for remark in skipped]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tbx", VERSION_2.replace('"de"', '"it"'), r"no entry has terms in both en and de; its languages"),
        ("a.tbx", VERSION_2[:-9], r"a.tbx line 9: not XML, or cut short"),
        ("a.tbx", "<tmx/>", r"a.tbx line 1: not TBX, for it begins with <tmx>; give another file"),
        ("a.tbx", VERSION_2.replace('.dtd">', '.dtd" [<!ENTITY a "b">]>'), r"line 2: declares the entity"),
        ("a.tbx", VERSION_2.replace(' xml:lang="de"', ""), r"line 6: <langSet> has no xml:lang; name its l"),
        ("a.tbx", VERSION_2.replace(">Geldhaus<", "> <"), r"line 6: <term> is empty; write one, or remove"),
        ("a.tbx", VERSION_2.replace("fr", "de").replace(">bench<", ">bank<"),
         r"line 7: 'bank' is to be 'banc' here and 'Bank' in line 4; keep one of the two"),
        ("a.tbx", "<tbx>" + "<a>" * 100, r"more than 100 elements within one another; refused"),
        ("a.tbx", "<tbx><text>" + "<a/>" * 70_000, r"line 1: is longer than 1,048,576 bytes"),
        ("a.csv", "bank,Bank\nriver\n", r"line 2: is not source, comma, target; write one entry a line"),
        ("a.csv", 'bank,"Bank\nriver,Fluss\n', r"line 1: not CSV"),
        ("a.csv", "en,de\n", r"a.csv: has no entry"),
        ("a.tsv", "bank\tBank\nriver Fluss\n", r"a.tsv line 2: is not source, tab, target; write one entry"),
        ("a.tsv", "bank\tBank\n\nbank\tUfer\n",
         r"line 3: 'bank' is to be 'Ufer' here and 'Bank' in line 1; keep one"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_glossary_is_refused_with_its_line(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        Glossary.load(path, ("en", "de"))
    with pytest.raises(DataError, match="nowhere"):
        Glossary.load(tmp_path / f"nowhere-{name}", ("en", "de"))


def test_a_term_base_needs_languages_and_may_have_several_terms(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"terms.tbx: has terms in several languages; say which: languages="):
        Glossary.load("terms.tbx")
    (tmp_path / "terms.tbx").write_text(VERSION_2.replace("fr", "de"), encoding="utf-8")
    assert Glossary.load(tmp_path / "terms.tbx", ("en", "de")).required("bench") == ["banc"]


def test_pairs_of_a_request_are_checked_like_those_of_a_file() -> None:
    assert Glossary([["bank", "Bank"], ["bank ", "Bank"]]).required("bank") == ["Bank"]
    with pytest.raises(DataError, match=r"glossary entry 2: 'a' is to be 'c' here and 'b' in entry 1; keep"):
        Glossary([["a", "b"], ["a", "c"]])
    with pytest.raises(
        DataError, match=r"glossary entry 1: has no word on one side; write source and target"
    ):
        Glossary([["a", " "]])


def test_terms_may_be_inflected() -> None:
    inflected, plain = Glossary([("bank", "Bank")], inflect=True), Glossary([("bank", "Bank")])
    assert isinstance(inflected.required("bank")[0], Inflectable)
    assert not isinstance(plain.required("bank")[0], Inflectable)
    assert inflected.fingerprint != plain.fingerprint
