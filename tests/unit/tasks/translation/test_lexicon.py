"""The lexicon of a training text, and the shortlist that a run keeps of it."""

import json
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dragoman.config import TranslationConfig, parse_config
from dragoman.metrics.translation import chrf
from dragoman.predict.engine import CompiledEngine
from dragoman.predict.model import translation_config
from dragoman.predict.shortlist import SHORTLIST, Shortlist
from dragoman.predict.translator import Translator
from dragoman.runs import Run
from dragoman.tasks.training import train
from dragoman.tasks.translation import lexicon
from dragoman.tasks.translation.lexicon import N_ITERATIONS, learn_lexicon, shortlist_of
from dragoman.text.tokenizer import PAD_ID
from tiny import TINY, write_corpus

VOCAB = 40


class Pairs(list[tuple[list[int], list[int]]]):
    """A store of pairs."""

    def src(self, i: int) -> np.ndarray:
        return np.array(self[i][0], dtype=np.uint16)

    def tgt(self, i: int) -> np.ndarray:
        return np.array(self[i][1], dtype=np.uint16)


def word_for_word(n_pairs: int, *, seed: int) -> Pairs:
    """Source token t is translated by t + 15, in any order; 39 ends every target."""
    rng = np.random.default_rng(seed)
    sources = [rng.integers(5, 20, size=rng.integers(1, 7)) for _ in range(n_pairs)]
    return Pairs([(s.tolist(), [*rng.permutation(s + 15).tolist(), 39]) for s in sources])


def by_definition(store: Pairs) -> dict[tuple[int, int], float]:
    """IBM model 1, with each token counted once in a sentence."""
    pairs = [({*src, PAD_ID}, set(tgt)) for src, tgt in store]
    probability: defaultdict[tuple[int, int], float] = defaultdict(lambda: 1.0)
    for _ in range(N_ITERATIONS):
        expected: dict[tuple[int, int], float] = defaultdict(float)
        for src, tgt in pairs:
            for t in tgt:
                whole = sum(probability[s, t] for s in src)
                for s in src:
                    expected[s, t] += probability[s, t] / whole
        of_source: dict[int, float] = defaultdict(float)
        for (s, _), value in expected.items():
            of_source[s] += value
        probability = defaultdict(float, {k: v / of_source[k[0]] for k, v in expected.items()})
    return dict(probability)


def test_it_is_model_1() -> None:
    store = word_for_word(60, seed=1)
    found = learn_lexicon(store, vocab_size=VOCAB, seed=1)  # type: ignore[arg-type]
    expected = by_definition(store)
    pairs = list(zip(found.src.tolist(), found.tgt.tolist(), strict=True))
    assert dict(zip(pairs, found.probability, strict=True)) == pytest.approx(expected)
    counts = np.bincount([t for _, tgt in store for t in tgt], minlength=VOCAB)
    assert found.counts.tolist() == counts.tolist()


def test_it_finds_the_translation_of_every_token() -> None:
    found = learn_lexicon(word_for_word(400, seed=2), vocab_size=VOCAB, seed=1)  # type: ignore[arg-type]
    shortlist = shortlist_of(found, n_sources=VOCAB, n_always=1, n_each=1, shared=False)
    assert shortlist.translations[5:20, 0].tolist() == list(range(20, 35))
    assert (shortlist.translations[20:] == -1).all(), "these are in no source"
    assert 39 in shortlist.always.tolist(), "the most frequent"
    shared = shortlist_of(found, n_sources=VOCAB, n_always=1, n_each=2, shared=True)
    assert shared.translations[1:, 0].tolist() == list(range(1, VOCAB))
    assert (shared.translations[PAD_ID] == -1).all()


def test_of_much_text_some_is_drawn_and_equal_seeds_draw_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    store = word_for_word(300, seed=4)
    whole = learn_lexicon(store, vocab_size=VOCAB, seed=1)  # type: ignore[arg-type]
    monkeypatch.setattr(lexicon, "MOST_PAIRS", 500)
    drawn, again = (learn_lexicon(store, vocab_size=VOCAB, seed=1) for _ in range(2))  # type: ignore[arg-type]
    assert drawn.counts.sum() < whole.counts.sum()
    assert all(np.array_equal(a, b) for a, b in zip(drawn, again, strict=True))


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TranslationConfig:
    monkeypatch.setattr(lexicon, "WORTH_IT", 100)
    monkeypatch.setattr(lexicon, "N_ALWAYS", 10)
    write_corpus(tmp_path, "train", 60, seed=1)
    write_corpus(tmp_path, "valid", 10, seed=2)
    data = {"src_lang": "en", "tgt_lang": "de", "train": [str(tmp_path / f"train.{s}") for s in ("en", "de")]}
    data["valid"] = [str(tmp_path / "valid.tsv")]
    found = parse_config({"name": "short", "data": data}, overrides=TINY)
    assert found.task == "translation"
    return found


@pytest.mark.slow
def test_a_training_leaves_a_shortlist_that_searches_use(config: TranslationConfig, tmp_path: Path) -> None:
    run = train(config, tmp_path / "run")
    translator = Translator.load(run, device="cpu")
    if not isinstance(translator.engine, CompiledEngine):
        pytest.skip("there is no compiled code here, which shortlists are for")
    shortlist = Shortlist.load(run, translator.tokenizers)
    assert shortlist is not None
    assert len(shortlist.always) <= 10 + lexicon.TRIED[-1] + 1
    assert np.array_equal(translator.engine.shortlist.translations, shortlist.translations)
    report = json.loads((run / "report.json").read_bytes())
    sources = [line.split("\t")[0] for line in (tmp_path / "valid.tsv").read_text("utf-8").splitlines()]
    texts, whole = ([t.text for t in translator.translate(sources, shortlist=s)] for s in (True, False))
    changed = sum(a != b for a, b in zip(texts, whole, strict=True))
    assert report["shortlist_changed_percent"] == pytest.approx(100 * changed / len(sources))
    assert report["shortlist_chrf_between"] == chrf(texts, whole, tgt_lang="de", n_bootstrap=0).value
    assert report["shortlist_bleu"] >= -lexicon.NEXT_TO_NOTHING


@pytest.mark.slow
def test_one_that_costs_too_much_is_not_kept(
    config: TranslationConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is one that an earlier attempt left."""
    scores = iter([30.0, 29.89, 29.85, 29.5])
    monkeypatch.setattr(lexicon, "bleu", lambda *a, **k: SimpleNamespace(value=next(scores)))
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / SHORTLIST).write_bytes(b"old")
    run = train(config, folder)
    assert next(scores, None) is None, "every size was tried"
    assert not (run / SHORTLIST).exists()
    assert translation_config(Run.open(run)).search.shortlist
