"""Trainings on several corpora, in several directions."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from commands import error_of, succeed
from dragoman.config import TranslationConfig, parse_config
from dragoman.data.corpora import open_corpus
from dragoman.data.named import listed_texts, open_direction, open_training
from dragoman.errors import ConfigError, DataError
from dragoman.predict.model import translation_config
from dragoman.predict.translator import Translator
from dragoman.runs import Run, saved_scores
from dragoman.tasks.training import train
from dragoman.tasks.translation.text import TrainingText
from dragoman.text.tokenizer import TokenizerPair
from dragoman.text.vocabulary import SYNTHETIC
from tiny import TINY, write_corpus, write_many


def parsed(settings: dict[str, Any], *overrides: str) -> TranslationConfig:
    config = parse_config(settings, overrides=(*TINY, *overrides))
    assert config.task == "translation"
    return config


def config_of(folder: Path, *overrides: str) -> TranslationConfig:
    return parsed(write_many(folder), *overrides)


def test_each_direction_is_validated_and_the_mean_is_what_counts(tiny_many: Path) -> None:
    history = Run.open(tiny_many).history()
    for record in (r for r in history if r["kind"] == "valid"):
        for score in ("bleu", "chrf", "valid_loss"):
            own = {name: record[f"{score} {name}"] for name in ("en-de", "de-en", "en-fr")}
            assert record[score] == pytest.approx(sum(own.values()) / 3)
            assert score != "bleu" or own[record["worst"]] == min(own.values())
    last = [r for r in history if r["kind"] == "train"][-1]
    assert last["passes large en-de"] == last["passes back en-de"] > 0, "one direction, equal weights"
    assert last["passes few en-fr"] > last["passes large en-de"], "temperature favours the small"
    assert "passes large de-en" in last


def test_sources_have_the_token_of_their_target_and_synthetic_ones_one_more(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    text = TrainingText(config, open_training(config)[0], tmp_path / "cache")
    marks = ["<2de>", "<2en>", "<2fr>", SYNTHETIC]
    tokenizers = TokenizerPair.train(text.sample(), config.tokenizer, marks=marks)
    text.prepare(tokenizers)
    store = text.open(0)
    names = {text.mix.parts[stretch.part].name for stretch in text.mix.epoch(0)}
    assert names == {part.name for part in text.mix.parts}
    for part, start in zip(text.mix.parts, store.starts[:-1], strict=True):
        pieces = [tokenizers.src.pieces()[i] for i in store.src(int(start))[:2]]
        expected = [SYNTHETIC] * (part.corpus == "back") + [f"<2{part.direction[1]}>"]
        assert pieces[: len(expected)] == expected, part.name


def test_a_translator_of_several_targets_asks_which(tiny_many: Path) -> None:
    translator = Translator.load(tiny_many, device="cpu", precision="fp32")
    with pytest.raises(ConfigError, match="say --to LANGUAGE"):
        translator.translate(["a red cat"])
    with pytest.raises(ConfigError, match="--to pl: is no direction"):
        translator.translate(["a red cat"], to="pl")
    german, french = (translator.translate(["red cat"], to=to)[0] for to in ("de", "fr"))
    assert translator.towards("en-de").translate(["red cat"])[0].text == german.text
    assert german.score != french.score, "the reserved token is read"
    assert translator.towards("de-fr").directions == (("de", "fr"),), "zero-shot"
    assert translator.towards("en").directions == (("de", "en"),)


@pytest.mark.slow
def test_a_direction_alone_is_a_run_of_one(tmp_path: Path) -> None:
    run = Run.open(train(config_of(tmp_path, 'data.directions=["de-en"]'), tmp_path / "run"))
    assert TokenizerPair.load(run.tokenizer_folder).src.marks.keys() == {SYNTHETIC}
    assert "bleu de-en" not in run.history()[-1]
    assert Translator.load(run.path).directions == (("de", "en"),)


def test_both_directions_hold_out_the_same_pairs(tmp_path: Path) -> None:
    settings = write_many(tmp_path)
    for corpus in settings["data"]["corpora"]:
        corpus.pop("valid", None)
    config = parsed(settings)
    parts, valid = open_training(config)
    texts = {part.direction: part.corpus for part in valid}
    forth, back = ([tuple(pair) for pair in texts[d].pairs()] for d in (("en", "de"), ("de", "en")))
    assert sorted(forth) == sorted((tgt, src) for src, tgt in back)
    assert len(forth) in range(1, 11)
    large = [part.corpus for part in parts if part.listed and part.listed.name == "large"]
    trained = {tuple(pair) for corpus in large for pair in corpus.pairs()}
    assert not trained & ({*forth} | {*back})


def test_what_is_held_out_of_one_corpus_is_trained_on_in_no_other(tmp_path: Path) -> None:
    settings = write_many(tmp_path)
    large = settings["data"]["corpora"][0] | {"both_ways": False}
    del large["valid"], large["test"]
    write_corpus(tmp_path, "half", 100, seed=200)  # the first half of the other one
    half = large | {"name": "half", "files": [str(tmp_path / "half.tsv")]}
    settings["data"]["corpora"] = [large, half]
    config = parsed(settings)
    parts, (valid,) = open_training(config)
    held_out = {pair.src for pair in valid.corpus.pairs()}
    assert held_out & {pair.src for pair in open_corpus(half["files"], src_lang="en", tgt_lang="de").pairs()}
    for part in parts:
        assert not held_out & {pair.src for pair in part.corpus.pairs()}


def test_synthetic_text_is_never_held_out(tmp_path: Path) -> None:
    settings = write_many(tmp_path)
    corpora = settings["data"]["corpora"]
    settings["data"]["corpora"] = [corpora[2], corpora[1]]
    why = "en-de: has no text to validate on, for synthetic pairs are not held out"
    with pytest.raises(DataError, match=why):
        open_training(parsed(settings))


@pytest.mark.slow
def test_a_run_of_one_direction_goes_on_in_several(tiny_run: Path, tmp_path: Path) -> None:
    config = config_of(tmp_path, f"training.start_from={tiny_run}")
    run = Run.open(train(config, tmp_path / "run"))
    old, new = (TokenizerPair.load(one / "tokenizer").src.pieces() for one in (tiny_run, run.path))
    assert new == [*old, "<2de>", "<2en>", "<2fr>", SYNTHETIC]


def turned(folder: Path, **change: Any) -> dict[str, Any]:
    """A recipe of one direction that reads its one corpus both ways."""
    settings = write_many(folder)
    large = settings["data"]["corpora"][0] | {"both_ways": False, "valid": []}
    back = {"name": "turned", "files": large["files"], "langs": ["en", "de"], "origin": "reversed"}
    settings["data"] = {"corpora": [large, back | change], "n_held_out": 10}
    return settings


def test_text_that_is_turned_round_trains_the_same_model(tmp_path: Path) -> None:
    config = parsed(turned(tmp_path))
    assert config.directions == (("en", "de"),)
    parts, (valid,) = open_training(config)
    pairs = [[tuple(pair) for pair in part.corpus.pairs()] for part in parts]
    held_out = {tuple(pair) for pair in valid.corpus.pairs()}
    assert [part.direction for part in parts] == [("en", "de"), ("de", "en")]
    assert 0 < len(held_out) <= 10
    assert not held_out & {*pairs[0]}
    assert [(tgt, src) for src, tgt in pairs[0]] == pairs[1], "it is not learnt the other way, either"
    assert [tuple(pair) for pair in open_direction(config)[0].pairs()] == pairs[0], "as it stands"
    assert [*listed_texts(config)] == ["train.large", "test.news.large"], "it is checked once"

    run = Run.open(train(config, tmp_path / "run"))
    assert not TokenizerPair.load(run.tokenizer_folder).src.marks
    assert {"passes large en-de", "passes turned de-en"} <= run.history()[0].keys()


def test_no_side_of_held_out_text_is_trained_on(tmp_path: Path) -> None:
    settings = turned(tmp_path)
    for name, lines in {
        "news": "A red cat!\teine rote Katze\nan old dog\tHund\nbirds\tVögel\n",
        "extra": "a  RED cat\tx\nsome dog\thund.\nwolves\tWölfe\n",
    }.items():
        (tmp_path / f"{name}.tsv").write_text(lines, encoding="utf-8")
    corpora = settings["data"]["corpora"]
    corpora[0] |= {"test": {"news": [f"{tmp_path}/news.tsv"]}, "valid": [f"{tmp_path}/valid.tsv"]}
    corpora += [{"name": "extra", "files": [f"{tmp_path}/extra.tsv"], "langs": ["en", "de"]}]
    corpora += [corpora[2] | {"name": "back", "origin": "reversed"}]
    config = parsed(settings, "data.drop_overlap=true")
    parts, _ = open_training(config)
    extra = {part.listed.name: part.corpus for part in parts if part.listed}
    assert [*extra["extra"].pairs()] == [("wolves", "Wölfe")]
    assert [*extra["back"].pairs()] == [("Wölfe", "wolves")]
    (note,) = extra["extra"].notes()
    assert note.endswith("left out 2 of 3 pairs: a side is held out")
    assert ("wolves", "Wölfe") in [*open_direction(config)[0].pairs()]
    assert ("a  RED cat", "x") not in [*open_direction(config)[0].pairs()]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "corpora and train": ({"train": ["a.tsv"]}, "data.corpora has files, valid, test and columns of its own"),
    "an unknown direction": ({"directions": ["en-it"]}, "no corpus trains any of the directions"),
    "a target that is not trained": ({"directions": ["en-de", "en-it"]}, "no corpus trains 'it' as in en-it"),
    "zero-shot first": ({"directions": ["de-fr", "en-de", "en-fr", "de-en"]}, "de-fr comes first"),
    "a stage of another corpus": ({"stages": [{"mix": {"x": 1.0}}]}, "x is no corpus with files"),
    "a stage of a corpus that is left out": (
        {"directions": ["en-de"], "stages": [{"mix": {"few": 1.0}}]},
        "few trains none of the directions; leave it out of the mix",
    ),
    "a stage without end": ({"stages": [{"mix": {"few": 1.0}}] * 2}, "all but the last need an end"),
    "a choice among directions": ({"choose_by": "large"}, "choose_by is for one direction"),
    "text that is turned round for a model of both ways": (
        {"corpora": [{"name": "a", "files": ["a.tsv"], "langs": ["en", "de"], "both_ways": True},
                     {"name": "b", "files": ["b.tsv"], "langs": ["en", "de"], "origin": "reversed"}]},
        'b: origin = "reversed" is for a model of one direction',
    ),
    "a choice by nothing": (
        {"choose_by": "back", "directions": ["en-de"]},
        r"choose_by = 'back' has no validation text; there are \['large', 'few'\]",
    ),
    "an unknown end": ({"stages": [{"mix": {"few": 1.0}, "until": "soon"}]}, 'until = "soon"'),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_contradicts_itself_is_refused(tmp_path: Path, name: str) -> None:
    settings = write_many(tmp_path)
    change, message = REFUSED[name]
    settings["data"] |= change
    with pytest.raises(ConfigError, match=message):
        parse_config(settings)


def test_text_cannot_be_turned_round_where_it_would_not_help(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='origin = "reversed" does not go with both_ways'):
        parsed(turned(tmp_path, both_ways=True))
    with pytest.raises(ConfigError, match="needs one vocabulary for both languages"):
        parsed(turned(tmp_path), "tokenizer.shared=false", "model.tie_embeddings=output")


@pytest.mark.slow
def test_files_in_several_languages_are_corpora_of_one_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path, "a", 100, seed=1)
    write_corpus(tmp_path, "b", 50, seed=2)
    (tmp_path / "b.de").rename(tmp_path / "b.fr")
    files = ["--src", "a.en", "--tgt", "a.de", "--src", "b.en", "--tgt", "b.fr"]
    settings = [f"--set={one}" for one in TINY]
    mix = ("--both-ways", "--mix", "a=3", "--mix", "b=1")
    result = succeed("train", *files, *mix, "--out", "run", *settings)
    assert "300 pairs, en ↔ de, en ↔ fr (as the files say)" in result.stderr
    assert "--to de" in result.stderr, "how it goes on"
    data = translation_config(Run.open("run")).data
    assert [(c.name, c.langs, c.both_ways) for c in data.corpora] == [
        ("a", ("en", "de"), True), ("b", ("en", "fr"), True)
    ]  # fmt: skip
    assert data.stages[0].mix == {"a": 3.0, "b": 1.0}
    assert "--mix c: is no corpus; there are a, b" in error_of("train", *files, "--mix", "c=1")
    assert "--mix a=x: give the name of a file and a share" in error_of("train", *files, "--mix", "a=x")
    more = succeed("train", "--from", "run", *files[:4], "--out", "more", *settings)
    assert "a en-de" in more.stderr
    assert translation_config(Run.open("more")).directions == (("en", "de"),)


@pytest.mark.slow
@pytest.mark.parametrize("until", ["1.001 epochs of large", "0.001 epochs"])
def test_an_epoch_without_a_pair_is_stepped_over(until: str, tmp_path: Path) -> None:
    """The rest of a stage that is shorter than a pair: 90 pairs are read 0.3 : 0.1 with 30 others."""
    settings = write_many(tmp_path)
    for name, n_pairs in {"train": 90, "back": 30}.items():
        write_corpus(tmp_path, name, n_pairs, seed=1)
    large, _, back = settings["data"]["corpora"]
    stages = [{"mix": {"large": 0.3, "back": 0.1}, "until": until}, {"mix": {"back": 1.0}}]
    settings["data"] = {"corpora": [large | {"both_ways": False}, back], "stages": stages}
    run = Run.open(train(parsed(settings, "training.max_steps=15"), tmp_path / "run"))
    (*_, last) = (record for record in run.history() if record["kind"] == "train")
    assert last["step"] == 15
    assert last["passes large en-de"] == pytest.approx(float(until.split()[0]), abs=1e-3)


def test_a_text_without_a_batch_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TrainingText, "plan", lambda *_: [])
    with pytest.raises(DataError, match="no batch in 100 epochs up to 100; check the lengths and shares of "):
        train(config_of(tmp_path), tmp_path / "run")


@pytest.mark.nightly
def test_a_student_learns_one_direction(tiny_many: Path, tmp_path: Path) -> None:
    settings = [f"--set={one}" for one in TINY if one.startswith("training.") and "max" not in one]
    arguments = ["distill", tiny_many, "--out", tmp_path / "student", "--preset", "small", "--min-chrf", "0"]
    assert "say --to LANGUAGE" in error_of(*arguments)
    arguments += ["--to", "en-fr", "--max-pairs", "40", "--set", "training.max_steps=2"]
    succeed(*arguments, *settings)
    assert Translator.load(tmp_path / "student").directions == (("en", "fr"),)


def test_scores_of_other_text_have_their_direction(tiny_many: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(tiny_many, tmp_path / "run"))
    write_corpus(tmp_path, "own", 4, seed=1)
    for to, other in (("de", "en"), ("en", "de")):
        files = ("--src", tmp_path / f"own.{other}", "--ref", tmp_path / f"own.{to}")
        succeed("evaluate", run, "--to", to, *files)
    names = [record["name"] for record in saved_scores(Run.open(run))]
    assert [name for name in names if name.startswith("own")] == ["own.en (en-de)", "own.de (de-en)"]
    assert "mean BLEU of 3" in succeed("evaluate", run).stderr
    assert "en ↔ de, en → fr" in succeed("show", run).stdout
