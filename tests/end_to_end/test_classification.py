"""Classification from the command line: any file in, labels with probabilities out, honestly scored."""

import gzip
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from commands import error_of, succeed
from commands import folder as folder
from dragoman.config import load_recipe
from dragoman.tasks import config_for
from killing import train_and_kill, write_killed
from tiny import TINY_CLASSIFIER, labelled_texts, write_labelled

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
    assert succeed("train", "recipe.toml", "--out", "again").stdout == "again\n"
    finished = succeed("train", "recipe.toml", "--task", "classification", "--out", "again")
    assert "again is finished" in finished.stderr
    weights = [Path(name, "model.safetensors").read_bytes() for name in ("runs/reviews", "again")]
    assert weights[0] == weights[1]


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_columns_are_found_by_their_names_or_told(suffix: str) -> None:
    found, told = [], []
    config = config_for(f"reviews.{suffix}", task="classification", say=found.append)
    assert "the text is in column 'review', the label is in column 'sentiment'" in "\n".join(found)
    assert (config.data.text_column, config.data.label_column) == ("review", "sentiment")
    config_for(f"reviews.{suffix}", task="classification", text_column="review", say=told.append)
    assert "the label is in column 'sentiment'; if not, say --label-column" in "\n".join(told)


def test_columns_validation_and_weights_can_be_said() -> None:
    texts = enumerate(labelled_texts(60, seed=1))
    rows = ["stars\tid\twords", *(f"{label}\t{i}\t{text}" for i, (label, text) in texts)]
    Path("table.tsv").write_text("\n".join(rows), encoding="utf-8")
    Path("more.tsv").write_text("\n".join(rows[:31]), encoding="utf-8")
    result = succeed(
        "train", "table.tsv", "--task", "classification", "--text-column", "words", "--label-column", "stars",
        "--valid", "more.tsv", "--set", "training.class_weights=balanced", *SETTINGS,
    )  # fmt: skip
    assert "60 training texts" in result.stderr
    assert "30 validation texts" in result.stderr
    assert "all count the same (training.class_weights)" in result.stderr
    config = load_recipe("runs/table/config.toml")
    assert config.task == "classification"
    assert (config.data.text_column, config.data.label_column) == ("words", "stars")


# dragoman classify


def test_every_line_gets_a_label_and_a_probability(run: Path) -> None:
    lines = succeed("classify", run, stdin="a good tree\n\nan awful house\n").stdout.split("\n")
    assert [line.split("\t")[0] for line in lines] == ["praise", "", "blame", ""]
    for line in (lines[0], lines[2]):
        assert 0.5 <= float(line.split("\t")[1]) <= 1.0


def test_files_and_pipes_give_the_same(run: Path) -> None:
    Path("texts.txt").write_text("a good tree\nan awful house\n", encoding="utf-8")
    piped = succeed("classify", run, stdin="a good tree\nan awful house\n").stdout
    assert succeed("classify", run, "texts.txt").stdout == piped
    written = succeed("classify", run, "texts.txt", "--out", "labels.txt")
    assert written.stdout == ""
    assert written.stderr.startswith("labels.txt: ")
    assert Path("labels.txt").read_text(encoding="utf-8") == piped
    succeed("classify", run, "texts.txt", "--out", "labels.txt.gz")
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


@pytest.mark.nightly
def test_a_line_through_a_pipe_is_classified_as_it_comes(run: Path) -> None:
    command, pipe = [sys.executable, "-m", "dragoman", "classify", str(run)], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write(b"a good tree\n")
        running.stdin.flush()
        assert running.stdout.readline().startswith(b"praise\t")  # before the pipe is closed
        running.stdin.close()
        assert running.wait(60) == 0


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
    assert "score     tiny-test · accuracy " in succeed("show", run).stdout


def test_evaluate_classifies_another_file(run: Path) -> None:
    result = succeed("evaluate", run, "--file", "reviews.csv", "--text-column", "review", "--label-column",
                     "sentiment", "--no-baseline", "--out", "found.tsv")  # fmt: skip
    assert result.stdout.splitlines()[0] == "reviews.csv · 60 texts · 2 labels"
    assert "no baseline: left out (--no-baseline)" in result.stdout
    written = Path("found.tsv").read_text(encoding="utf-8").splitlines()
    expected = labelled_texts(60, seed=3)
    assert [(line.split("\t")[0], line.split("\t")[3]) for line in written] == expected
    assert "valid · 40 texts" in succeed("evaluate", run, "--split", "valid", "--no-baseline").stdout


