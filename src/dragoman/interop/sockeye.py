"""Models of Sockeye 3 (Hieber et al. 2022): a folder with params.best, config and two vocabularies in JSON.

Read after Sockeye 3.1: `model` (`save_parameters`), `transformer`, `layers`, `encoder`, `decoder`, `config`,
`vocab` and `constants`. Attention has no biases; keys and values of a head stand together in one matrix
("interleaved"); positions are all sines, then all cosines; there is a bias before the softmax.
"""

from __future__ import annotations

import re

import torch

from dragoman.config import SearchConfig
from dragoman.interop.assembling import assemble, model_config
from dragoman.interop.foreign import Foreign, ForeignFolder, ForeignFormat, ForeignVocabulary, ImportOptions
from dragoman.interop.settings import Setting, read_settings
from dragoman.interop.torch_files import ForeignTensors, read_torch
from dragoman.model.architecture import SIDES

SPECIAL = ("<s>", "</s>", "<unk>", "<pad>")
NEEDLESS = ("length_ratio.", "nvs.", "traced_", "cached_")
"""What guesses lengths, narrows vocabularies, and was compiled."""

UNKNOWN_HERE = {
    "config_embed_source.factor_configs": "factors beside words are not ours",
    "config_embed_target.factor_configs": "factors beside words are not ours",
}
NOTES = {
    "config_length_task": "the length that the model predicts takes no part in the search here",
    "neural_vocab_selection": "all of the vocabulary is searched; neural_vocab_selection does not narrow it",
}
NAMES = {
    "src_embedding": "embedding_source.embedding",
    "tgt_embedding": "embedding_target.embedding",
    "output": "output_layer",
    "layer": "*.layers.#",
    "encoder.self_attention.in_proj": "self_attention.in_proj?",
    "encoder.self_attention.out_proj": "self_attention.ff_out?",
    "encoder.self_attention.norm": "self_attention.layer_norm",
    "decoder.self_attention.in_proj": "autoregr_layer.in_proj?",
    "decoder.self_attention.out_proj": "autoregr_layer.ff_out?",
    "decoder.self_attention.norm": "autoregr_layer.layer_norm",
    "cross_attention.in_proj": "enc_attention.in_proj?",
    "cross_attention.out_proj": "enc_attention.ff_out?",
    "cross_attention.norm": "enc_attention.layer_norm",
    "feed_forward.linear1": "ff.ff1",
    "feed_forward.linear2": "ff.ff2",
    "feed_forward.norm": "ff.layer_norm",
    "norm": "*.final_process.layer_norm",
}
"""Once `_prepare` has stacked projections, and taken "pre_" or "post_" from the names of norms."""
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
    "norm": Setting("config_*.preprocess_sequence", "", {"n": "pre", "": "post"}),
}


def read(folder: ForeignFolder, options: ImportOptions) -> Foreign:
    """Return the model in a folder. RunError: it is not whole, or computes what ours does not."""
    settings = read_settings(folder, "config")
    settings.refuse_where_set(UNKNOWN_HERE)
    values = settings.read(SETTINGS)
    after = {"pre": ("dr", "r"), "post": ("drn", "rn")}[values["norm"]]  # dropout, residual, norm
    settings.check((
        Setting("config_decoder.decoder_type", "transformer", ("transformer",)),
        Setting("config_*.postprocess_sequence", "", after),
    ))  # fmt: skip
    positions = Setting("config_*.positional_embedding_type", "fixed", {"fixed": False, "learned": True})
    model = model_config(values | {"norm_eps": 1e-6, "output_bias": True}, where=settings.where)
    src, tgt = (_vocabulary(folder, f"vocab.{side}.0.json") for side in ("src", "trg"))
    path = folder.weights("params.*", "params.best")
    tensors = ForeignTensors(read_torch(path), where=path)
    _prepare(tensors, model.norm, model.d_model, model.n_heads)
    model, weights = assemble(
        tensors, NAMES, model, (src, tgt),
        lambda: [tensors.take_table(f"{side}.pos_embedding.weight", model.d_model) for side in SIDES],
        learned=settings.value(positions),
    )  # fmt: skip
    languages = options.languages(None, None, where=folder.given)
    cut = [folder.segmentation(options, side) for side in ("src", "tgt")]
    search, notes = SearchConfig(beam_size=5, length_penalty=1.0), tuple(settings.notes(NOTES))
    return Foreign(model, weights, src, tgt, cut[0], cut[1], *languages, search, notes)


FORMAT = ForeignFormat(
    "sockeye", "config, params.best, vocab.src.0.json and vocab.trg.0.json",
    lambda folder: folder.has("config", "vocab.src.0.json", "vocab.trg.0.json"), read,
)  # fmt: skip


def _vocabulary(folder: ForeignFolder, name: str) -> ForeignVocabulary:
    """Return the tokens in the order of their ids. RunError: a special one is missing."""
    ids = folder.token_ids(name, SPECIAL)
    start, eos, unk, pad = (ids[token] for token in SPECIAL)
    return ForeignVocabulary(sorted(ids, key=ids.__getitem__), start=start, eos=eos, unk=unk, pad=pad)


def _prepare(tensors: ForeignTensors, norm: str, d_model: int, n_heads: int) -> None:
    """Stack queries, keys and values (3 D, D) as ours are, and name norms whatever their place."""
    for name in [*tensors]:
        if name.startswith(NEEDLESS):
            del tensors[name]
        elif match := re.fullmatch(rf"(.*\.){norm}_(\w+\.layer_norm\.\w+)", name):
            tensors[match[1] + match[2]] = tensors.pop(name)
        elif match := re.fullmatch(r"(.*)\.(ff_in|ff_kv)\.weight", name):
            block, is_whole = match[1], match[2] == "ff_in"
            stacked = tensors.take(name, (2 + is_whole) * d_model, d_model)
            query = stacked[:d_model] if is_whole else tensors.take(f"{block}.ff_q.weight", d_model, d_model)
            pairs = stacked[-2 * d_model :].view(n_heads, 2, -1, d_model)  # of each head keys, then values
            tensors[f"{block}.in_proj.weight"] = torch.cat([query, pairs.transpose(0, 1).flatten(0, 2)])
