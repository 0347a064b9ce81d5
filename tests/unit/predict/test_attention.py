"""Where a translator looks, and the picture of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dragoman.errors import DataError
from dragoman.model.layers import MultiHeadAttention, attention_weights
from dragoman.predict.alignment import align, align_words
from dragoman.predict.attention import AttentionMap, attention_maps
from dragoman.predict.translator import Translator
from dragoman.report.attention import plot_alignment, plot_attention, plot_layers
from dragoman.text.spans import words_of


def test_the_weights_are_those_that_the_block_applies(translator: Translator) -> None:
    """Values of one-hot vectors make a block return its weights, before the output projection."""
    torch.manual_seed(1)
    attention: MultiHeadAttention = translator.model.decoder[0].cross_attention
    d_head = translator.config.model.d_model // attention.n_heads
    x, memory = (
        torch.randn(1, 3, attention.n_heads * d_head),
        torch.randn(1, d_head, attention.n_heads * d_head),
    )
    q, k = attention.project_query(x), attention.project_memory(memory)[0]
    one_hot = torch.eye(d_head).repeat(1, attention.n_heads)[None]  # (1, S, D)
    applied = attention.kernels.attention(*map(attention.split_heads, (q, k, one_hot)), None, 0.0)
    torch.testing.assert_close(attention_weights(*map(attention.split_heads, (q, k))), applied)


def test_looking_does_not_change_the_translator(translator: Translator) -> None:
    before = translator.translate(["red cat", "old house"])
    attention_maps(translator, "red cat", "rot Katze")
    assert translator.translate(["red cat", "old house"]) == before
    blocks = [module for module in translator.model.modules() if isinstance(module, MultiHeadAttention)]
    assert not any(block._forward_pre_hooks for block in blocks)


def test_a_later_target_token_does_not_change_earlier_rows(translator: Translator) -> None:
    short, long = (attention_maps(translator, "red cat", text).cross for text in ("rot", "rot Katze Hund"))
    shared = len(short.rows)  # row t is computed from the tokens before t
    np.testing.assert_allclose(long.weights[:, :, :shared], short.weights, atol=1e-5)


def test_every_row_is_a_distribution_over_the_side_that_is_looked_at(translator: Translator) -> None:
    maps = attention_maps(translator, "red cat big dog", "rot Katze groß")
    config = translator.config.model
    for attention, n_layers in (
        (maps.encoder, config.n_encoder_layers),
        (maps.decoder, config.n_decoder_layers),
        (maps.cross, config.n_decoder_layers),
    ):
        shape = (n_layers, config.n_heads, len(attention.rows), len(attention.columns))
        assert attention.weights.shape == shape
        assert (attention.weights >= 0).all()
        np.testing.assert_allclose(attention.weights.sum(-1), 1.0, atol=1e-5)
    for text, tokenizer, rows in (
        ("red cat big dog", translator.tokenizers.src, maps.encoder.rows),
        ("rot Katze groß", translator.tokenizers.tgt, maps.decoder.rows),
    ):
        assert rows == (*(token.piece for token in tokenizer.tokens(text)), "</s>")
    assert maps.encoder.rows == maps.encoder.columns == maps.cross.columns
    assert maps.decoder.rows == maps.cross.rows
    assert maps.decoder.columns == ("<s>", *maps.cross.rows[:-1])


def test_the_decoder_never_looks_at_what_is_not_written_yet(translator: Translator) -> None:
    weights = attention_maps(translator, "red cat", "rot Katze groß Hund").decoder.weights
    assert (
        weights[np.broadcast_to(np.triu(np.ones(weights.shape[-2:], dtype=bool), 1), weights.shape)] == 0
    ).all()
    assert (weights[:, :, 0, 0] == 1).all()  # the first token sees the start token alone


def test_the_encoder_looks_the_same_whatever_the_translation(translator: Translator) -> None:
    one, other = (attention_maps(translator, "red cat", target).encoder for target in ("rot", "Hund Hund"))
    np.testing.assert_array_equal(one.weights, other.weights)


def test_the_links_of_a_picture_are_those_of_align(translator: Translator) -> None:
    source, target = "red cat, big dog", "rot Katze groß"
    found = align_words(translator, source, target)
    (links,) = align(translator, [source], [target])
    spans = [(words_of(source)[s], words_of(target)[t]) for s, t in found.links]
    assert spans == [
        ((link.source_start, link.source_end), (link.target_start, link.target_end)) for link in links
    ]
    assert [float(found.weights[t, s]) for s, t in found.links] == [link.weight for link in links]
    assert found.src_words == ("red", "cat", ",", "big", "dog")
    np.testing.assert_allclose(found.weights.sum(1), 1.0, atol=1e-5)


@pytest.mark.slow
def test_every_layer_has_its_picture_and_every_link_its_frame(translator: Translator, tmp_path: Path) -> None:
    config = translator.config.model
    files = plot_layers(attention_maps(translator, "red cat", "rot Katze"), tmp_path)
    assert next(iter(files)) == f"Encoder self-attention, layer 1 of {config.n_encoder_layers}"
    assert len(files) == config.n_encoder_layers + 2 * config.n_decoder_layers
    assert sorted(files.values()) == sorted(tmp_path.iterdir())
    alignment = align_words(translator, "red cat", "rot Katze")
    plot_alignment(alignment, tmp_path / "alignment.svg", title="Links")
    drawn = (tmp_path / "alignment.svg").read_text("utf-8")
    assert {f'id="link-{s}-{t}"' in drawn for s, t in alignment.links} == {True}
    assert drawn.count('id="link-') == len(alignment.links)


@pytest.mark.parametrize(
    ("look", "source", "target", "message"),
    [
        (attention_maps, " ", "rot", "the source is empty; attention needs a sentence on both sides"),
        (attention_maps, "red", "", "the target is empty"),
        (attention_maps, "red", "rot " * 512, r"the target has \d+ tokens and the model accepts 512; tak"),
        (align_words, "red", " ", r"there is nothing to align: a side is empty, or has \d+ tokens or more"),
    ],
)
def test_empty_and_endless_texts_are_refused(
    translator: Translator, look: Callable[..., Any], source: str, target: str, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        look(translator, source, target)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "magic"), [("a.svg", b"<?xml"), ("a.png", b"\x89PNG")])
def test_the_suffix_chooses_the_kind_of_picture(tmp_path: Path, name: str, magic: bytes) -> None:
    weights = np.full((2, 4, 3, 2), 0.5, dtype=np.float32)
    plot_attention(AttentionMap(weights, ("▁b", "c", "</s>"), ("▁a", "</s>")), tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(magic)
    with pytest.raises(DataError, match=r"layer = 2: there are 2, numbered from 0"):
        plot_attention(AttentionMap(weights, ("▁b", "c", "</s>"), ("▁a", "</s>")), tmp_path / name, layer=2)
