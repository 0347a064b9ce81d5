"""The formats of corpora: every one gives the same pairs, and hostile or damaged files give one line."""

import csv
import io
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from corpus_files import COMPRESS, complaint, corpus_of, read, write
from corpus_files import offline_hub as offline_hub
from dragoman.data.readers import formats
from dragoman.errors import DataError

PAIRS = [
    ("one", "eins"), ('He said "hi, you".', "Er sagte „hallo“."), ("我们 & <b>", "😀\u2028x"), ("", "leer"),
]  # fmt: skip
DEFAULT = (0, 1)


def notes(*files: str, **options: Any) -> list[str]:
    """What is noted, without the name of the file, after each of two readings."""
    corpus = corpus_of(*files, **options)
    first, second = [(list(corpus.pairs()), corpus.notes())[1] for _ in range(2)]
    assert first == second
    return [line.removeprefix(f"{corpus.name}: ") for line in first]


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def as_tsv(pairs: list[tuple[str, str]]) -> str:
    return "".join(f"{src}\t{tgt}\n" for src, tgt in pairs)


def as_csv(pairs: list[tuple[str, str]]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text).writerows([("en", "de"), *pairs])
    return text.getvalue()


def as_jsonl(pairs: list[tuple[str, str]]) -> str:
    return "".join(json.dumps({"id": 1, "en": src, "de": tgt}) + "\n" for src, tgt in pairs)


def as_tmx(pairs: list[tuple[str, str]], *, head: str = "") -> str:
    units = "".join(
        f'<tu><tuv xml:lang="en"><seg>{escaped(src)}</seg></tuv>'
        f'<tuv xml:lang="de"><seg>{escaped(tgt)}</seg></tuv></tu>\n'
        for src, tgt in pairs
    )
    return f'<?xml version="1.0"?>{head}\n<tmx version="1.4"><header/><body>\n{units}</body></tmx>\n'


JSONL = dict.fromkeys((".jsonl", ".ndjson", ".json"), as_jsonl)
WRITERS = {".tsv": as_tsv, ".csv": as_csv, **JSONL, ".tmx": as_tmx}


@pytest.mark.parametrize("suffix", WRITERS)
def test_every_format_gives_the_same_pairs_however_long_and_line_breaks_in_them_are_spaces(
    tmp_path: Path, suffix: str
) -> None:
    for compressed in COMPRESS:
        assert read(write(tmp_path / f"a{suffix}{compressed}", WRITERS[suffix](PAIRS))) == PAIRS
    pairs = [("x" * 1_000_000, "y"), ("after", "danach")]
    assert read(write(tmp_path / f"b{suffix}", WRITERS[suffix](pairs))) == pairs
    if suffix != ".tsv":
        pairs = [("one \r\n\n  two", "a\nb"), ("a\u2028b", "\n")]
        path = write(tmp_path / f"c{suffix}", WRITERS[suffix](pairs))
        assert read(path) == [("one two", "a b"), ("a\u2028b", "")]


@pytest.mark.parametrize("suffix", WRITERS)
def test_invalid_utf8_and_a_nul_byte_are_reported_in_every_format(tmp_path: Path, suffix: str) -> None:
    text = WRITERS[suffix]([("one", "eins"), ("two", "ZWOELF")]).replace("ZWOELF", "zw\udcf6lf")
    path = write(tmp_path / f"a{suffix}", text.encode("utf-8", "surrogateescape"))
    line = 1 + text[: text.index("\udcf6")].count("\n")
    message = complaint(path)
    assert message.startswith(f"{path} line {line}: not ")
    assert "UTF-8" in message or "encoding" in message
    message = complaint(write(tmp_path / f"b{suffix}", text.replace("\udcf6", "\0")))
    assert "NUL" in message or "not XML" in message


# Tab-separated


def test_names_mean_that_the_first_line_of_a_tsv_holds_them(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "id\tGerman\tEnglish\n1\teins\tone\n\n2\tzwei\ttwo\n")
    assert read(path, columns=("English", "German")) == [("one", "eins"), ("", ""), ("two", "zwei")]
    assert notes(path, columns=("English", "German")) == []
    assert read(path, columns=(2, 1))[0] == ("English", "German")
    [note] = notes(path, columns=(2, 1))
    assert note.startswith("line 1 (id, German, English) looks like the names of columns and is read as a p")
    assert note.endswith("ask for columns by name (--columns or data.columns)")
    assert notes(write(tmp_path / "b.tsv", "I speak English here.\tIch spreche hier Deutsch.\n")) == []


# CSV


