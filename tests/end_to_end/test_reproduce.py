"""`dragoman reproduce`: recorded, reproduced, and failed where it has to fail."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import record_results
from commands import dragoman, error_of, succeed
from dragoman.config import parse_config, to_toml
from dragoman.reproduction.recipe import find_recipe
from dragoman.runs import Run
from sharing import made_once
from tiny import TINY, TINY_CLASSIFIER, write_corpus, write_labelled

QUICK = "[training]\nmax_steps = 3\n"


def record(recipe: str, *runs: str, version: str = "full", add: bool = False) -> None:
    record_results.record(find_recipe(recipe, version), [Path(run) for run in runs], add=add)


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data, a recipe `mine`, two runs of it, and one of its quick version, all recorded."""
    return made_once(tmp_path_factory, "recorded", record_recipe)


def record_recipe(folder: Path) -> None:
    write_corpus(folder / "texts", "train", 200, seed=1)
    write_corpus(folder / "texts", "valid", 20, seed=2)
    write_corpus(folder / "texts", "test", 15, seed=3)
    data = {
        "src_lang": "en", "tgt_lang": "de",
        "train": ["texts/train.en", "texts/train.de"], "valid": ["texts/valid.tsv"],
        "test": {"made-up": ["texts/test.tsv"]},
    }  # fmt: skip
    overrides = [*TINY, "training.precision=auto"]  # as in recipes
    config = parse_config({"name": "mine", "data": data}, overrides=overrides)
    (folder / "mine").mkdir()
    (folder / "mine" / "recipe.toml").write_text(to_toml(config), encoding="utf-8")
    (folder / "mine" / "quick.toml").write_text(QUICK, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for seed in (1, 2):
            succeed("train", "mine/recipe.toml", "--out", f"seed-{seed}", "--set", f"seed={seed}")
            succeed("evaluate", f"seed-{seed}")
        record("mine", "seed-1", "seed-2")
        succeed("train", "mine/recipe.toml", "--out", "quick-1", "--set", "training.max_steps=3")
        succeed("evaluate", "quick-1")
        record("mine", "quick-1", version="quick")


@pytest.fixture
def folder(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy in which anything may be changed."""
    copy = tmp_path / "copy"
    shutil.copytree(recorded, copy)
    monkeypatch.chdir(copy)
    monkeypatch.delenv("DRAGOMAN_DATA", raising=False)
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    return copy


def expected() -> dict[str, Any]:
    return json.loads(Path("mine/expected.json").read_bytes())


def write_expected(content: dict[str, Any]) -> None:
    Path("mine/expected.json").write_text(json.dumps(content), encoding="utf-8")


def test_what_is_recorded_is_what_the_runs_scored(folder: Path) -> None:
    full, quick = expected()["full"], expected()["quick"]
    runs = [json.loads((folder / f"seed-{seed}/scores.json").read_bytes())["results"][0] for seed in (1, 2)]
    for i, score in enumerate(full["scores"]):
        values = [run["scores"][i]["value"] for run in runs]
        assert score["metric"] == runs[0]["scores"][i]["name"]
        assert score["signature"] == runs[0]["scores"][i]["signature"]
        assert list(score["seeds"].values()) == pytest.approx(values, abs=0.005)
        assert score["value"] == pytest.approx(sum(values) / 2, abs=0.01)
    assert (full["max_steps"], quick["max_steps"]) == (6, 3)
    assert {"texts/test.tsv", "texts/train.de"} <= full["data"]["files"].keys()
    for run, results in (("seed-1", "results"), ("quick-1", "results/quick")):
        for name in ("history.jsonl", "report.json", "scores.json", "environment.json", "config.toml"):
            assert (folder / run / name).read_bytes() == (folder / "mine" / results / name).read_bytes()


def test_the_first_recorded_run_reproduces_itself(folder: Path) -> None:
    """Same seed, same machine: the same curve, the same scores, PASS."""
    result = succeed("reproduce", "mine", "--seed", "1", "--out", "again")
    assert result.stdout.splitlines()[-1] == "PASS"
    assert "train.en" in result.stderr.split(", as it is read:")[0]
    validations = [line for line in result.stderr.splitlines() if ", reference " in line]
    assert len(validations) == 2
    assert all(line.endswith(": the same") for line in validations)
    comparison = json.loads(Path("again/reproduction.json").read_bytes())
    assert comparison["passed"]
    first = json.loads(Path("seed-1/scores.json").read_bytes())["results"][0]["scores"]
    assert [score["value"] for score in comparison["scores"]] == [score["value"] for score in first]


def test_the_quick_version_and_a_variant_have_an_expectation_and_a_folder_of_their_own(folder: Path) -> None:
    content = json.loads(succeed("reproduce", "mine", "--quick", "--json").stdout)
    assert (content["run"], content["passed"]) == ("runs/mine-quick", True)
    assert Run.open("runs/mine-quick").config.training.max_steps == 3
    text = Path("mine/recipe.toml").read_text(encoding="utf-8")
    Path("mine/other.toml").write_text(text.replace("max_steps = 6", "max_steps = 3"), encoding="utf-8")
    record("mine", "quick-1", version="other")
    assert Path("mine/results/other/history.jsonl").exists()
    assert set(expected()) == {"full", "quick", "other"}
    result = succeed("reproduce", "mine", "--variant", "other")
    assert "run: runs/mine-other" in result.stderr
    assert result.stdout.endswith("PASS\n")


def test_an_interrupted_reproduction_is_continued(folder: Path) -> None:
    Path("seed-1/report.json").unlink()
    result = succeed("reproduce", "mine", "--out", "seed-1")
    assert "continuing from step 3" in result.stderr, "the checkpoint of the best score"
    assert "as it is read:" not in result.stderr  # the text is shown when a training begins


def test_a_score_below_the_tolerance_or_of_another_signature_fails_with_exit_code_1(folder: Path) -> None:
    content = expected()
    first, second, *_ = content["full"]["scores"]
    first["signature"] = first["signature"].replace("version:", "version:0.")
    second["value"] += 50
    content["full"]["versions"]["torch"] = "1.0"
    write_expected(content)
    result = dragoman("reproduce", "mine", "--out", "seed-1")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[-1] == "FAIL: 2 of 4 scores"
    (scored,) = [line for line in lines if "FAIL: scored in another way: version is " in line]
    assert "BLEU" in scored
    (failed,) = [line for line in lines if "worse, and 1 allowed" in line]
    assert "chrF2" in failed
    assert "differs: torch " in result.stdout
    assert "recorded with 1.0" in result.stdout
    assert "error:" not in result.stderr


def test_other_and_missing_data_is_an_error_before_the_training(folder: Path) -> None:
    plan = succeed("reproduce", "mine", "--quick", "--dry-run").stdout
    assert plan.startswith("mine · en → de · mine\n")
    assert "made-up" in plan
    assert plan.endswith("data      4 files, all here\n")
    with Path("texts/test.tsv").open("a", encoding="utf-8") as file:
        file.write("cat\tKatze\n")
    why = (
        r"test\.tsv: is not the text that the scores were .*\(16 lines, sha256 \w+…, and not 15, \w+…\); get"
    )
    assert re.search(why, error_of("reproduce", "mine", "--out", "new"))
    Path("texts/valid.tsv").unlink()
    assert error_of("reproduce", "mine", "--no-fetch").startswith("error: texts/valid.tsv: no such file in")
    plan = succeed("reproduce", "mine", "--dry-run").stdout
    assert "other     texts/test.tsv: is not the text" in plan
    assert "missing   texts/valid.tsv (not in the catalogue" in plan
    assert not any(Path(name).exists() for name in ("new", "runs"))


def test_without_a_name_every_recipe_is_listed() -> None:
    lines = succeed("reproduce").stdout.splitlines()
    assert any(line.startswith("phrasebook-en-de ") and line.endswith(" --quick") for line in lines)
    assert any(line.startswith("multi30k-en-de ") for line in lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mine", "--quick", "--variant", "x"], "give --quick or --variant, not both"),
        (["mine", "--variant", "x"], "expected.json: has no scores of the x version; train it, and record"),
    ],
)
def test_what_cannot_be_asked_is_said(folder: Path, arguments: list[str], message: str) -> None:
    assert message in error_of("reproduce", *arguments)


@pytest.mark.nightly
def test_a_classifier_is_recorded_and_reproduced(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_labelled(Path("texts"), "reviews", 90, seed=1)
    data = {name: ["texts/reviews.tsv"] for name in ("train", "valid")}
    recipe = {"task": "classification", "name": "sorts", "data": {**data, "test": {"seen": data["valid"]}}}
    Path("sorts").mkdir()
    text = to_toml(parse_config(recipe, overrides=TINY_CLASSIFIER))
    Path("sorts/recipe.toml").write_text(text, encoding="utf-8")
    succeed("train", "sorts/recipe.toml", "--out", "sorted")
    succeed("evaluate", "sorted")
    monkeypatch.setattr("sys.argv", ["record_results.py", "sorts", "sorted"])
    record_results.main()
    assert "accuracy" in capsys.readouterr().out
    result = succeed("reproduce", "sorts", "--out", "again")
    assert result.stdout.endswith("PASS\n")
    assert "accuracy" in result.stdout
    assert sum(", reference " in line for line in result.stderr.splitlines()) == 2


@pytest.mark.nightly
def test_runs_that_write_what_a_recipe_learns_from_are_reproduced_first(folder: Path) -> None:
    """Two seeds of the recipe translate its training text, and a variant learns from all of it."""
    out = Path("runs/mine-taught")
    options = ["--preset", "same", "--n-best", "1", "--min-chrf", "0", "--max-ratio", "0", "--references"]
    settings = ["seed=1", "search.beam_size=2", "training.max_steps=4", 'training.start_from=""']
    overrides = [part for setting in settings for part in ("--set", setting)]
    succeed("distill", "seed-1", "--forward", "seed-2", *options, *overrides, "--out", str(out))
    succeed("evaluate", str(out))
    recipe = (
        (out / "config.toml").read_text(encoding="utf-8")
        + """
[distillation]
teacher = "runs/mine"
lessons = { forward = ["runs/mine-seed-2"], n_best = 1, min_chrf = 0.0, max_ratio = 0.0, references = true }
"""
    )
    Path("mine/taught.toml").write_text(recipe, encoding="utf-8")
    record("mine", str(out), version="taught")
    recorded = expected()["taught"]
    assert list(recorded["data"]["files"]) == ["texts/test.tsv"], "what runs write is no data"
    weights, lessons = Run.open(out).load_weights(), (out / "lessons/train.tgt.gz").read_bytes()
    shutil.rmtree("runs")

    plan = succeed("reproduce", "mine", "--variant", "taught", "--dry-run").stdout
    assert "first     runs/mine, runs/mine-seed-2: reproduced where they are not there" in plan
    first = succeed("reproduce", "mine", "--variant", "taught", "--no-fetch")
    assert first.stdout.endswith("PASS\n")
    assert "mine comes first: the training needs it; run: runs/mine\n" in first.stderr
    assert "mine comes first: the training needs it; run: runs/mine-seed-2\n" in first.stderr
    assert (out / "lessons/train.tgt.gz").read_bytes() == lessons
    assert all((value == weights[name]).all() for name, value in Run.open(out).load_weights().items())

    other = succeed("reproduce", "mine", "--variant", "taught", "--seed", "3", "--no-fetch").stderr
    assert "comes first" not in other
    assert not Path("runs/mine-taught-seed-3/lessons").exists(), "every seed learns from the same text"
    assert (out / "lessons/train.tgt.gz").read_bytes() == lessons

    Path("mine/taught.toml").write_text(recipe.replace("lessons/train.src.gz", "texts.gz"), encoding="utf-8")
    wrong = error_of("reproduce", "mine", "--variant", "taught", "--out", "runs/other", "--no-fetch")
    assert "[distillation] writes train.src.gz and train.tgt.gz, and data.train names other files" in wrong
