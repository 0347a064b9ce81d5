"""Models of OpenNMT-py 2 and 3 (Klein et al. 2017), one file, and of its successor eole, a folder.

Read after OpenNMT-py 2.3 and 3.5 (`models/model_saver`, `modules/embeddings`, `encoders/transformer`,
`decoders/transformer`, `modules/multi_headed_attn`, `inputters/inputter`) and eole 0.4 (`models/model_saver`,
`modules`, `config/models`, `inputters/inputter`). All of them are pre-norm with a norm behind the last
layer, and have a bias before the softmax. The encoder reads no end token, unless a suffix is asked for.
"""

from __future__ import annotations

import argparse
import collections
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from dragoman.config import ModelConfig, SearchConfig
from dragoman.errors import RunError
from dragoman.interop.assembling import (
    AttentionNames,
    Embeddings,
    LayerNames,
    Positions,
    Sizes,
    halved_sinusoids,
    model_config,
    positions,
    take_layer,
    take_norm,
)
from dragoman.interop.foreign import Foreign, ForeignFolder, ForeignVocabulary, Options, Segmentation
from dragoman.interop.segmenting import beside, cut_note, segmentation
from dragoman.interop.settings import Settings
from dragoman.interop.torch_files import ForeignTensors, Inert, inert, read_safetensors, read_torch
from dragoman.model.layers import sinusoids

LOOKS_FOR = "one .pt file without dict.*.txt beside it"
LOOKS_FOR_EOLE = "config.json, vocab.json and model.00.safetensors"

N_POSITIONS = 5000
"""Positions that both toolkits compute."""
ACTIVATIONS = {"relu": "relu", "gelu": "gelu"}
EOLE_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "swish"}
HARMLESS: list[type | tuple[type, str]] = [
    argparse.Namespace,
    collections.defaultdict,
    *inert(
        "onmt.inputters.text_dataset.TextMultiField", "onmt.inputters.text_dataset._feature_tokenize",
        "onmt.inputters.fields.TextMultiField", "onmt.inputters.fields._feature_tokenize",
        "torchtext.data.field.Field", "torchtext.data.field.RawField", "torchtext.vocab.Vocab",
        "torchtext.vocab._default_unk_index", "torchtext.legacy.data.field.Field",
        "torchtext.legacy.data.field.RawField", "torchtext.legacy.vocab.Vocab", "functools.partial",
        "onmt.inputters.inputter.AlignField", "onmt.inputters.inputter.make_src",
        "onmt.inputters.inputter.make_tgt",
    ),
]  # fmt: skip
"""OpenNMT-py 2 keeps its vocabularies in objects of torchtext."""

UNKNOWN_HERE = {
    "copy_attn": "copied source words",
    "aan_useffn": "average attention",
    "parallel_residual": "sub-layers side by side",
    "num_experts": "mixtures of experts",
    "relative_positions_buckets": "relative positions",
    "max_relative_positions": "relative positions",
    "sliding_window": "attention in a window",
    "query_norm": "norms of queries",
    "key_norm": "norms of keys",
    "ffn_layernorm": "norms round the feed-forward block",
    "shared_layer_norm": "one norm for two sub-layers",
}

_OWN = AttentionNames("linear_query", "linear_keys", "linear_values", "final_linear")


_EMBEDDING = "embeddings.make_embedding"


class Dialect(NamedTuple):
    """What one of the toolkits calls the parts of a model."""

    name: str
    layers: Mapping[str, tuple[str, LayerNames]]
    """For encoder and decoder, the list of its layers, and the names in a layer."""
    embeddings: tuple[str, str]
    """Of source and target."""
    tables: tuple[str, str]
    """Position encodings of both, where they are in the file."""


