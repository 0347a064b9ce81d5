"""Models of Sockeye 3 (Hieber et al. 2022): a folder with params.best, config and two vocabularies in JSON.

Read after Sockeye 3.1: `model` (`save_parameters`), `transformer`, `layers`, `encoder`, `decoder`, `config`,
`vocab` and `constants`. Attention has no biases; keys and values of a head stand together in one matrix
("interleaved"); positions are all sines, then all cosines; there is a bias before the softmax.
"""

from __future__ import annotations

import re
from typing import Any

from torch import Tensor

from dragoman.config import ModelConfig, SearchConfig
from dragoman.errors import RunError
from dragoman.interop.assembling import (
    AttentionNames,
    Embeddings,
    LayerNames,
    Sizes,
    model_config,
    positions,
    take_layer,
    take_norm,
)
from dragoman.interop.foreign import Foreign, ForeignFolder, ForeignVocabulary, Options
from dragoman.interop.segmenting import cut_note, segmentation
from dragoman.interop.settings import Settings, parse_yaml
from dragoman.interop.torch_files import ForeignTensors, read_torch

LOOKS_FOR = "config, params.best, vocab.src.0.json and vocab.trg.0.json"

NORM_EPS = 1e-6
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish1": "swish"}
NORMS = {("n", "dr"): "pre", ("n", "r"): "pre", ("", "drn"): "post", ("", "rn"): "post"}
"""By what is done before and after a sub-layer: norm, dropout, residual."""
SPECIAL = ("<s>", "</s>", "<unk>", "<pad>")
SIDES = ("encoder", "decoder")
BLOCKS = {
    "encoder": ("self_attention", "ff"),
    "decoder": ("autoregr_layer", "enc_attention", "ff"),
}
UNKNOWN_HERE = {
    "use_lhuc": "learned contributions of units (LHUC)",
    "use_glu": "gated linear units",
}
QUANTISED = ("int8",)
NEEDLESS = ("length_ratio.", "nvs.", "traced_", "cached_")
"""What guesses lengths, narrows vocabularies, and was compiled."""

_OWN = AttentionNames("query", "key", "value", "ff_out")


def detects(folder: ForeignFolder) -> bool:
    """A model folder of Sockeye."""
    return folder.has("config", "vocab.src.0.json", "vocab.trg.0.json") and bool(folder.names("params.*"))


def read(folder: ForeignFolder, options: Options) -> Foreign:
    """The model in a folder. RunError: it is not whole, or computes what ours does not."""
    where = folder.path / "config"
    settings = Settings(parse_yaml(folder.text("config"), where=where), where=where)
    norm = _check_architecture(folder, settings)
    src, tgt = (_vocabulary(folder, f"vocab.{side}.0.json") for side in ("src", "trg"))
    if src == tgt:
        tgt = src
    path = folder.file(folder.checkpoint or "params.best")
    tensors = ForeignTensors(read_torch(path), where=path)
    model, weights = _convert(tensors, settings, norm, src, tgt)
    src_lang, tgt_lang = options.languages(None, None, where=folder.given)
    cut = [segmentation(folder, options, side) for side in ("src", "tgt")]
    notes = [*cut_note(cut[0], src.pieces, src_lang), *cut_note(cut[1], tgt.pieces, tgt_lang)]
    if settings.get("config_length_task") is not None:
        notes.append(
            "the length that the model predicts (config_length_task) takes no part in the search here"
        )
    if settings.get("neural_vocab_selection") is not None:
        notes.append("all of the vocabulary is searched; neural_vocab_selection narrows it no more")
    search = SearchConfig(beam_size=5, length_penalty=1.0)
    return Foreign(
        "sockeye", model, weights, src, tgt, cut[0], cut[1], src_lang, tgt_lang, search, tuple(notes)
    )


def _check_architecture(folder: ForeignFolder, settings: Settings) -> str:
    """Where the norms stand. RunError: something is set that ours does not compute, or the sides differ."""
    if settings.text("dtype", "float32") in QUANTISED:
        raise settings.refusal("dtype", "give the float32 model that was quantised")
    if settings.get("lhuc"):
        raise settings.refusal("lhuc", UNKNOWN_HERE["use_lhuc"])
    for side, vocabulary in (("source", "src"), ("target", "trg")):
        if settings.get(f"config_embed_{side}.factor_configs") or folder.has(f"vocab.{vocabulary}.1.json"):
            raise settings.refusal(f"config_embed_{side}.factor_configs", "factors beside words are not ours")
    for side in SIDES:
        at = f"config_{side}"
        settings.refuse_where_set({f"{at}.{name}": why for name, why in UNKNOWN_HERE.items()})
        if settings.get(f"{at}.branch_layers"):
            raise settings.refusal(f"{at}.branch_layers", "layers with branches are not ours")
    if settings.text("config_decoder.decoder_type", "transformer") != "transformer":
        raise settings.refusal("config_decoder.decoder_type", "only a decoder with self-attention is ours")
    norms = []
    for side in SIDES:
        sequences = tuple(settings.text(f"config_{side}.{name}process_sequence") for name in ("pre", "post"))
        if sequences not in NORMS:
            raise settings.refusal(
                f"config_{side}.preprocess_sequence",
                f"with {sequences[1]!r} behind a sub-layer it is neither pre-norm (n, dr) nor post-norm",
            )
        norms.append(NORMS[sequences])
    same = (
        "model_size",
        "attention_heads",
        "feed_forward_num_hidden",
        "act_type",
        "positional_embedding_type",
    )
    for name in (*same, "preprocess_sequence"):
        there, here = (settings.get(f"config_{side}.{name}") for side in SIDES)
        if there != here:
            raise settings.refusal(f"config_encoder.{name}", f"the decoder has {here!r}")
    return norms[0]


