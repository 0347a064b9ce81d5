"""Settings chosen by corpus size."""

from itertools import pairwise, product

import pytest

from dragoman.config import TranslationConfig, parse_config
from dragoman.errors import ConfigError
from dragoman.presets import (
    EFFORTS,
    MAX_PASSES,
    PRESETS,
    fine_tuning_for,
    guess_language,
    preset_for,
    steps_per_pass,
    student_training_for,
)

DATA = {"src_lang": "en", "tgt_lang": "de", "train": ["a.en", "a.de"]}
SIZES = [1, 9_999, 10_000, 49_999, 50_000, 249_999, 250_000, 999_999, 1_000_000, 10**9]


def config_for(n_pairs: int) -> TranslationConfig:
    return parse_config({"name": "x", "data": DATA, **preset_for(n_pairs)})


@pytest.mark.parametrize("effort", EFFORTS)
@pytest.mark.parametrize("n_pairs", [1, 12, 500, 1700])
def test_a_tiny_corpus_is_read_a_bounded_number_of_times(n_pairs: int, effort: str) -> None:
    training = parse_config({"name": "x", "data": DATA, **preset_for(n_pairs, effort)}).training
    n_passes = training.max_steps / steps_per_pass(n_pairs, training.batch_tokens * training.update_freq)
    assert n_passes == pytest.approx(MAX_PASSES * EFFORTS[effort].tokens, rel=0.01)
    assert training.max_steps < PRESETS[0].max_steps * EFFORTS[effort].tokens / EFFORTS[effort].batch


def test_fine_tuning_takes_a_third_of_the_steps_and_warms_up_in_a_third_of_these() -> None:
    for n_pairs in (2, 12, 300, *SIZES):
        training, more = (fine_tuning_for(n_pairs), preset_for(n_pairs)["training"])
        assert training["max_steps"] == more["max_steps"] // 3
        assert 1 <= training["warmup_steps"] <= training["max_steps"] / 3
        assert training["warmup_steps"] <= more["warmup_steps"]


def test_more_text_never_means_a_smaller_model_or_batch_or_more_dropout() -> None:
    sizes = [row.n_pairs for row in PRESETS]
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == float("inf"), "the last row has no end"
    for smaller, larger in pairwise([config_for(n) for n in SIZES]):
        assert smaller.model.d_model <= larger.model.d_model
        assert smaller.tokenizer.vocab_size <= larger.tokenizer.vocab_size
        assert smaller.training.max_steps <= larger.training.max_steps
        assert smaller.model.dropout >= larger.model.dropout
    batches = [row.batch_tokens * row.update_freq for row in PRESETS]
    assert batches == sorted(batches)
    for narrow, wide in product(PRESETS, PRESETS):
        assert narrow.d_model >= wide.d_model or narrow.learning_rate >= wide.learning_rate


@pytest.mark.parametrize("n_pairs", SIZES)
def test_more_effort_means_more_tokens_and_no_less_dropout(n_pairs: int) -> None:
    configs = [
        parse_config({"name": "x", "data": DATA, **preset_for(n_pairs, effort)})
        for effort in ("fast", "default", "quality")
    ]
    assert len(EFFORTS) == 3
    assert configs[1] == config_for(n_pairs)
    for less, more in pairwise(configs):
        tokens = [c.training.max_steps * c.training.batch_tokens for c in (less, more)]
        assert tokens[0] * 2 < tokens[1]
        assert less.training.batch_tokens <= more.training.batch_tokens
        assert less.model.dropout <= more.model.dropout
        assert less.model.d_model == more.model.d_model
    for config in configs:
        assert config.training.warmup_steps <= config.training.max_steps / 5
        assert 20 <= config.training.max_steps / config.training.valid_every < 21


def test_an_effort_that_does_not_exist_is_named() -> None:
    with pytest.raises(ConfigError, match="--preset best: there are fast, default, quality"):
        preset_for(1000, "best")


LANGUAGES = {
    "train.en": "en", "data/v1.0/train.en.gz": "en", "news.de.txt": "de", "corpus.zh-CN.zst": "zh-CN",
    "corpus.pt_BR": "pt_BR", "train.tok.deu.xz": "deu",
}  # fmt: skip


def test_language_is_read_from_the_file_name() -> None:
    for file, language in LANGUAGES.items():
        assert guess_language(file, option="--src-lang") == language
    for file in ("train.txt", "english", "train.src", "a.tsv.gz", "de/train", "train.2"):
        with pytest.raises(ConfigError, match=r"does not tell the language; say it, as in --tgt-lang en"):
            guess_language(file, option="--tgt-lang")


@pytest.mark.parametrize("n_pairs", SIZES)
def test_a_student_that_starts_as_its_teacher_takes_fewer_steps_at_a_lower_rate(n_pairs: int) -> None:
    settings = preset_for(n_pairs)
    taught = {**settings, "training": student_training_for(settings["training"])}
    teacher = config_for(n_pairs).training
    student = parse_config({"name": "x", "data": DATA, **taught}).training
    assert student.max_steps < teacher.max_steps
    assert student.learning_rate < teacher.learning_rate
    assert student.warmup_steps < student.max_steps
    assert student.valid_every <= student.max_steps
    assert student.max_steps * student.batch_tokens < teacher.max_steps * teacher.batch_tokens / 2
    assert student.label_smoothing == teacher.label_smoothing
    tiny = {**preset_for(1)["training"], "max_steps": 1, "warmup_steps": 1, "valid_every": 1}
    config = parse_config({"name": "x", "data": DATA, "training": student_training_for(tiny)})
    assert config.training.max_steps == config.training.warmup_steps == config.training.valid_every == 1
