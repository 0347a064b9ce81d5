"""Shortlists: which tokens a sentence may hold, and searches that compute no others."""

from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman.config import SearchConfig
from dragoman.decoding.hypotheses import Hypothesis
from dragoman.decoding.log_probs import ArrayLogProbs, Ints
from dragoman.errors import RunError
from dragoman.interop.ctranslate2 import CTranslate2Engine, convert, write_vocabulary_map
from dragoman.model.compiled import CompiledSteps, why_not_compiled
from dragoman.model.copies import inference_copy
from dragoman.model.kernels import FAST
from dragoman.model.transformer import Seq2SeqTransformer
from dragoman.predict.engine import SearchInput, Started, StepEngine
from dragoman.predict.shortlist import N_RESERVED, SHORTLIST, Shortlist
from dragoman.predict.torch_engine import TorchEngine, engine_of
from dragoman.predict.translator import Translator
from dragoman.runs import Run
from dragoman.tensors import save_tensors
from dragoman.text.tokenizer import BOS_ID, EOS_ID

TEXTS = ["red cat", "big old house", "small bird river tree", "blue dog"]
SEARCHES = {
    "greedy": {"beam_size": 1},
    "beam": {"beam_size": 4, "n_best": 4},
    "diverse": {"beam_size": 4, "diversity_groups": 2, "n_best": 3},
    "no repetition": {"beam_size": 3, "n_best": 3, "no_repeat_ngram": 1},
}
PASSED_BY = {
    "sampling": {"method": "sampling", "n_best": 2},
    "coverage": {"beam_size": 3, "coverage_penalty": 0.3},
    "off": {"beam_size": 3, "shortlist": False},
}


@pytest.fixture
def shortlist(translator: Translator) -> Shortlist:
    """Any tokens, few enough that they change what is found."""
    n_sources, vocab_size = (t.vocab_size for t in (translator.tokenizers.src, translator.tokenizers.tgt))
    drawn = np.random.default_rng(3)
    translations = drawn.integers(-1, vocab_size, (n_sources, 5))
    return Shortlist(drawn.integers(0, vocab_size, 6), translations)


def sentences(translator: Translator, **options: object) -> list[SearchInput]:
    sources = translator.tokenizers.src.encode_batch(TEXTS)
    return [SearchInput([*ids, EOS_ID], number=i, **options) for i, ids in enumerate(sources)]  # type: ignore[arg-type]


def may_hold(shortlist: Shortlist, sentence: SearchInput) -> set[int]:
    """By the definition."""
    found = {*range(N_RESERVED), *shortlist.always.tolist(), *sentence.prefix}
    for token in sentence.source:
        found |= {i for i in shortlist.translations[token].tolist() if i >= 0}
    return found


class Masked(StepEngine):
    """The search over all tokens, in which those that a sentence must not hold have no probability."""

    def __init__(self, inner: StepEngine, shortlist: Shortlist) -> None:
        self.inner, self.shortlist = inner, shortlist

    @property
    def longest(self) -> int:
        return self.inner.longest

    def _search(self, sentences, settings):  # type: ignore[no-untyped-def]
        self.may_hold = [may_hold(self.shortlist, sentence) for sentence in sentences]
        return super()._search(sentences, settings)

    def start(self, sources: object, settings: SearchConfig, sentences: object = ()) -> Started:
        whole = self.inner.start(sources, settings).step
        rows = np.arange(len(sources))

        def masked(last: Ints, parents: Ints) -> ArrayLogProbs:
            nonlocal rows
            rows = rows[parents]
            log_probs = whole(last, parents).all().copy()
            for row, sentence in zip(log_probs, rows.tolist(), strict=True):
                out = [i for i in range(len(row)) if i not in self.may_hold[sentence]]
                row[out] = -np.inf
            return ArrayLogProbs(log_probs - np.log(np.exp(log_probs).sum(axis=1, keepdims=True)))

        return Started(masked)