def test_without_scikit_learn_evaluate_says_how_to_get_it(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    result = succeed("evaluate", run)
    assert "no baseline: the baseline (TF-IDF + logistic regression) needs the package" in result.stdout
    assert "pip install 'dragoman[baseline]'" in result.stdout
    ((record),) = json.loads((run / "scores.json").read_text(encoding="utf-8"))["results"]
    assert "needs the package scikit-learn: pip install 'dragoman[baseline]'" in record["no_baseline"]


def test_show_speaks_of_texts_and_accuracy(run: Path) -> None:
    shown = succeed("show", run, "--plot").stdout
    assert "text → label" in shown
    assert " nats/text · accuracy " in shown
    assert "labels    2: blame, praise · temperature " in shown
    (run / "labels.json").unlink()
    assert "labels    " not in succeed("show", run).stdout
    assert "Accuracy on validation texts" in (run / "curves.svg").read_text(encoding="utf-8")


def test_many_classes_are_confused_in_a_list(folder: Path) -> None:
    rows = [f"c{i % 12:02}\tword{i % 12} tree number {i}" for i in range(240)]
    Path("many.tsv").write_text("\n".join(rows), encoding="utf-8")
    succeed("train", "many.tsv", "--task", "classification", *SETTINGS)
    result = succeed("evaluate", "runs/many", "--file", "many.tsv", "--no-baseline").stdout
    assert "12 labels" in result
    assert "most frequent mistakes: label → given" in result


# dragoman demo --task classification


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


# What is refused

TRAIN = "train reviews.tsv --task classification"
REFUSED = [
    ("train reviews.tsv", "to learn its labels add --task classification"),
    ("train --task classification", "nothing to train on; give a file of texts and labels"),
    ("train reviews.tsv --task sorting", "--task sorting: is unknown; give translation or"),
    ("train --tsv a.tsv --valid b.tsv", "--text-column, --label-column and --valid are for --task"),
    (f"{TRAIN} --src a.en --tgt a.de", "a classifier has no source and target"),
    ("train missing.tsv --task classification", "missing.tsv: no such file"),
    (f"{TRAIN} --text-column nothing", "no column 'nothing'"),
    ("train run/config.toml --task translation", "is a recipe for classification; leave --task away"),
    ("train run/config.toml --task classification --valid x", "names its own files and columns"),
    ("train tiny/config.toml --task classification", "is a recipe for translation; leave --task away"),
    ("evaluate tiny --file reviews.tsv", "--file: not for a translator; leave it away"),
    ("classify tiny", "is a translator; try: dragoman translate"),
    ("translate run", "run: is a classifier; try: dragoman classify run"),
    ("classify run --precision fp8", "is not a precision"),
    ("evaluate run --beam-size 3 --src x", "--src, --beam-size: not for a classifier; leave it away"),
    ("evaluate run --split dev", "--split dev: there are test and valid"),
    ("evaluate run --file reviews.tsv --split test", "give --file or --split, but not both"),
    ("evaluate run --text-column 1", "--text-column and --label-column are for --file"),
    ("demo --task sorting", "--task sorting: is unknown; give translation or"),
    ("demo --task classification --src de", "--src and --tgt are for --task translation"),
]


@pytest.mark.parametrize(("command", "message"), REFUSED, ids=[command for command, _ in REFUSED])
def test_what_cannot_be_done_is_one_line(run: Path, tiny_run: Path, command: str, message: str) -> None:
    Path("tiny").symlink_to(tiny_run)
    assert message in error_of(*command.split())


# A process that is killed


@pytest.mark.nightly
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_killed_classifier_training_continues_to_the_bit(precision: str) -> None:
    data = {"train": ["reviews.tsv"], "n_held_out": 6, "max_length": 4}
    write_killed(
        Path(), {"task": "classification", "data": data}, "model.word_dropout=0.2", "model.ngrams=2",
        "model.ngram_bits=8", "training.batch_tokens=100", 'training.class_weights="balanced"',
        "training.label_smoothing=0.1", f"training.precision={precision}",
    )  # fmt: skip

    def facts(run: str) -> list[tuple[object, ...]]:
        lines = Path(run, "history.jsonl").read_text(encoding="utf-8").splitlines()
        timing = ("seconds", "tokens_per_second", "peak_memory_gb")
        return [tuple(item for item in json.loads(line).items() if item[0] not in timing) for line in lines]

    # before there is any checkpoint; after the first one, in the middle of an epoch
    assert train_and_kill(Path(), {"step": 7}, {"step": 13}) == [*[-signal.SIGKILL] * 2, 0]
    assert facts("cut") == facts("whole")
    kept = [f"checkpoints/{path.name}/optimizer.safetensors" for path in Path("whole/checkpoints").iterdir()]
    for name in ("model.safetensors", *kept, "labels.json", "calibration.json"):
        assert Path("cut", name).read_bytes() == Path("whole", name).read_bytes(), name