ONMT = Dialect(
    "opennmt",
    {
        "encoder": (
            "encoder.transformer",
            LayerNames(
                (_OWN.within("self_attn"),), "feed_forward.w_1", "feed_forward.w_2",
                ("layer_norm", "feed_forward.layer_norm"),
            ),
        ),
        "decoder": (
            "decoder.transformer_layers",
            LayerNames(
                (_OWN.within("self_attn"), _OWN.within("context_attn")),
                "feed_forward.w_1", "feed_forward.w_2",
                ("layer_norm_1", "layer_norm_2", "feed_forward.layer_norm"),
            ),
        ),
    },
    (f"encoder.{_EMBEDDING}.emb_luts.0.weight", f"decoder.{_EMBEDDING}.emb_luts.0.weight"),
    (f"encoder.{_EMBEDDING}.pe.pe", f"decoder.{_EMBEDDING}.pe.pe"),
)  # fmt: skip
EOLE = Dialect(
    "eole",
    {
        "encoder": (
            "encoder.transformer_layers",
            LayerNames(
                (_OWN.within("self_attn"),), "mlp.gate_up_proj", "mlp.down_proj",
                ("input_layernorm", "post_attention_layernorm"),
            ),
        ),
        "decoder": (
            "decoder.transformer_layers",
            LayerNames(
                (_OWN.within("self_attn"), _OWN.within("context_attn")), "mlp.gate_up_proj", "mlp.down_proj",
                ("input_layernorm", "precontext_layernorm", "post_attention_layernorm"),
            ),
        ),
    },
    ("src_emb.embeddings.weight", "tgt_emb.embeddings.weight"),
    ("src_emb.pe.pe", "tgt_emb.pe.pe"),
)  # fmt: skip


def detects(folder: ForeignFolder) -> bool:
    """A checkpoint of OpenNMT-py; nothing but its content tells it from others, so fairseq's come first."""
    return bool(folder.names("*.pt")) and not folder.names("dict.*.txt") and not detects_eole(folder)


def detects_eole(folder: ForeignFolder) -> bool:
    """A step's folder, or the folder of the model, which links to the last step's files.

    A training that may be continued leaves its optimizer.pt there, which is no checkpoint of OpenNMT-py.
    """
    return folder.has("config.json", "vocab.json", "model.00.safetensors")


def read(folder: ForeignFolder, options: Options) -> Foreign:
    """The model in a checkpoint of OpenNMT-py. RunError: it is not whole, or computes what ours does not."""
    path = folder.file(folder.checkpoint or _checkpoint(folder))
    state = read_torch(path, harmless=HARMLESS)
    settings = Settings(state.get("opt"), where=path)
    model, generator = state.get("model"), state.get("generator")
    if not isinstance(model, dict) or not isinstance(generator, dict) or settings.values is None:
        raise RunError(f"{path}: holds no model, generator and opt; give a checkpoint of OpenNMT-py")
    tensors = ForeignTensors(
        model | {re.sub(r"^(0\.)?", "generator.", name): tensor for name, tensor in generator.items()},
        where=path,
    )
    for side, name in (("encoder", "encoder_type"), ("decoder", "decoder_type")):
        if settings.text(name, "rnn") != "transformer":
            raise settings.refusal(name, f"only a Transformer is imported, and the {side} is none")
    _check_architecture(settings, settings)
    tokens, start = _vocabularies(state.get("vocab"), path)
    src, tgt = (_vocabulary(pieces, start, {}, path) for pieces in tokens)
    if src == tgt:
        tgt = src
    config, weights = _convert(ONMT, tensors, settings, settings, src, tgt)
    return _foreign("opennmt", folder, options, settings, (src, tgt), config, weights)


def read_eole(folder: ForeignFolder, options: Options) -> Foreign:
    """The model in a folder of eole. RunError: it is not whole, or computes what ours does not."""
    where = folder.path / "config.json"
    everything = Settings(folder.json("config.json"), where=where)
    shared = dict(everything.get("model", {}))
    sides = {
        side: Settings(shared | dict(shared.get(side) or {}), where=where) for side in ("encoder", "decoder")
    }
    for side, settings in sides.items():
        if settings.text(f"{side}_type", "transformer" if settings.get("heads") else "rnn") != "transformer":
            raise settings.refusal(f"{side}_type", "only the Transformer is imported")
    _check_architecture(sides["encoder"], sides["decoder"])
    vocab = folder.json("vocab.json")
    specials = vocab.get("specials")
    specials = specials if isinstance(specials, dict) else {}
    src, tgt = (
        _vocabulary(
            _strings(vocab.get(side), where), str(vocab.get("decoder_start_token") or "<s>"), specials, where
        )
        for side in ("src", "tgt")
    )
    if src == tgt:
        tgt = src
    path = folder.file("model.00.safetensors")
    tensors = ForeignTensors(read_safetensors(path), where=path)
    config, weights = _convert(EOLE, tensors, sides["encoder"], sides["decoder"], src, tgt)
    return _foreign("eole", folder, options, everything, (src, tgt), config, weights)


