"""The table of the architecture names what `Seq2SeqTransformer` has."""

import itertools

import pytest
import torch

from dragoman.config import ModelConfig
from dragoman.model.architecture import embedding_names, parameters
from dragoman.model.transformer import Seq2SeqTransformer

VARIANTS = [
    {"norm": norm, "positions": positions, "tie_embeddings": ties, "output_bias": bias}
    for norm, positions, ties, bias in itertools.product(
        ("pre", "post"), ("sinusoidal", "learned", "stored"), ("all", "output", "none"), (False, True)
    )
]


@pytest.mark.parametrize("settings", VARIANTS, ids=lambda settings: " ".join(map(str, settings.values())))
def test_the_table_has_the_parameters_of_the_model(settings: dict[str, object]) -> None:
    config = ModelConfig.model_validate({
        "d_model": 6, "n_heads": 2, "d_ff": 5, "n_encoder_layers": 2, "n_decoder_layers": 1,
        "max_positions": 7, **settings,
    })  # fmt: skip
    n_src, n_tgt = (11, 11) if config.tie_embeddings == "all" else (11, 13)
    with torch.device("meta"):
        model = Seq2SeqTransformer(config, src_vocab_size=n_src, tgt_vocab_size=n_tgt)
    expected = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    found = {parameter.name: parameter.shape for parameter in parameters(config, n_src, n_tgt)}
    assert found == expected
    embeddings = model.src_embedding.tokens, model.tgt_embedding.tokens, model.output
    own = dict(model.named_parameters())
    for name, module in zip(embedding_names(config), embeddings, strict=True):
        assert own[name] is module.weight
