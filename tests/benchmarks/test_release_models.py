"""tools/release_models.py: what it writes can be served, fetched and used, and is the same each time."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tarfile
from pathlib import Path

import pytest

import release_models
from commands import succeed
from dragoman.card import model_card
from dragoman.config import to_toml
from dragoman.errors import ConfigError, MissingExtraError, RunError
from dragoman.interop.mirror import INDEX, Index
from dragoman.interop.onnxruntime_web import FILES
from dragoman.reproduction.recipe import Recipe
from dragoman.reproduction.recording import record
from dragoman.runs import Run
from release_models import LICENCES, licence_of_run, main, main_scores, pack, release

GOLDEN = Path(__file__).parents[1] / "compatibility" / "0.2"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What stands for the npm package of a browser's runtime."""
    folder = tmp_path_factory.mktemp("package")
    for path in FILES.values():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """The golden translator and classifier; the translator with scores, of altered text too."""
    folder = tmp_path_factory.mktemp("runs")
    for kind, name in {"translation": "tiny-en-de", "classification": "tiny-reviews"}.items():
        shutil.copytree(GOLDEN / kind, folder / name)
    translator = Run.open(folder / "tiny-en-de")
    bleu = {"name": "BLEU", "value": 31.066, "interval": [29.8, 32.4], "signature": "nrefs:1"}
    altered = {"name": "capitals", "n_sentences": 300, "bleu": 7.25, "chrf": 33.3, "share": 64.6,
               "copied": 1.0, "repeated": 0.0, "empty": 0.0, "kept": None}  # fmt: skip
    results = [
        {"name": "test", "n_sentences": 1000, "scores": [bleu, bleu | {"name": "chrF2"}]},
        {"name": "test (robustness)", "scores": [], "alterations": [altered]},
    ]
    translator.write_json("scores.json", {"results": results})
    return [translator, Run.open(folder / "tiny-reviews")]