def test_columns_of_a_csv_are_asked_for_by_name_or_number(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", 'id,"src text",tgt\r\n1,"a, b",c\r\n')
    assert read(path, columns=("tgt", "src text")) == [("c", "a, b")]
    assert read(path, columns=(2, 1)) == [("c", "a, b")]
    assert notes(path, columns=(2, 1)) == ["line 1 is taken for the names of the columns (id, src text, tgt)"]
    assert notes(path, columns=("tgt", "src text")) == []
    for delimiter in ";\t":  # the most frequent of line 1
        path = write(tmp_path / "b.csv", f"en{delimiter}de\none, two{delimiter}eins, zwei\n")
        assert read(path) == [("one, two", "eins, zwei")]


# JSON lines


def test_objects_with_languages_in_words_are_read_without_naming_columns(tmp_path: Path) -> None:
    lines = '{"english": "Hi.", "chinese": "你好。"}\n\n{"english": "A", "chinese": "B"}'
    path = write(tmp_path / "t.json", lines)
    assert read(path, langs="en zh") == [("Hi.", "你好。"), ("", ""), ("A", "B")]
    assert read(path, langs="zh en")[0] == ("你好。", "Hi.")


def test_fields_inside_a_field_are_reached_by_dots_and_null_is_an_empty_text(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"translation": {"en": "a", "de": "b"}, "x.y": "c"}\n')
    assert read(path) == [("a", "b")]
    assert read(path, columns=("x.y", "translation.en")) == [("c", "a")]
    path = write(tmp_path / "b.jsonl", '{"en": null, "de": "b"}\n{"en": "a", "de": "b"}\n')
    assert read(path)[0] == ("", "b")


# TMX


def unit(*texts: tuple[str, str], attribute: str = "xml:lang") -> str:
    variants = "".join(f'<tuv {attribute}="{tag}"><seg>{text}</seg></tuv>' for tag, text in texts)
    return f"<tu><prop>p</prop><note>n</note>{variants}</tu>"


def tmx_of(tmp_path: Path, *units: str, head: str = "") -> str:
    body = "\n".join(units)
    text = f'<?xml version="1.0"?>{head}<tmx version="1.4"><body>\n{body}\n</body></tmx>'
    return write(tmp_path / "a.tmx", text)


def test_languages_of_a_tmx_match_whatever_their_case_and_region(tmp_path: Path) -> None:
    second = unit(("fr", "x"), ("DE", "d"), ("en", "c"), attribute="lang")
    path = tmx_of(tmp_path, unit(("EN-US", "a"), ("de_DE", "b")), second)
    assert read(path) == [("a", "b"), ("c", "d")]
    assert corpus_of(path).fingerprint() != corpus_of(path, langs="de en").fingerprint()
    path = tmx_of(tmp_path, unit(("fr", "a"), ("it-IT", "b")))
    assert complaint(path) == (
        f"{path}: no unit in both en and de; its languages: fr, it-IT (data.src_lang, data.tgt_lang)"
    )
    assert "empty corpus" in complaint(tmx_of(tmp_path))


def test_inline_codes_are_dropped_and_highlighted_text_is_kept(tmp_path: Path) -> None:
    path = tmx_of(
        tmp_path,
        unit(
            ("en", 'A <bpt i="1">&lt;b&gt;<sub>s</sub></bpt>bo<hi type="x">l<hi>d</hi></hi><ept i="1"/> B.'),
            ("de", "one<ph>&lt;br/&gt;</ph>two<ut/>, <it pos='begin'>x</it>three"),
        ),
        unit(("en", "First.<ph/>Second:<ut/>5 (<ph/>x<ph/>)!"), ("de", "狗。<ph/>貓 <ph/>a")),
    )
    assert read(path) == [("A bold B.", "one two, three"), ("First. Second: 5 (x)!", "狗。貓 a")]


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["utf-8", "iso-8859-1", "utf-16", "utf-16-le", "utf-16-be"])
def test_a_unit_with_a_control_character_is_left_out_and_counted(tmp_path: Path, encoding: str) -> None:
    texts = ["é &amp; &#9;&#233;\t", "\x1f", "&#x1F;", "&#00031;", "&#xb;", "&#0;", "\x01" * 3, "x&#9;&#x41;"]
    padding = "x" * (formats.BLOCK - 400)  # the first reference lies across two blocks for some `n`
    for n in range(8):
        units = [unit(("en", padding + "y" * n), ("de", text)) for text in texts]
        head = f'<?xml version="1.0" encoding="{encoding}"?><tmx>'
        path = write(tmp_path / "a.tmx", f"{head}{''.join(units)}</tmx>".encode(encoding))
        assert [pair.tgt for pair in read(path)] == ["é & \té\t", "x\tA"]
        assert notes(path) == ["left out 6 of 8 units: 6 with a control character"]


