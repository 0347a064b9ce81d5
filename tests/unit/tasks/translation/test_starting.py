"""A translator that goes on to other text keeps its tokens and weights, and an eye on the old text."""

from pathlib import Path

import pytest
import torch

from commands import dragoman, error_of, succeed
from dragoman.config import TokenizerConfig
from dragoman.runs import Run
from dragoman.tasks.translation.starting import with_new_rows
from dragoman.text.tokenizer import load_tokenizer, train_tokenizer
from tiny import TRAINING

SENTENCES = [f"the {a} house and the {b} tree" for a in ("red", "blue", "old") for b in ("big", "small")] * 3
NEW = [f"der {a} Motor läuft über {b} Öl" for a in ("neue", "alte") for b in ("viel", "wenig")] * 3


@pytest.mark.parametrize("kind", ["bpe", "unigram", "words", "characters"])
def test_an_extended_vocabulary_keeps_its_ids_and_writes_the_new_text_shorter(kind: str) -> None:
    config = TokenizerConfig.model_validate({"kind": kind, "vocab_size": 400, "min_frequency": 1})
    old = train_tokenizer(SENTENCES, config)
    assert kind in ("bpe", "unigram") or old.extended(SENTENCES[:1], 40).pieces() == old.pieces()
    new = old.extended(NEW, 40)
    assert old.vocab_size < new.vocab_size <= old.vocab_size + 40
    first = sorted({i for text in SENTENCES for i in old.encode(text)})
    assert [new.decode([i]) for i in first] == [old.decode([i]) for i in first]
    for text in SENTENCES + NEW:
        assert kind == "words" or new.decode(new.encode(text)) == text
    if kind in ("bpe", "unigram"):
        assert sum(len(new.encode(text)) for text in NEW) < sum(len(old.encode(text)) for text in NEW)
    else:
        assert new.unknown_rate(NEW) < old.unknown_rate(NEW)


def test_new_rows_stand_round_the_mean_of_the_old_ones() -> None:
    torch.manual_seed(0)
    old, fresh = torch.randn(50, 4) + 3, torch.randn(60, 4)
    rows = with_new_rows(old, fresh)
    assert torch.equal(rows[:50], old)
    torch.testing.assert_close(rows[50:].mean(0), old.mean(0))
    torch.testing.assert_close(rows[50:].std(0), fresh[50:].std(0))


@pytest.mark.slow
def test_a_training_starts_from_the_weights_of_another(there: Path) -> None:
    done = succeed(
        "train", "--tsv", "new.tsv", "--from", "start", "--out", "on", *TRAINING,
        "--set", "training.learning_rate=1e-12", "--set", "training.ema_decay=0.0",
    )  # fmt: skip
    assert "starting from start, with its tokens" in done.stderr
    old, new = Run.open("start").load_weights(), Run.open("on").load_weights()
    assert old.keys() == new.keys()
    for name, value in old.items():
        torch.testing.assert_close(new[name], value, rtol=0, atol=1e-9)
    assert Run.open("on").config.model == Run.open("start").config.model
    scores = [r["old_bleu"] for r in Run.open("on").history() if r["kind"] == "valid"]
    before = Run.open("start").read_json("report.json")["valid_bleu"]
    assert scores[0] == pytest.approx(before)  # nothing was learnt, nothing forgotten
    assert "old BLEU" in done.stderr


@pytest.mark.slow
def test_new_tokens_get_rows_and_are_counted(there: Path) -> None:
    extended = ["--from", "start", "--extend-vocab", 30]
    done = succeed("train", "--tsv", "new.tsv", *extended, "--out", "on", *TRAINING)
    n_old = load_tokenizer(Path("start/tokenizer/shared.json")).vocab_size
    n_new = load_tokenizer(Path("on/tokenizer/shared.json")).vocab_size
    assert n_old < n_new <= n_old + 30
    assert f"{n_new - n_old:,} tokens added to the {n_old:,}" in done.stderr
    name = "src_embedding.tokens.weight"
    assert len(Run.open("on").load_weights()[name]) == n_new
    assert dragoman("translate", "on", "new.tsv", "--lines").exit_code == 0


@pytest.mark.slow
def test_it_continues_when_the_run_it_started_from_has_gone_on(there: Path) -> None:
    command = ["train", "--tsv", "new.tsv", "--from", "start", "--out", "on", *TRAINING]
    paused = dragoman(*command, "--max-hours", "1e-9")
    assert paused.exit_code == 75
    assert "continuing from step 1" in succeed(*command).stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--from", "nowhere", "--tsv", "new.tsv"], "nowhere: there is no such folder"),
        (["--from", "start"], "--from needs new text"),
        (["--from", "start", "--tsv", "new.tsv", "--src-lang", "fr"], "takes task and languages over"),
        (["--from", "start", "--tsv", "new.tsv", "--preset", "fast"], "--preset is for the files"),
        (["--extend-vocab", "5", "--tsv", "new.tsv"], "--extend-vocab goes with --from RUN"),
    ],
)
def test_mistakes_are_one_line(there: Path, options: list[str], expected: str) -> None:
    assert expected in error_of("train", *options)