def ids_of(found: list[list[Hypothesis]]) -> list[list[tuple[int, ...]]]:
    return [[h.ids for h in own] for own in found]


def assert_same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    assert ids_of(found) == ids_of(expected)
    scores = [h.score for own in expected for h in own]
    assert [h.score for own in found for h in own] == pytest.approx(scores, rel=1e-4)


@pytest.mark.parametrize("settings", SEARCHES.values(), ids=SEARCHES)
def test_a_search_finds_what_one_finds_that_forbids_all_others(
    translator: Translator, shortlist: Shortlist, settings: dict[str, object]
) -> None:
    search = SearchConfig().changed(settings, where="test")
    engine = engine_of(translator.model, shortlist=shortlist)
    plain, prefix = sentences(translator), translator.tokenizers.tgt.encode("rot")
    for variant in (plain, sentences(translator, prefix=prefix)):
        expected = Masked(engine_of(translator.model), shortlist).search(variant, search)
        found = engine.search(variant, search)
        assert_same(found, expected)
        for sentence, own in zip(variant, found, strict=True):
            assert all(may_hold(shortlist, sentence) >= set(h.ids) for h in own)
    without = engine_of(translator.model).search(plain, search)
    assert ids_of(engine.search(plain, search)) != ids_of(without), "this shortlist changes nothing"


@pytest.mark.parametrize("settings", SEARCHES.values(), ids=SEARCHES)
def test_an_ensemble_with_a_model_that_is_not_compiled_has_all_tokens(
    translator: Translator, shortlist: Shortlist, settings: dict[str, object]
) -> None:
    torch.manual_seed(1)
    other = Seq2SeqTransformer(
        translator.model.config,
        src_vocab_size=translator.tokenizers.src.vocab_size,
        tgt_vocab_size=translator.tokenizers.tgt.vocab_size,
        kernels=FAST,
    )
    other.stepping = "incremental"
    models = translator.model, other.eval().requires_grad_(False)
    search = SearchConfig().changed(settings, where="test")
    found = engine_of(*models, shortlist=shortlist).search(sentences(translator), search)
    other.stepping = "fast"
    assert_same(found, engine_of(*models).search(sentences(translator), search))


@pytest.mark.slow
@pytest.mark.usefixtures("both_steps")
@pytest.mark.parametrize("kind", ["one", "two", "int8", "shortlist"])
@pytest.mark.parametrize("settings", [*SEARCHES.values(), PASSED_BY["sampling"]], ids=[*SEARCHES, "sampling"])
def test_other_sentences_in_the_batch_change_nothing(
    translator: Translator, shortlist: Shortlist, settings: dict[str, object], kind: str
) -> None:
    model = inference_copy(translator.model, torch.float32)
    if kind == "int8" and why_not_compiled(model.config, "int8"):
        pytest.skip("this processor does not multiply in int8")
    models = [model] * (1 + (kind == "two"))
    engine = engine_of(*models, int8=kind == "int8", shortlist=shortlist if kind == "shortlist" else None)
    search = SearchConfig().changed(settings, where="test")
    alone = [engine.search([sentence], search)[0] for sentence in sentences(translator)]
    together = engine.search(sentences(translator), search)
    assert_same(together, alone)


