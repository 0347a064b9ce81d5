"""Sentences that join a search of a real model, with all that a search may have around it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from dragoman.config import SearchConfig
from dragoman.decoding.hypotheses import Hypothesis
from dragoman.decoding.phrases import ExactPhrase
from dragoman.model.packed import can_quantize
from dragoman.predict import engine as module
from dragoman.predict.engine import NativeEngine, RunningSearch, Sentence
from dragoman.predict.loading import inference_copy
from dragoman.predict.shortlist import Shortlist
from dragoman.predict.translator import Translator
from dragoman.text.tokenizer import EOS_ID

pytestmark = pytest.mark.usefixtures("both_steps")

TEXTS = ["red cat", "big old house", "small bird river tree", "blue dog", "old tree", "cat"]
SEARCHES = {
    "greedy": {"beam_size": 1},
    "beam": {"beam_size": 4, "n_best": 4, "length_penalty": 1.4},
    "diverse": {"beam_size": 4, "diversity_groups": 2, "n_best": 3},
    "no repetition": {"beam_size": 3, "n_best": 3, "no_repeat_ngram": 1},
    "sampling": {"method": "sampling", "n_best": 2, "seed": 7},
}


@pytest.fixture(scope="module")
def translator(tiny_run: Path) -> Translator:
    return Translator.load(tiny_run, device="cpu", precision="fp32")


class Watching:
    """Wants the first `patience` hypotheses."""

    def __init__(self, patience: int = 1000) -> None:
        self.patience = patience

    def wants(self) -> bool:
        self.patience -= 1
        return self.patience >= 0

    def see(self, ids: object) -> None:
        pass


def engine_of(translator: Translator, kind: str) -> NativeEngine:
    """One model, two, int8, or with a shortlist of any tokens."""
    model = inference_copy(translator.model, torch.float32)
    vocab_size = translator.tokenizers.tgt.vocab_size
    generator = torch.Generator().manual_seed(3)
    translations = torch.randint(
        -1, vocab_size, (translator.tokenizers.src.vocab_size, 5), generator=generator
    )
    if kind == "int8" and not can_quantize(model):
        pytest.skip("this processor does not multiply in int8")
    return {
        "one": NativeEngine(model),
        "two": NativeEngine(model, model),
        "int8": NativeEngine(model, int8=kind == "int8"),
        "shortlist": NativeEngine(model, shortlist=Shortlist(torch.arange(4, 9), translations)),
    }[kind]


def sentences(translator: Translator) -> list[Sentence]:
    sources = translator.tokenizers.src.encode_batch(TEXTS)
    return [Sentence([*ids, EOS_ID], number=i) for i, ids in enumerate(sources)]


@pytest.mark.parametrize("kind", ["one", "two", "int8", "shortlist"])
@pytest.mark.parametrize("settings", SEARCHES.values(), ids=SEARCHES)
def test_a_sentence_that_joins_is_translated_as_if_alone(
    translator: Translator, settings: dict[str, object], kind: str
) -> None:
    engine, search = engine_of(translator, kind), SearchConfig().changed(settings, where="test")
    assert engine.can_be_joined(search)
    every = [sentence._replace(watcher=Watching()) for sentence in sentences(translator)]
    expected = [engine.search([sentence], search)[0] for sentence in every]
    running = RunningSearch(engine, every[:1], search)
    found: dict[int, list[Hypothesis]] = {}
    for first, after in ((1, 2), (2, 0), (4, 3)):  # a second one before a step is made
        for _ in range(after):
            found |= running.advance() if running.search.n_rows else {}
        joining = every[first : 6 if first == 4 else 2 * first]
        assert all(map(running.takes, joining))
        running.join(joining)
    while running.search.n_rows:
        found |= running.advance()
    assert sorted(found) == [*range(len(TEXTS))]
    for number, hypotheses in enumerate(expected):
        assert [h.ids for h in found[number]] == [h.ids for h in hypotheses]
        assert [h.score for h in found[number]] == pytest.approx([h.score for h in hypotheses], rel=1e-4)


def test_who_is_no_longer_wanted_leaves_and_another_takes_the_place(translator: Translator) -> None:
    engine, search = engine_of(translator, "one"), SearchConfig(beam_size=3)
    first, second, third = sentences(translator)[:3]
    expected = engine.search([third], search)[0][0]
    running = RunningSearch(
        engine, [first._replace(watcher=Watching(1)), second._replace(watcher=Watching(1))], search
    )
    assert running.advance() == {}
    running.join([third._replace(watcher=Watching())])
    assert sorted(running.advance()) == [0, 1]
    found: dict[int, list[Hypothesis]] = {}
    while running.search.n_rows:
        found |= running.advance()
    assert found[2][0].ids == expected.ids


def test_no_gradient_is_kept(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service searches in threads of its own, in which PyTorch keeps gradients by default."""
    monkeypatch.setattr("dragoman.model.packed.can_compile", lambda *_: False)  # compiled code has none
    engine, (one, other, *_) = engine_of(translator, "one"), sentences(translator)
    running = RunningSearch(engine, [one], SearchConfig(beam_size=2))
    running.join([other])
    running.advance()
    # The next-token function of one native model on a processor is a PackedSteps.
    (keys, values), *_ = running._started.step.crosses  # type: ignore[attr-defined]
    assert keys.is_inference()
    assert values.is_inference()


def test_what_cannot_join_is_refused(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, beam = engine_of(translator, "one"), SearchConfig(beam_size=2)
    one, other = sentences(translator)[:2]
    assert not engine.can_be_joined(SearchConfig(beam_size=2, coverage_penalty=0.2))
    covered = RunningSearch(engine, [one], SearchConfig(beam_size=2, coverage_penalty=0.2))
    running = RunningSearch(engine, [one], beam)
    constrained = RunningSearch(engine, [one._replace(required=[ExactPhrase((5,))])], beam)
    assert not covered.takes(other)
    assert not constrained.takes(other)
    assert running.takes(other)
    assert not running.takes(other._replace(prefix=[5]))
    assert not running.takes(other._replace(required=[ExactPhrase((5,))]))
    assert not running.takes(other._replace(watcher=Watching())), "nobody looks on at this search"
    monkeypatch.setattr(module, "MOST_JOINED", 1)
    assert not running.takes(other)
