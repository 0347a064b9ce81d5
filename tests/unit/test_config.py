"""Settings: strict, all mistakes at once, written and read back without loss."""

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import pytest
from pydantic import BaseModel

import dragoman.config
from dragoman.config import (
    ClassificationConfig,
    SearchConfig,
    TranslationConfig,
    load_recipe,
    parse_config,
    to_toml,
)
from dragoman.errors import ConfigError
from dragoman.serving.access import KeyConfig
from dragoman.serving.settings import ServeConfig

SMALL: dict[str, Any] = {
    "name": "small",
    "data": {"src_lang": "en", "tgt_lang": "de", "train": ["train.en", "train.de"]},
}


def parse(*overrides: str, **sections: dict[str, Any]) -> TranslationConfig:
    settings = {key: SMALL.get(key, {}) | values for key, values in sections.items()}
    return parse_config(SMALL | settings, overrides=overrides)


def sections(model: type[BaseModel] = TranslationConfig) -> list[type[BaseModel]]:
    nested = [field.annotation for field in model.model_fields.values()]
    return [
        model,
        *(
            s
            for part in nested
            if isinstance(part, type) and issubclass(part, BaseModel)
            for s in sections(part)
        ),
    ]


def test_toml_gives_the_configuration_back(tmp_path: Path) -> None:
    some = parse(
        "training.betas=[0.9, 0.99]", "data.columns=[2, 1]", 'data.test.news=["a.tsv"]',
        "tokenizer.shared=false", "model.tie_embeddings=output", 'name="other"',
    )  # fmt: skip
    several = parse('data.train=[["a.en", "a.de"], ["b.tmx"]]', 'data.valid=[["v.tsv"]]')
    assert list(several.data.files()) == [
        ("train", ("a.en", "a.de")), ("train", ("b.tmx",)), ("valid", ("v.tsv",)),
    ]  # fmt: skip
    assert parse().data.train == ("train.en", "train.de"), "one corpus is itself"
    path = tmp_path / "config.toml"
    for config in (some, several, parse()):
        path.write_text(to_toml(config), encoding="utf-8")
        assert load_recipe(path) == config


def numbers(annotation: Any, metadata: Sequence[Any]) -> Iterator[list[Any]]:
    """The bounds of each number that a setting holds."""
    if get_origin(annotation) is Annotated:
        kind, *more = get_args(annotation)
        yield from numbers(kind, [*metadata, *(m for one in more for m in getattr(one, "metadata", [one]))])
    elif annotation in (int, float):
        yield list(metadata)
    elif annotation != dragoman.config.Column:  # a number that is too large is a column that is not there
        for part in get_args(annotation):
            yield from numbers(part, [])


def test_every_number_has_a_lower_and_an_upper_bound_that_is_finite() -> None:
    n_numbers = 0
    recipes = (TranslationConfig, ClassificationConfig, ServeConfig, KeyConfig)
    for section in {s for recipe in recipes for s in sections(recipe)}:
        for name, field in section.model_fields.items():
            for bounds in numbers(field.annotation, field.metadata):
                ends = {
                    end: getattr(b, end)
                    for b in bounds
                    for end in ("ge", "gt", "le", "lt")
                    if hasattr(b, end)
                }
                assert len(ends) == 2, f"{section.__name__}.{name}: {ends}"
                assert len({"ge", "gt"} & ends.keys()) == 1, f"{section.__name__}.{name}"
                assert all(math.isfinite(end) for end in ends.values())
                n_numbers += 1
    assert n_numbers > 60


