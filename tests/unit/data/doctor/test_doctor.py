"""The doctor as a whole: every kind of fault is counted, shown by its line, and nothing else is."""

import random
from functools import partial
from pathlib import Path

import pytest

from corpus_files import Listed
from dragoman.data.corpora import open_corpus
from dragoman.data.doctor import KINDS, check_corpus, kinds_to_drop
from dragoman.data.labelled import open_labelled
from dragoman.errors import ConfigError, DataError
from faulty import lines_with, phrases


def test_what_a_reader_left_out_is_counted_to_the_end_though_examples_are_read_again(tmp_path: Path) -> None:
    side = '<tuv xml:lang="{}"><seg>Same words here{}.</seg></tuv>'
    units = [side.format("en", n) + side.format("de", n) for n in ("", *range(2000))]
    units.append(side.format("en", ""))
    path = tmp_path / "a.tmx"
    path.write_text(f"<tmx>{''.join(f'<tu>{one}</tu>' for one in units)}</tmx>", encoding="utf-8")
    report = check_corpus(open_corpus([str(path)], src_lang="en", tgt_lang="de"))
    assert report.notes[0] == f"{path}: left out 1 of 2,002 units: 1 without de"


def test_every_fault_is_reported_once_with_its_line_and_example() -> None:
    pairs = phrases(1500)
    valid = [("The quick brown fox jumps over the lazy dog.", "Der schnelle braune Fuchs springt.")]
    planted = {
        "empty": ("It is raining.", ""),
        "identical": ("Keep this as it is.", "Keep this as it is."),
        "swapped": ("Meine Schwester kauft ein Buch.", "My sister buys a book."),
        "script": ("It is raining.", "Идёт дождь"),
        "language": ("I do not know it.", "Je ne sais pas où elle est avec vous."),
        "encoding": ("The doctor is nice.", "Der Arzt ist sehr schÃ¶n."),
        "overlap": ("the QUICK brown fox jumps over the lazy dog", "Der Fuchs springt über den Hund."),
        "duplicate": pairs[3],
        "length": ("Yes.", "Ja, " + "meine Schwester kauft heute ein Buch, " * 4),
        "markup": ("The <b>train</b> is late.", "Der Zug hat Verspätung."),
        "overlap-near": ("The quick brown fox jumps over the lazy dogs.", "Ein Fuchs springt."),
        "numbers": ("The train leaves at 14.", "Der Zug fährt um 17 Uhr."),
        "addresses": ("See www.example.org.", "Siehe www.example.de."),
        "identical-short": ("Anna Maria", "Anna Maria"),
    }
    expected = {}
    for i, (kind, pair) in enumerate(planted.items()):
        pairs[100 + 40 * i] = pair
        expected[kind] = 101 + 40 * i
    report = check_corpus(
        Listed(pairs), src_lang="en", tgt_lang="de", held_out={"valid": Listed(valid)}, n_examples=1
    )
    assert report.n_lines == 1500
    for kind, line in expected.items():
        finding = report.finding(kind)
        assert finding is not None, kind
        assert line in finding.lines, kind
        assert finding.count == len(finding.lines)
        if finding.count == 1:
            (example,) = finding.examples
            assert (example.line, example.texts) == (line, planted[kind])
            assert example.detail
    errors = [kind for kind in planted if KINDS[kind].severity == "error"]
    assert {kind: lines_with(report, kind) for kind in errors} == {kind: [expected[kind]] for kind in errors}
    assert [found.kind.name for found in report.findings] == [
        kind for kind in KINDS if report.finding(kind) is not None
    ]


def test_shuffled_files_are_one_error() -> None:
    pairs = phrases(1500)
    targets = [tgt for _, tgt in pairs]
    random.Random(1).shuffle(targets)
    shuffled = [(src, tgt) for (src, _), tgt in zip(pairs, targets, strict=True)]
    finding = check_corpus(Listed(shuffled)).finding("unaligned")
    assert finding is not None
    assert finding.count == 1
    assert finding.summary[0].startswith("a pair is more alike than a random one in ")


def test_a_pair_with_another_target_is_no_repetition() -> None:
    pairs = [("a b", "x"), ("c", "y"), ("a b", "z"), ("a  b", "x"), ("", "x"), ("", "y")]
    report = check_corpus(Listed(pairs))
    assert lines_with(report, "duplicate") == [4]
    assert report.finding("duplicate").examples[0].detail == "as pair 1"  # type: ignore[union-attr]


