"""Several labels a text, from the command line: any number of labels out, honestly scored."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from commands import error_of, succeed
from commands import folder as folder
from dragoman.config import load_recipe, to_toml
from dragoman.data.labelled import open_labelled
from dragoman.data.records import labels_of
from dragoman.predict.classifier import CALIBRATION, Classifier
from dragoman.predict.occlusion import word_importance
from dragoman.runs import Run
from tiny import TINY_CLASSIFIER, TOPICS, write_topics

SETTINGS = [argument for override in TINY_CLASSIFIER for argument in ("--set", override)]


@pytest.fixture(autouse=True)
def topics(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    write_topics(folder, "topics", 120, seed=3)


@pytest.fixture
def run(tiny_topics_run: Path, folder: Path) -> Path:
    """A run that may be changed."""
    shutil.copytree(tiny_topics_run, folder / "run")
    return Path("run")


TEXTS = ["tree river old", "house street wave boat red", "big old red", ""]


def test_a_file_becomes_a_classifier_of_several_labels() -> None:
    pytest.importorskip("sklearn")
    result = succeed("train", "topics.tsv", "--task", "classification", "--label-separator", "|", *SETTINGS)
    assert "3 labels" in result.stderr
    assert "have none of the labels" in result.stderr
    assert "validation micro-F1: n-grams " in result.stderr
    assert "  micro-F1 " in result.stderr
    assert "  baseline exact match " in result.stderr
    config = load_recipe("runs/topics/config.toml")
    assert config.task == "classification"
    assert config.data.label_separator == "|"
    run = Run.open("runs/topics")
    assert {"micro_f1", "macro_f1", "accuracy"} <= run.history()[-1].keys()
    shown = succeed("show", "runs/topics").stdout
    assert "· threshold 0." in shown
    assert "micro-F1 " in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["topics.tsv", "--task", "classification", "--label-separator", ";"],
         "no label has the separator ';', as in "),
        (["topics.tsv", "--label-separator", "|"], "--label-separator is for --task classification"),
        (["topics.tsv", "--task", "classification", "--label-separator", "----"], "label_separator"),
        (["topics.tsv", "--task", "classification", "--label-separator", "|", "--set",
          "training.class_weights=balanced"], "is for one label a text"),
        (["topics.tsv", "--task", "classification", "--set", "training.metric=micro_f1"],
         "is for several labels a text"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said_in_a_line(arguments: list[str], message: str) -> None:
    assert message in error_of("train", *arguments)


def test_a_file_is_checked_label_by_label() -> None:
    rows = Path("topics.tsv").read_text(encoding="utf-8").splitlines()
    n_sea = sum("sea" in labels_of(row.split("\t")[0], "|") for row in rows)
    separator = ("--label-separator", "|")
    found = succeed("data", "check", "topics.tsv", "--task", "classification", *separator).stdout
    assert re.search(rf"\bsea\b\W+{n_sea}\b", found)
    assert f"{n_sea / len(rows):.1%}".replace("%", " %") in found
    error = error_of("data", "check", "topics.tsv", "corpus.tsv", *separator)
    assert "--label-separator are for --task classification" in error


def test_a_line_gets_all_labels_above_the_threshold(run: Path) -> None:
    lines = succeed("classify", run, stdin="".join(f"{text}\n" for text in TEXTS)).stdout.splitlines()
    labels, shares = zip(*(line.split("\t") for line in lines[:3]), strict=True)
    assert [set(labels_of(cell, "|")) for cell in labels] == [{"nature"}, {"town", "sea"}, set()]
    threshold = Run.open(run).read_json(CALIBRATION)["threshold"]
    assert [len(labels_of(cell, "|")) for cell in shares] == [1, 2, 0]
    assert all(float(share) > threshold for share in shares[1].split("|"))
    assert lines[3] == ""
    found = [
        json.loads(line)
        for line in succeed("classify", run, "--json", stdin="\n".join(TEXTS) + "\n").stdout.splitlines()
    ]
    assert ["|".join(record["labels"]) for record in found[:3]] == list(labels)
    assert found[3]["labels"] == []
    assert set(found[2]["probabilities"]) == set(TOPICS)
    top = succeed("classify", run, "--top", 3, stdin="tree river\n").stdout
    assert len(top.split("\t")) == 6


def test_it_finds_what_it_was_trained_to_find(run: Path) -> None:
    """The words tell the topics, so that nearly all labels are found; and the threshold says which."""
    classifier = Classifier.load(run, precision="fp32")
    examples = list(open_labelled(["topics.tsv"], separator="|").examples())
    found = classifier.classify([example.text for example in examples])
    right = [set(c.labels) == set(labels_of(e.label, "|")) for c, e in zip(found, examples, strict=True)]
    assert np.mean(right) > 0.9
    for each in found:
        above = [label for label, p in each.probabilities.items() if p > classifier.threshold]
        assert list(each.labels) == above
        assert each.label == next(iter(each.probabilities))
    (explained,) = word_importance(classifier, ["tree boat"], labels=["sea"])
    tree, boat = (each.effect for each in explained.effects)
    assert boat > tree


def test_the_evaluation_is_about_every_label(run: Path) -> None:
    pytest.importorskip("sklearn")
    result = succeed("evaluate", run, "--out", "found.txt")
    for part in ("  micro-F1 ", "  macro-F1 ", "  exact match ", "  baseline micro-F1 ", "  nature ", "ECE "):
        assert part in result.stdout
    assert "most frequent mistakes: label → given" in result.stdout
    assert len(Path("found.txt").read_text(encoding="utf-8").splitlines()) == 50
    (record,) = Run.open(run).read_json("scores.json")["results"]
    assert [score["name"] for score in record["scores"]] == ["micro-F1", "macro-F1", "exact match"]
    assert record["confusion"] is None
    own = succeed("evaluate", run, "--file", "topics.tsv", "--no-baseline").stdout
    assert "topics.tsv · 120 texts · 3 labels" in own


def test_a_report_shows_labels_and_no_confusion_matrix(run: Path) -> None:
    pytest.importorskip("matplotlib")
    succeed("report", run, "--out", "page")
    page = next(Path("page").glob("*.html")).read_text(encoding="utf-8")
    assert "Most confident mistakes" in page
    assert "exact match" in page
    assert "Matrix of labels" not in page


def test_runs_are_compared_by_exact_matches(run: Path) -> None:
    shutil.copytree(run, "other")
    shown = succeed("compare", run, "other").stdout
    assert "exact match" in shown
    assert "micro-F1" in shown


def test_runs_that_read_labels_in_other_ways_are_not_compared(run: Path) -> None:
    """Of a test set whose cells are one label each, so that both can be scored on it."""
    rows = [f"{topic}\tred {word}\n" for topic, words in TOPICS.items() for word in words]
    for name in ("one", "test"):
        Path(f"{name}.tsv").write_text("".join(rows), encoding="utf-8")
    succeed("train", "one.tsv", "--task", "classification", "--out", "one", *SETTINGS)
    for name in ("one", "run"):
        config = load_recipe(Path(name, "config.toml"))
        data = config.data.model_copy(update={"test": {"same": ("test.tsv",)}})
        Path(name, "config.toml").write_text(to_toml(config.model_copy(update={"data": data})), "utf-8")
    assert "cannot stand side by side" in error_of("compare", run, "one")
