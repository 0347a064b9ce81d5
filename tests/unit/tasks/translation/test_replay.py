"""A run goes on to other text, and a share of its old text is read again: `train --from RUN --replay 0.2`."""

import re
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from commands import error_of, succeed
from dragoman.config import TranslationConfig, parse_config
from dragoman.data.named import open_training, open_validation
from dragoman.data.records import Pair, has_text
from dragoman.errors import ConfigError
from dragoman.predict.model import translation_config
from dragoman.runs import Run
from dragoman.tasks import config_for
from dragoman.tasks.translation.text import TrainingText
from dragoman.text.tokenizer import TokenizerPair
from sharing import made_once
from tiny import TRAINING, write_corpus

REPLAY = ("train", "--tsv", "new.tsv", "--from", "start", "--replay", 0.2, "--out", "on")


@pytest.fixture
def replayed(
    trained: Path, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """What a training said that goes on with replay, in a copy of its folder, the working directory."""

    def make(folder: Path) -> None:
        shutil.copytree(trained, folder, dirs_exist_ok=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            Path("said").write_text(succeed(*REPLAY, *TRAINING).stderr, encoding="utf-8")

    monkeypatch.chdir(shutil.copytree(made_once(tmp_path_factory, "replayed", make), tmp_path / "there"))
    return Path("said").read_text(encoding="utf-8")


def validated(run: str) -> dict[str, list[Pair]]:
    """The validation pairs of a run, by the name that they have in its log."""
    parts = open_validation(translation_config(Run.open(run)))
    return {part.name: [*filter(has_text, part.corpus.pairs())] for part in parts}


def trained_ids(config: TranslationConfig, run: Path) -> set[tuple[int, ...]]:
    """Every source in the token stores that a training of `config` reads, as ids."""
    text = TrainingText(config, open_training(config)[0], run / "cache" / "train")
    text.prepare(TokenizerPair.load(run / "tokenizer"))
    store = text.open(0)
    return {tuple(store.src(i).tolist()) for i in range(len(store))}


def ids(run: Path, pairs: Iterable[Pair]) -> set[tuple[int, ...]]:
    tokenizer = TokenizerPair.load(run / "tokenizer").src
    return {tuple(tokenizer.encode(pair.src)) for pair in pairs}


@pytest.mark.slow
def test_pairs_that_a_run_has_held_out_are_never_trained_on_when_it_goes_on(replayed: str) -> None:
    old, new = validated("start")["en-de"], validated("on")
    assert len(old) == 23
    assert {pair.src for pair in new["replay"]} == {pair.src for pair in old}
    assert list(new) == ["new", "replay"], "the text that chooses comes first"
    run = Run.open("on")
    learnt = {src[:-1] for src in trained_ids(translation_config(run), run.path)}  # without the end token
    assert not learnt & ids(run.path, [*old, *new["new"]])
    everything = [Pair(*line.split("\t")) for line in Path("new.tsv").read_text("utf-8").splitlines()]
    fresh = ids(run.path, (pair for pair in everything if pair not in (*old, *new["new"])))
    assert fresh <= learnt, "all else of the new text is trained on"
    assert "20.0 % of the mix" in replayed
    assert "80.0 % of the mix" in replayed


@pytest.mark.slow
def test_both_texts_are_scored_and_drawn_and_the_new_one_chooses(replayed: str) -> None:
    run = Run.open("on")
    records = [record for record in run.history() if record["kind"] == "valid"]
    assert records
    for record in records:
        for key in ("bleu", "chrf", "valid_loss"):
            assert record[key] == record[f"{key} new"]
        assert "old_bleu" not in record, "it is that of replay"
        assert record["bleu replay"] >= 0
    assert records[0]["valid_loss replay"] != records[0]["valid_loss new"]
    drawn = (run.path / "curves.svg").read_text("utf-8")
    assert 'id="bleu replay"' in drawn
    assert 'id="valid_loss replay"' in drawn
    succeed("evaluate", "on", "--split", "valid")
    names = re.findall('"name": "(valid.*)"', (run.path / "scores.json").read_text())
    assert names == ["valid new (en-de)", "valid replay (en-de)"]
    shutil.copytree("on", "other")
    compared = succeed("compare", "on", "other").stdout
    assert "valid new: " in compared
    assert "valid replay: " in compared


def test_a_run_with_validation_files_is_replayed_with_them(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path, "new", 60, seed=9)
    config = config_for(tsv="new.tsv", start=tiny_run, replay=0.25)
    assert config.task == "translation"
    old = translation_config(Run.open(tiny_run)).data
    replay, new = config.data.corpora
    assert (replay.files, replay.valid, replay.n_held_out) == (old.train, old.valid, 0)
    assert (new.files, new.valid) == (("new.tsv",), ())
    assert config.data.stages[0].mix == {"replay": 0.25, "new": 0.75}
    assert config.data.choose_by == "new"
    assert parse_config(config.model_dump()) == config


REFUSED = {
    "a recipe": (["recipe.toml", "--from", "start"], "--replay goes with --from RUN and new files"),
    "labels": (["new.tsv", "--task", "classification"], "--replay is for translators"),
    "gone": (["--tsv", "new.tsv", "--from", "gone"], "--replay: the text of gone is not here: .*gone.en"),
    "changed": (["--tsv", "new.tsv", "--from", "changed"], "--replay: changed.en changed since changed was"),
    "imported": (["--tsv", "new.tsv", "--from", "imported"], "imported names no training text"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_replayed_is_said_in_one_line(there: Path, name: str) -> None:
    options, message = REFUSED[name]
    if name in ("gone", "changed", "imported"):
        shutil.copytree("start", name)
        shutil.copy("train.en", "changed.en")
        for file in (Path(name, "config.toml"), Path(name, "corpora.json")):
            file.write_text(file.read_text("utf-8").replace("train.en", f"{name}.en"), encoding="utf-8")
        with Path("changed.en").open("a", encoding="utf-8") as file:
            file.write("one more\n")
    if name == "imported":
        config = Path(name, "config.toml")
        text = re.sub(r"train = \[.*?\n\]\n", "train = []\n", config.read_text("utf-8"), flags=re.DOTALL)
        config.write_text(text.replace('kind = "bpe"', 'kind = "pieces"'), encoding="utf-8")
    assert re.search(message, error_of("train", *options, "--replay", 0.2))
    assert not Path("runs").exists()


def test_a_run_of_several_corpora_is_not_replayed(tiny_many: Path, tmp_path: Path) -> None:
    write_corpus(tmp_path, "new", 60, seed=9)
    with pytest.raises(ConfigError, match="--replay: is for one direction and a run of one corpus"):
        config_for(tsv=str(tmp_path / "new.tsv"), start=tiny_many, replay=0.25)
