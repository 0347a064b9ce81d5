"""What a model of another toolkit needs of ours: positions in a table, a bias of the output, and swish."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from dragoman.config import ModelConfig, TrainingConfig, parse_config
from dragoman.data.batching import TranslationBatch
from dragoman.errors import ConfigError
from dragoman.model.kernels import FAST, PLAIN, Kernels
from dragoman.model.transformer import Seq2SeqTransformer
from dragoman.runs import Run
from dragoman.tasks.translation.loss import batch_loss
from dragoman.tasks.translation.starting import open_start
from dragoman.training.updates.captured import Gradients
from dragoman.training.updates.optimizer import make_optimizer

V, PAD = 11, 0


def small(kernels: Kernels = PLAIN, **settings: Any) -> Seq2SeqTransformer:
    torch.manual_seed(3)
    config = ModelConfig.model_validate({
        "d_model": 8, "n_heads": 2, "d_ff": 12, "n_encoder_layers": 1, "n_decoder_layers": 1, "dropout": 0.0,
        "max_positions": 10, **settings,
    })  # fmt: skip
    return Seq2SeqTransformer(config, src_vocab_size=V, tgt_vocab_size=V, kernels=kernels)


def batch() -> TranslationBatch:
    ids = torch.randint(4, V, (3, 5), generator=torch.Generator().manual_seed(1))
    ids[1, 3:] = PAD
    return TranslationBatch(src=ids, tgt_in=ids.clone(), tgt_out=ids.clone())


@pytest.mark.parametrize("consistency", [0.0, 2.0])
@pytest.mark.parametrize("kernels", [PLAIN, FAST], ids=["plain", "fast"])
def test_the_bias_is_part_of_the_loss_and_of_its_gradient(kernels: Kernels, consistency: float) -> None:
    model = small(kernels, output_bias=True)
    nn.init.normal_(model.output.bias)
    given = batch()
    loss = batch_loss(model, given, smoothing=0.1, consistency=consistency)
    loss.smoothed.backward()
    found = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}  # type: ignore[union-attr]
    model.zero_grad()
    logits = model(given.src, given.src != PAD, given.tgt_in)
    targets = given.tgt_out.masked_fill(given.tgt_out == PAD, -100)
    # Without dropout both passes are the same, and disagree in nothing.
    expected = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), label_smoothing=0.1, reduction="sum")
    expected.backward()
    torch.testing.assert_close(loss.smoothed, expected)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad, rtol=1e-4, atol=1e-5)


def test_a_stored_table_is_never_trained_and_a_learned_one_does_not_decay() -> None:
    for positions, trained in (("stored", False), ("learned", True)):
        model = small(positions=positions, output_bias=True)
        optimizer = make_optimizer(model, TrainingConfig(weight_decay=0.5))
        decayed, others = ({id(p) for p in group["params"]} for group in optimizer.param_groups)
        for embedding in (model.src_embedding, model.tgt_embedding):
            assert (id(embedding.positions) in others) is trained
            assert id(embedding.positions) not in decayed
        assert id(model.output.bias) in others
        before = model.src_embedding.positions.detach().clone()
        gradients = Gradients(model, torch.device("cpu"))
        assert (model.src_embedding.positions.grad is not None) is trained
        del gradients
        batch_loss(model, batch(), smoothing=0.0).smoothed.backward()
        optimizer.step()
        assert torch.equal(model.src_embedding.positions, before) is not trained


@pytest.mark.parametrize("positions", ["learned", "stored"])
def test_a_table_has_as_many_positions_as_the_run_it_comes_from(positions: str, tmp_path: Path) -> None:
    settings = {
        "name": "x",
        "data": {"src_lang": "en", "tgt_lang": "de", "train": ["x.tsv"], "max_length": 10},
        "model": {"positions": positions, "max_positions": 20},
    }
    there = parse_config(settings)
    Run.create(tmp_path / "there", there)
    start = f"training.start_from={tmp_path / 'there'}"
    here = parse_config(settings, overrides=["model.max_positions=30", start])
    assert here.task == "translation"
    with pytest.raises(ConfigError, match="max_positions is 20 there, 30 here"):
        open_start(here)
