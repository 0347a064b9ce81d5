"""Settings for a file of labelled texts, by its size."""

from itertools import pairwise

import pytest

from dragoman.config import ClassificationConfig, parse_config
from dragoman.presets import CLASSIFICATION_PRESETS, classification_preset_for
from dragoman.tasks.task import name_of


def config_for(
    n_texts: int, *, words_each: int = 20, word_length: int = 5, n_labels: int = 2
) -> ClassificationConfig:
    n_words = n_texts * words_each
    preset = classification_preset_for(
        n_texts=n_texts, n_words=n_words, n_characters=word_length * n_words, n_labels=n_labels
    )
    settings = {"task": "classification", "name": "preset", **preset}
    settings["data"] = {"train": ["train.tsv"], **preset["data"]}
    config = parse_config(settings)
    assert config.task == "classification"
    return config


@pytest.mark.parametrize("n_texts", [2, 200, 4_999, 25_000, 5_000_000])
@pytest.mark.parametrize("words_each", [3, 250])
@pytest.mark.parametrize("n_labels", [2, 1000])
def test_every_size_has_a_valid_configuration(n_texts: int, words_each: int, n_labels: int) -> None:
    training = config_for(n_texts, words_each=words_each, n_labels=n_labels).training
    assert 0 < training.warmup_steps <= training.max_steps
    assert 1 <= training.valid_every <= training.max_steps


def test_a_preset_is_chosen_by_the_number_of_words() -> None:
    assert CLASSIFICATION_PRESETS[-1].n_words == float("inf")
    for below, at in pairwise(CLASSIFICATION_PRESETS):
        n_texts = int(below.n_words) // 50
        assert config_for(n_texts - 1, words_each=50).model.ngram_bits == below.ngram_bits
        assert config_for(n_texts, words_each=50).model.ngram_bits == at.ngram_bits
    sizes = [2 ** config_for(50_000, n_labels=n).model.ngram_bits * n for n in (2, 3, 8, 100, 500)]
    assert all(size <= 2 * sizes[0] for size in sizes), "the table of votes does not grow with the labels"


def test_a_training_makes_the_passes_of_its_preset() -> None:
    """Unless the corpus is so small that they would be over before anything is learnt."""
    for n_texts in (4_000, 50_000, 1_000_000):
        config = config_for(n_texts, words_each=100)
        preset = next(p for p in CLASSIFICATION_PRESETS if 100 * n_texts < p.n_words)
        n_tokens = 1.2 * 100 * n_texts
        passes = config.training.max_steps * 0.9 * config.training.batch_tokens / n_tokens
        assert passes == pytest.approx(preset.n_epochs, rel=0.02)
    assert config_for(10).training.max_steps == 200


def test_words_decide_about_dropout_and_tokens() -> None:
    assert [config_for(1000, words_each=n).model.word_dropout for n in (99, 100)] == [0.3, 0.5]
    assert config_for(1000).tokenizer.kind == "words"
    assert config_for(1000, words_each=2, word_length=30).tokenizer.kind == "bpe", "without spaces"


@pytest.mark.parametrize(
    ("file", "name"),
    [("my reviews (new).tsv.gz", "my-reviews-new"), ("...", ""), ("hf:owner/name:train", "name-train"),
     ("Übung.tsv", "bung")],
)  # fmt: skip
def test_a_run_is_called_after_its_file(file: str, name: str) -> None:
    assert name_of(file) == name
    settings = {"task": "classification", "name": name or "x", "data": {"train": [file]}}
    assert parse_config(settings).task == "classification"
