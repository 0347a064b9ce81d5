import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from dragoman.decoding.hypotheses import NextToken
from dragoman.model.incremental import IncrementalDecoder
from dragoman.model.kernels import FAST, PLAIN, Kernels
from dragoman.model.layers import sinusoids
from dragoman.model.static import StaticDecoder
from dragoman.model.transformer import Seq2SeqTransformer
from small_models import V, compiled_steps, random_ids, small_model

PAD = 0


@pytest.mark.parametrize("kernels", [PLAIN, FAST], ids=["plain", "fast"])
def test_padding_does_not_change_the_encoding_nor_the_logits(kernels: Kernels) -> None:
    model, src, tgt = small_model(kernels), random_ids(2, 5), random_ids(2, 4)
    padded = torch.nn.functional.pad(src, (0, 3), value=PAD)
    alone = model.encode(src, src != PAD)
    torch.testing.assert_close(model.encode(padded, padded != PAD)[:, :5], alone)
    torch.testing.assert_close(model(padded, padded != PAD, tgt), model(src, src != PAD, tgt))


@pytest.mark.parametrize("kernels", [PLAIN, FAST], ids=["plain", "fast"])
def test_future_tokens_do_not_change_earlier_logits(kernels: Kernels) -> None:
    model, src, tgt = small_model(kernels), random_ids(2, 5), random_ids(2, 6)
    changed = tgt.clone()
    changed[:, 4:] = 4
    before, after = (model(src, src != PAD, t) for t in (tgt, changed))
    torch.testing.assert_close(before[:, :4], after[:, :4])
    assert not torch.allclose(before[:, 4:], after[:, 4:])


def static_steps(model: Seq2SeqTransformer, *source: Tensor, **options: Any) -> NextToken:
    """What `IncrementalDecoder` gives, in tensors that stay."""
    return StaticDecoder(model).start(*source, **options)


on_all_decoders = pytest.mark.parametrize(
    "start",
    [IncrementalDecoder, compiled_steps, static_steps],
    ids=["plain", "compiled", "static"],
)


@pytest.mark.slow
@on_all_decoders
@pytest.mark.parametrize(
    "settings",
    [
        {"norm": "pre", "activation": "relu"},
        {"norm": "post", "activation": "gelu"},
        {"norm": "post", "activation": "swish", "output_bias": True, "positions": "stored"},
        {"norm": "pre", "scale_embeddings": False, "positions": "learned", "tie_embeddings": "none"},
    ],
    ids=["pre-norm", "post-norm", "stored positions", "learned positions"],
)
@pytest.mark.parametrize("kernels", [PLAIN, FAST], ids=["plain", "fast"])
def test_cached_decoding_equals_full_decoding(kernels: Kernels, settings: dict[str, Any], start: Any) -> None:
    model = small_model(kernels, **settings)
    for name, parameter in model.named_parameters():
        if name.endswith((".positions", "output.bias")):
            torch.nn.init.normal_(parameter)
    src, tgt = random_ids(3, 5), random_ids(3, 20)
    src[1, 3:] = PAD
    full = model(src, src != PAD, tgt).log_softmax(-1)
    step, rows = start(model, src, src != PAD), torch.arange(3)
    for t in range(20):  # beyond the room the cache starts with
        torch.testing.assert_close(step(tgt[:, t], rows), full[:, t], rtol=1e-4, atol=1e-5)


@on_all_decoders
def test_the_cache_follows_rows_that_branch_move_and_end(start: Any) -> None:
    """Rows that grow into unequal beams, change order and lose a sentence match decoding from scratch."""
    model, src = small_model(), random_ids(3, 5)
    src[2, 2:] = PAD
    moves = [[0, 1, 2], [0, 0, 1, 1, 2, 2], [1, 0, 2, 2, 5, 4], [0, 1, 4, 5], [1, 0, 2], [2]]
    step, generator = start(model, src, src != PAD), torch.Generator().manual_seed(2)
    prefixes: list[list[int]] = [[], [], []]
    sentences = [0, 1, 2]
    for parents in moves:
        last = torch.randint(4, V, (len(parents),), generator=generator)
        prefixes = [[*prefixes[p], int(token)] for p, token in zip(parents, last, strict=True)]
        sentences = [sentences[p] for p in parents]
        actual = step(last, torch.tensor(parents))
        for row, (prefix, sentence) in enumerate(zip(prefixes, sentences, strict=True)):
            one = src[sentence : sentence + 1]
            expected = model(one, one != PAD, torch.tensor([prefix]))[0, -1].log_softmax(-1)
            torch.testing.assert_close(actual[row], expected, rtol=1e-4, atol=1e-5)


