"""Recipes found, expectations read and written, scores judged, data compared."""

import gzip
import hashlib
import json
import math
import shutil
import statistics
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import record_results
from dragoman import files
from dragoman.data import catalog, datasets
from dragoman.errors import ConfigError, DataError
from dragoman.reproduction.recipe import (
    EXPECTED,
    Data,
    DataFile,
    Expectation,
    ExpectedScore,
    Recipe,
    TimedMachine,
    describe_file,
    find_recipe,
    known_recipes,
    recipe_of_run,
    start_of,
)
from dragoman.reproduction.running import ReferenceListener, judge

ROOT = Path(__file__).parents[3]
SIGNATURE = "nrefs:1|case:mixed|tok:13a|version:2.6.0"
RECIPE = """
name = "mine"
[data]
src_lang = "en"
tgt_lang = "de"
train = ["mine/train.tsv"]
[data.test]
a = ["mine/a.tsv"]
[training]
max_steps = 100
"""


def score(**changes: Any) -> ExpectedScore:
    values = {
        "test_set": "a", "metric": "BLEU", "value": 30.0, "tolerance": 0.5, "tolerance_from": "1 seed",
        "better": "higher", "seeds": {"1": 30.0}, "signature": SIGNATURE,
    }  # fmt: skip
    return ExpectedScore.model_validate({**values, **changes})


def expectation(**changes: Any) -> Expectation:
    values = {
        "scores": (score(),), "minutes": 2.5, "max_steps": 100, "versions": {"torch": "2.13.0"},
        "machine": TimedMachine(cpu="A", n_cores=2, n_threads=2), "data": Data(sets=(), files={}),
        "command": "dragoman reproduce mine", "date": "2026-11-21",
    }  # fmt: skip
    return Expectation(**{**values, **changes})


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recipe:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DRAGOMAN_DATA", raising=False)
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "recipe.toml").write_text(RECIPE, encoding="utf-8")
    return Recipe(folder)


# expected.json


def test_every_mistake_in_the_file_is_named_at_once(recipe: Recipe) -> None:
    assert recipe.recorded() == {}
    path = recipe.expected_path
    content = {"full": expectation().model_dump(mode="json")}
    content["full"]["scores"][0]["tolerence"] = content["full"]["scores"][0].pop("tolerance")
    content["full"]["minutes"] = "long"
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        recipe.recorded()
    assert "full.scores.0.tolerance: field required" in str(raised.value)
    assert "full.scores.0.tolerence: extra inputs are not permitted" in str(raised.value)
    assert "full.minutes: input should be a valid number" in str(raised.value)
    assert str(raised.value).endswith("docs/reproduce.md says what belongs there")
    path.write_text("[1]", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"expected\.json: the file: "):
        recipe.recorded()
    path.unlink()
    path.mkdir()
    with pytest.raises(ConfigError, match=r"expected\.json: cannot be read .*how it is written"):
        recipe.recorded()


@given(st.dictionaries(st.integers(0, 99).map(str), st.floats(0, 100), min_size=1, max_size=9))
def test_three_seeds_and_more_allow_three_standard_deviations(values: dict[str, float]) -> None:
    tolerance, reason = record_results.tolerance_of(values)
    if len(values) < 3:
        assert tolerance == 1.0
        assert "too few" in reason
        return
    deviation = statistics.stdev(values.values())
    assert tolerance >= 0.5
    assert 3 * deviation <= tolerance + 1e-9
    assert tolerance <= max(0.5, 3 * deviation + 0.01)
    assert f"{len(values)} seeds" in reason


def test_scores_that_count_mistakes_are_better_when_lower() -> None:
    better = {"BLEU": "higher", "TER": "lower", "TER (cased)": "lower", "accuracy": "higher", "ECE": "lower"}
    for metric, direction in better.items():
        assert record_results.expected_score("a", metric, SIGNATURE, {"1": 30.0}).better == direction


# Recipes