@pytest.fixture(scope="module")
def released(runs: list[Run], package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out") / "models"
    release(runs, out, onnxruntime_web=package)
    return out


@pytest.mark.slow
def test_every_file_has_the_sum_and_size_that_are_written_beside_it(released: Path) -> None:
    index = Index.model_validate_json((released / INDEX).read_bytes())
    archives = [a for m in index.models for a in (m.archive, *(export.archive for export in m.exports))]
    sums = {}
    for archive in archives:
        content = (released / archive.file).read_bytes()
        sums[archive.file] = hashlib.sha256(content).hexdigest()
        assert (archive.size, archive.sha256) == (len(content), sums[archive.file])
        with tarfile.open(released / archive.file) as tar:
            assert len(tar.getnames()) == archive.n_files
    lines = (released / "SHA256SUMS").read_text().splitlines()
    assert dict(line.split("  ")[::-1] for line in lines) == sums
    assert {path.name for path in released.iterdir()} == {
        *sums, INDEX, "SHA256SUMS", "tiny-en-de.md", "tiny-reviews.md"
    }  # fmt: skip


@pytest.mark.slow
def test_released_twice_all_files_are_equal(
    released: Path, runs: list[Run], package: Path, tmp_path: Path
) -> None:
    release(runs[::-1], tmp_path / "again", onnxruntime_web=package)
    for path in released.iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes(), path.name


@pytest.mark.slow
def test_exports_are_there_or_refused_with_the_reason(released: Path) -> None:
    translator, classifier = Index.model_validate_json((released / INDEX).read_bytes()).models
    assert [export.to for export in translator.exports] == ["ctranslate2", "onnx", "argos", "browser"]
    assert translator.refused == {}
    assert [export.to for export in classifier.exports] == ["onnx"]
    assert list(classifier.refused) == ["ctranslate2", "argos", "browser"]
    assert all("is for translators" in reason for reason in classifier.refused.values())


@pytest.mark.slow
def test_what_is_released_can_be_fetched_with_its_card(
    released: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRAGOMAN_MODELS", str(released))
    for name in ("tiny-en-de", "tiny-reviews"):
        succeed("get", name)
        card = (tmp_path / "runs" / name / "README.md").read_bytes()
        assert card == (released / f"{name}.md").read_bytes()
        assert f'.load("runs/{name}")'.encode() in card


@pytest.mark.slow
def test_the_card_has_licence_scores_with_intervals_and_robustness(released: Path) -> None:
    card = (released / "tiny-en-de.md").read_text(encoding="utf-8")
    assert 'license: "mit"' in card
    assert "## Licence\n\nMIT, as the text" in card
    assert "| BLEU | 31.1 | 29.8 – 32.4 | nrefs:1 |" in card
    assert "| test (robustness) | capitals | 300 | 7.2 | 33.3 | 64.6 | 1.0 | 0.0 | 0.0 | – |" in card


@pytest.mark.parametrize(
    ("files", "name", "on_hub", "said"),
    [
        (["tatoeba-en-de/train.en.gz", "tatoeba-en-de/train.de.gz"], "CC BY 2.0 FR", "cc-by-2.0", "Tatoeba"),
        (["imdb/train.tsv.gz"], "none stated", "unknown", "No licence is stated for the text"),
        (["mine.en", "mine.de"], "unknown", "unknown", "is not known"),
    ],
)
def test_the_licence_is_that_of_the_text(
    runs: list[Run], files: list[str], name: str, on_hub: str, said: str
) -> None:
    run = runs[0]
    data = run.config.data.model_copy(update={"train": tuple(files)})
    other = Run(run.path, run.config.model_copy(update={"data": data}))
    licence = licence_of_run(other)
    assert (licence.name, licence.on_hub) == (name, on_hub)
    assert said in model_card(other, terms=licence.terms)


def test_text_of_several_licences_gives_all_of_them(runs: list[Run]) -> None:
    run = runs[0]
    tatoeba = ("tatoeba-en-de/train.en.gz", "tatoeba-en-de/train.de.gz")
    data = run.config.data.model_copy(update={"train": (tatoeba, ("phrasebook:train",))})
    licence = licence_of_run(Run(run.path, run.config.model_copy(update={"data": data})))
    assert (licence.name, licence.on_hub) == ("CC BY 2.0 FR + MIT", "other")
    assert all(LICENCES[name].terms in licence.terms for name in ("CC BY 2.0 FR", "MIT"))


def test_the_first_score_of_each_test_set_is_the_main_one(runs: list[Run]) -> None:
    (score,) = main_scores(runs[0])
    assert (score.test_set, score.metric, score.value, score.interval) == (
        "test",
        "BLEU",
        31.07,
        (29.8, 32.4),
    )
    assert main_scores(runs[1]) == []


def test_neither_times_nor_order_nor_rights_change_an_archive(tmp_path: Path) -> None:
    packed = []
    for i, order in enumerate([("a", "b"), ("b", "a")]):
        file = tmp_path / f"file-{i}"
        file.write_bytes(b"content")
        file.chmod(0o600 + 0o77 * i)
        os.utime(file, (i * 10**9, i * 10**9))
        contents = dict.fromkeys(order, str(file)) | {"c": b"given"}
        folder = tmp_path / str(i)
        folder.mkdir()
        packed.append((pack(contents, "run", folder), (folder / "run.tar.gz").read_bytes()))
    assert packed[0] == packed[1]


def test_a_folder_of_something_else_is_not_replaced(runs: list[Run], tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(RunError, match="holds something else than models"):
        release(runs, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_two_runs_of_one_name_are_refused(runs: list[Run], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="two runs have the same name"):
        release([runs[0], runs[0]], tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_package_ends_a_release_and_leaves_the_old_one(
    runs: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / INDEX).write_text("old")
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(MissingExtraError, match="ctranslate2"):
        release(runs, out)
    assert [(path.name, path.read_text()) for path in out.iterdir()] == [(INDEX, "old")]


@pytest.mark.slow
def test_a_recipe_is_trained_published_and_fetched(
    tiny_run: Path,
    package: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With a recipe of a second in place of one of hours."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(tiny_run, "recorded")
    succeed("evaluate", "recorded")
    recipe = Recipe(tmp_path / "tiny-recipe")
    recipe.folder.mkdir()
    (recipe.folder / "recipe.toml").write_text(to_toml(Run.open("recorded").config), encoding="utf-8")
    record(recipe, "full", [Path("recorded")])
    command = ["tool", str(recipe.folder), "--onnxruntime-web", str(package)]
    monkeypatch.setattr(sys, "argv", command)
    main()
    assert capsys.readouterr().out.endswith(
        "next: dragoman models --from dist/models; then copy the folder to a server of static files\n"
    )
    name = recipe.name
    (model,) = json.loads(succeed("models", "--from", "dist/models", "--json").stdout)
    assert (model["name"], model["scores"][0]["metric"]) == (name, "BLEU")
    assert "(robustness)" in (tmp_path / "dist" / "models" / f"{name}.md").read_text(encoding="utf-8")


def test_a_run_whose_scores_are_not_as_expected_is_not_published(
    runs: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(runs[1].path, "runs/imdb")
    Run.open("runs/imdb").write_json("reproduction.json", {"passed": False})
    monkeypatch.setattr(sys, "argv", ["tool", "imdb"])
    with pytest.raises(SystemExit, match=r"error: runs/imdb: not published, .* reproduction.json in it"):
        main()
    assert not Path("dist").exists()


def test_by_default_it_trains_what_is_worth_publishing(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = []
    monkeypatch.setattr(release_models, "finished_run", lambda *names: trained.append(names))
    monkeypatch.setattr(release_models, "release", lambda runs, out, **options: Index(format=1, models=()))
    monkeypatch.setattr(sys, "argv", ["tool", "--quick"])
    main()
    assert trained == [("tatoeba-many", "quick"), ("imdb", "quick")]
