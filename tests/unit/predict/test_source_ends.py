"""Two settings that models of other toolkits need: the epsilon of norms, and sources without an end token."""

from pathlib import Path

import pytest
import torch

from dragoman.config import SearchConfig
from dragoman.data.batching import source_mask
from dragoman.interop.ctranslate2 import CTranslate2Engine, convert
from dragoman.model.kernels import FAST
from dragoman.model.layers import LayerNorm
from dragoman.model.transformer import Seq2SeqTransformer
from dragoman.predict.engine import SearchInput
from dragoman.predict.torch_engine import TorchEngine, engine_of
from dragoman.predict.translator import Translator
from dragoman.text.tokenizer import EOS_ID, PAD_ID
from small_models import random_ids, small_model


def ended(src: torch.Tensor, n_padding: int = 0) -> torch.Tensor:
    end = torch.full((len(src), 1), EOS_ID)
    return torch.cat([src, end, torch.full((len(src), n_padding), PAD_ID)], dim=1)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_every_norm_has_the_epsilon_of_the_settings(norm: str) -> None:
    model = small_model(FAST, norm=norm, norm_eps=0.25)
    norms = [module for module in model.modules() if isinstance(module, LayerNorm)]
    assert len(norms) == 10 + 2 * (norm == "pre")
    assert {module.eps for module in norms} == {0.25}


def test_without_source_end_the_end_token_is_as_if_it_were_not_there() -> None:
    model, src, tgt = small_model(FAST, source_end=False), random_ids(2, 5), random_ids(2, 4)
    without = model(src, torch.ones_like(src, dtype=torch.bool), tgt)
    for n_padding in (0, 3):
        padded = ended(src, n_padding)
        mask = source_mask(padded, with_end=model.config.source_end)
        assert mask.sum() == src.numel()
        torch.testing.assert_close(model(padded, mask, tgt), without)


def test_a_source_of_its_end_alone_is_still_something_to_look_at() -> None:
    src = torch.tensor([[EOS_ID, PAD_ID], [7, EOS_ID]])
    assert source_mask(src, with_end=False).tolist() == [[True, False], [True, False]]
    assert source_mask(src, with_end=True).tolist() == [[True, False], [True, True]]


def test_all_decoders_and_scores_leave_the_end_of_a_source_out() -> None:
    model, src = small_model(FAST, source_end=False), random_ids(3, 5)
    settings = SearchConfig(beam_size=3, n_best=3, max_length_extra=4)
    sentences = [SearchInput([*row, EOS_ID]) for row in src.tolist()]
    for coverage_penalty in (0.0, 0.1):  # the packed decoder, and the one that says where it looks
        changed = settings.changed({"coverage_penalty": coverage_penalty}, where="test")
        for sentence, found in zip(src.tolist(), engine_of(model).search(sentences, changed), strict=True):
            for best in found:
                tgt_in = torch.tensor([[1, *best.ids]])
                logits = model(torch.tensor([sentence]), torch.ones(1, 5, dtype=torch.bool), tgt_in)[0]
                logits[:, [0, 1, 3]] = -torch.inf
                log_probs = logits.log_softmax(-1)
                targets = torch.tensor([*best.ids, EOS_ID])
                own = float(log_probs[torch.arange(len(targets)), targets].sum())
                assert best.log_prob == pytest.approx(own, abs=1e-3)
                scored = TorchEngine(model).score([[*sentence, EOS_ID]], [best.ids])
                assert sum(scored[0]) == pytest.approx(own, abs=1e-3)


def test_ctranslate2_leaves_the_end_of_a_source_out(translator: Translator, tmp_path: Path) -> None:
    config = translator.model.config.model_copy(update={"source_end": False, "norm_eps": 1e-3})
    sizes = [pair.vocab_size for pair in (translator.tokenizers.src, translator.tokenizers.tgt)]
    torch.manual_seed(2)
    model = Seq2SeqTransformer(config, src_vocab_size=sizes[0], tgt_vocab_size=sizes[1]).eval()
    convert(model, translator.tokenizers, tmp_path / "model")
    source = [10, 11, 12, EOS_ID]
    native = engine_of(model).search([SearchInput(source)], SearchConfig(beam_size=1))[0][0]
    engine = CTranslate2Engine(tmp_path / "model", translator.tokenizers, config)
    assert sum(engine.score([source], [native.ids])[0]) == pytest.approx(native.log_prob, abs=1e-4)
    engine = CTranslate2Engine(tmp_path / "model", translator.tokenizers, translator.model.config)
    assert abs(sum(engine.score([source], [native.ids])[0]) - native.log_prob) > 1e-3  # it read the end
