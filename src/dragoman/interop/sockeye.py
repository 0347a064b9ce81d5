"""Models of Sockeye 3 (Hieber et al. 2022): a folder with params.best, config and two vocabularies in JSON.

Read after Sockeye 3.1: `model` (`save_parameters`), `transformer`, `layers`, `encoder`, `decoder`, `config`,
`vocab` and `constants`. Attention has no biases; keys and values of a head stand together in one matrix
("interleaved"); positions are all sines, then all cosines; there is a bias before the softmax.
"""

from __future__ import annotations

import re
from typing import Any

from dragoman.config import SearchConfig
from dragoman.errors import RunError
from dragoman.interop.assembling import assemble, model_config
from dragoman.interop.foreign import Foreign, ForeignFolder, ForeignVocabulary, Format, Options
from dragoman.interop.segmenting import segmentation
from dragoman.interop.settings import Setting, Settings, parse_yaml
from dragoman.interop.torch_files import ForeignTensors, read_torch
from dragoman.model.architecture import SIDES

NORM_EPS = 1e-6
NORMS = {("n", "dr"): "pre", ("n", "r"): "pre", ("", "drn"): "post", ("", "rn"): "post"}
"""By what is done before and after a sub-layer: norm, dropout, residual."""
SPECIAL = ("<s>", "</s>", "<unk>", "<pad>")
NEEDLESS = ("length_ratio.", "nvs.", "traced_", "cached_")
"""What guesses lengths, narrows vocabularies, and was compiled."""

UNKNOWN_HERE = {
    "lhuc": "learned contributions of units (LHUC)",
    "config_*.use_lhuc": "learned contributions of units (LHUC)",
    "config_*.use_glu": "gated linear units",
    "config_*.branch_layers": "layers with branches are not ours",
    "config_embed_source.factor_configs": "factors beside words are not ours",
    "config_embed_target.factor_configs": "factors beside words are not ours",
}
NAMES = {
    "src_embedding": "embedding_source.embedding",
    "tgt_embedding": "embedding_target.embedding",
    "output": "output_layer",
    "layer": "*.layers.#",
    "encoder.self_attention.in_proj": "self_attention.{query,key,value}?",
    "encoder.self_attention.out_proj": "self_attention.ff_out?",
    "encoder.self_attention.norm": "self_attention.layer_norm",
    "decoder.self_attention.in_proj": "autoregr_layer.{query,key,value}?",
    "decoder.self_attention.out_proj": "autoregr_layer.ff_out?",
    "decoder.self_attention.norm": "autoregr_layer.layer_norm",
    "cross_attention.in_proj": "enc_attention.{query,key,value}?",
    "cross_attention.out_proj": "enc_attention.ff_out?",
    "cross_attention.norm": "enc_attention.layer_norm",
    "feed_forward.linear1": "ff.ff1",
    "feed_forward.linear2": "ff.ff2",
    "feed_forward.norm": "ff.layer_norm",
    "norm": "*.final_process.layer_norm",
}
"""Once keys and values are by themselves; "pre_" or "post_" is before the name of a layer's norm."""
SETTINGS = {
    "d_model": Setting("config_*.model_size", int),
    "d_ff": Setting("config_*.feed_forward_num_hidden", int),
    "n_heads": Setting("config_*.attention_heads", int),
    "n_encoder_layers": Setting("config_encoder.num_layers", int),
    "n_decoder_layers": Setting("config_decoder.num_layers", int),
    "dropout": Setting("config_encoder.dropout_prepost", 0.0),
    "attention_dropout": Setting("config_encoder.dropout_attention", 0.0),
    "activation_dropout": Setting("config_encoder.dropout_act", 0.0),
    "activation": Setting("config_*.act_type", "relu", {"relu": "relu", "gelu": "gelu", "swish1": "swish"}),
}
POSITIONS = Setting("config_*.positional_embedding_type", "fixed", {"fixed": False, "learned": True})
"""Whether they are learned."""
DECODER = Setting("config_decoder.decoder_type", "transformer", ("transformer",))


def _detects(folder: ForeignFolder) -> bool:
    return folder.has("config", "vocab.src.0.json", "vocab.trg.0.json") and bool(folder.names("params.*"))


