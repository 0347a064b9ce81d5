"""`dragoman report` and `dragoman compare`, from the command to the page; scores that other tools gave."""

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from commands import error_of, succeed
from dragoman.report.page import MAX_BYTES
from dragoman.runs import SCORES, Run
from dragoman.tasks.translation.kept import read_given_scores

SCRIPT = "<script>alert(1)</script>"


def replace_in(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{path} does not hold {old}"
    path.write_text(text.replace(old, new), encoding="utf-8")


def retrained(run: Path, copy: Path, factor: float = -1.0) -> Path:
    """A copy of a run with other weights."""
    shutil.copytree(run, copy, ignore=shutil.ignore_patterns("report"))
    opened = Run.open(copy)
    opened.save_weights({name: tensor * factor for name, tensor in opened.load_weights().items()})
    return copy


# report


def test_a_report_is_one_small_page_and_a_second_one_translates_nothing(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = succeed("report", run, "--out", out, "--sentences", 2)
    assert result.stdout == f"{out / 'report.html'}\n"
    html = (out / "report.html").read_text(encoding="utf-8")
    assert len(html.encode()) < MAX_BYTES
    for name in (
        "Summary", "Scores", "Learning curves", "Where it is good", "Sentences", "Attention", "Model card",
    ):  # fmt: skip
        assert f"<h2>{name}</h2>" in html
    assert "nrefs:1|bs:1000|seed:12345|case:mixed|eff:no|tok:13a|smooth:exp|version:" in html
    assert "tiny-test: 15 of 15 lines of " in html
    assert "not measured" in html  # kWh
    assert not re.search("https?:", html)
    figures = {path.name for path in (out / "figures").iterdir()}
    assert {"curves.svg", "length.svg", "alignment-1.svg", "cross-1.svg"} <= figures
    assert html.count("<img ") == html.count("data:image/svg+xml;base64,") == len(figures)
    assert not (run / "report.html").exists()
    assert "translating tiny-test, 15 sentences" in result.stderr
    again = succeed("report", run)
    assert "translating" not in again.stderr
    assert again.stdout == f"{run / 'report.html'}\n"


def test_a_run_without_weights_has_a_report_of_its_curves(run: Path) -> None:
    (run / "model.safetensors").unlink()
    (run / "report.json").unlink()
    assert "no weights yet" in succeed("report", run, "--sentences", 1).stderr
    html = (run / "report.html").read_text(encoding="utf-8")
    assert "not finished: step 6 of 6" in html
    assert "<h2>Learning curves</h2>" in html
    assert "<h2>Scores</h2>" not in html
    assert "holds no model.safetensors" in error_of("report", run, "--split", "test")


def test_a_missing_test_set_is_told_and_the_validation_pairs_stand_in_as_text(
    run: Path, tmp_path: Path
) -> None:
    replace_in(run / "config.toml", "test.en", "gone.en")
    rows = f"red {SCRIPT} cat\trot {SCRIPT} $x^{{ 5\n$y$ & x\tHund\n"
    (tmp_path / "hostile.tsv").write_text(rows, encoding="utf-8")
    text = (run / "config.toml").read_text(encoding="utf-8")
    text = re.sub(r"^valid = \[[^]]*\]", f'valid = ["{tmp_path}/hostile.tsv"]', text, flags=re.MULTILINE)
    (run / "config.toml").write_text(text, encoding="utf-8")
    result = succeed("report", run, "--sentences", 1)
    assert "The test sets could not be scored: " in result.stderr
    html = (run / "report.html").read_text(encoding="utf-8")
    assert "The test sets could not be scored: " in html
    assert "valid: 2 of 2 lines" in html
    assert "<script" not in html
    assert "red &lt;script&gt;alert(1)&lt;/script&gt; cat" in html
    assert "gone.en" in error_of("report", run, "--split", "test")


# compare


def test_other_references_are_refused_and_the_message_says_what_differs(run: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(run, tmp_path / "other"))
    for name, word in ((run, "Hund"), (other, "Köter")):
        file = tmp_path / f"{word}.tsv"
        file.write_text(f"red cat\trot Katze\ndog\t{word}\n", encoding="utf-8")
        text = (name / "config.toml").read_text("utf-8")
        text = re.sub(r"tiny-test = \[[^]]*\]", f'tiny-test = ["{file}"]', text)
        (name / "config.toml").write_text(text, encoding="utf-8")
    line = error_of("compare", run, other)
    assert "tiny-test of run and of other cannot stand side by side" in line
    assert "1 of 2 references differ (first: sentence 2)" in line


def test_runs_without_a_test_set_in_common_are_compared_on_files(run: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(run, tmp_path / "other"))
    replace_in(other / "config.toml", "tiny-test", "another-test")
    line = error_of("compare", run, other)
    assert "no test set of the same name: run has tiny-test; other has another-test" in line
    src, ref = tmp_path / "own.en", tmp_path / "own.de"
    src.write_text("red cat\ndog\n", encoding="utf-8")
    ref.write_text("rot Katze\nHund\n", encoding="utf-8")
    result = succeed("compare", run, other, "--src", src, "--ref", ref)
    assert "own.en: 2 of 2 lines" in result.stdout
    rows = [line.split() for line in result.stdout.splitlines() if line.startswith("other ")]
    assert all(row[-3:] == ["0.0", "1.000", "1.000"] for row in rows), "it is a copy"


def four_runs(run: Path, folder: Path, setting: tuple[str, str]) -> list[Path]:
    """Two runs of a setting and two of another, with seeds 1 and 2 each."""
    runs = []
    for name, factor in (("a1", 1.0), ("a2", 0.9), ("b1", -1.0), ("b2", -0.5)):
        runs.append(retrained(run, folder / name, factor))
        if name.startswith("b"):
            replace_in(runs[-1] / "config.toml", *setting)
        if name.endswith("2"):
            replace_in(runs[-1] / "config.toml", "seed = 1\n\n[data]", "seed = 2\n\n[data]")
    return runs


def test_groups_of_seeds_are_compared_and_written_as_tables(run: Path, tmp_path: Path) -> None:
    text = (run / "config.toml").read_text(encoding="utf-8")
    steps = re.search(r"^warmup_steps = (\d+)$", text, re.MULTILINE)
    assert steps is not None
    runs = four_runs(run, tmp_path, (steps[0], "warmup_steps = 77"))
    files = [tmp_path / name for name in ("t.json", "t.tex")]
    result = succeed("compare", *runs, "--json", files[0], "--latex", files[1], "--out", tmp_path / "out")
    assert "  training.warmup_steps = 77: b1, b2" in result.stdout.splitlines()
    for heading in ("p, bootstrap", "p, randomisation", "p, seeds"):
        assert heading in result.stdout
    rows = json.loads(files[0].read_text(encoding="utf-8"))
    groups = [row for row in rows if row["kind"] == "group of seeds" and row["score"] == "BLEU"]
    assert [row["name"] for row in groups] == [f"training.{steps[0]}", "training.warmup_steps = 77"]
    values = [row["value"] for row in rows if row["kind"] == "run" and row["score"] == "BLEU"]
    assert groups[0]["value"] == pytest.approx((values[0] + values[1]) / 2)
    assert groups[1]["difference"] == pytest.approx(groups[1]["value"] - groups[0]["value"])
    assert groups[1]["difference_low"] <= groups[1]["difference_high"]
    assert groups[0]["p_seeds"] is None
    assert 1 / 3 <= groups[1]["p_seeds"] <= 1
    assert all(row.keys() == rows[0].keys() for row in rows)
    table = files[1].read_text(encoding="utf-8")
    assert r"training.warmup\_steps = 77" in table
    assert "resampling; groups of seeds: permutation of runs)" in table
    page = (tmp_path / "out" / "comparison.html").read_text(encoding="utf-8")
    assert len(page.encode()) < MAX_BYTES
    assert not re.search("https?:", page)
    for part in (
        "that of a permutation test over the runs",
        "<h2>Over seeds</h2>",
        "<h3>b2: better than a1</h3>",
    ):
        assert part in page
    assert (tmp_path / "out" / "figures" / "curves.svg").exists()


def test_classifiers_are_compared_by_mcnemar_s_test_and_in_groups(
    tiny_classifier_run: Path, tmp_path: Path
) -> None:
    text = (tiny_classifier_run / "config.toml").read_text(encoding="utf-8")
    steps = re.search(r"^warmup_steps = (\d+)$", text, re.MULTILINE)
    assert steps is not None
    runs = four_runs(tiny_classifier_run, tmp_path, (steps[0], "warmup_steps = 77"))
    succeed("compare", *runs, "--json", tmp_path / "rows", "--out", tmp_path / "out")
    assert "McNemar" in (tmp_path / "out" / "comparison.html").read_text(encoding="utf-8")
    rows = json.loads((tmp_path / "rows").read_text(encoding="utf-8"))
    tested = {row["score"]: row["p_seeds"] for row in rows if row["name"] == "training.warmup_steps = 77"}
    assert 0 < tested["accuracy"] <= 1
    assert tested["macro-F1"] is None


ALONE = "give --src and --ref together and without --split"
REFUSED = [
    ("run", "needs two runs or more"),
    ("run run", "is named twice"),
    ("run classifier", "do different things"),
    ("run other --src own.en", ALONE),
    ("run other --src own.en --ref own.en --split valid", ALONE),
    ("run other --src own.en --ref own.en --json own.en", "is the input"),
    ("run other --latex x --json x", "is named for two outputs"),
    ("run other --latex - --json -", "cannot both go to stdout"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED, ids=[arguments for arguments, _ in REFUSED])
def test_what_cannot_be_compared_is_one_line(
    run: Path, tiny_classifier_run: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, message: str
) -> None:
    monkeypatch.chdir(run.parent)
    retrained(run, Path("other"))
    Path("classifier").symlink_to(tiny_classifier_run)
    Path("own.en").write_text("red cat\n", encoding="utf-8")
    assert message in error_of("compare", *arguments.split())


# --scores: numbers of other tools

N_SENTENCES = 15
"""Of the test set of `tiny_run`."""


@pytest.fixture
def runs(tiny_run: Path, tmp_path: Path) -> tuple[Path, Path]:
    return retrained(tiny_run, tmp_path / "a"), retrained(tiny_run, tmp_path / "b", -0.5)


def numbers(path: Path, values: Sequence[object]) -> Path:
    path.write_text("".join(f"{value}\n" for value in values), encoding="utf-8")
    return path


def test_given_scores_are_kept_shown_and_compared_as_ours(runs: tuple[Path, Path], tmp_path: Path) -> None:
    first, second = runs
    given = f"comet={numbers(tmp_path / 'a.txt', range(N_SENTENCES))}"
    shown = succeed("evaluate", first, "--scores", given).stdout.splitlines()
    line = next(line for line in shown if "comet" in line)
    assert line.split()[:2] == ["comet", "7.0"]
    assert "bs:1000|seed:12345|numbers:given|version:" in line
    (record,) = json.loads((first / SCORES).read_text(encoding="utf-8"))["results"]
    assert record["scores"][-1]["name"] == "comet"
    alone = succeed("compare", first, second).stdout
    assert "comet: omitted, since not every run has it (add it with dragoman evaluate --scores)" in alone
    better = numbers(tmp_path / "b.txt", [i + 9 + i % 2 for i in range(N_SENTENCES)])
    succeed("evaluate", second, "--scores", f"comet={better}")
    rows = json.loads(succeed("compare", first, second, "--json").stdout)
    assert [row["score"] for row in rows if row["kind"] == "run"] == ["BLEU", "chrF2", "TER", "comet"] * 2
    assert rows[-1]["p_bootstrap"] == pytest.approx(1 / 1001)
    assert 0 < rows[-1]["p_randomisation"] < 0.01


def test_scores_of_0_2_load_and_damaged_ones_are_hidden(runs: tuple[Path, Path], tmp_path: Path) -> None:
    run, _ = runs
    succeed("evaluate", run, "--scores", f"comet={numbers(tmp_path / 'a.txt', range(N_SENTENCES))}")
    (kept,) = (run / "report").glob("scores-*.json")
    whole = json.loads(kept.read_text(encoding="utf-8"))
    old, damaged = {"name": "COMET (m)", "facts": {"model": "m"}}, {"values": [1e999] * N_SENTENCES}
    for change, shown in ((old, True), ({"name": "comet\x1b[2J"}, False), (damaged, False)):
        kept.write_text(json.dumps({**whole, "scores": [whole["scores"][0] | change]}), encoding="utf-8")
        assert ("comet" in succeed("evaluate", run).stdout.lower()) == shown, change


@pytest.mark.parametrize(
    ("lines", "options", "message"),
    [
        (["1", "2"], ["comet=FILE"], "FILE has 2 lines and hyp 3 sentences; give one number for each"),
        (["1", "x", "3"], ["comet=FILE"], "FILE line 2: 'x' is not a finite number; write one number per"),
        (["1", "", "3"], ["comet=FILE"], "FILE line 2: has no number; every sentence needs one"),
        (["1", "2", "3"], ["FILE"], "--scores FILE: write NAME=FILE, as in comet=comet.txt"),
        (["1", "2", "3"], ["\x1b=FILE"], r"--scores \x1b=FILE: write NAME=FILE"),
        (["1", "2", "3"], ["Bleu=FILE"], "Dragoman computes Bleu itself; choose another name"),
        (["1", "2", "3"], ["c=FILE", "c=FILE"], "--scores c: number of files 2, of test sets 1; give c=FILE"),
        (["1", "2", "3"], ["comet=missing.txt"], "missing.txt"),
    ],
)
def test_scores_that_cannot_be_of_these_translations_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str], options: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("hyp", "ref"):
        numbers(tmp_path / name, ["one house", "a red cat", "two dogs"])
    numbers(tmp_path / "FILE", lines)
    named = [part for option in options for part in ("--scores", option)]
    assert message in error_of("score", "hyp", "ref", "--tgt-lang", "en", *named)


def test_evaluate_refuses_scores_before_it_translates(runs: tuple[Path, Path], tmp_path: Path) -> None:
    run, _ = runs
    given = numbers(tmp_path / "a.txt", range(N_SENTENCES - 1))
    message = error_of("evaluate", run, "--scores", f"comet={given}")
    assert f"a.txt has {N_SENTENCES - 1} lines and tiny-test {N_SENTENCES} sentences" in message


def test_each_test_set_has_a_file_of_its_own_in_their_order(tmp_path: Path) -> None:
    short, long = numbers(tmp_path / "short", [1]), numbers(tmp_path / "long", [2, 3])
    options = [f"qe={short}", f"human={short}", f"qe={long}", f"human={long}"]
    found = read_given_scores(options, {"news": 1, "talks": 2})
    assert {test: {one.name: one.values for one in scores} for test, scores in found.items()} == {
        "news": {"qe": (1.0,), "human": (1.0,)},
        "talks": {"qe": (2.0, 3.0), "human": (2.0, 3.0)},
    }
