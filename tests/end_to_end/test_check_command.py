"""`dragoman data check` as its users meet it: what is said, in which form, with which exit code."""

import json
from pathlib import Path
from typing import Any

import pytest

from commands import dragoman, error_of, succeed
from dragoman.cli.check import MAX_SHOWN, printable
from dragoman.data.doctor import KINDS
from faulty import phrases
from tiny import write_corpus

ROOT = Path(__file__).parents[2]
CHECK = "data", "check"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a corpus of 300 pairs, five of them faulty, and a valid set."""
    pairs = phrases(300)
    pairs[9] = pairs[2]
    pairs[19] = ("", "Es regnet.")
    pairs[29] = ("It is raining &amp; cold.", "Es regnet und ist kalt.")
    pairs[39] = ("It is so nice.", "Es ist so schÃ¶n.")
    pairs[49] = ("This sentence is in both of them.", "Dieser Satz ist in beiden.")
    for lang, side in (("en", 0), ("de", 1)):
        Path(tmp_path / f"a.{lang}").write_text("".join(f"{p[side]}\n" for p in pairs), encoding="utf-8")
    (tmp_path / "v.tsv").write_text("x\ty\nthis sentence is in both of them\tJa.\n", encoding="utf-8")
    (tmp_path / "v.en").write_text("x\nthis sentence is in both of them\n", encoding="utf-8")
    (tmp_path / "v.de").write_text("y\nJa.\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


def in_json(*arguments: object) -> dict[str, Any]:
    checked: dict[str, Any] = json.loads(succeed(*CHECK, *arguments, "--json").stdout)
    return checked


def test_findings_stand_in_a_table_with_examples_below_and_the_sum_last() -> None:
    out = succeed(*CHECK, "a.en", "a.de", "--valid", "v.en,v.de").stdout
    lines = out.splitlines()
    assert lines[0] == "a.en + a.de · 300 lines"
    for kind in ("empty", "encoding", "overlap", "duplicate", "markup"):
        (row,) = [line for line in lines if f" {kind} " in line and "│" in line]
        assert KINDS[kind].severity in row
        assert KINDS[kind].title in row
        assert f"{kind}: {KINDS[kind].title}" in lines
        assert f"  remedy: {KINDS[kind].remedy}" in lines
    example = lines.index("  line 40: target: UTF-8 read as another encoding → Es ist so schön.")
    assert lines[example + 1 : example + 3] == ["    It is so nice.", "    Es ist so schÃ¶n."]
    assert "  line 50: source is valid line 2" in lines
    assert "  line 10: as line 3" in lines
    assert lines[-1].startswith("checked 300 lines: 3 errors, 2 warnings, ")


def test_files_are_named_as_for_a_training_as_well() -> None:
    options = ("--src", "a.en", "--tgt", "a.de")
    assert succeed(*CHECK, *options).stdout == succeed(*CHECK, "a.en", "a.de").stdout
    for files in ((), ("a.en", "--tgt", "a.de"), options[:2], ("a.en", "a.de", *options)):
        assert "give --src and --tgt once each" in error_of(*CHECK, *files)


def test_json_holds_the_same_facts() -> None:
    (report,) = in_json("a.en", "a.de", "--valid", "v.en,v.de")["reports"]
    assert (report["unit"], report["n_checked"], report["n_errors"]) == ("line", 300, 3)
    found = {finding["kind"]: finding for finding in report["findings"]}
    assert found["overlap"]["examples"][0]["line"] == 50
    assert found["empty"]["examples"][0]["texts"] == ["", "Es regnet."]
    assert found["markup"]["count"] == 1


def test_only_strict_makes_problems_an_error() -> None:
    assert dragoman(*CHECK, "a.en", "a.de").exit_code == 0
    strict = dragoman(*CHECK, "a.en", "a.de", "--strict")
    assert strict.exit_code == 1
    assert strict.stdout.splitlines()[-1].startswith("checked 300 lines: ")
    Path("good.tsv").write_text("one\teins\ntwo\tzwei\n", encoding="utf-8")
    good = succeed(*CHECK, "good.tsv", "--strict")
    assert "nothing found" in good.stdout
    assert "note: alignment was not judged: fewer than 100 pairs" in good.stdout
    assert good.stdout.splitlines()[-1] == "checked 2 lines: 0 errors, 0 warnings, 0 suspicions"


def test_several_tests_are_told_apart_and_the_number_of_examples_can_be_chosen() -> None:
    out = succeed(*CHECK, "a.en", "a.de", "--test", "v.tsv", "--test", "v.en,v.de").stdout
    assert "source is v.tsv line 2" in out
    assert "source is test line 2" in succeed(*CHECK, "a.en", "a.de", "--test", "v.tsv").stdout
    assert "line 10:" not in succeed(*CHECK, "a.en", "a.de", "--examples", 0).stdout


def test_a_clean_copy_is_written_beside_the_report() -> None:
    before = Path("a.en").read_text(encoding="utf-8")
    result = succeed(*CHECK, "a.en", "a.de", "--valid", "v.en,v.de", "--write-clean", "clean")
    assert "kept 296 of 300 lines, dropped 4: clean/dropped.jsonl" in result.stderr.replace("\\", "/")
    assert len(Path("clean/a.en").read_text(encoding="utf-8").splitlines()) == 296
    assert Path("a.en").read_text(encoding="utf-8") == before
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dragoman.data.doctor.check_corpus", None)  # it is not checked for nothing
        assert "clean: exists already" in error_of(*CHECK, "a.en", "a.de", "--write-clean", "clean")
    choice = ("--drop", "markup", "--keep", "encoding")
    more = in_json("a.en", "a.de", "--write-clean", "c", *choice)["clean"]
    assert (more["n_kept"], more["n_dropped"]) == (297, 3)
    dropped = [json.loads(line) for line in Path("c/dropped.jsonl").read_text(encoding="utf-8").splitlines()]
    reasons = {one["number"]: one["reasons"] for one in dropped}
    assert reasons == {10: ["duplicate"], 20: ["empty"], 30: ["markup"]}


def test_a_recipe_has_all_its_corpora_checked() -> None:
    Path("recipe.toml").write_text(
        'task = "translation"\nname = "x"\n[data]\nsrc_lang = "en"\ntgt_lang = "de"\n'
        'train = ["a.en", "a.de"]\nvalid = ["v.en", "v.de"]\n[data.test]\ntst = ["v.tsv"]\n',
        encoding="utf-8",
    )
    out = succeed(*CHECK, "recipe.toml", "--write-clean", "clean").stdout
    names = [line.partition(" · ")[0] for line in out.splitlines() if " · " in line]
    assert names == ["train", "valid", "test.tst"]
    assert "source is valid line 2" in out
    assert out.splitlines()[-1].startswith("checked 304 lines: ")
    assert sorted(path.name for path in Path("clean").iterdir()) == ["a.de", "a.en", "dropped.jsonl"]


def test_labelled_text_is_checked_on_request() -> None:
    Path("r.tsv").write_text("1\tgood film\n0\tbad film\n0\tgood film\n1\tfine <br /> film\n", "utf-8")
    Path("t.tsv").write_text("1\tBAD film!\n0\tx\n", encoding="utf-8")
    for options in ([], ["--text-column", 1, "--label-column", 0]):
        out = succeed(*CHECK, "r.tsv", "--task", "classification", "--test", "t.tsv", *options).stdout
        assert "line 2: text is test line 1" in out
        assert "line 1: with another label elsewhere" in out
        assert "'1': 2 (50.0 %)" in out
    data = 'train = ["r.tsv"]\nvalid = ["phrasebook:reviews-valid"]\n'
    Path("recipe.toml").write_text(f'task = "classification"\nname = "x"\n[data]\n{data}', "utf-8")
    out = succeed(*CHECK, "recipe.toml").stdout
    assert "examples of each label" in out
    assert "valid · phrasebook:reviews-valid" in out


def test_languages_are_those_of_the_names_or_the_options() -> None:
    write_corpus(Path(), "w", 30, seed=1)
    assert "declared as pl" in succeed(*CHECK, "a.en", "a.de", "--tgt-lang", "pl").stdout
    assert "declared" not in succeed(*CHECK, "a.en", "a.de").stdout
    unit = '<tuv xml:lang="en"><seg>a</seg></tuv><tuv xml:lang="de"><seg>b</seg></tuv>'
    Path("b.tmx").write_text(f'<tmx version="1.4"><body><tu>{unit}</tu></body></tmx>', "utf-8")
    assert "b.tmx: give its languages, as in --src-lang en --tgt-lang de" in error_of(*CHECK, "b.tmx")
    assert "checked 1 pair:" in succeed(*CHECK, "b.tmx", "--src-lang", "en", "--tgt-lang", "de").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.en", "a.de", "--task", "magic"], "--task magic: is unknown; give translation or classification"),
        (["v.tsv", "--columns", "²,1"], "v.tsv line 1: no column '²'"),
        (["a.en", "a.de", "--text-column", "1"], "--label-separator are for --task"),
        (["v.tsv", "--task", "classification", "--src-lang", "en"], "labelled text has no source and target"),
        (["a.en", "a.de", "--drop", "markup"], "choose what --write-clean drops; give --write-clean"),
        (["a.en", "a.de", "--write-clean", "c", "--drop", "x"], "x: no kind of finding"),
        (["a.en", "a.de", "--threshold", "x=1"], "x=1: no threshold; give one of length, overlap-near"),
        (
            ["phrasebook:reviews-valid", "--task", "classification", "--threshold", "length=6"],
            "parallel text",
        ),
        (["r.toml", "--valid", "v.tsv"], "r.toml names its own files, languages and columns"),
        (["a.en", "a.de", "v.tsv"], "a corpus of 3 files"),
        (["phrasebook:valid"], "phrasebook:valid: give its languages"),
        (["a.en", "a.de", "--valid", "x.tsv"], "x.tsv: no such file"),
    ],
)
def test_what_cannot_be_checked_is_said_in_one_line(arguments: list[str], message: str) -> None:
    assert message in error_of(*CHECK, *arguments)


def test_what_a_terminal_cannot_show_is_escaped() -> None:
    assert printable("a\x1b[31mb\u202ec\u00a0d") == "a\\x1b[31mb\\u202ec d"
    assert printable("x" * 200) == "x" * (MAX_SHOWN - 1) + "…"


def test_the_page_lists_every_kind_as_it_is() -> None:
    page = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    for kind in KINDS.values():
        dropped = "yes" if kind.dropped else "–"
        assert f"| `{kind.name}` | {kind.severity} | {dropped} |" in page


def test_the_corpora_of_a_list_are_compared_with_every_set(folder: Path) -> None:
    Path("more.tsv").write_text("".join(f"{p[1]}\t{p[0]}\n" for p in phrases(290)[280:]), encoding="utf-8")
    Path("recipe.toml").write_text(
        """name = "many"
[data]
corpora = [
  {name = "a", files = ["a.en", "a.de"], langs = ["en", "de"]},
  {name = "more", files = ["more.tsv"], langs = ["de", "en"], valid = ["v.de", "v.en"]},
  {name = "other", files = ["a.en", "a.de"], langs = ["en", "pl"]},
]
""",
        encoding="utf-8",
    )
    found = in_json("recipe.toml")["reports"]
    kinds = {one["name"]: {f["kind"]: f["count"] for f in one["findings"]} for one in found}
    assert kinds.keys() == {"train.a", "train.more", "valid.more", "train.other"}
    assert kinds["train.a"]["overlap"] == 1, "whichever side comes first"
    assert "overlap" not in kinds["train.other"], "other languages"