def test_variants_of_a_language_that_are_mixed_are_noted_and_units_without_one_are_counted(
    tmp_path: Path,
) -> None:
    units = [unit(("en", "a"), ("pt-BR", "b"), ("pt-PT", "c")), unit(("en", "d"), ("pt_PT", "e"))]
    units += [unit(("en", "a")), unit(("fr", "x")), unit(("en", "a"), ("por", "x"))]
    path = tmx_of(tmp_path, *units)
    assert read(path, langs="en pt") == [("a", "b"), ("d", "e")]
    left_out = "left out 3 of 5 units: 2 without pt, 1 without en and pt"
    first = "1 units have a language more than once; the first is taken"
    mixed = "pt mixes pt-br (1), pt-pt (1); to take one, say it: pt-br, for example"
    assert sorted(notes(path, langs="en pt")) == sorted([left_out, first, mixed])
    assert read(path, langs="en pt-PT") == [("a", "c"), ("d", "e")]
    exact = tmx_of(tmp_path, unit(("en-GB", "colour"), ("en", "color"), ("de", "Farbe")))
    assert read(exact) == [("color", "Farbe")]


def test_a_memory_is_in_the_two_languages_that_nearly_all_its_units_have(tmp_path: Path) -> None:
    units = [unit(("en-US", "a"), ("de-DE", "b"))] * 60 + [unit(("en", "a"), ("fr", "c"))]
    text = f'<tmx><header srclang="{{}}"/>{"".join(units)}</tmx>'
    write(tmp_path / "a.tmx", text.format("de"))
    assert formats.tmx_languages(tmp_path / "a.tmx") == ("de", "en")
    for source, n in (("*all*", 1), ("en", 10)):
        several = "".join([*units[:60], *units[-1:] * n])
        write(tmp_path / "a.tmx", f'<tmx><header srclang="{source}"/>{several}</tmx>')
        shown = rf"en \({60 + n} units\), de \(60 units\), fr \({n} units\); say which to learn, as in"
        shown = rf"a\.tmx: its languages are {shown} --src-lang en --tgt-lang de$"
        with pytest.raises(DataError, match=shown):
            formats.tmx_languages(tmp_path / "a.tmx")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1"])
def test_a_tmx_is_read_in_the_encoding_it_declares(tmp_path: Path, encoding: str) -> None:
    text = as_tmx([("Büsche", "Öl")]).replace('version="1.0"', f'version="1.0" encoding="{encoding}"')
    assert read(write(tmp_path / "a.tmx", text.encode(encoding))) == [("Büsche", "Öl")]


NAMED = zip("abcdefghi", "bcdefghij", strict=True)
LAUGHS = "".join(f"<!ENTITY {name} '{f'&{inner};' * 10}'>" for inner, name in NAMED)
BILLION_LAUGHS = f"<!DOCTYPE tmx [<!ENTITY a '{'ha' * 50}'>{LAUGHS}]>"


