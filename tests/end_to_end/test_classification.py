"""Classification from the command line: any file in, labels with probabilities out, honestly scored."""

import gzip
import json
import shutil
from pathlib import Path

import pytest

from commands import error_of, succeed
from commands import folder as folder
from dragoman.config import load_recipe
from dragoman.data.records import labels_of
from dragoman.predict.classifier import CALIBRATION
from dragoman.runs import Run
from tiny import TINY_CLASSIFIER, TOPICS, labelled_texts, write_labelled, write_topics

SETTINGS = [argument for override in TINY_CLASSIFIER for argument in ("--set", override)]


@pytest.fixture(autouse=True)
def reviews(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Labelled texts in every format."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    write_labelled(folder, "reviews", 60, seed=3)


@pytest.fixture
def run(tiny_classifier_run: Path, folder: Path) -> Path:
    """A run that may be changed."""
    shutil.copytree(tiny_classifier_run, folder / "run")
    return Path("run")


# dragoman train --task classification


def test_a_labelled_file_becomes_a_classifier_with_its_score_beside_the_baseline_s() -> None:
    pytest.importorskip("sklearn")
    result = succeed("train", "reviews.tsv", "--task", "classification", *SETTINGS)
    assert result.stdout == "runs/reviews\n"
    assert "the text is in column 1, the label is in column 0" in result.stderr
    assert "60 texts of " in result.stderr
    assert "2 labels" in result.stderr
    assert "dragoman classify runs/reviews" in result.stderr
    lines = result.stderr.splitlines()
    assert any(line.startswith("valid · 6 texts · 2 labels") for line in lines)
    assert any(line.startswith("  baseline accuracy ") for line in lines)
    assert any("TF-IDF + logistic regression on the same 54 texts" in line for line in lines)
    shown = succeed("show", "runs/reviews").stdout
    assert "score     valid · accuracy " in shown
    assert " · baseline " in shown
    found = succeed("classify", "runs/reviews", stdin="a good tree\n").stdout
    assert found.split("\t")[0] in ("blame", "praise")
    shutil.copy("runs/reviews/config.toml", "recipe.toml")  # a recipe says its task itself
    finished = succeed("train", "recipe.toml", "--task", "classification", "--out", "runs/reviews")
    assert "runs/reviews is finished" in finished.stderr


# dragoman classify


def test_every_line_gets_a_label_and_a_probability_from_files_and_pipes(run: Path) -> None:
    text = "a good tree\n\nan awful house\n"
    piped = succeed("classify", run, stdin=text).stdout
    lines = piped.split("\n")
    assert [line.split("\t")[0] for line in lines] == ["praise", "", "blame", ""]
    assert all(0.5 <= float(line.split("\t")[1]) <= 1.0 for line in (lines[0], lines[2]))
    Path("texts.txt").write_text(text, encoding="utf-8")
    assert succeed("classify", run, "texts.txt").stdout == piped
    written = succeed("classify", run, "texts.txt", "--out", "labels.txt.gz")
    assert written.stdout == ""
    assert written.stderr.startswith("labels.txt.gz: ")
    assert gzip.decompress(Path("labels.txt.gz").read_bytes()).decode() == piped


def test_top_and_json_give_every_label(run: Path) -> None:
    line = succeed("classify", run, "--top", 2, stdin="a good tree\n").stdout.rstrip("\n").split("\t")
    assert [line[0], line[2]] == ["praise", "blame"]
    assert float(line[1]) + float(line[3]) == pytest.approx(1.0, abs=1e-3)
    lines = succeed("classify", run, "--json", stdin="a good tree\n\n").stdout.splitlines()
    first, empty = map(json.loads, lines)
    assert first["text"] == "a good tree"
    assert first["label"] == "praise"
    assert list(first["probabilities"]) == ["praise", "blame"]
    assert sum(first["probabilities"].values()) == pytest.approx(1.0)
    assert empty == {"text": "", "label": None, "labels": [], "probabilities": {}, "n_cut": 0}
    top = succeed("classify", run, "--json", "--top", 1, stdin="good\n").stdout
    assert len(json.loads(top)["probabilities"]) == 1


def test_what_is_cut_is_reported_once(run: Path) -> None:
    config = run / "config.toml"
    config.write_text(config.read_text("utf-8").replace("max_windows = 0", "max_windows = 1"), "utf-8")
    result = succeed("classify", run, stdin="good tree\n" + "bad house " * 10 + "\n")
    assert result.stderr == "cut 14 tokens off 1 of 2 texts (data.max_windows)\n"


# dragoman evaluate and show


def test_evaluate_prints_every_score_and_keeps_it(run: Path) -> None:
    pytest.importorskip("sklearn")
    result = succeed("evaluate", run)
    lines = result.stdout.splitlines()
    assert lines[0] == "tiny-test · 30 texts · 2 labels"
    starts = ["  accuracy ", "  macro-F1 ", "  baseline accuracy ", "  baseline macro-F1 ", "  baseline: ",
              "  calibration: ECE ", "  label ", "  blame ", "  praise "]  # fmt: skip
    assert all(any(line.startswith(start) for line in lines) for start in starts), result.stdout
    assert "label in the row, given in the column" in result.stdout
    ((record),) = json.loads((run / "scores.json").read_text(encoding="utf-8"))["results"]
    assert record["baseline"]["name"] == "TF-IDF + logistic regression"
    again = json.loads(succeed("evaluate", run, "--json").stdout)
    assert again["results"][0]["scores"] == record["scores"]
    assert again["results"][0]["confusion"] == record["confusion"]
    shown = succeed("show", run, "--plot").stdout
    assert "score     tiny-test · accuracy " in shown
    assert "text → label" in shown
    assert "labels    2: blame, praise · temperature " in shown
    assert "Accuracy on validation texts" in (run / "curves.svg").read_text(encoding="utf-8")


def test_evaluate_classifies_another_file(run: Path) -> None:
    result = succeed("evaluate", run, "--file", "reviews.csv", "--text-column", "review", "--label-column",
                     "sentiment", "--no-baseline", "--out", "found.tsv")  # fmt: skip
    assert result.stdout.splitlines()[0] == "reviews.csv · 60 texts · 2 labels"
    assert "no baseline: left out (--no-baseline)" in result.stdout
    written = Path("found.tsv").read_text(encoding="utf-8").splitlines()
    expected = labelled_texts(60, seed=3)
    assert [(line.split("\t")[0], line.split("\t")[3]) for line in written] == expected
    assert "valid · 40 texts" in succeed("evaluate", run, "--split", "valid", "--no-baseline").stdout


# dragoman demo --task classification


@pytest.mark.nightly
def test_the_demo_shows_reviews_and_scores_beside_the_baseline() -> None:
    pytest.importorskip("sklearn")
    small = ["--set", 'data.train=["phrasebook:reviews-valid"]', *SETTINGS]
    result = succeed("demo", "--task", "classification", *small)
    for words in ("Held-out reviews", "Accuracy, %", "combinations never seen", "baseline"):
        assert words in result.stdout, words
    assert "dragoman classify runs/demo-reviews" in result.stderr
    results = json.loads(Path("runs/demo-reviews/scores.json").read_text())["results"]
    names = [record["name"] for record in results]
    assert names == ["reviews", "combinations seen in training", "combinations never seen"]


# several labels a text


@pytest.fixture
def topics(tiny_topics_run: Path, folder: Path) -> Path:
    """A run that may be changed."""
    write_topics(folder, "topics", 120, seed=3)
    shutil.copytree(tiny_topics_run, folder / "topics")
    return Path("topics")


TEXTS = ["tree river old", "house street wave boat red", "big old red", ""]


def test_a_file_becomes_a_classifier_of_several_labels(topics: Path) -> None:
    pytest.importorskip("sklearn")
    result = succeed("train", "topics.tsv", "--task", "classification", "--label-separator", "|", *SETTINGS)
    for part in ("3 labels", "have none of the labels", "  micro-F1 ", "  baseline exact match "):
        assert part in result.stderr
    assert "validation micro-F1: n-grams " in result.stderr
    config = load_recipe("runs/topics/config.toml")
    assert config.task == "classification"
    assert config.data.label_separator == "|"
    assert {"micro_f1", "macro_f1", "accuracy"} <= Run.open("runs/topics").history()[-1].keys()
    assert "· threshold 0." in succeed("show", "runs/topics").stdout


def test_a_line_gets_all_labels_above_the_threshold(topics: Path) -> None:
    lines = succeed("classify", topics, stdin="".join(f"{text}\n" for text in TEXTS)).stdout.splitlines()
    labels, shares = zip(*(line.split("\t") for line in lines[:3]), strict=True)
    assert [set(labels_of(cell, "|")) for cell in labels] == [{"nature"}, {"town", "sea"}, set()]
    threshold = Run.open(topics).read_json(CALIBRATION)["threshold"]
    assert [len(labels_of(cell, "|")) for cell in shares] == [1, 2, 0]
    assert all(float(share) > threshold for share in shares[1].split("|"))
    assert lines[3] == ""
    stdin = "\n".join(TEXTS) + "\n"
    records = list(map(json.loads, succeed("classify", topics, "--json", stdin=stdin).stdout.splitlines()))
    assert ["|".join(record["labels"]) for record in records[:3]] == list(labels)
    assert records[3]["labels"] == []
    assert set(records[2]["probabilities"]) == set(TOPICS)


def test_evaluation_report_and_comparison_are_about_every_label(topics: Path) -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")
    result = succeed("evaluate", topics, "--out", "found.txt")
    for part in ("  micro-F1 ", "  macro-F1 ", "  exact match ", "  baseline micro-F1 ", "  nature ", "ECE "):
        assert part in result.stdout
    assert len(Path("found.txt").read_text(encoding="utf-8").splitlines()) == 50
    (record,) = Run.open(topics).read_json("scores.json")["results"]
    assert [score["name"] for score in record["scores"]] == ["micro-F1", "macro-F1", "exact match"]
    assert record["confusion"] is None
    succeed("report", topics, "--out", "page")
    page = next(Path("page").glob("*.html")).read_text(encoding="utf-8")
    assert "Most confident mistakes" in page
    assert "Matrix of labels" not in page
    shutil.copytree(topics, "other")
    assert "exact match" in succeed("compare", topics, "other").stdout


# what is refused

TRAIN = "train reviews.tsv --task classification"
REFUSED = [
    ("train reviews.tsv", "to learn its labels add --task classification"),
    ("train --task classification", "nothing to train on; give a file of texts and labels"),
    ("train --tsv a.tsv --valid b.tsv", "--text-column, --label-column and --valid are for --task"),
    (f"{TRAIN} --src a.en --tgt a.de", "a classifier has no source and target"),
    (f"{TRAIN} --text-column nothing", "no column 'nothing'"),
    ("train run/config.toml --task translation", "is a recipe for classification; leave --task away"),
    ("train run/config.toml --task classification --valid x", "names its own files and columns"),
    ("train tiny/config.toml --task classification", "is a recipe for translation; leave --task away"),
    ("evaluate tiny --file reviews.tsv", "--file: not for a translator; leave it away"),
    ("classify tiny", "is a translator; try: dragoman translate"),
    ("translate run", "run: is a classifier; try: dragoman classify run"),
    ("evaluate run --beam-size 3 --src x", "--src, --beam-size: not for a classifier; leave it away"),
    ("evaluate run --file reviews.tsv --split test", "give --file or --split, but not both"),
    ("evaluate run --text-column 1", "--text-column and --label-column are for --file"),
    ("train topics.tsv --task classification --label-separator ;", "no label has the separator ';', as in "),
    ("train topics.tsv --label-separator |", "--label-separator is for --task classification"),
    (
        "train topics.tsv --task classification --label-separator | --set training.class_weights=balanced",
        "is for one label a text",
    ),
    (f"{TRAIN} --set training.metric=micro_f1", "is for several labels a text"),
    ("demo --task sorting", "--task sorting: is unknown; give translation or"),
    ("demo --task classification --src de", "--src and --tgt are for --task translation"),
]


@pytest.mark.parametrize(("command", "message"), REFUSED, ids=[command for command, _ in REFUSED])
def test_what_cannot_be_done_is_one_line(run: Path, tiny_run: Path, command: str, message: str) -> None:
    write_topics(Path(), "topics", 40, seed=3)
    Path("tiny").symlink_to(tiny_run)
    assert message in error_of(*command.split())