def test_a_recipe_is_found_by_its_folder_and_by_its_name(recipe: Recipe) -> None:
    assert find_recipe("mine").folder == Path("mine")
    assert find_recipe(str(recipe.folder)).name == "mine"
    assert find_recipe("multi30k-en-de").folder == ROOT / "recipes" / "multi30k-en-de"
    with pytest.raises(ConfigError, match=r"multi30k: no recipe, .*did you mean multi30k-en-de\?"):
        find_recipe("multi30k")
    with pytest.raises(ConfigError, match=r"there are .*phrasebook-en-de"):
        find_recipe("zzz")
    for name in ("nothing", "multi30k-en-de-nothing", "multi30k-en-de-seed-x"):
        with pytest.raises(ConfigError, match="no recipe"):
            recipe_of_run(name)


def test_every_recipe_of_the_repository_can_be_read_and_what_is_recorded_fits_it() -> None:
    for folder in known_recipes():
        expected = folder.recorded()
        versions = folder.versions()
        assert set(expected) <= {recipe.version for recipe in versions}
        for recipe in versions:
            config = recipe.config
            if wanted := expected.get(recipe.version):
                assert {score.test_set for score in wanted.scores} <= set(config.tests)
                assert wanted.max_steps == config.training.max_steps
                assert wanted.command == f"dragoman reproduce {recipe.name}{recipe.option}"
                assert (recipe.results / "history.jsonl").is_file()
            other = replace(recipe, seed=2)
            assert other.config.seed == 2
            if start := start_of(config):
                assert recipe.runs_before()[0] == Path(start)
                assert other.runs_before()[0] == Path(f"{start}-seed-2")
            for seed in (None, 0, 12):
                seeded = replace(recipe, seed=seed)
                assert recipe_of_run(seeded.run_name) == seeded


def test_quick_settings_are_laid_over_the_recipe_and_replace_what_they_name(recipe: Recipe) -> None:
    text = '[training]\nwarmup_steps = 5\n[data.test]\nz = ["z.tsv"]\n[search]\nbeam_size = 1\n'
    (recipe.folder / "quick.toml").write_text(text, encoding="utf-8")
    quick = replace(recipe, version="quick")
    assert (quick.config.training.warmup_steps, quick.config.training.max_steps) == (5, 100)
    assert quick.config.data == recipe.config.data.model_copy(update={"test": {"z": ("z.tsv",)}})
    assert quick.config.search.beam_size == 1
    assert quick.results == recipe.folder / "results" / "quick"