def _foreign(
    name: str,
    folder: ForeignFolder,
    options: Options,
    settings: Settings,
    sides: tuple[ForeignVocabulary, ForeignVocabulary],
    config: ModelConfig,
    weights: dict[str, Tensor],
) -> Foreign:
    """Everything together, with what cuts the text, and what is written round it."""
    src_lang, tgt_lang = options.languages(None, None, where=folder.given)
    cut = [_segmentation(folder, settings, options, side) for side in ("src", "tgt")]
    notes = [*cut_note(cut[0], sides[0].pieces, src_lang), *cut_note(cut[1], sides[1].pieces, tgt_lang)]
    ends = str(_transform(settings, "suffix", "src_suffix") or "") == sides[0].pieces[sides[0].eos]
    prefix = _transform(settings, "prefix", "src_prefix")
    if prefix:
        notes.append(f"every source began with {prefix!r} (transform prefix): write it in front yourself")
    if "onmt_tokenize" in settings.get("transforms", []):
        notes.append("text was cut by OpenNMT's Tokenizer (transform onmt_tokenize): give it so")
    return Foreign(
        name, config.model_copy(update={"source_end": ends}), weights, *sides, cut[0], cut[1],
        src_lang, tgt_lang, SearchConfig(length_penalty=0.0), tuple(notes),
    )  # fmt: skip


def _checkpoint(folder: ForeignFolder) -> str:
    """The name of the checkpoint of most steps. RunError: several, and it cannot be told."""
    names = folder.names("*.pt")
    steps = {name: int(match.group(1)) for name in names if (match := re.search(r"_step_(\d+)\.pt$", name))}
    if len(names) == 1:
        return names[0]
    if len(steps) != len(names):
        raise RunError(
            f"{folder.path}: holds {', '.join(names[:3]) or 'no .pt file'}; name the checkpoint itself"
        )
    return max(names, key=lambda name: steps[name])


def _check_architecture(encoder: Settings, decoder: Settings) -> None:
    """RunError: something is set that our Transformer does not compute, or its sides differ."""
    for settings in (encoder, decoder):
        settings.refuse_where_set(UNKNOWN_HERE)
        if settings.text("self_attn_type", "scaled-dot") not in ("scaled-dot", "scaled-dot-flash"):
            raise settings.refusal("self_attn_type", "only scaled dot-product attention is ours")
        if settings.text("layer_norm", "standard") not in ("standard", "standardFP32"):
            raise settings.refusal("layer_norm", "only the standard layer norm is ours")
        if settings.text("generator_function", "softmax") != "softmax":
            raise settings.refusal("generator_function", "only softmax is ours")
        heads = settings.count("heads", 8)
        for name in ("num_kv", "heads_kv"):
            if settings.get(name) not in (None, 0, heads):
                raise settings.refusal(name, "keys and values have other heads than queries")
        if settings.text("model_task", "seq2seq") != "seq2seq":
            raise settings.refusal("model_task", "only translators are imported")
    for name in (
        "heads",
        "transformer_ff",
        "hidden_size",
        "pos_ffn_activation_fn",
        "mlp_activation_fn",
        "norm_eps",
    ):
        if encoder.get(name) != decoder.get(name):
            raise encoder.refusal(name, f"the decoder has {decoder.get(name)!r}")


