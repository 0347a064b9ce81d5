"""The seam of the tasks: everything that a task owns is reached through one interface."""

from dataclasses import fields
from pathlib import Path

import pytest

from dragoman import config
from dragoman.data.named import open_text
from dragoman.errors import ConfigError
from dragoman.tasks import TASKS, config_for, task_named
from dragoman.tasks.request import EvaluationRequest
from tiny import write_corpus


def test_an_option_of_another_task_is_refused_by_name_and_a_default_is_not() -> None:
    given = {"src": "a", "ref": "b", "file": "c", "text_column": 0, "label_column": 1,
             "beam_size": 2, "length_penalty": 0.5, "coverage_penalty": 0.1, "no_repeat_ngram": 3,
             "batch_sentences": 8, "robustness": True, "to": "de", "ensemble": (Path("run"),),
             "scores": ("comet=file",)}  # fmt: skip
    for name in TASKS:
        task = task_named(name)
        task.check(EvaluationRequest())
        assert set(task.foreign) <= given.keys() <= {field.name for field in fields(EvaluationRequest)}
        for option in given.keys() - set(task.foreign):
            task.check(EvaluationRequest(**{option: given[option]}))
        for option in task.foreign:
            with pytest.raises(ConfigError, match=f"--{option.replace('_', '-')}: not for a {task.noun}"):
                task.check(EvaluationRequest(**{option: given[option]}))


def test_config_for_takes_files_says_what_was_chosen_and_overrides_win(tmp_path: Path) -> None:
    write_corpus(tmp_path, "text", 40, seed=1)
    src, tgt = (str(tmp_path / f"text.{language}") for language in ("en", "de"))
    said: list[str] = []
    chosen = config_for(src=src, tgt=tgt, overrides=["training.max_steps=7"], say=said.append)
    assert chosen == config_for(src=[src], tgt=[tgt], overrides=["training.max_steps=7"])
    assert len(said) == 1
    assert said[0].startswith("40 pairs, en → de (as the files say): ")
    assert " 7 steps (about " in said[0]
    twice = config_for(src=[src, src], tgt=[tgt, tgt], valid_src=src, valid_tgt=tgt)
    assert list(twice.data.train) == [(src, tgt), (src, tgt)]
    assert twice.data.valid
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(config.to_toml(chosen))
    assert config_for(recipe) == chosen
    with pytest.raises(ConfigError, match="is a recipe for translation; leave --task away"):
        config_for(recipe, task="classification")


def test_numbers_of_columns_are_not_guessed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By number the first two columns are meant, though others are called what is usual."""
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"a{n % 2},b{n},c{n},d{n}\n" for n in range(60))
    Path("pairs.csv").write_text(f"mt,pe,source,target\n{rows}", encoding="utf-8")
    Path("texts.csv").write_text(f"topic,words,text,label\n{rows}".replace("a", "x"), encoding="utf-8")
    pairs = config_for("pairs.csv", columns=(0, 1), src_lang="en", tgt_lang="de")
    assert pairs.task == "translation"
    assert next(iter(open_text(pairs.data, pairs.data.train).pairs())) == ("a0", "b0")
    texts = config_for("texts.csv", task="classification", text_column=1, label_column=0)
    assert texts.task == "classification"
    assert (texts.data.text_column, texts.data.label_column) == ("words", "topic")