def test_other_recipes_of_the_folder_are_variants(recipe: Recipe) -> None:
    (recipe.folder / "seed.toml").write_text(RECIPE.replace("100", "7"), encoding="utf-8")
    full, seed = recipe.versions()
    assert (full, seed) == (recipe, replace(recipe, version="seed"))
    assert seed.config.training.max_steps == 7
    with pytest.raises(ConfigError, match=r"mine: has no quick\.toml; there are full, seed"):
        _ = replace(recipe, version="quick").config
    (recipe.folder / "quick.toml").write_text("[training]\nmax_step = 5\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"quick\.toml: training\.max_step is not .*training\.max_steps\?"):
        _ = replace(recipe, version="quick").config


# Judgement


def records(**scores: Any) -> list[dict[str, Any]]:
    values = {"name": "BLEU", "value": 30.0, "signature": SIGNATURE, **scores}
    return [{"name": "a", "scores": [values]}]


NOT_THERE = "the run has no such score"
OTHER = {"signature": SIGNATURE.replace("13a", "intl").replace("|version:2.6.0", "|nw:0")}
WHY_OTHER = (
    'scored in another way: nw is not set there, "0" here; tok is "13a" there, "intl" here; '
    'version is "2.6.0" there, not set here'
)


@pytest.mark.parametrize(
    ("better", "scored", "problem", "note"),
    [
        ("higher", {"value": 30.2}, None, ""),
        ("higher", {"value": 29.5}, None, ""),
        ("higher", {"value": 29.4}, "0.6 worse, and 0.5 allowed", ""),
        ("higher", {"value": 90.0}, None, "60.0 better than expected"),
        ("lower", {"value": 30.5}, None, ""),
        ("lower", {"value": 30.6}, "0.6 worse, and 0.5 allowed", ""),
        ("lower", {"value": 3.0}, None, "27.0 better than expected"),
        ("higher", OTHER, WHY_OTHER, ""),
        ("higher", {"name": "chrF2"}, NOT_THERE, ""),
        ("higher", {"value": math.nan}, NOT_THERE, ""),
        ("higher", {"value": None}, NOT_THERE, ""),
    ],
)
def test_a_score_passes_that_is_there_and_not_worse_than_tolerated(
    better: str, scored: dict[str, Any], problem: str | None, note: str
) -> None:
    (verdict,) = judge([score(better=better)], records(**scored))
    assert (verdict.passed, verdict.problem, verdict.note) == (problem is None, problem, note)


# The reference curve


@pytest.mark.parametrize(
    ("metric", "record", "text"),
    [
        ("bleu", {"step": 100, "bleu": 9.6}, "BLEU 9.6, reference 10.0 at step 100: 0.4 behind"),
        ("bleu", {"step": 1000, "bleu": 30.04}, "BLEU 30.0, reference 30.0 at step 1,000: the same"),
        ("bleu", {"step": 150, "bleu": 1.0}, None),
        ("bleu", {"step": 100, "bleu": 12.0, "kind": "average"}, None),
        ("loss", {"step": 100, "valid_loss": 2.9}, "loss 2.90, reference 3.00 at step 100: 0.10 ahead"),
    ],
)
def test_a_validation_is_ahead_of_the_reference_at_the_same_step_or_behind(
    metric: str, record: dict[str, Any], text: str | None
) -> None:
    history = [
        {"kind": "train", "step": 50, "train_loss": 3.0},
        {"kind": "valid", "step": 100, "bleu": 10.0, "valid_loss": 3.0},
        {"kind": "valid", "step": 1000, "bleu": 30.0, "valid_loss": 2.0},
        {"kind": "average", "step": 300, "bleu": 99.0, "valid_loss": 0.0},
    ]
    said: list[str] = []
    for recorded in (history, []):  # no history was recorded: there is nothing to say
        ReferenceListener(recorded, said.append, metric=metric).logged({"kind": "valid", **record})
    assert said == ([text] if text else [])


# Data


def described(text: str) -> DataFile:
    return DataFile(n_lines=len(text.splitlines()), sha256=hashlib.sha256(text.encode()).hexdigest())


@pytest.mark.parametrize("text", ["", "a\tb\n", "a\tb\nc\td", "\n\n"])
def test_a_file_is_described_by_its_text_compressed_or_not(tmp_path: Path, text: str) -> None:
    plain, packed = tmp_path / "a.tsv", tmp_path / "a.tsv.gz"
    plain.write_text(text, encoding="utf-8")
    packed.write_bytes(gzip.compress(text.encode()))
    assert describe_file(plain) == describe_file(packed) == described(text)


def test_mistakes_in_a_distillation_are_named_with_their_file(recipe: Recipe) -> None:
    wrong = '[distillation]\nteacher = 3\nlessons = { n_best = "all", pupils = 2 }\n'
    (recipe.folder / "taught.toml").write_text(RECIPE + wrong, encoding="utf-8")
    taught = replace(recipe, version="taught")
    assert taught.config == recipe.config, "it is no part of the configuration"
    assert recipe.distillation is None
    with pytest.raises(ConfigError) as raised:
        _ = taught.distillation
    for part in ("taught.toml: distillation: teacher", "n_best", "pupils"):
        assert part in str(raised.value)
    (recipe.folder / "taught.toml").write_text('distillation = "big"\n' + RECIPE, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"taught\.toml: distillation = 'big': is no section; write "):
        _ = replace(recipe, version="taught").distillation


def test_embedded_and_streamed_corpora_are_no_files(recipe: Recipe) -> None:
    text = RECIPE.replace("mine/train.tsv", "hf:owner/name:train")
    text = text.replace("[training]", 'b = ["b.en", "b.de"]\nc = ["phrasebook:test"]\n[training]')
    (recipe.folder / "recipe.toml").write_text(text, encoding="utf-8")
    assert recipe.files() == ["mine/a.tsv", "b.en", "b.de"]


def test_texts_that_the_catalogue_equates_are_used(recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    (recipe.folder / "train.tsv").write_text("a &amp; b\tc\n", encoding="utf-8")
    recorded = described("a & b\tc\n")
    known = " ".join([recorded.sha256, described("a &amp; b\tc\n").sha256])
    dataset = catalogued(monkeypatch, text_sha256=known)
    expected = expectation(data=Data(sets=(dataset.name,), files={"mine/train.tsv": recorded}))
    recipe.expected_path.write_bytes(EXPECTED.dump_json({"full": expected}))
    assert list(recipe.differing_files()) == []
    catalogued(monkeypatch, text_sha256=recorded.sha256)
    (problem,) = recipe.differing_files()
    assert "get it again with: dragoman data fetch mine" in problem


def catalogued(monkeypatch: pytest.MonkeyPatch, *, text_sha256: str = "") -> catalog.Dataset:
    """A data set "mine" in place of those of the catalogue."""
    names = ("title", "task", "n_examples", "licence", "citation", "homepage", "note", "step")
    fields: dict[str, Any] = {**dict.fromkeys(names, ""), "languages": ("en", "de"), "downloads": ()}
    parts = tuple(datasets.PreparedFile(f"{name}.tsv", 1, text_sha256) for name in ("train", "a"))
    dataset = catalog.Dataset(name="mine", folder="mine", parts=parts, **fields)
    monkeypatch.setattr(datasets, "_catalogue", lambda: {"mine": dataset})
    return dataset


def test_missing_data_is_fetched_file_by_file(recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogued(monkeypatch)
    recipe.expected_path.write_bytes(EXPECTED.dump_json({"full": expectation()}))
    with pytest.raises(DataError, match=r"mine/train\.tsv: is not here, .*; dragoman data fetch mine brings"):
        recipe.provide_data(fetch=False, say=print)
    (recipe.folder / "a.tsv").write_text("a\tb\n", encoding="utf-8")
    asked = []

    def fetch(name: str, **options: Any) -> None:
        asked.append((name, options["needs"]))
        (recipe.folder / "train.tsv").write_text("a\tb\n", encoding="utf-8")

    monkeypatch.setattr(catalog, "fetch", fetch)
    for _ in range(2):  # what is here is not fetched again
        recipe.provide_data(fetch=True, say=print)
    assert asked == [("mine", ["train.tsv"])]


# The package


def test_a_built_package_holds_what_reproduce_needs_of_the_recipes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "recipes", tmp_path / "recipes")
    (tmp_path / "src" / "dragoman").mkdir(parents=True)
    (tmp_path / "src" / "dragoman" / "__init__.py").write_text('__version__ = "1.0"\n', encoding="utf-8")
    command = [sys.executable, "setup.py", "--quiet", "build_py", "--build-lib", "built"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    recipes = known_recipes()
    monkeypatch.setattr(files, "__file__", str(tmp_path / "built" / "dragoman" / "files.py"))
    for recipe, copy in zip(recipes, known_recipes(), strict=True):  # its own go before the repository's
        assert (copy.name, copy.folder.parents[1]) == (recipe.name, tmp_path / "built" / "dragoman")
        assert copy.recorded() == recipe.recorded()
        assert [each.config for each in copy.versions()] == [each.config for each in recipe.versions()]
        for here, there in zip(recipe.versions(), copy.versions(), strict=True):
            assert (there.results / "history.jsonl").exists() == (here.results / "history.jsonl").exists()
