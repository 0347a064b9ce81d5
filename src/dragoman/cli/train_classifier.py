"""`dragoman train --task classification`: settings for a file of labelled texts, chosen by what is in it."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.cli.app import say
from dragoman.cli.train import SPLIT_SEED, column
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from dragoman.config import ClassificationConfig, Column


def config_of_classifier(
    file: Path | None,
    *,
    valid: str | None,
    text_column: str | None,
    label_column: str | None,
    overrides: list[str],
) -> ClassificationConfig:
    """The configuration in a recipe.toml, or for a file of labelled texts of which nothing else is known.

    ConfigError: no file is given, or the recipe is for something else. DataError: the file cannot be read,
    or does not tell which of its columns are meant.
    """
    from dragoman.config import load_recipe

    if file is None:
        raise ConfigError("nothing to train on; give a file of texts and labels, as in: reviews.tsv")
    if file.suffix == ".toml":
        if valid or text_column or label_column:
            raise ConfigError(f"{file} names its own files and columns; change the recipe with --set")
        recipe = load_recipe(file, overrides)
        if recipe.task != "classification":
            raise ConfigError(f"{file}: is a recipe for {recipe.task}; leave --task away")
        return recipe
    return settings_for(
        str(file),
        valid=valid,
        text_column=column(text_column),
        label_column=column(label_column),
        overrides=overrides,
    )


def settings_for(
    file: str,
    *,
    valid: str | None,
    text_column: Column | None,
    label_column: Column | None,
    overrides: list[str],
) -> ClassificationConfig:
    """The configuration for the labelled texts in `file`. DataError: as above."""
    from dragoman.config import parse_config
    from dragoman.data.labelled import open_labelled
    from dragoman.presets import classification_preset_for

    text, label = columns_of(file, text_column, label_column)
    labels: Counter[str] = Counter()
    n_words = n_characters = 0
    for example in open_labelled([file], text_column=text, label_column=label).examples():
        labels[example.label] += 1
        words = example.text.split()
        n_words += len(words)
        n_characters += sum(map(len, words))
    n_texts = labels.total()
    preset = classification_preset_for(
        n_texts=n_texts, n_words=n_words, n_characters=n_characters, n_labels=len(labels)
    )
    data = {"train": [file], "valid": [valid] if valid else [], "split_seed": SPLIT_SEED}
    data |= {"text_column": text, "label_column": label}
    settings = {"task": "classification", "name": name_of(file), **preset}
    settings["data"] = {**data, **preset["data"]}
    config = parse_config(settings, overrides=overrides, where="settings chosen by corpus size")
    assert config.task == "classification"
    say(
        f"{n_texts:,} texts of {n_words / n_texts:.0f} words, {len(labels)} labels: "
        f"{config.model.n_encoder_layers} layers of {config.model.d_model}, "
        f"n-grams up to {config.model.ngrams}, {config.training.max_steps:,} steps"
    )
    return config


def columns_of(file: str, text: Column | None, label: Column | None) -> tuple[Column, Column]:
    """The columns of text and label: as said, or as the file's head tells. DataError: it does not tell."""
    from dragoman.data.labelled import DEFAULT_COLUMNS, REVIEWS, guess_labelled_columns

    if file.startswith(REVIEWS):
        return DEFAULT_COLUMNS
    if text is None or label is None:
        guessed_text, guessed_label = guess_labelled_columns(file)
        text, label = guessed_text if text is None else text, guessed_label if label is None else label
        say(
            f"the text is in column {text!r}, the label in column {label!r}; "
            "if not, say --text-column and --label-column"
        )
    return text, label


def name_of(file: str) -> str:
    """A name for the run: that of the file, without endings and what a name cannot hold."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", Path(file).name.split(".")[0]).strip("-_")
    return name or "classifier"