def _vocabularies(vocab: Any, path: Path) -> tuple[list[list[str]], str]:
    """The tokens of source and target, and the decoder's first, of version 3 (lists) and 2 (torchtext)."""
    start = "<s>"
    if isinstance(vocab, Mapping) and isinstance(vocab.get("decoder_start_token"), str):
        start = vocab["decoder_start_token"] or start
    if isinstance(vocab, Mapping) and vocab.get("src_feats"):
        raise RunError(f"{path}: has features of words beside the words; such a model cannot be imported")
    entries = dict(vocab) if isinstance(vocab, (Mapping, list)) and vocab else {}
    return [_strings(_itos(entries.get(side)), path) for side in ("src", "tgt")], start


def _itos(entry: Any) -> Any:
    """The tokens of one side, wherever its objects keep them."""
    for attribute in ("fields", "vocab", "itos"):
        state = vars(entry) if isinstance(entry, Inert) else {}
        if attribute in state:
            entry = state[attribute]
            if attribute == "fields" and isinstance(entry, Sequence) and len(entry) == 1:
                entry = entry[0][1]
    return entry


def _strings(tokens: Any, path: Path) -> list[str]:
    """RunError: it is no list of tokens."""
    if not isinstance(tokens, list) or not tokens or not all(isinstance(token, str) for token in tokens):
        raise RunError(f"{path}: holds no list of tokens for source and target; copy it again")
    return tokens


def _vocabulary(tokens: list[str], start: str, specials: Mapping[str, Any], where: Path) -> ForeignVocabulary:
    """Tokens in their order, with the special ones found by name. RunError: there is no end token."""
    names = {
        kind: str(specials.get(f"{kind}_token") or token)
        for kind, token in {"pad": "<blank>", "bos": start, "eos": "</s>", "unk": "<unk>"}.items()
    }
    at = {token: i for i, token in reversed(list(enumerate(tokens)))}
    missing = [names[kind] for kind in ("eos", "unk") if names[kind] not in at]
    if missing or start not in at:
        raise RunError(f"{where}: has no {(missing or [start])[0]} among its tokens; copy it again")
    pad = at.get(names["pad"], at.get("<pad>"))
    return ForeignVocabulary(tokens, start=at[start], eos=at[names["eos"]], unk=at[names["unk"]], pad=pad)


def _convert(
    dialect: Dialect,
    tensors: ForeignTensors,
    encoder: Settings,
    decoder: Settings,
    src: ForeignVocabulary,
    tgt: ForeignVocabulary,
) -> tuple[ModelConfig, dict[str, Tensor]]:
    """Settings and parameters in our terms; whether sources end is not known here."""
    widths = ("hidden_size", "enc_hid_size", "enc_rnn_size", "rnn_size")  # -1 where another one holds it
    d_model = encoder.count(next((name for name in widths if encoder.number(name, -1) > 0), widths[0]), 512)
    sizes = Sizes(d_model, encoder.count("transformer_ff", 2048))
    embeddings = _embeddings(dialect, tensors, d_model, src, tgt)
    encodings, scaled = _positions(dialect, tensors, encoder, d_model)
    weights = embeddings.parameters() | encodings.parameters
    n_layers = {}
    for side, (prefix, names) in dialect.layers.items():
        n_layers[side] = len({name.split(".")[2] for name in tensors if name.startswith(f"{prefix}.")})
        for i in range(n_layers[side]):
            _drop_scalar(tensors, f"{prefix}.{i}.layer_scalar")
            weights |= take_layer(tensors, f"{prefix}.{i}", f"{side}.{i}", names, sizes)
        weights |= take_norm(tensors, f"{side}.layer_norm", f"{side}_norm", d_model)
    has_bias = "generator.bias" in tensors
    if has_bias:
        weights["output.bias"] = tensors.take("generator.bias", len(tgt.pieces))
    tensors.check_all_taken()
    eole = dialect.name == "eole"
    activation = "mlp_activation_fn" if eole else "pos_ffn_activation_fn"
    config = model_config(
        {
            **sizes._asdict(),
            "n_heads": encoder.count("heads", 8),
            "n_encoder_layers": n_layers["encoder"],
            "n_decoder_layers": n_layers["decoder"],
            "norm": "pre",
            "norm_eps": float(encoder.number("norm_eps", 1e-5 if eole else 1e-6)),
            "activation": encoder.choose(activation, "relu", EOLE_ACTIVATIONS if eole else ACTIVATIONS),
            "positions": encodings.kind,
            "max_positions": encodings.length,
            "scale_embeddings": scaled,
            "tie_embeddings": embeddings.ties,
            "output_bias": has_bias,
        },
        where=encoder.where,
    )
    return config, weights