def test_line_numbers_are_those_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('en,de\n"one\ntwo",eins\n\nthree,\n', encoding="utf-8")
    (tmp_path / "b.tsv").write_text("en\tde\none\teins\nthree\t\n", encoding="utf-8")
    (tmp_path / "c.jsonl").write_text(
        '\n{"en": "a", "de": "b"}\n{"en": "three", "de": ""}\n', encoding="utf-8"
    )
    for name in ("a.csv", "b.tsv", "c.jsonl"):
        corpus = open_corpus([str(tmp_path / name)], src_lang="en", tgt_lang="de", columns=("en", "de"))
        report = check_corpus(corpus)
        assert report.unit == "line"
        lines = (tmp_path / name).read_text(encoding="utf-8").splitlines()
        assert lines_with(report, "empty")[-1] == next(i for i, x in enumerate(lines, 1) if "three" in x)


def test_a_corpus_that_breaks_off_is_checked_as_far_as_it_goes(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("one\ntwo\nthree\n", encoding="utf-8")
    (tmp_path / "a.de").write_text("eins\n\n", encoding="utf-8")
    corpus = open_corpus([str(tmp_path / "a.en"), str(tmp_path / "a.de")], src_lang="en", tgt_lang="de")
    report = check_corpus(corpus)
    assert report.n_lines == 2
    assert lines_with(report, "empty") == [2]
    finding = report.finding("unreadable")
    assert finding is not None
    assert "a.en has 3 lines and" in finding.summary[0]


def test_a_corpus_without_text_is_an_error(tmp_path: Path) -> None:
    for content, open_it, message in (
        ("no tab\n", partial(open_corpus, src_lang="en", tgt_lang="de"), r"a\.tsv line 1: no column 1"),
        ("a\t\n", partial(open_corpus, src_lang="en", tgt_lang="de"), "none of the 1 pairs has text on both"),
        ("1\t\n", open_labelled, "no example"),
    ):
        (tmp_path / "a.tsv").write_text(content, encoding="utf-8")
        with pytest.raises(DataError, match=message):
            check_corpus(open_it([str(tmp_path / "a.tsv")]))


def test_lines_are_dropped_for_the_kinds_that_are_chosen() -> None:
    report = check_corpus(Listed([("a", "b"), ("a", "b"), ("c", ""), ("<b>a", "b"), ("<b>a", "b")]))
    assert report.n_problems == 5
    assert dict(report.reasons(kinds_to_drop())) == {2: ["duplicate"], 3: ["empty"], 5: ["duplicate"]}
    assert report.lines(kinds_to_drop()).tolist() == [2, 3, 5]
    assert dict(report.reasons(kinds_to_drop(drop=["markup"], keep=["duplicate"]))) == {
        3: ["empty"], 4: ["markup"], 5: ["markup"],
    }  # fmt: skip
    for kind in ("nonsense", "labels"):
        with pytest.raises(ConfigError, match=f"^{kind}: no kind of finding that lines can be dropped for"):
            kinds_to_drop(drop=[kind])


def test_labelled_text_has_faults_of_its_own() -> None:
    examples = [
        ("good film", "positive"), ("bad film", "negative"), ("good film", "positive"),
        ("so so", "positive"), ("so so", "negative"), ("a <br /> b", "negative"), ("schÃ¶n", "positive"),
        ("This film is a wonderful surprise", "positive"),
    ]  # fmt: skip
    test = Listed([("THIS film is a wonderful surprise!", "positive"), ("x", "negative")], "")
    report = check_corpus(Listed(examples, ""), held_out={"test": test})
    assert {found.kind.name: found.lines.tolist() for found in report.findings} == {
        "conflict": [4, 5], "duplicate": [3], "markup": [6], "encoding": [7], "overlap": [8], "labels": [],
    }  # fmt: skip
    labels = report.finding("labels")
    assert labels is not None
    assert labels.summary == ("'positive': 5 (62.5 %)", "'negative': 3 (37.5 %)")


def test_labelled_files_have_line_numbers_and_gaps(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("1\tgood\n\n0\t\n\tbad\n0\tpoor\n", encoding="utf-8")
    report = check_corpus(open_labelled([str(tmp_path / "a.tsv")]))
    finding = report.finding("empty")
    assert finding is not None
    assert [(e.line, e.detail) for e in finding.examples] == [
        (2, "no text and no label"), (3, "no text"), (4, "no label"),
    ]  # fmt: skip
    assert report.unit == "line"
