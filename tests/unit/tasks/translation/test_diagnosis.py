"""Warnings: each fault is named where it is, and nowhere else."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import TrainingConfig, parse_config
from dragoman.data.corpora import open_corpus
from dragoman.data.phrasebook import pairs
from dragoman.data.records import Pair
from dragoman.data.store import TokenStore
from dragoman.metrics.faults import has_loop, similarity
from dragoman.predict.translator import Translator
from dragoman.tasks.training import train
from dragoman.tasks.translation.diagnosis import SourceUse, diagnose, source_use
from dragoman.tasks.translation.objective import Validator
from dragoman.training.objective import Validation
from dragoman.training.state import TrainPosition
from dragoman.training.trainer import should_be_learning, warn
from recording import Recorder
from tiny import TINY, write_corpus

HEALTHY = SourceUse(loss=1.0, shuffled_loss=4.0)
SOURCES, REFERENCES = (list(side)[:40] for side in zip(*pairs("valid", "en", "de"), strict=True))
ON_THE_TABLE = "und auf dem Tisch und auf dem Tisch und auf dem Tisch"
ALIKE = "Das ist ein Haus am großen Fluss."


def faults(hypotheses: list[str], use: SourceUse | None = HEALTHY) -> list[str]:
    return list(diagnose(SOURCES, hypotheses, REFERENCES, use))


@pytest.mark.slow
def test_the_references_themselves_have_no_fault() -> None:
    for src, tgt in (("en", "de"), ("de", "zh"), ("zh", "en"), ("pl", "en")):
        sources, references = zip(*pairs("valid", src, tgt), strict=True)
        assert diagnose(sources, references, references, HEALTHY) == {}


@pytest.mark.parametrize(
    ("hypotheses", "name"),
    [
        ([f"{source}." for source in SOURCES], "copies its source"),
        (REFERENCES[:20] + SOURCES[20:], "copies its source"),
        (REFERENCES[:20] + [f"{r} {ON_THE_TABLE}" for r in REFERENCES[20:]], "repeats itself"),
        ([*REFERENCES[:20], *[ALIKE] * 20], "translates all alike"),
        ([*REFERENCES[:20], *[""] * 20], "writes nothing"),
        ([r[: len(r) // 3] for r in REFERENCES], "writes too short"),
        ([f"{r} Und {r[::-1]} {r}" for r in REFERENCES], "writes too long"),
    ],
)  # fmt: skip
def test_a_fault_is_named(hypotheses: list[str], name: str) -> None:
    assert name in faults(hypotheses)


def test_a_fault_that_the_references_share_is_none() -> None:
    """A model that is trained on copies must copy; the references say what is expected."""
    for texts in (SOURCES, [f"{r} ja ja ja ja" for r in REFERENCES], ["Ja."] * 40, ["", *REFERENCES[1:]]):
        assert diagnose(SOURCES, texts, texts, HEALTHY) == {}


def test_a_source_is_ignored_if_another_one_does_as_well() -> None:
    for shuffled, found in ((4.99, ["ignores its source"]), (5.05, ["ignores its source"]), (5.5, [])):
        assert faults(REFERENCES, SourceUse(5.0, shuffled)) == found
    assert faults(REFERENCES, None) == []


def test_messages_hold_the_figures_and_what_to_try() -> None:
    found = diagnose(SOURCES, REFERENCES[:20] + SOURCES[20:], REFERENCES, SourceUse(5.016, 5.023))
    assert found["ignores its source"].startswith(
        "the model ignores its source: its loss is 5.02 nats/token with the right sources and 5.02 with "
    )
    assert "50 % (0 % of the references) of its translations are the source" in found["copies its source"]
    assert all("\n" not in message and "dragoman data check" in message for message in found.values())
    assert faults([ALIKE] * 40, SourceUse(5.0, 5.0)) == ["ignores its source"], "that is why all are alike"
    assert diagnose(SOURCES[:9], [""] * 9, REFERENCES[:9], SourceUse(5.0, 5.0)) == {}, "these are few"


@given(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=8), st.integers(4, 6), st.sampled_from(["", "x y"])
)
def test_whatever_is_said_four_times_is_a_loop(words: list[str], n: int, before: str) -> None:
    assert has_loop(" ".join([before, *words * n]))
    assert has_loop("in the house in the house in the house .")
    assert has_loop("在家里在家里在家里")
    for other in ("a man the the the", "in the house in the house", "wait ... ... ... ... ...", "他在家里。"):
        assert not has_loop(other)


@given(st.text(max_size=40), st.text(max_size=40))
def test_similarity_is_symmetric_and_one_for_equal_texts(a: str, b: str) -> None:
    assert 0.0 <= similarity(a, b) == similarity(b, a) <= 1.0
    assert similarity(a, a) == (1.0 if a.strip() else 0.0)


# When, and once


def test_nothing_is_expected_before_a_pass_or_a_fifth_of_the_steps_and_three_times_the_warm_up() -> None:
    for warmup_steps, epoch, last in ((10, 5, 100), (10, 0, 199), (300, 9, 900)):
        training = TrainingConfig(max_steps=1000, warmup_steps=warmup_steps)
        learning = [should_be_learning(TrainPosition(last + i, epoch=epoch), training) for i in (0, 1)]
        assert learning == [False, True]


def warnings_of(heard: Recorder) -> list[str]:
    return [message for message in heard.messages if message.startswith("warning: ")]


def test_a_warning_is_said_once_in_a_training_and_each_name_for_itself() -> None:
    heard, position = Recorder(), TrainPosition()
    for warnings in ({"a": "first"}, {"a": "again"}, {"a": "x", "b": "second"}):
        warn(position, Validation({}, 0.0, warnings), heard)
    assert warnings_of(heard) == ["warning: first", "warning: second"]


# Real models


def store_of(path: Path, n_pairs: int, translator: Translator) -> TokenStore:
    write_corpus(path, "valid", n_pairs, seed=3)
    corpus = open_corpus([str(path / "valid.tsv")], src_lang="en", tgt_lang="de", columns=(0, 1))
    return TokenStore.prepare(corpus, translator.tokenizers, max_length=100, cache=path / "cache")


@pytest.mark.nightly
@pytest.mark.parametrize("related", [True, False], ids=["healthy", "unrelated"])
def test_a_training_warns_of_a_source_that_tells_nothing_and_not_of_one_that_does(
    tmp_path: Path, related: bool
) -> None:
    write_corpus(tmp_path, "train", 1500, seed=1)
    write_corpus(tmp_path, "valid", 60, seed=2)
    if not related:  # every source with the target of another line
        first, rest = (tmp_path / "train.de").read_text("utf-8").split("\n", 1)
        (tmp_path / "train.de").write_text(f"{rest}{first}\n", encoding="utf-8")
    files = [str(tmp_path / "train.en"), str(tmp_path / "train.de")]
    data = {"src_lang": "en", "tgt_lang": "de", "train": files, "valid": [str(tmp_path / "valid.tsv")]}
    overrides = (
        *TINY, "model.d_model=32", "model.n_heads=4", "model.d_ff=64", "model.dropout=0.0",
        "training.max_steps=200", "training.batch_tokens=500", "training.learning_rate=1e-2",
        "training.warmup_steps=40", "training.valid_every=200", "training.average=none",
    )  # fmt: skip
    config, heard = parse_config({"name": "diagnosed", "data": data}, overrides=overrides), Recorder()
    run = train(config, tmp_path / "run", listener=heard, check=related)
    warnings = warnings_of(heard)
    ignored = [one for one in warnings if "the model ignores its source: its loss is" in one]
    assert len(ignored) == (0 if related else 1)
    if related:
        assert warnings == []
        translator = Translator.load(run)
        use = source_use(translator.model, store_of(tmp_path / "store", 60, translator))
        assert use is not None
        assert use.gain > 1.0


def test_a_store_of_few_pairs_tells_nothing_about_the_source(tiny_run: Path, tmp_path: Path) -> None:
    translator = Translator.load(tiny_run)
    for n_pairs, told in ((1, False), (9, False), (30, True)):
        store = store_of(tmp_path / f"{n_pairs}", n_pairs, translator)
        use = source_use(translator.model, store)
        assert (use is not None) is told
        assert source_use(translator.model, store) == use


def test_validation_leaves_the_random_state_alone(tiny_run: Path, tmp_path: Path) -> None:
    translator, cpu = Translator.load(tiny_run), torch.device("cpu")
    store = store_of(tmp_path, 20, translator)
    valid = [Pair(*line.split("\t")) for line in (tmp_path / "valid.tsv").read_text("utf-8").splitlines()]
    validator = Validator(translator.config, translator.tokenizers, valid, store, device=cpu)
    weights = {name: parameter.detach() for name, parameter in translator.model.named_parameters()}
    before = torch.get_rng_state()
    validator(translator.model, weights)
    assert torch.equal(torch.get_rng_state(), before)