def test_no_gradient_is_kept(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service searches in threads of its own, in which PyTorch keeps gradients by default."""
    began: list[Started] = []
    engine = TorchEngine(translator.model)
    start = engine.start
    monkeypatch.setattr(engine, "start", lambda *args: began.append(start(*args)) or began[-1])
    engine.search(sentences(translator), SearchConfig(beam_size=2))
    (keys, values), *_ = began[0].step._decoders[0].cross  # type: ignore[attr-defined]
    assert keys.is_inference()
    assert values.is_inference()


@pytest.mark.parametrize("settings", PASSED_BY.values(), ids=PASSED_BY)
def test_what_needs_all_tokens_has_them(
    translator: Translator, shortlist: Shortlist, settings: dict[str, object]
) -> None:
    search = SearchConfig().changed(settings, where="test")
    with_it, without = engine_of(translator.model, shortlist=shortlist), engine_of(translator.model)
    assert with_it.search(sentences(translator), search) == without.search(sentences(translator), search)


def test_a_sentence_holds_what_it_may_hold(translator: Translator, shortlist: Shortlist) -> None:
    vocab_size = translator.tokenizers.tgt.vocab_size
    (decoder,) = translator.engine.models
    for sentence in sentences(translator):
        allowed = shortlist.allowed([sentence.source], [()], vocab_size)
        assert set(allowed[0].nonzero()[0].tolist()) == may_hold(shortlist, sentence)
        steps = CompiledSteps(decoder, [sentence.source], allowed=allowed)
        log_probs = steps(np.array([BOS_ID]), np.array([0]))
        assert steps.ids is not None
        assert log_probs.shape == (1, len(steps.ids))
        assert set(steps.ids[log_probs[0] > -np.inf].tolist()) == may_hold(shortlist, sentence)
        assert steps.ids[:N_RESERVED].tolist() == list(range(N_RESERVED))


def test_it_is_kept_in_the_run(translator: Translator, shortlist: Shortlist, tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", translator.config)
    assert Shortlist.load(run.path, translator.tokenizers) is None
    shortlist.save(run)
    again = Shortlist.load(run.path, translator.tokenizers)
    assert again is not None
    assert np.array_equal(again.always, shortlist.always)
    assert np.array_equal(again.translations, shortlist.translations)


@pytest.mark.parametrize(
    "damage",
    [
        lambda t: {"always": t["always"]},
        lambda t: {**t, "translations": t["translations"][1:]},
        lambda t: {**t, "translations": t["translations"] + 100_000},
        lambda t: {**t, "always": t["always"][None]},
        lambda t: {**t, "always": t["always"].float()},
        lambda t: {name: torch.zeros_like(tensor) for name, tensor in t.items()},
    ],
)
def test_a_damaged_one_is_refused_by_name(
    translator: Translator, shortlist: Shortlist, tmp_path: Path, damage: object
) -> None:
    arrays = {"always": shortlist.always, "translations": shortlist.translations}
    tensors = {name: torch.from_numpy(ids) for name, ids in arrays.items()}
    save_tensors(tmp_path / SHORTLIST, damage(tensors))  # type: ignore[operator]
    with pytest.raises(RunError, match=r"shortlist\.safetensors: is damaged, or of another vocabulary"):
        Shortlist.load(tmp_path, translator.tokenizers)


def test_ctranslate2_reads_it(translator: Translator, shortlist: Shortlist, tmp_path: Path) -> None:
    """Its search among the candidates finds what the native one finds."""
    pytest.importorskip("ctranslate2")
    convert(translator.model, translator.tokenizers, tmp_path)
    write_vocabulary_map(shortlist, translator.tokenizers, tmp_path)
    engine = CTranslate2Engine(tmp_path, translator.tokenizers, translator.model.config)
    native = engine_of(translator.model, shortlist=shortlist)
    pieces = translator.tokenizers.tgt.pieces()
    changed = 0
    for sentence in sentences(translator):
        source = engine._pieces([sentence.source])
        greedy = native.search([sentence], SearchConfig(beam_size=1, max_length_extra=20))[0][0]
        options = {"beam_size": 1, "min_decoding_length": 1, "max_decoding_length": len(greedy.ids) or 1}
        found = engine.translator.translate_batch(source, use_vmap=True, **options)[0].hypotheses[0]
        assert found == [pieces[i] for i in greedy.ids]
        changed += found != engine.translator.translate_batch(source, **options)[0].hypotheses[0]
    assert changed, "this shortlist does not change anything"