def read(folder: ForeignFolder, options: Options) -> Foreign:
    """Return the model in a folder. RunError: it is not whole, or computes what ours does not."""
    where = folder.path / "config"
    settings = Settings(parse_yaml(folder.text("config"), where=where), where=where)
    if settings.text("dtype", "float32") == "int8":
        raise settings.refusal("dtype", "give the float32 model that was quantised")
    settings.refuse_where_set(UNKNOWN_HERE)
    settings.value(DECODER)
    for side in ("src", "trg"):
        if folder.has(f"vocab.{side}.1.json"):
            raise RunError(
                f"{folder.path / f'vocab.{side}.1.json'}: factors beside words are not ours; "
                "the model cannot be imported"
            )
    norm = _norm(settings)
    src, tgt = (_vocabulary(folder, f"vocab.{side}.0.json") for side in ("src", "trg"))
    path = folder.file(folder.checkpoint or "params.best")
    tensors = ForeignTensors(read_torch(path), where=path)
    found = {"norm": norm, "norm_eps": NORM_EPS, "output_bias": True}
    model = model_config(settings.read(SETTINGS) | found, where=where)
    _prepare(tensors, norm, model.d_model, model.n_heads)
    model, weights = assemble(
        tensors,
        NAMES,
        model,
        (src, tgt),
        lambda: [tensors.take_table(f"{side}.pos_embedding.weight", model.d_model) for side in SIDES],
        learned=settings.value(POSITIONS),
    )
    languages = options.languages(None, None, where=folder.given)
    cut = [segmentation(folder, options, side) for side in ("src", "tgt")]
    notes = []
    if settings.get("config_length_task") is not None:
        notes.append(
            "the length that the model predicts (config_length_task) takes no part in the search here"
        )
    if settings.get("neural_vocab_selection") is not None:
        notes.append("all of the vocabulary is searched; neural_vocab_selection narrows it no more")
    search = SearchConfig(beam_size=5, length_penalty=1.0)
    return Foreign(model, weights, src, tgt, cut[0], cut[1], *languages, search, tuple(notes))


FORMAT = Format("sockeye", "config, params.best, vocab.src.0.json and vocab.trg.0.json", _detects, read)


def _norm(settings: Settings) -> str:
    """Where the norms are. RunError: elsewhere than ours, or the sides differ."""
    found = []
    for side in SIDES:
        name = f"config_{side}.preprocess_sequence"
        before, after = settings.text(name), settings.text(f"config_{side}.postprocess_sequence")
        if (before, after) not in NORMS:
            raise settings.refusal(
                name, f"with {after!r} behind a sub-layer it is neither pre-norm (n, dr) nor post-norm"
            )
        found.append(NORMS[before, after])
    if found[0] != found[1]:
        raise settings.refusal("config_encoder.preprocess_sequence", f"the decoder is {found[1]}-norm")
    return found[0]


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


def _prepare(tensors: ForeignTensors, norm: str, d_model: int, n_heads: int) -> None:
    """Separates queries, keys and values (D, D), which are stacked, and names norms whatever their place."""
    for name in [*tensors]:
        if name.startswith(NEEDLESS):
            tensors.drop(name)
        elif match := re.fullmatch(rf"(.*\.){norm}_(\w+\.layer_norm\.\w+)", name):
            tensors.rename(name, match[1] + match[2])
        elif match := re.fullmatch(r"(.*)\.(ff_in|ff_q|ff_kv)\.weight", name):
            block, matrix = match.groups()
            n_matrices = {"ff_in": 3, "ff_q": 1, "ff_kv": 2}[matrix]
            stacked = tensors.take(name, n_matrices * d_model, d_model)
            if matrix != "ff_kv":
                tensors.put(f"{block}.query.weight", stacked[:d_model])
            if matrix != "ff_q":  # of each head its keys, then its values
                both = stacked[-2 * d_model :].view(n_heads, 2, -1, d_model).transpose(0, 1).flatten(1, 2)
                tensors.put(f"{block}.key.weight", both[0])
                tensors.put(f"{block}.value.weight", both[1])