def _drop_scalar(tensors: ForeignTensors, name: str) -> None:
    """Take away the factor of a layer's output that eole 0.6 has. RunError: it is not 1."""
    if name in tensors and (factor := tensors.take(name, 1).item()) != 1.0:
        raise RunError(
            f"{tensors.where}: {name} is {factor:g}: a layer whose output is scaled; "
            "the model cannot be imported"
        )


def _embeddings(
    dialect: Dialect, tensors: ForeignTensors, d_model: int, src: ForeignVocabulary, tgt: ForeignVocabulary
) -> Embeddings:
    """Those of both sides, and the projection; eole leaves out what is shared."""
    first = tensors.take(dialect.embeddings[0], len(src.pieces), d_model)
    shape = len(tgt.pieces), d_model
    left_out = dialect.name == "eole"
    second = first
    if dialect.embeddings[1] in tensors or not left_out:
        second = tensors.take(dialect.embeddings[1], *shape)
    output = second
    if "generator.weight" in tensors or not left_out:
        output = tensors.take("generator.weight", *shape)
    return Embeddings(first, second, output, one_vocabulary=src is tgt)


def _positions(
    dialect: Dialect, tensors: ForeignTensors, settings: Settings, d_model: int
) -> tuple[Positions, bool]:
    """The position encodings, and whether embeddings are multiplied by sqrt(d_model) before."""
    kind = settings.get("position_encoding_type", settings.get("embeddings.position_encoding_type"))
    kind = kind or "SinusoidalInterleaved"
    if dialect.name == "opennmt" and not settings.get("position_encoding", False):
        raise settings.refusal("position_encoding", "positions are told in another way, by relative ones")
    if kind == "Learned":
        return _learned(tensors, settings, d_model)
    if kind not in ("SinusoidalInterleaved", "SinusoidalConcat"):
        raise settings.refusal("embeddings.position_encoding_type", "only absolute positions are ours")
    table = (
        sinusoids(N_POSITIONS, d_model)
        if kind == "SinusoidalInterleaved"
        else halved_sinusoids(0, N_POSITIONS, d_model)
    )
    there = [
        tensors.take(name, *tensors.shape(name)).flatten(0, 1) for name in dialect.tables if name in tensors
    ]
    tables = there if len(there) == 2 else [table, table]
    return positions(tables[0], tables[1], learned=False), True


def _learned(tensors: ForeignTensors, settings: Settings, d_model: int) -> tuple[Positions, bool]:
    """eole's learned positions: (embedding + position) times sqrt(d_model) where it says normalize."""
    scaled = bool(settings.get("embeddings.normalize", False))
    shift = int(settings.number("embeddings.position_shift", 0))
    tables = []
    for name in ("src_emb.pe.weight", "tgt_emb.pe.weight"):
        rows = tensors.shape(name)[0]
        table = tensors.take(name, rows, d_model)[shift:]
        tables.append(table * d_model**0.5 if scaled else table)
    return positions(tables[0], tables[1], learned=True), scaled


def _transform(settings: Settings, transform: str, name: str) -> Any:
    """A setting of a transform: beside the others (OpenNMT-py), or below its name (eole)."""
    if transform not in settings.get("transforms", []):
        return None
    return settings.get(f"transforms_configs.{transform}.{name}", settings.get(name))


def _segmentation(folder: ForeignFolder, settings: Settings, options: Options, side: str) -> Segmentation:
    """What cuts the text of a side: the model that a transform names, where it is in the folder."""
    found: dict[str, str | None] = {}
    for transform, kind in (("sentencepiece", "spm"), ("bpe", "codes")):
        name = _transform(settings, transform, f"{side}_subword_model") or _transform(
            settings, transform, "src_subword_model"
        )
        found[kind] = beside(folder, name) if isinstance(name, str) else None
    return segmentation(folder, options, side, spm=found["spm"], codes=found["codes"])
