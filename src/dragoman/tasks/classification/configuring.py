"""Configurations of classifiers from a file of labelled texts and nothing else."""

from __future__ import annotations

from collections import Counter

from dragoman.config import ClassificationConfig, Column, Config, parse_section
from dragoman.data.labelled import REVIEWS, guess_labelled_columns, open_labelled
from dragoman.errors import ConfigError
from dragoman.presets import classification_preset_for
from dragoman.tasks.task import SPLIT_SEED, ParallelFiles, TrainingRequest, name_of


def config_for(request: TrainingRequest) -> Config:
    """Return the configuration in a recipe.toml, or for a file of labelled texts.

    ConfigError: no file is given, or the recipe is for something else. DataError: the file cannot be read,
    or does not tell which of its columns are meant.
    """
    file = request.file
    if request.replay:
        raise ConfigError("--replay is for translators; leave it away")
    if request.extend_vocab and request.start is None:
        raise ConfigError("--extend-vocab goes with --from RUN")
    if request.robust:
        raise ConfigError("--robust is for translators; it alters both sides of a pair")
    if request.preset:
        raise ConfigError("--preset is for the files of a translator; change other settings with --set")
    if request.start is not None:
        raise ConfigError(
            f"--from {request.start} takes task and languages over; leave --task and --src-lang away"
        )
    if request.parallel != ParallelFiles():
        raise ConfigError("a classifier has no source and target; give one file of texts and labels")
    if file is None:
        raise ConfigError("nothing to train on; give a file of texts and labels, as in: reviews.tsv")
    if file.suffix != ".toml":
        return _config_by_size(request, str(file))
    of_files = (request.valid, request.text_column, request.label_column, request.label_separator or None)
    if any(value is not None for value in of_files):
        raise ConfigError(f"{file} names its own files and columns; change the recipe with --set")
    return request.recipe(file)


def _config_by_size(request: TrainingRequest, file: str) -> ClassificationConfig:
    """Return the configuration for the labelled texts in `file`. DataError: as above."""
    text, label = _columns_of(request, file)
    separator = request.label_separator
    corpus = open_labelled([file], text_column=text, label_column=label, separator=separator)
    cells: Counter[str] = Counter()
    n_words = n_characters = 0
    for example in corpus.examples():
        cells[example.label] += 1
        words = example.text.split()
        n_words += len(words)
        n_characters += sum(map(len, words))
    n_texts, labels = cells.total(), corpus.count_labels(cells)
    preset = classification_preset_for(
        n_texts=n_texts, n_words=n_words, n_characters=n_characters, n_labels=len(labels)
    )
    data = {
        "train": [file],
        "valid": [request.valid] if request.valid else [],
        "split_seed": SPLIT_SEED,
        "text_column": text,
        "label_column": label,
        "label_separator": separator,
        **preset["data"],
    }
    config = parse_section(
        ClassificationConfig,
        {"task": "classification", "name": name_of(file) or "classifier", **preset, "data": data},
        overrides=request.overrides,
        where="settings chosen by corpus size",
    )
    request.say(
        f"{n_texts:,} texts of {n_words / n_texts:.0f} words, {len(labels)} labels: "
        f"{config.model.n_encoder_layers} layers of {config.model.d_model}, "
        f"n-grams up to {config.model.ngrams}, {config.training.max_steps:,} steps"
    )
    return config


def _columns_of(request: TrainingRequest, file: str) -> tuple[Column, Column]:
    """Return the columns of text and label, as given or as the file's head tells.

    DataError: it does not tell.
    """
    text, label = request.text_column, request.label_column
    if text is not None and label is not None:
        return text, label
    found_text, found_label = guess_labelled_columns(file, request.label_separator)
    columns = {"text": (text, found_text), "label": (label, found_label)}
    guessed = {part: column for part, (named, column) in columns.items() if named is None}
    if not file.startswith(REVIEWS):
        places = ", ".join(f"the {part} is in column {column!r}" for part, column in guessed.items())
        request.say(f"{places}; if not, say {' and '.join(f'--{part}-column' for part in guessed)}")
    return found_text if text is None else text, found_label if label is None else label
