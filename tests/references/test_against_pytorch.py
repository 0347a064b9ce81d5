"""The whole model, block by block, equals PyTorch's own on copied weights."""

import pytest
import torch
from torch import nn

from dragoman.config import ModelConfig
from dragoman.model.kernels import FAST, PLAIN, Kernels
from dragoman.model.layers import DecoderLayer, EncoderLayer, FeedForward, MultiHeadAttention
from dragoman.model.transformer import Seq2SeqTransformer, causal_attention_bias

B, S, T, D, H = 3, 7, 5, 8, 2

both_kernels = pytest.mark.parametrize("kernels", [PLAIN, FAST], ids=["plain", "fast"])
both_norms = pytest.mark.parametrize("norm", ["pre", "post"])
both_activations = pytest.mark.parametrize("activation", ["relu", "gelu"])


def config(**settings: object) -> ModelConfig:
    return ModelConfig.model_validate(
        {"d_model": D, "n_heads": H, "d_ff": 16, "n_encoder_layers": 2, "n_decoder_layers": 2, **settings}
    )


def randomise(module: nn.Module) -> None:
    """Biases and norms too, so that none is hidden behind its initial value."""
    torch.manual_seed(1)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)


def src_mask() -> torch.Tensor:
    lengths = torch.tensor([S, S - 2, 1])
    return torch.arange(S) < lengths[:, None]


def copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    theirs.load_state_dict(
        {
            "in_proj_weight": ours.in_proj.weight,
            "in_proj_bias": ours.in_proj.bias,
            "out_proj.weight": ours.out_proj.weight,
            "out_proj.bias": ours.out_proj.bias,
        }
    )


def copy_feed_forward(ours: FeedForward, theirs: nn.Module) -> None:
    theirs.linear1.load_state_dict(ours.linear1.state_dict())
    theirs.linear2.load_state_dict(ours.linear2.state_dict())


def copy_encoder_layer(ours: EncoderLayer, theirs: nn.TransformerEncoderLayer) -> None:
    copy_attention(ours.self_attention, theirs.self_attn)
    copy_feed_forward(ours.feed_forward, theirs)
    theirs.norm1.load_state_dict(ours.residuals[0].norm.state_dict())
    theirs.norm2.load_state_dict(ours.residuals[1].norm.state_dict())


def copy_decoder_layer(ours: DecoderLayer, theirs: nn.TransformerDecoderLayer) -> None:
    copy_attention(ours.self_attention, theirs.self_attn)
    copy_attention(ours.cross_attention, theirs.multihead_attn)
    copy_feed_forward(ours.feed_forward, theirs)
    for i, norm in enumerate([theirs.norm1, theirs.norm2, theirs.norm3]):
        norm.load_state_dict(ours.residuals[i].norm.state_dict())


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")  # torch's own, about its fast path
@both_kernels
@both_norms
@both_activations
def test_whole_model_equals_torch(kernels: Kernels, norm: str, activation: str) -> None:
    """Embeddings, positions, both stacks with their closing norms, and the projection."""
    settings = config(norm=norm, activation=activation, dropout=0.0)
    ours = Seq2SeqTransformer(settings, src_vocab_size=20, tgt_vocab_size=20, kernels=kernels)
    randomise(ours)
    theirs = nn.Transformer(
        D, H, 2, 2, 16, 0.0, activation=activation, norm_first=norm == "pre", batch_first=True
    )
    if norm == "post":  # nn.Transformer closes both stacks with a norm, which the paper does not
        theirs.encoder.norm, theirs.decoder.norm = nn.Identity(), nn.Identity()
    else:
        theirs.encoder.norm.load_state_dict(ours.encoder_norm.state_dict())
        theirs.decoder.norm.load_state_dict(ours.decoder_norm.state_dict())
    for mine, other in zip(ours.encoder, theirs.encoder.layers, strict=True):
        copy_encoder_layer(mine, other)
    for mine, other in zip(ours.decoder, theirs.decoder.layers, strict=True):
        copy_decoder_layer(mine, other)
    src, tgt, mask = torch.randint(4, 20, (B, S)), torch.randint(4, 20, (B, T)), src_mask()
    embedded = [
        embedding(ids, dtype=torch.float32)
        for embedding, ids in ((ours.src_embedding, src), (ours.tgt_embedding, tgt))
    ]
    hidden = theirs(
        *embedded,
        tgt_mask=causal_attention_bias(T, device=src.device),
        src_key_padding_mask=~mask,
        memory_key_padding_mask=~mask,
    )
    expected = hidden @ ours.output.weight.T
    torch.testing.assert_close(ours(src, mask, tgt), expected, rtol=1e-3, atol=1e-4)