@on_all_decoders
def test_random_walks_of_many_rows_match_decoding_from_scratch(start: Any) -> None:
    """Twenty sentences with a beam of three, of which one after the other ends."""
    model, src, generator = small_model(), random_ids(20, 6), torch.Generator().manual_seed(5)
    src[3:9, 4:] = PAD
    step = start(model, src, src != PAD)
    prefixes, sentences = torch.empty(20, 0, dtype=torch.long), torch.arange(20)
    parents = torch.arange(20)
    for t in range(9):  # the last two sentences go on
        last = torch.randint(4, V, (len(parents),), generator=generator)
        prefixes = torch.cat([prefixes[parents], last[:, None]], dim=1)
        sentences = sentences[parents]
        actual = step(last, parents)
        expected = model(src[sentences], src[sentences] != PAD, prefixes)[:, -1].log_softmax(-1)
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
        left = [torch.where(sentences == s)[0] for s in sentences.unique() if s % 10 != t]
        parents = torch.cat([rows[torch.randint(len(rows), (3,), generator=generator)] for rows in left])


@on_all_decoders
def test_forbidden_tokens_have_no_probability(start: Any) -> None:
    model, src = small_model(), random_ids(2, 5)
    log_probs = start(model, src, src != PAD, forbidden=(0, 1))(src[:, 0], torch.arange(2))
    assert (log_probs[:, :2] == -math.inf).all()
    torch.testing.assert_close(log_probs.exp().sum(1), torch.ones(2))


def test_sinusoids_are_the_formula_of_the_paper() -> None:
    table = sinusoids(50, 8)
    for pos, i in itertools.product((0, 1, 7, 49), range(4)):
        angle = pos / 10000 ** (2 * i / 8)
        assert table[pos, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
        assert table[pos, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_a_shift_of_positions_is_one_rotation_of_the_sinusoids() -> None:
    """PE(x + k) is linear in PE(x): each pair turns by the angle k / 10000^(2i/d), whatever x is."""
    table, k = sinusoids(100, 16).double(), 13
    angle = k / 10000 ** (torch.arange(0, 16, 2, dtype=torch.float64) / 16)
    sine, cosine = table[:-k, 0::2], table[:-k, 1::2]
    torch.testing.assert_close(table[k:, 0::2], sine * angle.cos() + cosine * angle.sin(), atol=1e-6, rtol=0)
    torch.testing.assert_close(table[k:, 1::2], cosine * angle.cos() - sine * angle.sin(), atol=1e-6, rtol=0)


@pytest.mark.parametrize(("tie", "n_tables"), [("all", 1), ("output", 2), ("none", 3)])
def test_tied_matrices_are_one_tensor(tie: str, n_tables: int) -> None:
    model = small_model(tie_embeddings=tie)
    tables = {model.src_embedding.tokens.weight, model.tgt_embedding.tokens.weight, model.output.weight}
    assert len(tables) == n_tables
    per_layer = 4 * (8 * 8 + 8)  # Q, K, V and output projection
    feed_forward = 8 * 16 + 16 + 16 * 8 + 8
    encoder_layer, decoder_layer = per_layer + feed_forward + 2 * 16, 2 * per_layer + feed_forward + 3 * 16
    assert model.n_parameters == n_tables * V * 8 + 2 * (encoder_layer + decoder_layer) + 2 * 16


def test_embeddings_are_scaled_by_the_root_of_the_width() -> None:
    model, ids = small_model(), random_ids(1, 3)
    expected = model.src_embedding.tokens.weight[ids] * math.sqrt(8) + sinusoids(3, 8)
    torch.testing.assert_close(model.src_embedding(ids, dtype=torch.float32), expected)


def test_bf16_activations_stay_close_to_fp32() -> None:
    model, src, tgt = small_model(FAST), random_ids(2, 5), random_ids(2, 4)
    exact = model(src, src != PAD, tgt)
    model.dtype = torch.bfloat16
    rounded = model(src, src != PAD, tgt)
    assert rounded.dtype == torch.bfloat16
    assert (rounded.float() - exact).abs().max() < 0.05 * exact.abs().max()