def _vocabulary(folder: ForeignFolder, name: str) -> ForeignVocabulary:
    """Tokens in the order of their ids. RunError: ids are missing, or a special token is."""
    ids = folder.json(name)
    pieces: list[Any] = [None] * len(ids)
    for piece, i in ids.items():
        if type(i) is int and 0 <= i < len(pieces):
            pieces[i] = piece
    if None in pieces or not set(SPECIAL) <= set(pieces):
        raise RunError(f"{folder.path / name}: is not a token and its id for each id; copy it again")
    start, eos, unk, pad = (pieces.index(token) for token in SPECIAL)
    return ForeignVocabulary(pieces, start=start, eos=eos, unk=unk, pad=pad)


def _convert(
    tensors: ForeignTensors, settings: Settings, norm: str, src: ForeignVocabulary, tgt: ForeignVocabulary
) -> tuple[ModelConfig, dict[str, Tensor]]:
    """Settings and parameters in our terms."""
    at = "config_encoder"
    sizes = Sizes(settings.count(f"{at}.model_size"), settings.count(f"{at}.feed_forward_num_hidden"))
    n_heads = settings.count(f"{at}.attention_heads")
    if sizes.d_model % n_heads:
        raise settings.refusal(f"{at}.attention_heads", f"does not divide model_size = {sizes.d_model}")
    tensors.drop(*[name for name in tensors if name.startswith(NEEDLESS)])
    embeddings = Embeddings(
        tensors.take("embedding_source.embedding.weight", len(src.pieces), sizes.d_model),
        tensors.take("embedding_target.embedding.weight", len(tgt.pieces), sizes.d_model),
        tensors.take("output_layer.weight", len(tgt.pieces), sizes.d_model),
        one_vocabulary=src is tgt,
    )
    tables = [
        tensors.take(name, *tensors.shape(name))
        for name in (f"{side}.pos_embedding.weight" for side in SIDES)
    ]
    learned = settings.text(f"{at}.positional_embedding_type", "fixed") == "learned"
    encodings = positions(tables[0], tables[1], learned=learned)
    n_layers = {side: settings.count(f"config_{side}.num_layers") for side in SIDES}
    weights = embeddings.parameters() | encodings.parameters
    weights["output.bias"] = tensors.take("output_layer.bias", len(tgt.pieces))
    for side in SIDES:
        for i in range(n_layers[side]):
            _separate(tensors, f"{side}.layers.{i}", sizes.d_model, n_heads)
            weights |= take_layer(tensors, f"{side}.layers.{i}", f"{side}.{i}", _names(side, norm), sizes)
        if norm == "pre":
            last = f"{side}.final_process.layer_norm"
            weights |= take_norm(tensors, last, f"{side}_norm", sizes.d_model)
    tensors.check_all_taken()
    config = model_config(
        {
            **sizes._asdict(),
            "n_heads": n_heads,
            "n_encoder_layers": n_layers["encoder"],
            "n_decoder_layers": n_layers["decoder"],
            "dropout": float(settings.number(f"{at}.dropout_prepost", 0.0)),
            "attention_dropout": float(settings.number(f"{at}.dropout_attention", 0.0)),
            "activation_dropout": float(settings.number(f"{at}.dropout_act", 0.0)),
            "norm": norm,
            "norm_eps": NORM_EPS,
            "activation": settings.choose(f"{at}.act_type", "relu", ACTIVATIONS),
            "positions": encodings.kind,
            "max_positions": encodings.length,
            "tie_embeddings": embeddings.ties,
            "output_bias": True,
        },
        where=settings.where,
    )
    return config, weights


def _names(side: str, norm: str) -> LayerNames:
    """What a layer's parts are called, once keys and values stand by themselves."""
    blocks = BLOCKS[side]
    attentions = tuple(_OWN.within(block) for block in blocks[:-1])
    norms = tuple(f"{norm}_{block}.layer_norm" for block in blocks)
    return LayerNames(attentions, "ff.ff1", "ff.ff2", norms)


def _separate(tensors: ForeignTensors, layer: str, d_model: int, n_heads: int) -> None:
    """Queries, keys and values (D, D) of each attention block of a layer, each by itself."""
    for name in [name for name in tensors if re.fullmatch(rf"{re.escape(layer)}\.\w+\.ff_in\.weight", name)]:
        block = name.removesuffix(".ff_in.weight")
        stacked = tensors.take(name, 3 * d_model, d_model)
        tensors.put(f"{block}.query.weight", stacked[:d_model])
        _put_keys_and_values(tensors, block, stacked[d_model:], n_heads)
    block = f"{layer}.enc_attention"
    if f"{block}.ff_q.weight" in tensors:
        tensors.put(f"{block}.query.weight", tensors.take(f"{block}.ff_q.weight", d_model, d_model))
        both = tensors.take(f"{block}.ff_kv.weight", 2 * d_model, d_model)
        _put_keys_and_values(tensors, block, both, n_heads)


def _put_keys_and_values(tensors: ForeignTensors, block: str, both: Tensor, n_heads: int) -> None:
    """both (2 D, D): of each head its keys, then its values."""
    keys, values = both.view(n_heads, 2, -1, both.shape[1]).transpose(0, 1).flatten(1, 2)  # each (D, D)
    tensors.put(f"{block}.key.weight", keys.contiguous())
    tensors.put(f"{block}.value.weight", values.contiguous())
