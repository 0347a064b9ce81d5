"""Starting from a trained translator: on other text, which is domain adaptation, or with other depth.

Its tokenizers and its weights are taken over; the width stays, and `training.depth` says what becomes of
layers. New tokens, where they are asked for, get rows of their own behind the old ones, whose ids do not
change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from dragoman.config import ModelConfig, TranslationConfig
from dragoman.data.records import Pair
from dragoman.errors import ConfigError
from dragoman.model.transformer import Seq2SeqTransformer
from dragoman.predict.loading import TranslatorFiles
from dragoman.predict.model import translation_config
from dragoman.predict.networks import fill
from dragoman.runs import Run
from dragoman.text.tokenizer import TokenizerPair

SAID_LAST = ("out_proj", "linear2")
"""What attention and feed-forward end with. Where it is zero, they add nothing to what passes a layer."""

DEPTH = ("n_encoder_layers", "n_decoder_layers")
MAY_DIFFER = {"dropout", "attention_dropout", "activation_dropout", "max_positions", *DEPTH}
"""Settings of a model that are not of its weights (max_positions are where positions are a table); and its
numbers of layers."""


def open_start(config: TranslationConfig) -> Run:
    """Open the run of `training.start_from`. RunError: not a run. ConfigError: not a translator."""
    path = config.training.start_from
    start = Run.open(path)
    if start.config.task != "translation":
        raise ConfigError(f"training.start_from = {path!r}: is a classifier; name the run of a translator")
    old, new = start.config, config
    several = max(len(old.directions), len(new.directions)) > 1
    wrong = [f"it translates {old.subject}"] if not several and old.languages != new.languages else []
    wrong += misfits(old.model, new.model)
    if wrong:
        raise ConfigError(
            f"training.start_from = {path!r}: {'; '.join(wrong)}; `dragoman train --from` takes them over"
        )
    TranslatorFiles(start, old, TokenizerPair.load(start.tokenizer_folder)).check()
    return start


def misfits(old: ModelConfig, new: ModelConfig) -> list[str]:
    """Why a model `new` cannot begin with the weights of one `old`, in words; nothing: it can."""
    changed = {
        name: f"model.{name} is {getattr(old, name)} there, {getattr(new, name)} here"
        for name in ModelConfig.model_fields
        if getattr(old, name) != getattr(new, name)
    }
    deeper = [name for name in DEPTH if new.norm == "post" and getattr(old, name) < getattr(new, name)]
    may_differ = MAY_DIFFER - (set() if old.positions == "sinusoidal" else {"max_positions"})
    return [
        *(reason for name, reason in changed.items() if name not in may_differ),
        *(f'{changed[name]}, and no layer of norm = "post" begins as the identity' for name in deeper),
    ]


def taken_tokenizers(config: TranslationConfig, start: Run, pairs: Iterable[Pair]) -> TokenizerPair:
    """Return the tokenizers of `start`, each with up to `training.extend_vocab` more tokens from `pairs`."""
    pair = TokenizerPair.load(start.tokenizer_folder)
    n_new = config.training.extend_vocab
    return pair.extended(pairs, n_new) if n_new else pair


def describe_taken(pair: TokenizerPair, start: Run) -> str:
    """Whose tokenizers they are, and how many tokens were added."""
    old = TokenizerPair.load(start.tokenizer_folder)
    sides = [("", old.src, pair.src)] if pair.shared else [
        (" of the source", old.src, pair.src), (" of the target", old.tgt, pair.tgt)
    ]  # fmt: skip
    added = [
        f"{after.vocab_size - before.vocab_size:,} tokens added to the {before.vocab_size:,}{side}"
        for side, before, after in sides
        if after.vocab_size > before.vocab_size
    ]
    return "; ".join([f"starting from {start.path}, with its tokens", *added])


def start_weights(model: Seq2SeqTransformer, start: Run) -> None:
    """Put the weights of `start` into `model`; the rows of tokens that are new keep what they have.

    RunError: `start` has no weights yet, or they don't fit.
    """
    fresh = dict(model.named_parameters())
    weights = of_other_depth(start.load_weights(), fresh, translation_config(start).model, model.config)
    for name, old in weights.items():
        new = fresh.get(name)
        by_token = old.dim() == 2 or name == "output.bias"
        if new is not None and by_token and len(new) > len(old) and new.shape[1:] == old.shape[1:]:
            weights[name] = with_new_rows(old, new.detach())
    fill(model, weights, where=str(start.weights_path))


def with_new_rows(old: Tensor, fresh: Tensor) -> Tensor:
    """`old` (V, ...) and, around the mean of its rows, those of `fresh` (V', ...) from V on behind it."""
    new = fresh[len(old) :]
    return torch.cat([old, old.mean(0) + (new - new.mean(0))])


def taken_layers(n_there: int, n_here: int) -> list[int | None]:
    """Return, for each of `n_here` layers, the index of its source among `n_there`; None = new layer.

    With more layers, new ones follow old ones, spread evenly. With fewer, the first and the last are kept,
    and evenly spaced ones between them; a single layer is the first.
    """
    if n_here >= n_there:
        indices = [i * n_there // n_here for i in range(n_here)]
        return [index if index not in indices[:i] else None for i, index in enumerate(indices)]
    return [round(i * (n_there - 1) / max(1, n_here - 1)) for i in range(n_here)]


def of_other_depth(
    weights: Mapping[str, Tensor], fresh: Mapping[str, Tensor], old: ModelConfig, new: ModelConfig
) -> dict[str, Tensor]:
    """Convert `weights` of a model `old` to a model `new` that differs only in depth.

    `fresh` are untrained weights of `new`, which initialise the new layers.
    """
    depths = {
        "encoder": (old.n_encoder_layers, new.n_encoder_layers),
        "decoder": (old.n_decoder_layers, new.n_decoder_layers),
    }
    taken = {name: value for name, value in weights.items() if name.split(".")[0] not in depths}
    for stack, (n_old, n_new) in depths.items():
        for i, source in enumerate(taken_layers(n_old, n_new)):
            if source is None:
                taken |= silent(layer_of(fresh, stack, i), prefix=f"{stack}.{i}.")
            else:
                layer = layer_of(weights, stack, source)
                taken |= {f"{stack}.{i}.{name}": value for name, value in layer.items()}
    return taken


def layer_of(weights: Mapping[str, Tensor], stack: str, i: int) -> dict[str, Tensor]:
    """Return the weights of one layer, by their names within it."""
    prefix = f"{stack}.{i}."
    return {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}


def silent(layer: Mapping[str, Tensor], *, prefix: str) -> dict[str, Tensor]:
    """Return the weights of a pre-norm layer that is the identity; `prefix` goes before their names."""
    return {
        prefix + name: torch.zeros_like(value)
        if any(part in SAID_LAST for part in name.split("."))
        else value.detach().clone()
        for name, value in layer.items()
    }