@pytest.mark.parametrize(
    "head",
    [
        BILLION_LAUGHS,
        "<!DOCTYPE tmx [<!ENTITY a SYSTEM 'file:///etc/passwd'>]>",
        "<!DOCTYPE tmx [<!ENTITY a 'harmless'>]>",
    ],
    ids=["billion laughs", "a file", "any"],
)
def test_a_tmx_that_declares_entities_is_refused(tmp_path: Path, head: str) -> None:
    path = tmx_of(tmp_path, unit(("en", "&a;"), ("de", "b")), head=head)
    tracemalloc.start()
    message = complaint(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert message.startswith(f"{path} line 1: declares the entity 'a'; refused, for entities can fill")
    assert peak < 5e6


def test_the_document_type_that_tmx_files_name_is_not_fetched(tmp_path: Path) -> None:
    head = '<!DOCTYPE tmx SYSTEM "http://127.0.0.1:1/tmx14.dtd">'
    assert read(tmx_of(tmp_path, unit(("en", "a &amp; b"), ("de", "c")), head=head)) == [("a & b", "c")]
    undefined = tmx_of(tmp_path, unit(("en", "caf&eacute;"), ("de", "c")), head=head)
    assert "line 2: &eacute; is not defined; write the character itself" in complaint(undefined)


@pytest.mark.slow
def test_memory_does_not_grow_with_a_tmx(tmp_path: Path) -> None:
    def peak_of(n: int) -> int:
        path = write(tmp_path / "a.tmx", as_tmx([(f"sentence {i}", f"Satz {i}") for i in range(n)]))
        pairs = corpus_of(path).pairs()
        tracemalloc.start()
        assert sum(1 for _ in pairs) == n
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    assert peak_of(20_000) < 1.5 * peak_of(2_000) < 3e6


# Parquet


def write_parquet(path: Path, columns: dict[str, list[Any]]) -> str:
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'dragoman[parquet]'")
    from pyarrow import parquet

    sink = io.BytesIO()
    parquet.write_table(pa.table(columns), sink, row_group_size=2)
    return write(path, sink.getvalue())


@pytest.mark.parametrize("compressed", COMPRESS)
def test_columns_of_a_parquet_file_are_asked_for_by_name(tmp_path: Path, compressed: str) -> None:
    columns = {"id": [1, 2, 3], "src": ["a", None, "c\nc"], "tgt": ["A", "B", "C"]}
    path = write_parquet(tmp_path / f"a.parquet{compressed}", columns)
    assert read(path) == read(path, columns=("src", "tgt")) == [("a", "A"), ("", "B"), ("c c", "C")]
    assert corpus_of(path).fingerprint() == corpus_of(path).fingerprint()
    assert corpus_of(path).fingerprint() != corpus_of(path, columns=("tgt", "src")).fingerprint()


def test_a_column_of_a_parquet_file_that_is_missing_or_no_text_is_reported(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a.parquet", {"en": ["a", "b"], "de": [1, 2]})
    assert complaint(path) == f"{path} row 1: column 'de' holds a number, not text; name another one"
    assert "no column 2; there are en, de" in complaint(path, columns=(2, 0))
    path = write_parquet(tmp_path / "b.parquet", {"translation": [{"en": "a", "de": "A"}, None]})
    assert read(path) == [("a", "A"), ("", "")], "fields inside a column are reached by dots"
    there = "there are translation.en, translation.de (--columns or data.columns)"
    line = f"{path}: no column 'translation.fr'; {there}"
    assert complaint(path, columns=("translation.en", "translation.fr")) == line


def test_a_damaged_parquet_file_is_reported(tmp_path: Path) -> None:
    path = Path(write_parquet(tmp_path / "a.parquet", {"en": ["a"] * 100, "de": ["b"] * 100}))
    data = path.read_bytes()
    for damaged in (data[:-9], data[9:], b"PAR1", b"", data[:20] + bytes(60) + data[80:]):
        path.write_bytes(damaged)
        message = complaint(str(path))
        assert message.startswith(f"{path}: damaged, or not Parquet (")
        assert message.endswith("; write or fetch it again")


# The hub


@pytest.mark.slow
def test_a_split_of_a_data_set_is_a_corpus(offline_hub: Path) -> None:
    hub = offline_hub
    lines = [{"id": str(i), "translation": {"en": f"en {i}", "de": f"de {i}"}} for i in range(5000)]
    write(hub / "train.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    write(hub / "test.jsonl", json.dumps(lines[7]) + "\n")
    expected = [(f"en {i}", f"de {i}") for i in range(5000)]
    assert read(f"hf:{hub}") == read(f"hf:{hub}:train") == expected
    assert read(f"hf:{hub}:default:test") == [("en 7", "de 7")]
    assert read(f"hf:{hub}:test", langs="de en") == [("de 7", "en 7")]
    prints = [corpus_of(f"hf:{hub}:{split}").fingerprint() for split in ("train", "test", "test")]
    assert prints[0] != prints[1] == prints[2]


@pytest.mark.slow
def test_an_unknown_split_or_column_of_a_data_set_is_reported(offline_hub: Path) -> None:
    write(offline_hub / "train.csv", "english,german\none,eins\n")
    name = f"hf:{offline_hub}"
    assert read(name) == [("one", "eins")]
    message = complaint(f"{name}:dev")
    assert message.startswith(f"{name}:dev: cannot be loaded (")
    assert message.endswith("); check the name, the split and the connection")
    line = f"{name}: no column 'en'; there are english, german (--columns or data.columns)"
    assert complaint(name, columns=("en", "de")) == line


# What cannot be read

OBJECT = '{"en": "a", "de": "b"}\n'
TWO_PAIRS = as_tmx([("one", "eins"), ("two", "zwei")])


def declared(encoding: str) -> str:
    return TWO_PAIRS.replace('version="1.0"', f'version="1.0" encoding="{encoding}"')


NO_COLUMNS = "has no columns that can be read; give .tsv, .csv"
FOREIGN = "declares an encoding that is not read in XML ("

REFUSED = [
    ("a.zip", "PK", f": a .zip file {NO_COLUMNS}"),
    ("a.csv", 'en,de\n"one\n\ntwo",eins\nbad\n', " line 5: 1 columns where line 1 names 2"),
    ("a.csv", 'en,de\n"Hi" he said,x\n', " line 2: not CSV (',' expected after '\"'); a text with quotes"),
    (
        "a.csv", "en,de\none,eins\n" + 'two,"zwei\n' + "three,drei\n" * 50,
        " line 3: not CSV (unexpected end of data); a text with quotes",
    ),
    ("a.jsonl", '{"en": "a\\u0000", "de": "b"}\n', " line 1: column 'en' holds a NUL character"),
    (
        "a.jsonl", OBJECT + '{"en": "a", "meta": {"x": 1}}',
        " line 2: no column 'de'; there are en, meta.x (--columns or data.columns)",
    ),
    (
        "a.jsonl", OBJECT + '["a", "b"]',
        " line 2: a list and no object with named fields; write one object a line",
    ),
    ("a.jsonl", OBJECT + '"a"', " line 2: a string and no object"),
    ("a.json", '[{"en": "a", "de": "b"},\n{"en": "a"}]', " line 1: not JSON ("),
    ("a.txt", "a ||| b\n", " line 1: no column 1, counted from 0, among 1; separate the columns by tabs, or"),
    ("a.jsonl", OBJECT + "null", " line 2: nothing and no object"),
    ("a.jsonl", OBJECT + '{"en": "a"', " line 2: not JSON ("),
    ("a.jsonl", OBJECT + "[" * 200_000, " line 2: not JSON (nested too deeply)"),
    ("a.jsonl", OBJECT + '{"en": ' + "1" * 5000 + "}", " line 2: not JSON ("),
    ("a.jsonl", OBJECT + '{"en": true, "de": "b"}', " line 2: column 'en' holds a truth value, not text"),
    ("a.jsonl", OBJECT + '{"en": 1, "de": "b"}', " line 2: column 'en' holds a number, not text"),
    (
        "a.jsonl", OBJECT + '{"en": "a\\ud800", "de": "b"}',
        " line 2: column 'en' holds '\\ud800', which is half a character",
    ),
    ("a.tmx", "<tmx><body></tu></body></tmx>", " line 1: not XML, or cut short (mismatched tag at column "),
    ("a.tmx", "<html><p>404</p></html>", " line 1: not TMX, for it begins with <html>; give another file"),
    ("a.tmx", "one\teins\n", " line 1: not XML, or cut short (syntax error at column 0)"),
    *(("a.tmx", TWO_PAIRS[:n], " line ") for n in (0, 200)),
    *(("a.tmx", declared(name), f": {FOREIGN}") for name in ("gbk", "shift_jis", "rot13", "nothing")),
    ("train.tags.en-de.en", "a", ": a tagged file of IWSLT; get its text with: dragoman data fetch"),
]  # fmt: skip
ADVICE = {
    "line 1: not JSON": "; write one object a line, for example with: jq -c '.[]'",
    "cut short": "; check its encoding, or write it again with the program it is from",
    FOREIGN: "; write it again in UTF-8",
    "empty corpus": "give files with one sentence a line",
}
"""What the message of a fault ends with."""


@pytest.mark.parametrize(("name", "text", "problem"), REFUSED, ids=lambda value: value[:24])
def test_a_damaged_file_is_named_with_the_place(tmp_path: Path, name: str, text: str, problem: str) -> None:
    path = write(tmp_path / name, text)
    message = complaint(path)
    assert message.startswith(f"{path}{problem}")
    for fault, advice in ADVICE.items():
        assert fault not in problem or message.endswith(advice)


def test_columns_that_a_table_lacks_or_repeats_are_reported(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "en\tde\tde\tx\none\teins\tx\ty\na\tb\tc\n")
    for name, problem in {
        "fr": "line 1: no column 'fr'; there are en, de, de, x (--columns or data.columns)",
        "de": "line 1: two columns are called 'de'; rename one",
        "x": "line 3: 3 columns where line 1 names 4; a text that holds the delimiter",
    }.items():
        assert complaint(path, columns=("en", name)).startswith(f"{path} {problem}")


def test_a_malformed_name_of_a_data_set_is_refused() -> None:
    for name in ("hf:", "hf:a::b", "hf:a:b:c:d"):
        assert complaint(name) == f"{name}: not the name of a data set; write hf:owner/name:split"
