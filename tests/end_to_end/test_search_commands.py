"""The options of `translate` that choose a search, and `score-model`, as users type them."""

import json
import math
import re
from pathlib import Path

import pytest

from commands import error_of, succeed
from commands import folder as folder
from dragoman.predict.translator import Translator

TEXT = "red cat\n\nold house\n"


def write(name: str, text: str) -> str:
    Path(name).write_text(text, encoding="utf-8")
    return name


def test_options_are_listed_under_what_they_are_for() -> None:
    text = succeed("translate", "--help").stdout
    sections = ["Arguments:", "Options:", "Beam search:", "Sampling:", "Constraints:"]
    places = [text.index(f"\n{section}\n") for section in sections]
    assert places == sorted(places)
    for option, section in {"--top-p": 3, "--coverage-penalty": 2, "--glossary": 4, "--json": 1}.items():
        following = [*places, len(text)][section + 1]
        assert places[section] < text.index(f"  {option}") < following


def test_glossaries_of_every_format_say_the_same_and_may_be_inflected(tiny_run: Path) -> None:
    entry = "".join(
        f'<langSet xml:lang="{language}"><tig><term>{term}</term></tig></langSet>'
        for language, term in (("en-GB", "cat"), ("de", "Kater"))
    )
    tbx = f"<martif><text><body><termEntry>{entry}</termEntry><termEntry/></body></text></martif>"
    files = {"a.tsv": "cat\tKater\n", "a.csv": "de,en\nKater,cat\n", "a.tbx": tbx}
    results = [
        succeed("translate", tiny_run, "--glossary", write(name, content), stdin=TEXT)
        for name, content in files.items()
    ]
    assert len({each.stdout for each in results}) == 1
    first, empty, last = results[0].stdout.splitlines()
    assert ("Kater" in first, empty, "Kater" in last) == (True, "", False)
    assert "a.tbx: left out 1 of 2 entries: 1 without a term in both en and de" in results[2].stderr
    glossary = write("long.tsv", "cat\tKatern\n")
    inflected = succeed("translate", tiny_run, "--inflect", "--glossary", glossary, stdin=TEXT)
    assert re.search(r"\bKate\w{1,5}\b", inflected.stdout.splitlines()[0])


# score-model


def test_scores_are_a_table_with_a_summary_on_stderr(tiny_run: Path) -> None:
    src, tgt = write("a.en", TEXT), write("a.de", "rot Katze\n\nalt Haus\n")
    command = ["score-model", tiny_run, src, tgt, "--precision", "fp32"]
    result = succeed(*command)
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert [row[0] for row in rows] == ["1", "2", "3"]
    assert rows[1] == ["2", "", "", "0"]
    scored = [rows[0], rows[2]]
    total, n_tokens = sum(float(row[1]) for row in scored), sum(int(row[3]) for row in scored)
    for row in scored:
        assert float(row[2]) == pytest.approx(math.exp(-float(row[1]) / int(row[3])), rel=1e-3)
    assert result.stderr.splitlines()[-1] == (
        f"3 pairs · {n_tokens} tokens · log-probability {total:.1f} nats · "
        f"perplexity {math.exp(-total / n_tokens):.3f}"
    )
    records = [json.loads(line) for line in succeed(*command, "--json").stdout.splitlines()]
    for record in records:
        values = [token["log_prob"] for token in record["tokens"]]
        assert len(values) == record["n_tokens"]
        assert sum(values) == pytest.approx(record["log_prob"] or 0.0, abs=1e-3)
    assert [f"{record['log_prob']:.4f}" for record in records[::2]] == [row[1] for row in scored]
    assert (records[0]["source"], records[0]["target"]) == ("red cat", "rot Katze")
    pairs = write("a.tsv", "x\tred cat\trot Katze\nx\t\t\nx\told house\talt Haus\n")
    assert succeed("score-model", tiny_run, pairs, "--columns", "1,2", *command[4:]).stdout == result.stdout


def test_what_is_found_is_scored_as_it_was_found(tiny_run: Path) -> None:
    """With a length penalty of 0 a score is a log-probability."""
    translator = Translator.load(tiny_run, precision="fp32")
    (found,) = translator.translate(["red cat"], prefixes=["rot Katze"], length_penalty=0.0)
    src, tgt = write("a.en", "red cat\n"), write("a.de", f"{found.text}\n")
    scored = succeed("score-model", tiny_run, src, tgt, "--precision", "fp32").stdout
    assert float(scored.split("\t")[1]) == pytest.approx(found.score, rel=1e-3)


def test_pairs_that_cannot_be_scored_keep_their_line_and_are_counted(tiny_run: Path) -> None:
    src = write("a.en", f"{TEXT}cat\n\n")
    tgt = write("a.de", f"rot\nHund\nalt Haus\n{'Katze ' * 600}\n\n")
    command = ["score-model", tiny_run, src, tgt, "--precision", "fp32"]
    result = succeed(*command)
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert [row[0] for row in rows] == ["1", "2", "3", "4", "5"]
    assert [row[1:] for row in (rows[1], rows[3], rows[4])] == [["", "", "0"]] * 3
    assert result.stderr.splitlines()[-2] == (
        "without a score: 3 of 5: 1 with a side longer than the model accepts, 2 with an empty side"
    )
    records = [json.loads(line) for line in succeed(*command, "--json").stdout.splitlines()]
    assert [record["log_prob"] is None for record in records] == [False, True, False, True, True]
    assert records[1]["without_score"] == "an empty side"
    means = succeed(*command, "--mean").stdout.splitlines()
    assert [mean == "" for mean in means] == [False, True, False, True, True]
    for mean, row in zip(means[:3:2], rows[:3:2], strict=True):
        assert float(mean) == pytest.approx(float(row[1]) / int(row[3]), abs=1e-4)
    assert [bool(record["tokens"]) for record in records] == [True, False, True, False, False]


REFUSED = [
    ("translate --inflect", "--inflect is for the terms of --glossary"),
    ("translate --method magic", "translate: method = 'magic': input should be 'beam' or 'sampling'"),
    ("translate --beam-size 4 --diversity-groups 3", "cannot be split into diversity_groups = 3"),
    ("translate --method sampling --glossary terms", 'required phrases need method = "beam"'),
    ("translate --glossary three", "three line 1: is not source, tab, target"),
    ("translate --temperature 0", "temperature = 0.0: input should be greater than or equal to 0.001"),
    (f"translate --seed {2**63}", "seed = 9223372036854775808: input should be less than or equal to"),
    ("score-model a.en b.de a.en", "a corpus of 3 files; give two aligned files or one with both sides"),
    ("score-model a.en a.en --precision fp64", "--precision fp64: is not a precision"),
    ("score-model a.en a.en --mean --json", "--mean writes a number per pair; omit --json"),
    ("score-model a.en b.de --out b.de", "b.de: is the input"),
    ("score-model a.en b.de --out o", "a.en has 3 lines and b.de 4; parallel files must match line by"),
]


@pytest.mark.parametrize(("command", "message"), REFUSED, ids=[command for command, _ in REFUSED])
def test_what_cannot_be_done_is_a_line_and_writes_nothing(tiny_run: Path, command: str, message: str) -> None:
    files = {"a.en": TEXT, "b.de": "rot\n\nalt Haus\n\n", "three": "a\nb\nc\n",
             "terms": "red\trot\n"}  # fmt: skip
    for name, text in files.items():
        write(name, text)
    name, *arguments = command.split()
    assert message in error_of(name, tiny_run, *arguments, stdin=TEXT)
    assert {path.name: path.read_text(encoding="utf-8") for path in Path().iterdir()} == files