def test_what_single_precision_cannot_hold_is_refused() -> None:
    for name in ("search.temperature", "search.top_p", "model.norm_eps", "training.eps"):
        for value in ("nan", "-inf", "1e39", "1e-60", "9" * 400):
            with pytest.raises(ConfigError, match=re.escape(f"{name} = ")):
                parse(f"{name}={value}")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.n_head=2", r"model\.n_head is not a setting; did you mean model\.n_heads\?"),
        ("distillation.teacher=runs/big", r"\[distillation\] lets other runs write the text"),
        ("modell.n_heads=2", r"modell is not a setting; did you mean model\?"),
        ("d_model=32", r"^--set: d_model is not a setting; did you mean model\.d_model\?$"),
        ("dropout=0.1", r"did you mean tokenizer\.dropout or model\.dropout\?"),
        ("training.lr=1e-3", r"training\.lr is not a setting; did you mean training\.learning_rate\?"),
        ("model.layers=2", r"did you mean model\.n_decoder_layers or model\.n_encoder_layers\?"),
        ("model.d_model=wide", r"model\.d_model = 'wide': input should be a valid integer"),
        ("model.dropout=1.0", r"model\.dropout = 1\.0: input should be less than or equal to 0\.99"),
        ("seed=" + "[" * 50_000, r"seed"),
        ("seed=" + "9" * 5000, r"seed"),
        ("name.first=3", r"--set name\.first=3: name\.first is not a setting"),
        *(
            (override, f"--set {override}: is not of the form section.key=value")
            for override in ("seed", "=3", "model.=3", "")
        ),
        *(
            (f"data.train={value}", r"data\.train: .* is (not a list of files|neither a list of files nor)")
            for value in ('"a.tsv"', '["a.en", ["b.tsv"]]', "[[3]]")
        ),
    ],
    ids=lambda value: value[:30],
)
def test_an_unknown_setting_or_a_wrong_value_is_refused(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(override)


REVIEWS = {"name": "reviews", "task": "classification"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (REVIEWS | {"data": {"train": [["a.tsv"], ["b.tsv"]]}}, r"data: train: labelled text is one file"),
        (REVIEWS | {"data": {"train": ["a.tsv"]}, "training": {"sharding": "full"}},
         r"training\.sharding = 'full': input should be 'none'"),
        ({"data": {"src_lang": "en", "train": ["a.tsv"]}}, r"name is missing.*data\.tgt_lang is missing"),
        *(({"name": "small", "data": {"train": ["train.tsv"], "directions": directions}}, r"data\.directions")
          for directions in (3, [3])),
    ],
)  # fmt: skip
def test_a_recipe_without_what_it_needs_or_with_what_its_task_has_not_is_refused(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_config(settings)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["model.n_heads=3"], r"model: d_model = 256 is not a multiple of n_heads = 3"),
        (["model.d_model=9", "model.n_heads=3"],
         r"d_model = 9 is odd; sinusoidal positions need an even width"),
        (["tokenizer.shared=false"], r'model\.tie_embeddings = "all" needs tokenizer\.shared = true; '
         r'for two vocabularies set model\.tie_embeddings = "output"'),
        (["data.max_length=600"], r"data\.max_length = 600 is more than model\.max_positions = 512"),
        (["tokenizer.kind=unigram", "tokenizer.dropout=0.1"],
         r'dropout is for kind = "bpe"; set dropout = 0\.0'),
        (["training.optimizer=muon", "training.sharding=full"], r"does not go with sharding"),
        (["training.cutoff=0.1"], r"cutoff hides tokens from the second of two passes"),
        (["tokenizer.vocab_size=100"], r"vocab_size = 100 leaves no room beside 256 byte tokens"),
        (['tokenizer.tgt_kind="characters"'], r"tgt_kind = \"characters\" needs a vocabulary of its own"),
        (["tokenizer.format_output=true"], r"format_output are for kind = \"words\""),
        (['tokenizer.kind="words"', 'tokenizer.splitter="spacy"'], r"set tokenizer\.shared = false"),
        (["tokenizer.min_frequency=2"], r"min_frequency is for kind = \"words\" or \"characters\""),
        (['task="parsing"'], r"task = 'parsing': there are translation, classification"),
        (["search.n_best=6"], r"n_best = 6 needs a beam at least as large; beam_size = 5"),
        (["data.train=[]"], r'train names no file: train = \["train\.en", "train\.de"\]'),
        (['data.train=["a", "b", "c"]'], r"a corpus is two aligned files or one file with both sides"),
        (["data.test.news=[]"], r"news: a corpus is two aligned files or one file with both sides"),
    ],
)  # fmt: skip
def test_settings_that_contradict_one_another_are_refused(overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(*overrides)


def test_a_problem_is_laid_to_the_recipe_or_to_the_overrides() -> None:
    """All are in one message, which names the source of a setting: the file, or the command line."""
    wrong = SMALL | {"seed": -1, "model": {"n_heads": 3}}
    said = r"^recipe\.toml: seed = -1: .*; model: d_model = 256 is not a multiple of n_heads = 3"
    with pytest.raises(ConfigError, match=said + r"; --set: training\.max_steps = 0: "):
        parse_config(wrong, overrides=["training.max_steps=0", "model.d_ff=8"], where="recipe.toml")
    with pytest.raises(ConfigError, match=r"^--set noequals: .*model\.d_modell is .*; search\.beam_"):
        parse("model.d_modell=1", "search.beam_size=x", "noequals")
    with pytest.raises(ConfigError, match=r"^--set: model: d_model = 128 is not a multiple of n_heads = 5$"):
        parse_config(SMALL, overrides=["model.n_heads=5", "model.d_model=128"], where="recipe.toml")
    with pytest.raises(ConfigError, match=r"^--set: task = 'parsing': there are"):
        parse_config(SMALL, overrides=["task=parsing"], where="recipe.toml")


def test_an_override_wins_and_reads_values_as_toml_does() -> None:
    config = parse(
        "model.d_model = 128", "training.learning_rate=1e-3", "tokenizer.kind=unigram", "data.tgt_lang=no",
        'data.valid=["v.tsv"]', model={"d_model": 64},
    )  # fmt: skip
    assert config.model.d_model == 128
    assert config.training.learning_rate == 1e-3
    assert config.tokenizer.kind == "unigram"
    assert config.data.tgt_lang == "no"
    assert config.data.valid == ("v.tsv",)


def test_a_recipe_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    for content, message in (
        (None, r"cannot be read \(No such file or directory\); give the path of a TOML file$"),
        (b'name = "\xff"', "is not UTF-8 text, as a TOML file is$"),
        (b"name: small", "is not valid TOML: .*line 1"),
        (b'name = "small"', "data is missing"),
    ):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(ConfigError, match=rf"recipe\.toml: {message}"):
            load_recipe(path)


def test_settings_that_say_nothing_new_leave_the_search_as_it_is() -> None:
    own = SearchConfig(beam_size=4, n_best=2)
    assert own.changed({"beam_size": 4, "n_best": None}, where="here") == own
    assert own.changed({"beam_size": 1}, where="here") == SearchConfig(beam_size=1, n_best=1)
    for wrong in ({"beam_size": 4.0}, {"beams": None, "beam": 4}, {"recase": 1}):  # equal, or unknown
        with pytest.raises(ConfigError):
            own.changed(wrong, where="here")
