"""The parameters of a translator in one table: their names, their shapes, and what lies along each axis.

`Seq2SeqTransformer` makes these parameters; a test compares the two. Code that reads or writes weights for
another toolkit says by which names that toolkit has each part; shapes, stacking and orders of dimensions
follow from the table.

Axes: S source tokens, T target tokens, D the residual stream, A the heads side by side (as wide as D), 3A
queries, keys and values stacked, F inside the feed-forward block, P positions; of classifiers, C classes and
N buckets of n-grams.
"""

from __future__ import annotations

from typing import NamedTuple

from dragoman.config import ClassifierConfig, EncoderConfig, ModelConfig

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


class _Table:
    """The parameters listed so far, and the lengths of axes."""

    def __init__(self, config: EncoderConfig, **sizes: int) -> None:
        self.config, self.listed = config, list[Parameter]()
        self.sizes = {"D": config.d_model, "A": config.d_model, "3A": 3 * config.d_model, "F": config.d_ff,
                      "P": config.max_positions, **sizes}  # fmt: skip

    def add(
        self, name: str, part: str, axes: tuple[str, ...], side: str = "", layer: int | None = None
    ) -> None:
        shape = tuple(self.sizes[axis] for axis in axes)
        self.listed.append(Parameter(name, side, layer, part, name.rpartition(".")[2], axes, shape))

    def add_norm(self, name: str, part: str, side: str, layer: int | None = None) -> None:
        for kind in ("weight", "bias"):
            self.add(f"{name}.{kind}", part, ("D",), side, layer)

    def add_embedding(self, name: str, tokens: str) -> None:
        """List an embedding; `tokens` is the axis of its table, "" of one that is another's."""
        if self.config.positions != "sinusoidal":
            self.add(f"{name}.positions", name, ("P", "D"))
        if tokens:
            self.add(f"{name}.tokens.weight", name, (tokens, "D"))

    def add_layers(self, side: str, n_layers: int) -> None:
        """List the layers of one side and, with pre-norm, the norm behind them."""
        for i in range(n_layers):
            for number, (sublayer, matrices) in enumerate(SUBLAYERS[side].items()):
                for matrix, axes in matrices.items():
                    part = f"{sublayer}.{matrix}"
                    self.add(f"{side}.{i}.{part}.weight", part, axes, side, i)
                    self.add(f"{side}.{i}.{part}.bias", part, axes[:1], side, i)
                self.add_norm(f"{side}.{i}.residuals.{number}.norm", f"{sublayer}.norm", side, i)
        if self.config.norm == "pre":
            self.add_norm(f"{side}_norm", "norm", side)


def parameters(config: ModelConfig, n_src: int, n_tgt: int) -> list[Parameter]:
    """All parameters of a model with `n_src` source and `n_tgt` target tokens; tied ones are there once."""
    table = _Table(config, S=n_src, T=n_tgt)
    table.add_embedding("src_embedding", "S")
    table.add_embedding("tgt_embedding", "T" if config.tie_embeddings != "all" else "")
    if config.tie_embeddings == "none":
        table.add("output.weight", "output", ("T", "D"))
    if config.output_bias:
        table.add("output.bias", "output", ("T",))
    table.add_layers("encoder", config.n_encoder_layers)
    table.add_layers("decoder", config.n_decoder_layers)
    return table.listed


def classifier_parameters(config: ClassifierConfig, n_tokens: int, n_classes: int) -> list[Parameter]:
    """All parameters of a classifier: C classes, and H times D numbers that say what a text is."""
    n_poolings = len(config.pooling.split("+"))
    table = _Table(
        config, S=n_tokens, C=n_classes, HD=n_poolings * config.d_model, N=2**config.ngram_bits, two=2
    )
    table.add_embedding("embedding", "S")
    table.add_layers("encoder", config.n_encoder_layers)
    table.add("head.weight", "head", ("C", "HD"))
    table.add("head.bias", "head", ("C",))
    if config.ngrams:
        table.add("votes.table", "votes", ("N", "C"))
        table.add("votes.bias", "votes", ("C",))
        table.add("mixture", "mixture", ("two",))
    return table.listed


def embedding_names(config: ModelConfig) -> tuple[str, str, str]:
    """Return the parameters of source embedding, target embedding and projection; tied ones are one."""
    src, tgt, output = "src_embedding.tokens.weight", "tgt_embedding.tokens.weight", "output.weight"
    ties = {"all": (src, src, src), "output": (src, tgt, tgt), "none": (src, tgt, output)}
    return ties[config.tie_embeddings]
