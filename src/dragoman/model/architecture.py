"""The parameters of a translator in one table: their names, their shapes, and what lies along each axis.

`Seq2SeqTransformer` makes these parameters; a test compares the two. Code that reads or writes weights for
another toolkit says by which names that toolkit has each part; shapes, stacking and orders of dimensions
follow from the table.

Axes: S source tokens, T target tokens, D the residual stream, A the heads side by side (as wide as D), 3A
queries, keys and values stacked, F inside the feed-forward block, P positions.
"""

from __future__ import annotations

from typing import NamedTuple

from dragoman.config import ModelConfig

SIDES = {"encoder": "src", "decoder": "tgt"}
"""The two stacks of layers, and the side of the text that each reads."""

ATTENTION = {"in_proj": ("3A", "D"), "out_proj": ("D", "A")}
FEED_FORWARD = {"linear1": ("F", "D"), "linear2": ("D", "F")}
SUBLAYERS = {
    "encoder": {"self_attention": ATTENTION, "feed_forward": FEED_FORWARD},
    "decoder": {"self_attention": ATTENTION, "cross_attention": ATTENTION, "feed_forward": FEED_FORWARD},
}
"""The sub-layers of a layer, in order, and the axes of their matrices; a bias lies along the first axis."""


class Parameter(NamedTuple):
    """One parameter, and what it is."""

    name: str
    """As in `Seq2SeqTransformer.named_parameters()`, such as "decoder.0.residuals.2.norm.weight"."""
    side: str
    """ "encoder" or "decoder"; "" for embeddings and the projection before the softmax."""
    layer: int | None
    part: str
    """Its part of the model, whatever the layer: "feed_forward.norm", "norm" (the last one), "output"."""
    kind: str
    """ "weight", "bias" or "positions"."""
    axes: tuple[str, ...]
    shape: tuple[int, ...]


def parameters(config: ModelConfig, n_src: int, n_tgt: int) -> list[Parameter]:
    """All parameters of a model with `n_src` source and `n_tgt` target tokens; tied ones are there once."""
    sizes = {
        "S": n_src, "T": n_tgt, "D": config.d_model, "A": config.d_model, "3A": 3 * config.d_model,
        "F": config.d_ff, "P": config.max_positions,
    }  # fmt: skip
    table: list[Parameter] = []

    def add(name: str, part: str, axes: tuple[str, ...], side: str = "", layer: int | None = None) -> None:
        shape = tuple(sizes[axis] for axis in axes)
        table.append(Parameter(name, side, layer, part, name.rpartition(".")[2], axes, shape))

    def add_norm(name: str, part: str, side: str, layer: int | None = None) -> None:
        for kind in ("weight", "bias"):
            add(f"{name}.{kind}", part, ("D",), side, layer)

    for text, tokens in (("src", "S"), ("tgt", "T")):
        if config.positions != "sinusoidal":
            add(f"{text}_embedding.positions", f"{text}_embedding", ("P", "D"))
        if text == "src" or config.tie_embeddings != "all":
            add(f"{text}_embedding.tokens.weight", f"{text}_embedding", (tokens, "D"))
    if config.tie_embeddings == "none":
        add("output.weight", "output", ("T", "D"))
    if config.output_bias:
        add("output.bias", "output", ("T",))
    for side, n_layers in (("encoder", config.n_encoder_layers), ("decoder", config.n_decoder_layers)):
        for i in range(n_layers):
            for number, (sublayer, matrices) in enumerate(SUBLAYERS[side].items()):
                for matrix, axes in matrices.items():
                    part = f"{sublayer}.{matrix}"
                    add(f"{side}.{i}.{part}.weight", part, axes, side, i)
                    add(f"{side}.{i}.{part}.bias", part, axes[:1], side, i)
                add_norm(f"{side}.{i}.residuals.{number}.norm", f"{sublayer}.norm", side, i)
        if config.norm == "pre":
            add_norm(f"{side}_norm", "norm", side)
    return table


def embedding_names(config: ModelConfig) -> tuple[str, str, str]:
    """Return the parameters of source embedding, target embedding and projection; tied ones are one."""
    src, tgt, output = "src_embedding.tokens.weight", "tgt_embedding.tokens.weight", "output.weight"
    ties = {"all": (src, src, src), "output": (src, tgt, tgt), "none": (src, tgt, output)}
    return ties[config.tie_embeddings]
