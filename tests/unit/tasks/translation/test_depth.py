"""A translator of another depth: what it says before it learns, and which layers it has."""

from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import ModelConfig, parse_config
from dragoman.model.transformer import Seq2SeqTransformer, decoder_layers, encoder_layers
from dragoman.runs import Run
from dragoman.tasks.translation.starting import misfits, start_weights, taken_layers


def model_of(n_encoder_layers: int, n_decoder_layers: int, *, seed: int = 0) -> Seq2SeqTransformer:
    torch.manual_seed(seed)
    config = ModelConfig(
        d_model=8, n_heads=2, d_ff=16, dropout=0.3,
        n_encoder_layers=n_encoder_layers, n_decoder_layers=n_decoder_layers,
    )  # fmt: skip
    model = Seq2SeqTransformer(config, src_vocab_size=11, tgt_vocab_size=11)
    with torch.no_grad():
        for parameter in model.parameters():  # biases and norms, too, are to be told from fresh ones
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def run_of(model: Seq2SeqTransformer, folder: Path) -> Run:
    """A run with the weights of `model`, and no more."""
    settings = {
        "name": "there",
        "data": {"src_lang": "en", "tgt_lang": "de", "train": ["train.en", "train.de"]},
        "model": model.config.model_dump(),
    }
    run = Run.create(folder, parse_config(settings))
    run.save_weights(dict(model.named_parameters()))
    return run


SRC = torch.tensor([[3, 4, 5, 6], [7, 8, 2, 0]])
SRC_MASK = SRC != 0
TGT_IN = torch.tensor([[1, 4, 9], [1, 5, 5]])


@pytest.mark.parametrize(("n_encoder_layers", "n_decoder_layers"), [(6, 2), (4, 5)])
def test_a_deeper_translator_says_exactly_what_it_came_from(
    n_encoder_layers: int, n_decoder_layers: int, tmp_path: Path
) -> None:
    old = model_of(3, 2).eval()
    new = model_of(n_encoder_layers, n_decoder_layers, seed=1).eval()
    start_weights(new, run_of(old, tmp_path / "run"))
    assert torch.equal(new(SRC, SRC_MASK, TGT_IN), old(SRC, SRC_MASK, TGT_IN))


def test_new_layers_learn(tmp_path: Path) -> None:
    new = model_of(6, 1, seed=1)
    start_weights(new, run_of(model_of(3, 2), tmp_path / "run"))
    new(SRC, SRC_MASK, TGT_IN).logsumexp(-1).sum().backward()
    added = [encoder_layers(new)[i] for i in (1, 3, 5)]
    for layer in added:
        for last in (layer.self_attention.out_proj, layer.feed_forward.linear2):
            assert not last.weight.any()
            assert last.weight.grad is not None
            assert last.weight.grad.any(), "zero, but not for ever"


def test_a_shallow_decoder_has_the_first_layer_of_the_deep_one(tmp_path: Path) -> None:
    old, new = model_of(2, 3), model_of(2, 1, seed=1)
    start_weights(new, run_of(old, tmp_path / "run"))
    (own,) = decoder_layers(new)
    for name, value in decoder_layers(old)[0].named_parameters():
        assert torch.equal(own.get_parameter(name), value)
    assert torch.equal(new.decoder_norm.weight, old.decoder_norm.weight)
    assert torch.equal(new.tgt_embedding.tokens.weight, old.tgt_embedding.tokens.weight)


@given(n_there=st.integers(1, 30), n_here=st.integers(1, 60))
def test_layers_keep_their_order_and_none_is_taken_twice(n_there: int, n_here: int) -> None:
    taken = taken_layers(n_there, n_here)
    old = [place for place in taken if place is not None]
    assert len(taken) == n_here
    assert len(old) == min(n_there, n_here)
    assert old == sorted(set(old))
    assert old[0] == 0
    if n_here >= n_there:
        assert old == list(range(n_there))
        gaps = [b - a for a, b in pairwise([i for i, place in enumerate(taken) if place is not None])]
        assert not gaps or max(gaps) - min(gaps) <= 1, "new layers are spread evenly"
    elif n_here > 1:
        assert old[-1] == n_there - 1
        gaps = [b - a for a, b in pairwise(old)]
        assert max(gaps) - min(gaps) <= 1


def test_width_must_be_the_same_and_post_norm_cannot_be_deepened() -> None:
    there = ModelConfig(n_encoder_layers=3, n_decoder_layers=3)
    assert misfits(there, there.model_copy(update={"n_encoder_layers": 6, "dropout": 0.5})) == []
    wider = there.model_copy(update={"d_ff": there.d_ff + 1})
    assert misfits(there, wider) == [f"model.d_ff is {there.d_ff} there, {wider.d_ff} here"]
    post = there.model_copy(update={"norm": "post"})
    assert misfits(post, post.model_copy(update={"n_decoder_layers": 1})) == []
    (reason,) = misfits(post, post.model_copy(update={"n_encoder_layers": 4}))
    assert reason.startswith("model.n_encoder_layers is 3 there, 4 here, and no layer of norm")
