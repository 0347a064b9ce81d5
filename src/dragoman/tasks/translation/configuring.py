"""Configurations of translators from the files of a corpus and nothing else."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dragoman.config import (
    Config,
    ParallelText,
    TranslationConfig,
    parse_section,
    read_settings,
    usual_max_length,
)
from dragoman.data.named import changed_files, hashes_of, open_listed, open_text
from dragoman.data.readers.files import find_file, format_suffix
from dragoman.data.readers.formats import tmx_languages
from dragoman.data.readers.tables import check_format
from dragoman.data.records import has_text
from dragoman.errors import ConfigError, DataError
from dragoman.predict.model import translation_config
from dragoman.presets import ROBUST, fine_tuning_for, guess_language, preset_for, steps_per_pass
from dragoman.runs import Run
from dragoman.tasks.request import TrainingRequest
from dragoman.tasks.task import SPLIT_SEED, name_of, read_recipe

REPLAY, NEW = "replay", "new"
"""The corpora of a training with --replay: the text that a run was trained on, and the text it goes on to."""


def config_for(request: TrainingRequest) -> Config:
    """Return a recipe, what suits files, or either of them from a trained model on.

    ConfigError: options contradict one another, or nothing is named.
    """
    recipe = request.recipe
    if request.label_separator:
        raise ConfigError("--label-separator is for --task classification")
    if request.valid or request.text_column is not None or request.label_column is not None:
        raise ConfigError("--text-column, --label-column and --valid are for --task classification")
    if request.file is not None and recipe is None:
        _check_file(
            Path(request.file), is_clear=bool(request.task or request.start or any(request.languages))
        )
    if request.robust:
        rates = [f"modifiers.{name}={rate}" for name, rate in ROBUST.items()]
        request = replace(request, overrides=(*rates, *request.overrides))
    if request.extend_vocab and request.start is None:
        raise ConfigError("--extend-vocab goes with --from RUN")
    if request.replay and (request.start is None or recipe is not None):
        raise ConfigError("--replay goes with --from RUN and new files: --src and --tgt, or --tsv")
    if not 0 <= request.replay < 1:
        raise ConfigError(f"--replay {request.replay}: give a share of the pairs, from 0 to less than 1")
    if request.preset and (recipe is not None or request.start is not None):
        raise ConfigError("--preset is for the files of a translator; change other settings with --set")
    if recipe is not None and request.is_parallel:
        raise ConfigError(
            f"{recipe} names its own files and languages; leave --src, --tgt and the like away, "
            "or change the recipe with --set"
        )
    if request.start is not None:
        return _adapted(request, Path(request.start))
    if recipe is not None:
        return read_recipe(request, recipe)
    if request.corpora["train"]:
        return _config_by_size(request)
    raise ConfigError(
        "nothing to train on; give a recipe.toml, or --src and --tgt, or --tsv, "
        "or a file of labelled texts and --task classification"
    )


def _check_file(file: Path, *, is_clear: bool) -> None:
    """ConfigError: `file` is a folder, or neither its name nor `is_clear` says that it holds translations."""
    if file.is_dir():
        raise ConfigError(f"{file}: is a folder; give a recipe.toml, or a file of text")
    if not (is_clear or format_suffix(file.name) == ".tmx"):
        check_format(find_file(file.as_posix()).as_posix())
        raise ConfigError(
            f"{file}: is not a recipe.toml; to learn its translations say their languages, as in "
            "--src-lang en --tgt-lang de, to learn its labels add --task classification"
        )


def _config_by_size(request: TrainingRequest) -> TranslationConfig:
    """Return the configuration for a corpus of this size. ConfigError: its languages are not known."""
    data = data_of(request)
    n_pairs = _count_pairs(data, request.overrides)
    pairs = [one["langs"] for one in data.get("corpora", ())] or [(data["src_lang"], data["tgt_lang"])]
    name = "-".join(dict.fromkeys(language for pair in pairs for language in pair))
    config = parse_section(
        TranslationConfig,
        {"name": name, "data": data, **preset_for(n_pairs, request.preset or "default")},
        overrides=request.overrides,
        where="settings chosen by corpus size",
    )
    training = config.training
    n_passes = training.max_steps / steps_per_pass(n_pairs, training.batch_tokens * training.update_freq)
    request.say(
        f"{n_pairs:,} pairs, {config.subject}{'' if all(request.languages) else ' (as the files say)'}: "
        f"{config.model.n_encoder_layers}+{config.model.n_decoder_layers} layers of "
        f"{config.model.d_model}, {config.tokenizer.vocab_size:,} tokens, {training.max_steps:,} steps "
        f"(about {n_passes:,.0f} passes)"
    )
    return config


def _adapted(request: TrainingRequest, start: Path) -> TranslationConfig:
    """Return the configuration of a training that goes on from the run `start`, on a recipe's text or files.

    Model, tokens and languages are those of the run. Without a recipe the rest is what suits a corpus of this
    size, with a third of rate and steps. ConfigError: the run is not a translator, or no text is named.
    """
    if any(request.languages):
        raise ConfigError(f"--from {start} takes task and languages over; leave --task and --src-lang away")
    run = Run.open(start)
    if run.config.task != "translation":
        raise ConfigError(f"--from {start}: is a classifier, and only translators are taken further")
    old = translation_config(run)
    if request.recipe is not None:
        settings = read_settings(request.recipe)
    elif request.corpora["train"]:
        if request.replay:
            data = with_replay(run, request)
        elif len(old.directions) > 1 or request.both_ways or request.mix:
            data = listed(request)
        else:
            data = one_corpus(request, old.languages)
        data["max_length"] = usual_max_length(old.model)
        n_pairs = _count_pairs(data, request.overrides, only=NEW if request.replay else "")
        training = fine_tuning_for(n_pairs)
        settings = {"name": f"{old.name}-adapted", "data": data, "training": training}
    else:
        raise ConfigError("--from needs new text: a recipe, --src and --tgt, or --tsv")
    settings["model"] = old.model.model_dump()
    settings["tokenizer"] = old.tokenizer.model_dump()
    settings.setdefault("search", old.search.model_dump())
    taken = {"start_from": str(start), "extend_vocab": request.extend_vocab}
    settings["training"] = {**settings.get("training", {}), **taken}
    where = str(request.recipe or "settings chosen by corpus size")
    return parse_section(TranslationConfig, settings, overrides=request.overrides, where=where)


def with_replay(start: Run, request: TrainingRequest) -> dict[str, Any]:
    """Return the section [data] that mixes new files with the text of the run `start`.

    The corpus REPLAY holds out the pairs that `start` has held out; the corpus NEW chooses the checkpoint.

    ConfigError: `start` has no text, or it is not here, or it has changed; several corpora or directions.
    """
    config = translation_config(start)
    old = config.data
    if old.corpora or len(config.directions) > 1 or request.both_ways or request.mix:
        raise ConfigError(
            f"--replay: is for one direction and a run of one corpus, unlike {start.path}; list its corpora "
            "and the new one in a recipe with data.choose_by, and give it with --from"
        )
    if not old.train:
        raise ConfigError(f"--replay: {start.path} names no training text, as imported runs; leave it away")
    try:
        changed = changed_files(start.text_hashes(), hashes_of(config))
    except DataError as error:
        raise ConfigError(f"--replay: the text of {start.path} is not here: {error}") from error
    if changed:
        raise ConfigError(
            f"--replay: {', '.join(changed[:3])} changed since {start.path} was trained; put the old text "
            "back, or leave --replay away"
        )
    both: dict[str, Any] = {"langs": config.languages}
    replay = {"name": REPLAY, "files": old.train, "columns": old.columns, "valid": old.valid, **both}
    if not old.valid:
        replay |= {"n_held_out": old.n_held_out, "split_seed": old.seed_of_split(config.seed)}
    new = {"name": NEW, "files": request.corpora["train"], **held_out(request), **both}
    mix = {REPLAY: request.replay, NEW: round(1 - request.replay, 9)}
    return {"corpora": [replay, new], "stages": [{"mix": mix}], "choose_by": NEW, "split_seed": SPLIT_SEED}


def _count_pairs(data: dict[str, Any], overrides: Sequence[str], *, only: str = "") -> int:
    """Count the pairs with text on both sides in the corpus of a section [data], `overrides` on top.

    `only`: count this one of several corpora.
    """
    data_overrides = [override for override in overrides if override.lstrip().startswith("data.")]
    text = parse_section(ParallelText, {"data": data}, overrides=data_overrides, where="the files").data
    if not text.corpora:
        return sum(map(has_text, open_text(text, text.train).pairs()))
    n_pairs = 0
    for corpus in text.corpora:
        if only not in ("", corpus.name):
            continue
        if n_ways := len({*corpus.directions()} & {*text.trained_directions}):
            listed = open_listed(corpus, corpus.files, corpus.langs)
            n_pairs += n_ways * sum(map(has_text, listed.pairs()))
    return n_pairs


def data_of(request: TrainingRequest) -> dict[str, Any]:
    """Return the section [data] for files: a list of corpora where one is not enough to say it.

    ConfigError: their languages are not known.
    """
    languages = {languages_of(one, request.languages) for one in request.corpora["train"]}
    if request.both_ways or request.mix or len(languages) > 1:
        return listed(request)
    return one_corpus(request, languages.pop())


def one_corpus(request: TrainingRequest, languages: tuple[str, str]) -> dict[str, Any]:
    """Return the section [data] for files of one direction."""
    both: dict[str, Any] = {"src_lang": languages[0], "tgt_lang": languages[1], "split_seed": SPLIT_SEED}
    return {"train": request.corpora["train"], **held_out(request), **both}


def held_out(request: TrainingRequest) -> dict[str, Any]:
    """Return the settings of validation and test set, and of the columns of all files."""
    tests = {"test": {"test": files}} if (files := request.corpora["test"]) else {}
    columns = {} if request.columns is None else {"columns": request.columns}
    return {"valid": request.corpora["valid"], **tests, **columns}


def listed(request: TrainingRequest) -> dict[str, Any]:
    """Return the section [data] with the files as a list of corpora, named as the files are.

    ConfigError: the languages of one are not known, or a share is of no corpus.
    """
    columns = {} if request.columns is None else {"columns": list(request.columns)}
    corpora: list[dict[str, Any]] = []
    for part, named in request.corpora.items():
        for one in named:
            plain = name_of(one[0]) or "corpus"
            numbered = itertools.chain([plain], (f"{plain}-{n}" for n in itertools.count(2)))
            taken = {corpus["name"] for corpus in corpora}
            name = next(name for name in numbered if name not in taken)
            entry: dict[str, Any] = {part: one} if part == "valid" else {"test": {name: one}}
            if part == "train":
                entry = {"files": one, "both_ways": request.both_ways}
            langs = languages_of(one, request.languages)
            corpora.append({"name": name, "langs": langs, **entry, **columns})
    names = [corpus["name"] for corpus in corpora if "files" in corpus]
    mix = {name: float(share) for name, share in (request.mix or {}).items()}
    if unknown := [name for name in mix if name not in names]:
        raise ConfigError(f"--mix {unknown[0]}: is no corpus; there are {', '.join(names)}")
    return {"corpora": corpora, "stages": [{"mix": mix}] if mix else [], "split_seed": SPLIT_SEED}


def languages_of(corpus: tuple[str, ...], languages: tuple[str | None, str | None]) -> tuple[str, str]:
    """Return the languages of parallel text, as given or as its files tell. ConfigError: they tell none."""
    src, tgt = languages
    first, *second = corpus
    if src and tgt:
        return src, tgt
    if second:
        return (
            src or guess_language(first, option="--src-lang"),
            tgt or guess_language(second[0], option="--tgt-lang"),
        )
    told = tmx_languages(find_file(first)) if format_suffix(first) == ".tmx" else None
    if told is None:
        raise ConfigError(f"{first}: say its languages, as in --src-lang en --tgt-lang de")
    told = told[::-1] if src == told[1] or tgt == told[0] else told
    return src or told[0], tgt or told[1]
